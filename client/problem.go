package client

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"strconv"

	"errors"

	"github.com/hare-sched/hare"
)

// Problem is why the server refused (RFC 9457).
type Problem struct {
	Status    int                `json:"status"` // status of HTTP
	Code      string             `json:"code"`   // stable; "" where a proxy before the server refused
	Title     string             `json:"title"`
	Detail    string             `json:"detail"`
	RequestID string             `json:"request_id"` // is in the server's log
	Faults    hare.InvalidErrors `json:"errors"`     // each with a pointer into the request
	// RetryAfter is how long the server asks to wait; 0 where the server does not say.
	RetryAfter time.Duration `json:"-"`
}

var _ error = (*Problem)(nil)

// Error returns what a person needs to act: detail, code and request id.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if code := " (" + p.Code + ")"; p.Code != "" && !strings.HasSuffix(text, code) {
		text += code
	}
	out := fmt.Sprintf("hare: %d: %s", p.Status, text)
	if p.RequestID != "" {
		out += ", request " + p.RequestID
	}
	return out
}

// Unwrap returns the faults, so that errors.As finds each.
func (p *Problem) Unwrap() []error { return p.Faults.Unwrap() }

// refused reports whether the server did nothing, so that even a call that is not
// idempotent may be repeated.
func (p *Problem) refused() bool {
	return slices.Contains([]string{"busy", "draining", "rate", "quota", "too_many_streams"}, p.Code) ||
		p.Status == http.StatusTooManyRequests && p.RetryAfter > 0
}

// transient reports whether the same call may succeed later.
func (p *Problem) transient() bool {
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout:
		return p.Code != "limit"
	case http.StatusServiceUnavailable:
		return p.Code != "deadline" // the same call would reach its deadline again
	case http.StatusConflict:
		// The first call with this Idempotency-Key is still in progress.
		return p.RetryAfter > 0
	}
	return false
}

const maxProblemBytes = 1 << 20

func problemOf(resp *http.Response) error {
	p := &Problem{}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if kind != "application/problem+json" || err != nil || json.Unmarshal(text, p) != nil {
		// The body is not Hare's: a proxy's page, or a part of an answer.
		p = &Problem{Title: http.StatusText(resp.StatusCode), Detail: firstLine(text)}
	}
	p.Faults = slices.DeleteFunc(p.Faults, func(f *hare.InvalidError) bool { return f == nil })
	p.Status = resp.StatusCode
	p.RetryAfter = retryAfter(resp.Header.Get("Retry-After"))
	if p.RequestID == "" {
		p.RequestID = resp.Header.Get("X-Request-Id")
	}
	return p
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if strings.HasPrefix(line, "<") || len(line) > 200 {
		return ""
	}
	return strings.ToValidUTF8(line, "?")
}

// retryAfter parses a Retry-After header: seconds or a date.
func retryAfter(header string) time.Duration {
	n, err := strconv.ParseInt(header, 10, 32)
	if err == nil && n >= 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// errStopped is returned by a consumer that reads no further.
var errStopped = errors.New("client: stopped")
