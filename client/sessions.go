package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// SessionRequest opens an online session.
type SessionRequest struct {
	Cluster    *hare.Cluster
	Policy     string          // "": hlas
	Parameters json.RawMessage // of the policy; nil: its defaults
	// ServerClock lets the server stamp the events: AtUs of them does not count.
	ServerClock bool
}

// Session is an online session.
type Session struct {
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Policy  string    `json:"policy"`
	Clock   string    `json:"clock"` // events or server
	GPUs    int       `json:"gpus"`  // when it began
	LastSeq int64     `json:"last_seq"`
	Active  bool      `json:"active"` // its state is in memory
	// Status is how it stands, JSON; lists leave it out.
	Status json.RawMessage `json:"status"`
}

// CreateSession opens a session. It is not sent again when the network fails,
// for it may have been opened: Sessions lists them.
func (c *Client) CreateSession(ctx context.Context, req SessionRequest) (*Session, error) {
	if req.Cluster == nil {
		return nil, errors.New("client: Cluster is nil")
	}
	in := map[string]any{"cluster": json.RawMessage(wire.AppendCluster(nil, req.Cluster))}
	if req.Policy != "" {
		in["policy"] = req.Policy
	}
	if req.Parameters != nil {
		in["parameters"] = req.Parameters
	}
	if req.ServerClock {
		in["clock"] = "server"
	}
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	return fetch[Session](ctx, c, call{method: http.MethodPost, path: "/v1/sessions", body: text})
}

func sessionPath(id, more string) string { return "/v1/sessions/" + url.PathEscape(id) + more }

// Session looks at one.
func (c *Client) Session(ctx context.Context, id string) (*Session, error) {
	return fetch[Session](ctx, c, call{method: http.MethodGet, path: sessionPath(id, ""), repeatable: true})
}

// Sessions lists them, the oldest first.
func (c *Client) Sessions(ctx context.Context) iter.Seq2[*Session, error] {
	return pages(ctx, c, "/v1/sessions", "after", nil, func(page json.RawMessage) ([]*Session, string, error) {
		var p struct {
			Sessions []*Session `json:"sessions"`
			Next     string     `json:"next"`
		}
		err := json.Unmarshal(page, &p)
		return p.Sessions, p.Next, err
	})
}

// DeleteSession ends a session and removes its log.
func (c *Client) DeleteSession(ctx context.Context, id string) error {
	return c.remove(ctx, sessionPath(id, ""))
}

// EventError is why the server refused an event of a session, which changed
// nothing.
type EventError struct {
	Seq      int64
	Status   int    `json:"status"`
	Pointer  string `json:"pointer"` // into the event
	Code     string `json:"code"`
	Detail   string `json:"detail"`
	Expected int64  `json:"expected"` // the number that must come next, where that is what is wrong
}

func (e *EventError) Error() string {
	return fmt.Sprintf("hare: event %d refused: %s: %s (%s)", e.Seq, e.Pointer, e.Detail, e.Code)
}

// Apply sends events and returns an answer for each. They are numbered, so that
// after a broken connection all are sent again and what was recorded before is
// answered as it was then. The first event that is refused is the error, an
// *EventError; the answers are those before it.
func (c *Client) Apply(ctx context.Context, s *Session, events ...hare.Event) ([]hare.Answer, error) {
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
					return brokenError{fmt.Errorf("client: %d of %d events were answered: %w", len(answers), len(events), err)}
				}
				var refused struct {
					Seq   int64       `json:"seq"`
					Error *EventError `json:"error"`
				}
				if err := json.Unmarshal(line, &refused); err != nil {
					return fmt.Errorf("client: an answer is not JSON: %w", err)
				}
				if e := refused.Error; e != nil {
					e.Seq = refused.Seq
					if e.Code == "draining" {
						return &Problem{Status: e.Status, Code: e.Code, Detail: e.Detail}
					}
					return e
				}
				a, err := wire.DecodeAnswer(line)
				if err != nil {
					return fmt.Errorf("client: %w", err)
				}
				answers = append(answers, a)
			}
			_, _ = io.Copy(io.Discard, in) // nothing follows
			return nil
		}})
	return answers, err
}

// untimed takes the time out of an event as wire.AppendEvent writes it.
func untimed(line []byte) []byte {
	from := bytes.Index(line, []byte(`,"at_s":`))
	to := bytes.Index(line, []byte(`,"type":`))
	return append(line[:from:from], line[to:]...)
}

// Decisions follows the answers of a session behind the event after, also those
// to come, until ctx ends, the session is deleted, or reading stops. A stream
// that breaks is taken up again.
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
