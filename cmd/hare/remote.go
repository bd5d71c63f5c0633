package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
)

// remoteFlags say which server solves.
type remoteFlags struct {
	server  string
	keyFile string
}

func (f *remoteFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.server, "server", "", "solve on this server instead of here, e.g. http://127.0.0.1:8080")
	c.Flags().StringVar(&f.keyFile, "api-key-file", "", "file that holds the server's API key (default: the environment's HARE_API_KEY)")
	_ = c.MarkFlagFilename("api-key-file") // fails for flags that are not there
}

// connect checks the flags.
func (f *remoteFlags) connect() (*remote, error) {
	u, err := url.Parse(f.server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usageError{fmt.Errorf("--server %q: must be a URL, as in http://127.0.0.1:8080", f.server)}
	}
	r := &remote{base: strings.TrimRight(u.String(), "/"), key: os.Getenv("HARE_API_KEY"), client: &http.Client{}, patience: 2 * time.Minute, pause: 200 * time.Millisecond}
	if f.keyFile != "" {
		text, err := os.ReadFile(f.keyFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("--api-key-file: %w", err)}
		}
		r.key = string(text)
	}
	r.key = strings.TrimSpace(r.key)
	return r, nil
}

// remote is a server that solves.
type remote struct {
	base     string
	key      string
	client   *http.Client
	patience time.Duration // without a word from the server
	pause    time.Duration // before the first repetition
}

// refused is an answer that is not a success.
type refused struct {
	status int
	code   string
	detail string
	after  time.Duration // Retry-After
}

func (e *refused) Error() string {
	if e.status == 0 {
		return e.detail
	}
	return fmt.Sprintf("the server says %d: %s", e.status, e.detail)
}

// passing says that the same call may succeed later.
func passing(err error) bool {
	var r *refused
	if !errors.As(err, &r) {
		return true // the connection
	}
	return r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable || r.status == http.StatusBadGateway ||
		r.status == http.StatusGatewayTimeout || r.status == http.StatusConflict && r.code == "key_in_flight"
}

