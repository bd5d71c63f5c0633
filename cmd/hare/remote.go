package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// remoteFlags are the flags that select a server.
type remoteFlags struct {
	server   string
	keyFile  string
	ca       string
	insecure bool
}

func (rf *remoteFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&rf.server, "server", "",
		"work on this server instead of in this process, e.g. http://127.0.0.1:8080")
	c.Flags().StringVar(&rf.keyFile, "api-key-file", "",
		"file with the API key for the server (default: the environment variable HARE_API_KEY)")
	c.Flags().StringVar(&rf.ca, "ca", os.Getenv("HARE_CA"), caUsage+" (default: the environment variable HARE_CA)")
	c.Flags().Lookup("ca").DefValue = ""
	c.Flags().BoolVar(&rf.insecure, "insecure", false, "allow sending the key over plain HTTP to other machines")
	_ = c.MarkFlagFilename("api-key-file") // cannot fail: the flag exists
	_ = c.MarkFlagFilename("ca")
}

// connect checks the flags and connects to the server.
func (rf *remoteFlags) connect() (*remote, error) {
	u, err := url.Parse(rf.server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usageError{fmt.Errorf("--server %q: must be a URL, as in http://127.0.0.1:8080", rf.server)}
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && err != nil {
		return nil, usageError{fmt.Errorf("--server %q: a port is at most 65535", rf.server)}
	}
	key := os.Getenv("HARE_API_KEY")
	if rf.keyFile != "" {
		text, err := os.ReadFile(rf.keyFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("--api-key-file: %w", err)}
		}
		warnOfOpen(stderr, "--api-key-file", rf.keyFile)
		key = string(text)
	}
	cfg := client.Config{URL: strings.TrimRight(u.String(), "/"), Key: strings.TrimSpace(key), Insecure: rf.insecure,
		Retries: retries}
	if rf.ca != "" {
		if cfg.HTTPClient, err = trusting(rf.ca); err != nil {
			return nil, err
		}
	}
	r, err := newRemote(cfg)
	if errors.Is(err, client.ErrInClear) {
		return nil, usageError{fmt.Errorf("--server %s: the key could be read on the way: use https, or add --insecure to "+
			"send it all the same", rf.server)}
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("--server %s: %w", rf.server, err)}
	}
	return r, nil
}

// retries is the number of retries that take about two minutes, in which a server can
// restart.
const retries = 16

// remote is a server that solves.
type remote struct {
	*client.Client
	once *client.Client // a client that does not retry
	base string
}

func newRemote(cfg client.Config) (*remote, error) {
	cfg.MaxBytes, cfg.UserAgent = maxFileBytes, "hare/"+version
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	r := &remote{base: cfg.URL}
	var err error
	if r.Client, err = client.New(cfg); err != nil {
		return nil, err
	}
	cfg.Retries = -1
	r.once, err = client.New(cfg)
	return r, err
}

// startTime is how long a command waits for a server on this machine that does not listen yet, as after
// "hare serve &" in the line before.
const startTime = 5 * time.Second

