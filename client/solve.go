package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// Request says what to solve, and how.
type Request struct {
	Instance *hare.Instance
	Options  wire.Options
	// Key is the Idempotency-Key of this solve: a call with the same key and content
	// gets the same solve instead of a second one, also days later from another
	// process. Empty means a random key.
	Key string
	// Previous is an earlier result with its schedule: the part of that schedule from
	// At on is planned again. PreviousInstance is the instance of Previous where
	// Instance is another one. Stability is the least gain of moving planned work, in
	// weight-seconds for each GPU-second that is moved.
	Previous         *hare.Result
	PreviousInstance *hare.Instance
	At               time.Duration
	Stability        float64
	// Tags are the name and the labels by which List finds the solve.
	Tags wire.Tags
	// Progress is called with each event of Solve, one at a time, in order. Nil means
	// that events are not read.
	Progress func(Event)
}

// document returns the request as it is sent.
func (r *Request) document() (*wire.Request, error) {
	doc := &wire.Request{Instance: r.Instance, Options: r.Options, Tags: r.Tags}
	if r.Previous == nil {
		return doc, nil
	}
	stability, err := hare.ParseMicros(strconv.FormatFloat(r.Stability, 'f', -1, 64))
	if err != nil {
		return nil, fmt.Errorf("client: Stability: %w", err)
	}
	doc.Replan = hare.ReplanRequest{Previous: r.Previous, Before: r.PreviousInstance, AtUs: r.At.Microseconds(),
		HasAt: true, StabilityMicro: stability}
	return doc, nil
}

// encoded returns the text of a request.
func encoded(doc *wire.Request) ([]byte, error) {
	var b bytes.Buffer
	err := wire.EncodeRequest(&b, doc)
	return b.Bytes(), err
}

// Solve solves an instance and returns the result; infeasible is a result too. The
// solve runs asynchronously on the server: after a broken connection the client
// resumes waiting for the same solve. When ctx ends, the solve is cancelled.
func (c *Client) Solve(ctx context.Context, req Request) (*hare.Result, error) {
	prefer := "wait=" + strconv.Itoa(int(longPoll/time.Second))
	if req.Progress != nil {
		prefer = "respond-async"
	}
	res, s, err := c.post(ctx, req, prefer)
	if err != nil || res != nil {
		return res, err
	}
	res, err = c.finish(ctx, s, req.Progress)
	if ctx.Err() != nil {
		// Nobody waits for the solve any more. Where the cancellation does not arrive,
		// the solve ends by itself.
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_, _ = c.Cancel(late, s.ID)
	}
	return res, err
}

// finish follows the events of a solve to its end and returns the result.
func (c *Client) finish(ctx context.Context, s *Solve, progress func(Event)) (*hare.Result, error) {
	if progress != nil {
		for e, err := range c.Events(ctx, s.ID, 0) {
			if err != nil {
				return nil, err
			}
			progress(e)
		}
	}
	s, err := c.Wait(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	if s.Status == "failed" {
		return nil, fmt.Errorf("client: solve %s failed: %s", s.ID, s.Error)
	}
	return c.Result(ctx, s.ID)
}

// Submit submits a solve and does not wait for its end. A solve that the server has
// already, by its key or in its cache, comes with its result.
func (c *Client) Submit(ctx context.Context, req Request) (*Solve, error) {
	res, s, err := c.post(ctx, req, "respond-async")
	if err == nil && s.ID == "" {
		return nil, errors.New("client: this server answers at once and keeps no solves: call Solve")
	}
	if err == nil && res != nil {
		return c.Get(ctx, s.ID)
	}
	return s, err
}

// post sends a solve. A nil result means that the solve has not ended.
func (c *Client) post(ctx context.Context, req Request, prefer string) (res *hare.Result, s *Solve, err error) {
	doc, err := req.document()
	if err != nil {
		return nil, nil, err
	}
	text, err := encoded(doc)
	if err != nil {
		return nil, nil, err
	}
	key := req.Key
	if key == "" {
		key = NewKey()
	}
	err = c.do(ctx, call{
		method: http.MethodPost, path: "/v1/solves", body: text, repeatable: true,
		header: http.Header{"Idempotency-Key": {key}, "Prefer": {prefer}},
		take: func(resp *http.Response) (err error) {
			if resp.StatusCode != http.StatusAccepted {
				s = &Solve{ID: resp.Header.Get("Hare-Solve-Id")}
				res, err = wire.DecodeResult(resp.Body, wire.Limits{MaxBytes: c.cfg.MaxBytes})
				return err
			}
			s = &Solve{}
			return decodeJSON(resp, s)
		},
	})
	return res, s, err
}

// Solve is the state of a solve on the server.
type Solve struct {
	ID string `json:"id"`
	wire.Tags
	Status string `json:"status"` // queued, running, succeeded, cancelled or failed
	// Termination says why the solve stopped: optimal, gap, work_limit, deadline,
	// cancelled, infeasible or no_schedule; "" while the solve has not ended.
	Termination    string            `json:"termination"`
	QueuePosition  int               `json:"queue_position"` // from 1; 0 when it does not wait
	Created        time.Time         `json:"created"`
	Started        time.Time         `json:"started"`
	Ended          time.Time         `json:"ended"`
	InstanceSHA256 string            `json:"instance_sha256"`
	Jobs           int               `json:"jobs"`
	GPUs           int               `json:"gpus"`
	Value          *float64          `json:"value"` // best so far, in weight-seconds; Result has it exactly
	Bound          *float64          `json:"bound"`
	Gap            *float64          `json:"gap"`
	Cached         bool              `json:"cached"`
	Error          string            `json:"error"`  // why it failed
	Events         int64             `json:"events"` // id of the last one
	Links          map[string]string `json:"links"`
}

// Done reports whether the solve has ended.
func (s *Solve) Done() bool { return s.Status != "queued" && s.Status != "running" }

// Get returns the state of a solve.
func (c *Client) Get(ctx context.Context, id string) (*Solve, error) { return c.get(ctx, id, 0) }

// get returns the state of a solve. The server waits up to wait for the end of the
// solve before it answers.
func (c *Client) get(ctx context.Context, id string, wait time.Duration) (*Solve, error) {
	x := call{method: http.MethodGet, path: solvePath(id, ""), repeatable: true}
	if wait > 0 {
		x.query = url.Values{"wait": {strconv.Itoa(int(wait / time.Second))}}
	}
	return fetch[Solve](ctx, c, x)
}

// longPoll is how long one request waits for the end of a solve: less than the usual
// timeouts of proxies.
const longPoll = 25 * time.Second

// Wait returns once the solve has ended or ctx does.
func (c *Client) Wait(ctx context.Context, id string) (*Solve, error) {
	for attempt := 0; ; {
		began := time.Now()
		s, err := c.get(ctx, id, longPoll)
		if err != nil || s.Done() {
			return s, err
		}
		if time.Since(began) >= longPoll/2 {
			attempt = 0
			continue
		}
		// The server answered without waiting: the server is shutting down, or a proxy
		// answered in its place.
		if err := sleep(ctx, c.backoff(attempt), errors.New("client: the solve goes on")); err != nil {
			return nil, err
		}
		attempt++
	}
}

// Result returns the whole result of a solve that has ended, or the best result so
// far of a running solve.
func (c *Client) Result(ctx context.Context, id string) (res *hare.Result, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: solvePath(id, "/result"), repeatable: true,
		take: func(resp *http.Response) (err error) {
			res, err = wire.DecodeResult(resp.Body, wire.Limits{MaxBytes: c.cfg.MaxBytes})
			return err
		}})
	return res, err
}