// call makes one request. The caller closes the body of a success.
func (r *remote) call(ctx context.Context, method, path string, body []byte, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if r.key != "" {
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	var p struct{ Code, Detail string }
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if json.Unmarshal(text, &p) != nil || p.Detail == "" {
		p.Detail = http.StatusText(resp.StatusCode)
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return nil, &refused{resp.StatusCode, p.Code, p.Detail, time.Duration(seconds) * time.Second}
}

// again repeats f until it succeeds or fails for good, or patience ends.
func (r *remote) again(ctx context.Context, f func() error) error {
	until := time.Now().Add(r.patience)
	for pause := r.pause; ; pause = min(2*pause, 5*time.Second) {
		err := f()
		if err == nil || !passing(err) || time.Now().After(until) || ctx.Err() != nil {
			return err
		}
		wait := pause
		if no := (*refused)(nil); errors.As(err, &no) {
			wait = max(wait, min(no.after, time.Minute))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// solveEvent is a line of the stream of events of a solve.
type solveEvent struct {
	Seq           int64       `json:"seq"`
	AtS           json.Number `json:"at_s"`
	Type          string      `json:"type"`
	Status        string      `json:"status"`
	Phase         string      `json:"phase"`
	Termination   string      `json:"termination"`
	QueuePosition int         `json:"queue_position"`
	Value         json.Number `json:"value"`
	Bound         json.Number `json:"bound"`
}

// submit sends an instance, and again under the same key where it is not clear
// whether it arrived. It gives the result where that is there at once, or the
// path of the solve.
func (r *remote) submit(ctx context.Context, inst *hare.Instance, opt hare.Options) (result []byte, at string, err error) {
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	_, err = io.WriteString(z, `{"instance":`)
	err = errors.Join(err, inst.EncodeJSON(z))
	_, e := z.Write(append(append([]byte(`,"options":`), hare.OptionsJSON(opt)...), '}'))
	if err = errors.Join(err, e, z.Close()); err != nil {
		return nil, "", err
	}
	key := rand.Text()
	sent := false
	err = r.again(ctx, func() error {
		resp, err := r.call(ctx, http.MethodPost, "/v1/solves", body.Bytes(), "Content-Type", "application/json", "Content-Encoding", "gzip",
			"Prefer", "respond-async", "Idempotency-Key", key)
		if dial := (*net.OpError)(nil); !sent && errors.As(err, &dial) && dial.Op == "dial" {
			return &refused{detail: err.Error()} // nobody is there: more likely a wrong address than a restart
		}
		sent = true
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusAccepted {
			result, err = io.ReadAll(io.LimitReader(resp.Body, maxFileBytes))
			return err
		}
		if at = resp.Header.Get("Location"); !strings.HasPrefix(at, "/") {
			return &refused{status: resp.StatusCode, detail: "and does not say where the solve is"}
		}
		return nil
	})
	return result, at, err
}

// events sends what happens to a solve to out, from after on, until done; it
// comes again where a stream breaks off.
func (r *remote) events(ctx context.Context, at string, out chan<- solveEvent) error {
	last := int64(0)
	for {
		var in io.ReadCloser
		err := r.again(ctx, func() error {
			resp, err := r.call(ctx, http.MethodGet, at+"/events", nil, "Accept", "text/event-stream", "Last-Event-ID", strconv.FormatInt(last, 10))
			if err == nil {
				in = resp.Body
			}
			return err
		})
		if err != nil {
			return err
		}
		before := last
		done := readEvents(in, func(e solveEvent) bool {
			last = e.Seq
			select {
			case out <- e:
				return true
			case <-ctx.Done():
				return false
			}
		})
		_ = in.Close()
		if done || ctx.Err() != nil {
			return ctx.Err()
		}
		if last == before {
			// A stream that ends without a word is no reason to hurry.
			select {
			case <-time.After(r.pause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// readEvents reads server-sent events until done, the end of the stream, or
// until take says so.
func readEvents(in io.Reader, take func(solveEvent) bool) (done bool) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	name := ""
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		switch value = strings.TrimPrefix(value, " "); field {
		case "event":
			name = value
		case "":
			if lines.Text() == "" {
				name = ""
			}
		case "data":
			var e solveEvent
			if name == "end" || json.Unmarshal([]byte(value), &e) != nil {
				continue
			}
			if !take(e) {
				return false
			}
			if e.Type == "done" {
				return true
			}
		}
	}
	return false
}

// result downloads what a solve has found.
func (r *remote) result(ctx context.Context, at string) (text []byte, err error) {
	err = r.again(ctx, func() error {
		resp, err := r.call(ctx, http.MethodGet, at+"/result", nil)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		text, err = io.ReadAll(io.LimitReader(resp.Body, maxFileBytes))
		return err
	})
	return text, err
}

// lastWait is how long a cancelled solve may take to end.
const lastWait = 30 * time.Second

// watch follows a solve to its end. When ctx ends, the solve is cancelled, and
// ends with its best pair.
func (r *remote) watch(ctx context.Context, at string, limit time.Duration, l *live) error {
	whole, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	events, failed := make(chan solveEvent), make(chan error, 1)
	go func() { failed <- r.events(whole, at, events) }()
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
			time.AfterFunc(lastWait, stop)
			if err := r.again(whole, func() error {
				resp, err := r.call(whole, http.MethodPost, at+"/cancel", nil)
				if err == nil {
					err = resp.Body.Close()
				}
				return err
			}); err != nil {
				return err
			}
		}
		shown.draw(l)
	}
}

// progress is what the live line shows of the events so far.
type progress struct {
	event solver.Event
	at    time.Time // when event.Elapsed was true
	limit time.Duration
	queue int
}

func (p *progress) take(e solveEvent) {
	if us, err := hare.ParseMicros(e.AtS.String()); err == nil {
		p.event.Elapsed, p.at = time.Duration(us)*time.Microsecond, time.Now()
	}
	p.queue = e.QueuePosition
	if e.Phase != "" {
		p.event.Phase = e.Phase
	}
	keep := func(to **hare.Amount, text json.Number) {
		if a, err := hare.ParseAmount(text.String()); err == nil {
			*to = &a
		}
	}
	keep(&p.event.Value, e.Value)
	keep(&p.event.Bound, e.Bound)
}

func (p *progress) draw(l *live) {
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

// solveRemotely is solveAndPrint on a server.
func solveRemotely(ctx context.Context, r *remote, inst *hare.Instance, opt hare.Options, out string, quiet, ndjson bool) error {
	text, at, err := r.submit(ctx, inst, opt)
	if err != nil {
		return remoteError(r, "", err)
	}
	if at != "" {
		l := newLive(os.Stderr, !quiet && term.IsTerminal(int(os.Stderr.Fd())))
		err := r.watch(ctx, at, opt.TimeLimit, l)
		l.end()
		if err == nil {
			text, err = r.result(context.WithoutCancel(ctx), at)
		}
		if err != nil {
			return remoteError(r, at, err)
		}
	}
	res, err := hare.DecodeResult(bytes.NewReader(text), hare.Limits{MaxBytes: maxFileBytes})
	if err != nil {
		return fmt.Errorf("the server's result: %w", err)
	}
	return deliver(inst, res, out, quiet, func(w io.Writer) error {
		if ndjson {
			return res.EncodeNDJSON(w)
		}
		_, err := w.Write(text)
		return err
	})
}

// remoteError says what to do about an error of a server.
func remoteError(r *remote, at string, err error) error {
	var no *refused
	switch {
	case errors.As(err, &no) && no.status > 0 && no.status < 500 && no.status != http.StatusTooManyRequests:
		return usageError{fmt.Errorf("--server %s: %w", r.base, err)}
	case at != "":
		return usageError{fmt.Errorf("%w: the solve may go on, see %s%s", err, r.base, at)}
	case errors.As(err, &no) && no.status > 0:
		return usageError{fmt.Errorf("--server %s: %w: try again later", r.base, err)}
	}
	return usageError{fmt.Errorf("--server %s: %w: is hare serve running there?", r.base, err)}
}