// reach fails if nobody listens: a wrong address is more likely than a restart, for which later calls wait.
func (rem *remote) reach(ctx context.Context) error {
	for end := time.Now().Add(startTime); ; {
		_, err := rem.once.Version(ctx)
		if dial := (*net.OpError)(nil); !errors.As(err, &dial) || dial.Op != "dial" {
			return nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) || !onThisMachine(rem.base) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// onThisMachine reports whether an address names the machine itself.
func onThisMachine(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// submit submits a solve.
func (rem *remote) submit(ctx context.Context, inst *hare.Instance, opt hare.Options, tags wire.Tags) (*client.Solve,
	error) {
	if err := rem.reach(ctx); err != nil {
		return nil, err
	}
	return rem.Submit(ctx, client.Request{Instance: inst, Tags: tags, Options: wire.Options{
		TimeLimit: opt.TimeLimit, WorkLimit: opt.WorkLimit, Gap: &opt.Gap, Seed: &opt.Seed,
		Bound: opt.Bound, Order: opt.Order, Assign: opt.Assign, Detail: opt.Detail, Objective: opt.Objective,
		Method: opt.Method, Degrade: opt.Degrade,
	}})
}

// cancelTimeout is how long a cancelled solve may take to end.
const cancelTimeout = 30 * time.Second

// follow waits for the end of a solve. When ctx ends, the solve is cancelled and ends
// with its best schedule and bound.
func (rem *remote) follow(ctx context.Context, id string, limit time.Duration, l *progressLine) error {
	whole, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	events, failed := make(chan client.Event), make(chan error, 1)
	go func() { failed <- rem.events(whole, id, events) }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	shown := progress{at: time.Now(), limit: limit}
	cancelled := ctx.Done()
	for {
		select {
		case e := <-events:
			shown.take(e)
		case <-tick.C:
		case err := <-failed:
			return err
		case <-cancelled:
			cancelled = nil
			time.AfterFunc(cancelTimeout, stop)
			if _, err := rem.Cancel(whole, id); err != nil {
				return err
			}
		}
		shown.draw(l)
	}
}

// events sends the events of a solve to out, up to the last.
func (rem *remote) events(ctx context.Context, id string, out chan<- client.Event) error {
	for e, err := range rem.Events(ctx, id, 0) {
		if err != nil {
			return err
		}
		select {
		case out <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// progress is the state of a solve that the progress line shows.
type progress struct {
	event solver.Event
	at    time.Time // when the last event arrived
	limit time.Duration
	queue int
}

func (p *progress) take(e client.Event) {
	p.event.Elapsed, p.at = time.Duration(e.AtS*float64(time.Second)), time.Now()
	p.queue = e.QueuePosition
	if e.Phase != "" {
		p.event.Phase = e.Phase
	}
	keep := func(to **hare.Amount, figure *float64) {
		if figure == nil {
			return
		}
		if a, err := hare.ParseAmount(strconv.FormatFloat(*figure, 'f', 6, 64)); err == nil {
			*to = &a
		}
	}
	keep(&p.event.Value, e.Value)
	keep(&p.event.Bound, e.Bound)
}

func (p *progress) draw(l *progressLine) {
	e := p.event
	e.Elapsed += time.Since(p.at)
	e.Left = -1
	if p.limit > 0 {
		e.Left = max(0, p.limit-e.Elapsed)
	}
	if e.Phase == "" {
		if e.Phase = "waits"; p.queue > 0 {
			e.Phase = fmt.Sprintf("queue %d", p.queue)
		}
	}
	l.event(e)
}

// solveRemotely does on a server what solveAndPrint does here.
func solveRemotely(ctx context.Context, r *remote, inst *hare.Instance, opt hare.Options, tags wire.Tags,
	out string, quiet, ndjson bool) error {
	defer r.Close()
	s, err := r.submit(ctx, inst, opt, tags)
	if err != nil {
		return remoteError(r, "", err)
	}
	if !s.Done() {
		l := newProgressLine(os.Stderr, !quiet && term.IsTerminal(int(os.Stderr.Fd())))
		err = r.follow(ctx, s.ID, opt.TimeLimit, l)
		l.end()
	}
	var res *hare.Result
	if err == nil {
		res, err = r.Result(context.WithoutCancel(ctx), s.ID)
	}
	if err != nil {
		return remoteError(r, s.ID, err)
	}
	return deliver(inst, res, out, quiet, func(w io.Writer) error {
		if ndjson {
			return wire.EncodeResultLines(w, res)
		}
		return wire.EncodeResult(w, res)
	})
}

// caUsage describes --ca in all commands that call a server.
const caUsage = "trust the certificates of this PEM file instead of those of the system"

// trusting returns an HTTP client that trusts the certificates of a file.
func trusting(ca string) (*http.Client, error) {
	roots, err := certificates(ca)
	if err != nil {
		return nil, usageError{fmt.Errorf("--ca: %w", err)}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: t}, nil
}

// tlsAdvice returns what to do if client and server do not agree on TLS; "" for other
// errors.
func tlsAdvice(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &unknown):
		return "name the file with the certificate that signed it: --ca FILE"
	case errors.As(err, &host):
		return "call the server by a name that its certificate has"
	case errors.As(err, &cert):
		return "the server needs another certificate"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "the server speaks plain HTTP: use http://"
	}
	return ""
}

// remoteError adds to an error of a server what the user can do.
func remoteError(r *remote, id string, err error) error {
	var no *client.Problem
	advice := tlsAdvice(err)
	switch {
	case advice != "":
		return usageError{fmt.Errorf("--server %s: %w: %s", r.base, err, advice)}
	case errors.As(err, &no) && no.Status < 500 && no.Status != http.StatusTooManyRequests:
		return usageError{fmt.Errorf("--server %s: %w", r.base, err)}
	case id != "":
		return usageError{fmt.Errorf("%w: the solve may go on, see %s/v1/solves/%s", err, r.base, id)}
	case no != nil:
		return usageError{fmt.Errorf("--server %s: %w: try again later", r.base, err)}
	}
	return usageError{fmt.Errorf("--server %s: %w: is hare serve running there?", r.base, err)}
}
