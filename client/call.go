package client

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	kindJSON   = "application/json"
	kindNDJSON = "application/x-ndjson"
	kindEvents = "text/event-stream"

	// gzipFrom is the size, in bytes, from which on a request's body is compressed.
	gzipFrom = 16 << 10
)

// call is one request, and how to read its answer.
type call struct {
	method string
	path   string // escaped, from the root of the server
	query  url.Values
	header http.Header
	body   []byte // JSON; nil for a request without a body
	plain  bool   // body is never compressed
	// repeatable says that the request is idempotent.
	repeatable bool
	// attempts, where not nil, counts how often the request was sent.
	attempts *int
	// take reads an answer of status 2xx.
	take func(*http.Response) error
}

// do sends a call until the call is answered, may not be repeated, or has failed
// too often. The error is a *Problem where the server refused the call, or an error
// of ctx, of the network or of take.
func (c *Client) do(ctx context.Context, x call) error {
	x.compress()
	for attempt := 0; ; attempt++ {
		err := c.once(ctx, &x)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		wait, again := c.retry(err, x.repeatable, attempt)
		if !again {
			return err
		}
		if err := sleep(ctx, wait, err); err != nil {
			return err
		}
	}
}

// networkError says that the network failed, and not the server.
type networkError struct{ error }

func (e networkError) Unwrap() error { return e.error }

// unanswered returns the error of a request that got no answer. The error is a
// networkError, so that the request is retried, unless the failure is permanent.
func unanswered(err error) error {
	wrapped := fmt.Errorf("client: %w", err)
	if permanent(err) {
		return wrapped
	}
	return networkError{wrapped}
}

// permanent reports whether a connection would fail in the same way again: the
// server's certificate is not trusted, or the two sides do not agree on TLS.
func permanent(err error) bool {
	var cert *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &cert) || errors.As(err, &header) || errors.As(err, &alert) ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") // net/http exports no such error
}

// retry reports whether to repeat a failed call, and after how long.
func (c *Client) retry(err error, repeatable bool, attempt int) (wait time.Duration, again bool) {
	if attempt >= c.cfg.Retries {
		return 0, false
	}
	wait = c.backoff(attempt)
	var p *Problem
	if errors.As(err, &p) {
		wait = max(wait, p.RetryAfter)
		return wait, wait <= c.cfg.MaxRetryAfter && (p.refused() || repeatable && p.transient())
	}
	return wait, repeatable && errors.As(err, new(networkError))
}

// backoff returns the wait before a retry: exponential backoff with jitter. The
// wait is random in the upper half of a time that doubles with each attempt, so
// that clients that failed together do not retry together.
func (c *Client) backoff(attempt int) time.Duration {
	most := max(c.cfg.Backoff, 1)
	for ; attempt > 0 && most < maxBackoff; attempt-- {
		most *= 2
	}
	most = min(most, maxBackoff)
	return most/2 + mathrand.N(most/2+1)
}

// sleep waits for a retry. Where ctx would end before the wait does, sleep returns
// at once, with err, the reason of the retry, in its error.
func sleep(ctx context.Context, wait time.Duration, err error) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// request returns the HTTP request of a call.
func (c *Client) request(ctx context.Context, x *call) (*http.Request, error) {
	var body io.Reader
	header := http.Header{"Accept": {kindJSON}, "User-Agent": {c.cfg.UserAgent}}
	if x.body != nil {
		header.Set("Content-Type", kindJSON)
		body = bytes.NewReader(x.body)
	}
	at := strings.TrimRight(c.base.String(), "/") + x.path
	if len(x.query) > 0 {
		at += "?" + x.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, x.method, at, body)
	if err != nil {
		return nil, err
	}
	for name, values := range x.header {
		header[name] = values
	}
	if c.cfg.Key != "" {
		header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	r.Header = header
	return r, nil
}

// compress compresses a large body with gzip.
func (x *call) compress() {
	if len(x.body) < gzipFrom || x.plain {
		return
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(x.body) // writing to a bytes.Buffer cannot fail
	_ = z.Close()
	x.body = packed.Bytes()
	if x.header = x.header.Clone(); x.header == nil {
		x.header = http.Header{}
	}
	x.header.Set("Content-Encoding", "gzip")
}

// once sends a call one time.
func (c *Client) once(ctx context.Context, x *call) error {
	r, err := c.request(ctx, x)
	if err != nil {
		return err
	}
	if x.attempts != nil {
		*x.attempts++
	}
	resp, err := c.cfg.HTTPClient.Do(r)
	if err != nil {
		return unanswered(err)
	}
	body := &limitedBody{from: resp.Body, left: c.cfg.MaxBytes}
	resp.Body = body
	defer body.drain()
	if resp.StatusCode >= 300 {
		return problemOf(resp)
	}
	if x.take == nil {
		return nil
	}
	if err := x.take(resp); err != nil {
		if body.err != nil && !errors.Is(body.err, errTooLong) && !errors.As(err, new(*partError)) &&
			!errors.Is(err, errStopped) {
			return networkError{fmt.Errorf("client: the answer broke off: %w", body.err)}
		}
		return err
	}
	return nil
}

// partError says that the connection failed after the caller got a part of the
// answer, so that the call cannot be repeated.
type partError struct {
	got int64 // bytes or lines
	err error
}

func (e *partError) Error() string {
	return fmt.Sprintf("client: the answer broke off, with a part of it handed on (%d): %v", e.got, e.err)
}

func (e *partError) Unwrap() error { return e.err }

var errTooLong = errors.New("client: the answer is longer than Config.MaxBytes")

// limitedBody is the body of an answer, limited in size. limitedBody keeps the error
// of the connection: a decoder's error about a truncated answer hides that error.
type limitedBody struct {
	from io.ReadCloser
	left int64
	err  error
}

func (l *limitedBody) Read(b []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	if l.left <= 0 {
		// The answer is too long only where another byte follows.
		var one [1]byte
		n, err := l.from.Read(one[:])
		if n > 0 {
			l.err = errTooLong
			return 0, l.err
		}
		return 0, err
	}
	if int64(len(b)) > l.left {
		b = b[:l.left]
	}
	n, err := l.from.Read(b)
	l.left -= int64(n)
	if err != nil && err != io.EOF {
		l.err = err
	}
	return n, err
}

func (l *limitedBody) Close() error { return l.from.Close() }

// drain reads a short rest of the body, so that the connection can be reused.
func (l *limitedBody) drain() {
	_, _ = io.CopyN(io.Discard, l.from, 4<<10)
	_ = l.from.Close()
}

// decodeJSON reads an answer into v. Unknown names are ignored, since later servers
// may send more.
func decodeJSON(resp *http.Response, v any) error {
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		return fmt.Errorf("client: %s %s answered with something else than expected: %w", resp.Request.Method,
			resp.Request.URL.Path, err)
	}
	return nil
}

// fetch sends a call and decodes its answer.
func fetch[T any](ctx context.Context, c *Client, x call) (*T, error) {
	v := new(T)
	x.take = func(resp *http.Response) error { return decodeJSON(resp, v) }
	if err := c.do(ctx, x); err != nil {
		return nil, err
	}
	return v, nil
}

// NewKey makes an Idempotency-Key: 128 random bits.
func NewKey() string { return rand.Text() }
