package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
	regretdoc "github.com/hare-sched/hare/wire/regret"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// CreateSession opens a session. The call is not retried when the network fails,
// since the server may have opened the session: Sessions lists it then.
func (c *Client) CreateSession(ctx context.Context, req *wire.SessionRequest) (*sessiondoc.Session, error) {
	return fetch[sessiondoc.Session](ctx, c, call{method: http.MethodPost, path: "/v1/sessions",
		body: wire.AppendSession(nil, req)})
}

func sessionPath(id, more string) string { return "/v1/sessions/" + url.PathEscape(id) + more }

// Session returns the session of an id.
func (c *Client) Session(ctx context.Context, id string) (*sessiondoc.Session, error) {
	return fetch[sessiondoc.Session](ctx, c, call{method: http.MethodGet, path: sessionPath(id, ""), repeatable: true})
}

// SessionPlan returns the plan that a session follows. A policy that makes no plans gives
// a *Problem with the code no_plan.
func (c *Client) SessionPlan(ctx context.Context, id string) (*wire.SessionPlan, error) {
	var plan *wire.SessionPlan
	err := c.do(ctx, call{method: http.MethodGet, path: sessionPath(id, "/plan"), repeatable: true,
		take: func(resp *http.Response) error {
			var text json.RawMessage
			if err := decodeJSON(resp, &text); err != nil {
				return err
			}
			p, err := wire.DecodeSessionPlan(text)
			if err != nil {
				return fmt.Errorf("client: %w", err)
			}
			plan = p
			return nil
		}})
	return plan, err
}

// SessionJobs yields the jobs of a session that have not ended and that match the query parameters of
// GET /v1/sessions/{id}/jobs; nil means all, by arrival.
func (c *Client) SessionJobs(ctx context.Context, id string, query url.Values) iter.Seq2[*sessiondoc.Job, error] {
	return pages(ctx, c, sessionPath(id, "/jobs"), "after", query,
		func(page json.RawMessage) ([]*sessiondoc.Job, string, error) {
			var p sessiondoc.JobList
			err := json.Unmarshal(page, &p)
			return p.Jobs, p.Next, err
		})
}

// PreviewSessionJob says when a job, as in an event job_arrived, would start and end if it arrived now and no other
// did, and which jobs it would delay. A policy that makes no plans gives a *Problem with the code no_plan.
func (c *Client) PreviewSessionJob(ctx context.Context, id string, job *hare.Job) (*clusterdoc.Preview, error) {
	text := json.RawMessage(wire.AppendArrivingJob(nil, job))
	return send[clusterdoc.Preview](ctx, c, call{path: sessionPath(id, "/jobs:preview"), repeatable: true}, text)
}

// Sessions lists the sessions, the oldest first. The query filters them by q and label; nil lists all.
func (c *Client) Sessions(ctx context.Context, query url.Values) iter.Seq2[*sessiondoc.Session, error] {
	read := func(page json.RawMessage) ([]*sessiondoc.Session, string, error) {
		var p sessiondoc.List
		err := json.Unmarshal(page, &p)
		return p.Sessions, p.Next, err
	}
	return pages(ctx, c, "/v1/sessions", "after", query, read)
}

// DeleteSession ends a session and removes its log.
func (c *Client) DeleteSession(ctx context.Context, id string) error {
	return c.remove(ctx, sessionPath(id, ""))
}

// EventError says why the server refused an event of a session. A refused event
// changes nothing.
type EventError struct {
	Seq      int64
	Status   int
	Pointer  string // into the event
	Code     string
	Detail   string
	Expected int64              // the number that must come next, where the event has another number
	Errors   hare.InvalidErrors // all faults where there are several
}

