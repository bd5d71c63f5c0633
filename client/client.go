// Package client calls a Hare server over HTTP: synchronous and asynchronous solves,
// their events across broken connections, bounds, verification, online sessions,
// what-ifs, simulations and plans of capacity. The client retries calls that are safe to repeat, and
// returns refusals as *Problem.
package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says where the server is, and holds the limits and timeouts of the client.
type Config struct {
	// URL of the server; empty means http://127.0.0.1:8080.
	URL string
	// Key is sent as Authorization: Bearer; an empty Key is not sent. Over plain HTTP
	// the Key is sent only to loopback addresses, unless Insecure is set.
	Key      string
	Insecure bool
	// HTTPClient sends the requests; nil means an http.Client of this client alone.
	// HTTPClient must have no Timeout, which would cut streams: contexts limit calls.
	HTTPClient *http.Client
	// Retries is how often a call that is safe to repeat is retried, and how often in
	// a row a stream may fail without an event in between. Zero means 4, and a
	// negative number means never. Permanent failures, such as a certificate that is
	// not trusted or a refused document, are never retried.
	Retries int
	// Backoff is the longest wait before the first retry; zero means 200 ms. The limit
	// doubles with each retry, up to 10 s, and the wait is random in the upper half
	// below the limit. A longer Retry-After of the server replaces the wait.
	Backoff time.Duration
	// MaxRetryAfter is the longest Retry-After for which the client waits. With a
	// longer one the refusal is returned at once. Zero means 1 min.
	MaxRetryAfter time.Duration
	// IdleTimeout is the time without a byte after which a stream counts as broken.
	// The server sends something every 15 s. Zero means 1 min.
	IdleTimeout time.Duration
	// MaxBytes limits the decompressed size of an answer and of each of its lines;
	// zero means 1 GiB.
	MaxBytes int64
	// UserAgent is the User-Agent header; empty means hare-client-go.
	UserAgent string
}

const (
	maxBackoff   = 10 * time.Second
	defaultBytes = 1 << 30
)

// ErrInClear says that a key would be sent over plain HTTP to another machine.
var ErrInClear = errors.New("client: a key over plain HTTP can be read on the way: use https, or set Insecure")

func (cfg *Config) validate() (*url.URL, error) {
	if cfg.URL == "" {
		cfg.URL = "http://127.0.0.1:8080"
	}
	base, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("client: URL: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" ||
		base.User != nil {
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
	}{{&cfg.Backoff, 200 * time.Millisecond}, {&cfg.MaxRetryAfter, time.Minute}, {&cfg.IdleTimeout, time.Minute}} {
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

// New makes a client. New sends nothing.
func New(cfg Config) (*Client, error) {
	base, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, base: base}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.cfg.HTTPClient.CloseIdleConnections() }

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