// Schedule writes the schedule of a solve to w, as the server sends it, in the media
// type accept: application/json, application/x-ndjson (one lane a line) or text/csv.
// The query selects a part of the schedule; see docs/reference/http.md. Once w has received a
// part, the call is not retried.
func (c *Client) Schedule(ctx context.Context, id, accept string, query url.Values, w io.Writer) error {
	return c.copy(ctx, solvePath(id, "/schedule"), accept, query, w)
}

func (c *Client) copy(ctx context.Context, path, accept string, query url.Values, w io.Writer) error {
	return c.do(ctx, call{method: http.MethodGet, path: path, query: query, repeatable: true,
		header: http.Header{"Accept": {accept}},
		take: func(resp *http.Response) error {
			n, err := io.Copy(w, resp.Body)
			if err != nil && n > 0 {
				return &partError{n, err}
			}
			return err
		}})
}

// Cancel asks a solve to stop with its best schedule and bound so far. Cancel is
// idempotent.
func (c *Client) Cancel(ctx context.Context, id string) (*Solve, error) {
	return fetch[Solve](ctx, c, call{method: http.MethodPost, path: solvePath(id, "/cancel"), repeatable: true})
}

// Delete removes a solve that has ended, with its events and result.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.remove(ctx, solvePath(id, ""))
}

// remove sends a DELETE. Where an earlier attempt may have succeeded, not found
// counts as success.
func (c *Client) remove(ctx context.Context, path string) error {
	attempts := 0
	err := c.do(ctx, call{method: http.MethodDelete, path: path, repeatable: true, attempts: &attempts})
	if p := (*Problem)(nil); attempts > 1 && errors.As(err, &p) && p.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// List yields the solves that the server keeps, the newest first, and fetches them page by page. The
// query filters the solves, as label=team=vision does; see docs/reference/http.md.
func (c *Client) List(ctx context.Context, query url.Values) iter.Seq2[*Solve, error] {
	return pages(ctx, c, "/v1/solves", "after", query, func(page json.RawMessage) ([]*Solve, string, error) {
		var p struct {
			Solves []*Solve `json:"solves"`
			Next   string   `json:"next"`
		}
		err := json.Unmarshal(page, &p)
		return p.Solves, p.Next, err
	})
}

// pages yields the elements of a paged list, whose next page is named by a query
// parameter.
func pages[T any](ctx context.Context, c *Client, path, parameter string, query url.Values,
	read func(json.RawMessage) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		at := url.Values{}
		for name, values := range query {
			at[name] = values
		}
		for {
			var page json.RawMessage
			err := c.do(ctx, call{method: http.MethodGet, path: path, query: at, repeatable: true,
				take: func(resp *http.Response) error { return decodeJSON(resp, &page) }})
			var items []T
			next := ""
			if err == nil {
				items, next, err = read(page)
			}
			if err != nil {
				yield(zero, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" || next == at.Get(parameter) {
				return
			}
			at.Set(parameter, next)
		}
	}
}