// refusalError is the error of a refused event: a Problem where the server ends, so that the
// call is tried again, and otherwise an EventError.
func refusalError(r *wire.Refusal) error {
	e := &EventError{Seq: r.Seq, Status: int(r.Status), Expected: r.Expected}
	if len(r.Errors) > 0 {
		e.Pointer, e.Code, e.Detail = r.Errors[0].Pointer, r.Errors[0].Code, r.Errors[0].Detail
	}
	if len(r.Errors) > 1 {
		e.Errors = r.Errors
	}
	if e.Code == "draining" {
		return &Problem{Status: e.Status, Code: e.Code, Detail: e.Detail}
	}
	return e
}

func (e *EventError) Error() string {
	return fmt.Sprintf("hare: event %d refused: %s: %s (%s)", e.Seq, e.Pointer, e.Detail, e.Code)
}

// Apply sends events and returns an answer for each. The events are numbered: after
// a broken connection Apply sends all events again, and the server repeats its
// answers to those that it has recorded. Where the server refuses an event, the
// error is an *EventError, and Apply returns the answers to the events before.
func (c *Client) Apply(ctx context.Context, s *sessiondoc.Session, events ...hare.Event) ([]hare.Answer, error) {
	var text []byte
	for _, e := range events {
		if s.Clock == "server" {
			text = append(append(text, untimed(wire.AppendEvent(nil, e))...), '\n')
		} else {
			text = append(wire.AppendEvent(text, e), '\n')
		}
	}
	var answers []hare.Answer
	err := c.do(ctx, call{method: http.MethodPost, path: sessionPath(s.ID, "/events"), repeatable: true,
		header: http.Header{"Content-Type": {kindNDJSON}, "Accept": {kindNDJSON}}, plain: true, body: text,
		take: func(resp *http.Response) error {
			answers = answers[:0]
			in := bufio.NewReaderSize(resp.Body, 64<<10)
			for len(answers) < len(events) {
				line, err := readLine(in, c.cfg.MaxBytes)
				if err != nil {
					return networkError{fmt.Errorf("client: %d of %d events were answered: %w", len(answers), len(events), err)}
				}
				a, err := wire.DecodeAnswerLine(line)
				if err != nil {
					return fmt.Errorf("client: %w", err)
				}
				if refused := a.Refusal; refused != nil {
					return refusalError(refused)
				}
				answers = append(answers, a.Answer)
			}
			_, _ = io.Copy(io.Discard, in) // reach the end, so that the connection can be reused
			return nil
		}})
	return answers, err
}

// untimed removes the time from an event as wire.AppendEvent writes it.
func untimed(line []byte) []byte {
	from := bytes.Index(line, []byte(`,"at_s":`))
	to := bytes.Index(line, []byte(`,"type":`))
	return append(line[:from:from], line[to:]...)
}

// Decisions yields the answers of a session to the events that follow the event
// after, past and future, until ctx ends, the session is deleted, or the caller
// stops. A stream that breaks is resumed.
func (c *Client) Decisions(ctx context.Context, id string, after int64) iter.Seq2[hare.Answer, error] {
	return func(yield func(hare.Answer, error) bool) {
		for m, err := range c.follow(ctx, sessionPath(id, "/decisions"), after) {
			var a hare.Answer
			if err == nil {
				a, err = wire.DecodeAnswer(m.data)
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
	}
}

// Regret compares a session with the best plan in hindsight, and where against is not
// empty also with what that policy would have done.
func (c *Client) Regret(ctx context.Context, id, against string) (*regretdoc.Regret, error) {
	var query url.Values
	if against != "" {
		query = url.Values{"against": {against}}
	}
	return fetch[regretdoc.Regret](ctx, c, call{method: http.MethodGet, path: sessionPath(id, "/regret"), query: query,
		repeatable: true})
}

// RegretOf is Regret without a replay, under an objective: weighted_jct, or makespan for the last end of a job.
func (c *Client) RegretOf(ctx context.Context, id, objective string) (*regretdoc.Regret, error) {
	return fetch[regretdoc.Regret](ctx, c, call{method: http.MethodGet, path: sessionPath(id, "/regret"),
		query: url.Values{"objective": {objective}}, repeatable: true})
}
