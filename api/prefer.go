package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxWait is the longest wait that a request may ask for.
const maxWait = time.Hour

// preference is what the Prefer headers of a request ask for (RFC 7240).
type preference struct {
	wait      time.Duration // how long to wait for the result
	waitGiven bool          // the client gave wait
	async     bool          // respond-async
}

// applied returns the value of Preference-Applied; "" where the client asked for
// nothing.
func (p preference) applied() string {
	var parts []string
	if p.async {
		parts = append(parts, "respond-async")
	}
	if p.waitGiven {
		parts = append(parts, "wait="+strconv.FormatInt(int64(p.wait/time.Second), 10))
	}
	return strings.Join(parts, ", ")
}

// prefer reads the Prefer headers. Of a preference that occurs twice, the first counts.
// Unknown preferences are ignored, as RFC 7240 demands. A known preference with an
// invalid value is refused.
func prefer(headers []string) (p preference, err error) {
	for _, part := range splitUnquoted(strings.Join(headers, ","), ',') {
		name, value, has := strings.Cut(splitUnquoted(part, ';')[0], "=")
		value = unquoted(strings.TrimSpace(value))
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "respond-async":
			p.async = true
		case "wait":
			seconds, ok := digits(value)
			if !has || !ok || seconds > int64(maxWait/time.Second) {
				return p, badHeader("Prefer: wait must be a whole number of seconds from 0 to %d, as in wait=10",
					int64(maxWait/time.Second))
			}
			if !p.waitGiven {
				p.wait, p.waitGiven = time.Duration(seconds)*time.Second, true
			}
		}
	}
	return p, nil
}

func badHeader(format string, a ...any) error {
	return &statusError{http.StatusBadRequest, "bad_header", fmt.Sprintf(format, a...)}
}

// digits parses a number of at most 18 decimal digits without sign or spaces.
func digits(text string) (int64, bool) {
	if text == "" || len(text) > 18 || strings.ContainsFunc(text, func(c rune) bool { return c < '0' || c > '9' }) {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// splitUnquoted splits a header at a separator outside quoted strings. It returns at least one
// part.
func splitUnquoted(text string, at byte) (parts []string) {
	from, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == at && !quoted:
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	return append(parts, text[from:])
}

// unquoted removes the quotes of a quoted string and returns other text unchanged.
func unquoted(text string) string {
	inner, ok := strings.CutPrefix(text, `"`)
	if !ok {
		return text
	}
	if inner, ok = strings.CutSuffix(inner, `"`); !ok {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		if inner[i] == '\\' && i+1 < len(inner) {
			i++
		}
		b.WriteByte(inner[i])
	}
	return b.String()
}

// noneMatch reports whether If-None-Match allows an answer with the entity tag tag (RFC
// 9110, 13.1.2: weak comparison).
func noneMatch(headers []string, tag string) bool {
	for _, part := range splitUnquoted(strings.Join(headers, ","), ',') {
		switch part = strings.TrimSpace(part); {
		case part == "*", strings.TrimPrefix(part, "W/") == tag:
			return false
		}
	}
	return true
}

// maxIdempotencyKey is the greatest length of an Idempotency-Key.
const maxIdempotencyKey = 255

// idempotencyKey reads the header; "" where it is absent. The key may be quoted, as in
// the IETF draft, or bare, as most clients send it.
func idempotencyKey(r *http.Request) (string, error) {
	headers := r.Header.Values("Idempotency-Key")
	if len(headers) == 0 {
		return "", nil
	}
	key := unquoted(strings.TrimSpace(headers[0]))
	if len(headers) > 1 || len(key) == 0 || len(key) > maxIdempotencyKey ||
		strings.ContainsFunc(key, func(c rune) bool { return c < '!' || c > '~' }) {
		return "", &statusError{http.StatusUnprocessableEntity, "invalid_key",
			fmt.Sprintf("Idempotency-Key must be one value of 1 to %d printable ASCII characters without spaces: a random "+
				"UUID is good", maxIdempotencyKey)}
	}
	return key, nil
}
