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
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	kindJSON   = "application/json"
	kindNDJSON = "application/x-ndjson"
	kindEvents = "text/event-stream"

	// gzipFrom is the size from which on a body goes out compressed.
	gzipFrom = 16 << 10
)

// call is one request, and what to do with its answer.
type call struct {
	method string
	path   string // escaped, from the root of the server
	query  url.Values
	header http.Header
	body   []byte // JSON; nil without one
	plain  bool   // body goes out as it is, never compressed
	// repeatable says that sending it twice does no more than once.
	repeatable bool
	// attempts counts how often it was sent, where that matters; nil otherwise.
	attempts *int
	// take reads an answer of status 2xx.
	take func(*http.Response) error
}

// do sends a call until it is answered, may not be repeated, or has failed too
// often. Errors are *Problem for refusals, those of ctx, of the network and of
// take.
func (c *Client) do(ctx context.Context, x call) error {
	x.pack()
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

// brokenError says that the network failed, not the server.
type brokenError struct{ error }

func (e brokenError) Unwrap() error { return e.error }

// unanswered is an error of a request that got no answer. It counts as one of the
// network, which a retry may mend, unless it lasts.
func unanswered(err error) error {
	said := fmt.Errorf("client: %w", err)
	if lasting(err) {
		return said
	}
	return brokenError{said}
}

// lasting says that a connection would fail in the same way again: the server's
// certificate is not trusted, or the two sides do not agree on TLS.
func lasting(err error) bool {
	var cert *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &cert) || errors.As(err, &header) || errors.As(err, &alert) ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") // net/http has no name for it
}

// retry says whether a failed call is worth repeating, and after how long.
func (c *Client) retry(err error, repeatable bool, attempt int) (wait time.Duration, again bool) {
	if attempt >= c.cfg.Retries {
		return 0, false
	}
	wait = c.backoff(attempt)
	var p *Problem
	if errors.As(err, &p) {
		wait = max(wait, p.RetryAfter)
		return wait, wait <= c.cfg.Patience && (p.refused() || repeatable && p.passing())
	}
	return wait, repeatable && errors.As(err, new(brokenError))
}

// backoff is drawn from the upper half of what doubles with each attempt, so
// that clients that failed together do not come back together.
func (c *Client) backoff(attempt int) time.Duration {
	most := max(c.cfg.Backoff, 1)
	for ; attempt > 0 && most < maxBackoff; attempt-- {
		most *= 2
	}
	most = min(most, maxBackoff)
	return most/2 + mathrand.N(most/2+1)
}

// sleep waits, unless ctx would end before: then err, which is why there is
// something to wait for, says more than that the time is up.
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

// pack compresses the body where that pays.
func (x *call) pack() {
	if len(x.body) < gzipFrom || x.plain {
		return
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(x.body) // a buffer takes everything
	_ = z.Close()
	x.body = packed.Bytes()
	if x.header = x.header.Clone(); x.header == nil {
		x.header = http.Header{}
	}
	x.header.Set("Content-Encoding", "gzip")
}

// once sends a call.
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
	body := &watched{from: resp.Body, left: c.cfg.MaxBytes}
	resp.Body = body
	defer body.drain()
	if resp.StatusCode >= 300 {
		return problemOf(resp)
	}
	if x.take == nil {
		return nil
	}
	if err := x.take(resp); err != nil {
		if body.err != nil && !errors.Is(body.err, errTooLong) && !errors.As(err, new(*partError)) && !errors.Is(err, errStopped) {
			return brokenError{fmt.Errorf("client: the answer broke off: %w", body.err)}
		}
		return err
	}
	return nil
}

// partError says that a part of an answer was handed on before it broke off, so
// that it cannot be asked for again.
type partError struct {
	got int64 // bytes or lines
	err error
}

func (e *partError) Error() string {
	return fmt.Sprintf("client: the answer broke off, with a part of it handed on (%d): %v", e.got, e.err)
}

func (e *partError) Unwrap() error { return e.err }

var errTooLong = errors.New("client: the answer is longer than Config.MaxBytes")

// watched is a body that is limited, and that remembers how reading it failed:
// what a decoder makes of half an answer is not the answer's fault.
type watched struct {
	from io.ReadCloser
	left int64
	err  error
}

func (w *watched) Read(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if w.left <= 0 {
		// Whether there is more decides.
		var one [1]byte
		n, err := w.from.Read(one[:])
		if n > 0 {
			w.err = errTooLong
			return 0, w.err
		}
		return 0, err
	}
	if int64(len(b)) > w.left {
		b = b[:w.left]
	}
	n, err := w.from.Read(b)
	w.left -= int64(n)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

func (w *watched) Close() error { return w.from.Close() }

// drain reads what little is left, so that the connection can be used again.
func (w *watched) drain() {
	_, _ = io.CopyN(io.Discard, w.from, 4<<10)
	_ = w.from.Close()
}

// decodeJSON reads an answer into v. Names that it does not know are passed
// over: later servers may send more.
func decodeJSON(resp *http.Response, v any) error {
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		return fmt.Errorf("client: %s %s answered with something else than expected: %w", resp.Request.Method, resp.Request.URL.Path, err)
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

// isLoopback says that a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func seconds(header string) time.Duration {
	n, err := strconv.ParseInt(header, 10, 32)
	if err == nil && n >= 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
