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

	"github.com/hare-sched/hare"
)

// Problem is why the server refused (RFC 9457).
type Problem struct {
	Status    int                `json:"status"` // of HTTP
	Code      string             `json:"code"`   // stable; "" where something before the server refused
	Title     string             `json:"title"`
	Detail    string             `json:"detail"`
	RequestID string             `json:"request_id"` // is in the server's log
	Faults    hare.InvalidErrors `json:"errors"`     // each with a pointer into the request
	// RetryAfter is what the server asks to wait; 0 where it says nothing.
	RetryAfter time.Duration `json:"-"`
}

var _ error = (*Problem)(nil)

// Error has all that a person needs to act: detail, code and request id.
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

// Unwrap gives errors.As each fault.
func (p *Problem) Unwrap() []error { return p.Faults.Unwrap() }

// refused says that the server did nothing, so that also what must happen once
// may be sent again.
func (p *Problem) refused() bool {
	return slices.Contains([]string{"busy", "draining", "rate", "quota", "too_many_streams"}, p.Code) ||
		p.Status == http.StatusTooManyRequests && p.RetryAfter > 0
}

// passing says that the reason may pass by itself.
func (p *Problem) passing() bool {
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout:
		return p.Code != "limit"
	case http.StatusServiceUnavailable:
		return p.Code != "deadline" // it would take as long again
	case http.StatusConflict:
		// The first call with this Idempotency-Key is on its way.
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
		// Not Hare's: a proxy's page, or half an answer.
		p = &Problem{Title: http.StatusText(resp.StatusCode), Detail: firstLine(text)}
	}
	p.Faults = slices.DeleteFunc(p.Faults, func(f *hare.InvalidError) bool { return f == nil })
	p.Status = resp.StatusCode
	p.RetryAfter = seconds(resp.Header.Get("Retry-After"))
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
