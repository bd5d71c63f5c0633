// Package client calls a Hare server over HTTP: solves that wait or go on behind,
// their events across broken connections, bounds, checks, online sessions and
// scenarios. It retries what is safe to repeat, and gives refusals as *Problem.
package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says where the server is and how patient the client is.
type Config struct {
	// URL of the server; empty means http://127.0.0.1:8080.
	URL string
	// Key is sent as Authorization: Bearer; empty sends none. It goes over
	// plain HTTP to loopback alone, unless Insecure is set.
	Key      string
	Insecure bool
	// HTTPClient sends the requests; nil means one of its own. It must have no
	// Timeout, which would cut streams: contexts limit calls.
	HTTPClient *http.Client
	// Retries is how often a call that may be repeated is sent again, and how
	// often in a row a stream may fail without an event in between; zero means
	// 4, less means never. What would fail again, such as a certificate that is
	// not trusted or a refused document, is never sent again.
	Retries int
	// Backoff is the longest wait before the first retry; it doubles with each,
	// up to 10 s, and the wait is drawn evenly from its upper half. Zero means
	// 200 ms. A Retry-After of the server counts where it is longer.
	Backoff time.Duration
	// Patience is the longest Retry-After that is waited for: beyond it the
	// refusal is returned at once. Zero means 1 min.
	Patience time.Duration
	// Silence is after how long without a byte a stream counts as broken; the
	// server sends something every 15 s. Zero means 1 min.
	Silence time.Duration
	// MaxBytes limits an answer and each of its lines, decompressed; zero means
	// 1 GiB.
	MaxBytes int64
	// UserAgent zero means hare-client-go.
	UserAgent string
}

const (
	maxBackoff   = 10 * time.Second
	defaultBytes = 1 << 30
)

// ErrInClear says that a key would go over plain HTTP to another machine.
var ErrInClear = errors.New("client: a key over plain HTTP can be read on the way: use https, or set Insecure")

func (cfg *Config) validate() (*url.URL, error) {
	if cfg.URL == "" {
		cfg.URL = "http://127.0.0.1:8080"
	}
	base, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("client: URL: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		return nil, fmt.Errorf("client: URL %q: give scheme and host, as in https://hare.example:8443", cfg.URL)
	}
	if cfg.Key != "" && base.Scheme == "http" && !cfg.Insecure && !isLoopback(base.Hostname()) {
		return nil, ErrInClear
	}
	if strings.ContainsFunc(cfg.Key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errors.New("client: Key: only printable ASCII characters without spaces")
	}
	if cfg.Retries == 0 {
		cfg.Retries = 4
	}
	cfg.Retries = max(cfg.Retries, 0)
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&cfg.Backoff, 200 * time.Millisecond}, {&cfg.Patience, time.Minute}, {&cfg.Silence, time.Minute}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultBytes
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "hare-client-go"
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	if cfg.HTTPClient.Timeout > 0 {
		return nil, errors.New("client: HTTPClient has a Timeout, which would cut streams: limit calls by their contexts")
	}
	return base, nil
}

// Client is safe for concurrent use.
type Client struct {
	cfg  Config
	base *url.URL
}

// New makes a client. It sends nothing yet.
func New(cfg Config) (*Client, error) {
	base, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, base: base}, nil
}

// Close closes the connections that are idle.
func (c *Client) Close() { c.cfg.HTTPClient.CloseIdleConnections() }
