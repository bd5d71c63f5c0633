package api

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/solves"
)

// reconnect is the delay after which an EventSource reconnects.
const reconnect = time.Second

// getSolveEvents streams the events of a solve as they happen.
//
//	@Summary		Follow a solve
//	@Description	The stream has the states, the phases, and every better plan and bound with its time. It
//	@Description	begins with the first event, and new events follow as they happen. The event done is the last
//	@Description	one and ends the stream. Each item is a server-sent event with an id and the name of its type;
//	@Description	the server sends a comment every 15 s. With Last-Event-ID the stream continues after that
//	@Description	event. With Accept: application/x-ndjson the items are lines. An event: end with a problem
//	@Description	code means that the stream ends before the solve does: connect again.
//	@Tags			solves
//	@ID				getSolveEvents
//	@Param			id				path	string	true	"the solve"
//	@Param			after			query	int		false	"begin after the event of this id"	minimum(0)
//	@Param			Last-Event-ID	header	string	false	"as after, from an EventSource that reconnects"
//	@Produce		text/event-stream,application/x-ndjson,application/problem+json
//	@Success		200	{object}	solveEvent	"an event, or an event a line"
//	@Failure		400	{object}	openapi.Problem		"after or Last-Event-ID is not a number"
//	@Failure		404	{object}	openapi.Problem		"no such solve"
//	@Failure		406	{object}	openapi.Problem		"the server has none of the media types that the client accepts"
//	@Failure		410	{object}	openapi.Problem		"the solve was deleted"
//	@Failure		500	{object}	openapi.Problem		"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem		"draining, or too many streams are open: Retry-After says when to try again"
//	@Router			/v1/solves/{id}/events [get]
func (s *server) getSolveEvents(w http.ResponseWriter, r *http.Request) error {
	kind, err := negotiate(r, kindEvents, kindNDJSON)
	if err != nil {
		return err
	}
	after, err := resumeAfter(r)
	if err != nil {
		return err
	}
	tenant, id := solveOf(r)
	// A refusal must be sent before the status of the stream.
	if _, err := s.cfg.Solves.Get(r.Context(), tenant, id); err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	return follow(s, w, r, kind == kindEvents, feed[solves.Event]{
		of: "solves", buffer: 1, retry: reconnect,
		items: func(ctx context.Context) iter.Seq2[solves.Event, error] {
			return s.cfg.Solves.Events(ctx, tenant, id, after)
		},
		write: func(l *liveWriter, e solves.Event) {
			l.item(e.Seq, e.Type, func(b []byte) []byte { return append(b, solveEventJSON(e)...) })
		},
		last: func(e solves.Event) bool { return e.Type == solves.EventDone },
		code: func(err error) string {
			if p := solveProblem(err); p != nil {
				return p.code
			}
			if p := sessionProblem(err); p != nil {
				return p.code
			}
			s.cfg.Logger.Error("stream broken off", "request_id", requestID(r.Context()), "solve", id, "error", err)
			return "internal"
		},
	})
}

func solveEventJSON(e solves.Event) []byte {
	text, _ := json.Marshal(solveEvent{ // no error: every field can be encoded
		e.Seq, seconds(e.AtUs), e.Type, e.Status, e.Phase, e.Termination, e.QueuePosition, e.Value, e.Bound, e.Error,
	})
	return text
}

// solveEvent is something that happened to a solve.
type solveEvent struct {
	// Seq counts the events of the solve from 1; it is the id of a server-sent event.
	Seq int64 `json:"seq"`
	// AtS is the time since the solve was submitted, in seconds.
	AtS  json.RawMessage `json:"at_s" swaggertype:"number"`
	Type string          `json:"type" enums:"status,phase,incumbent,bound,checkpoint,done"`
	// Status is the new state, in events of the types status and done.
	Status string `json:"status,omitempty" enums:"queued,running,succeeded,cancelled,failed"`
	// Phase is what the solver does: a first schedule, prices for the bound and for the search, the search, the check.
	Phase string `json:"phase,omitempty"`
	// Termination says why the solve stopped, in the event done.
	Termination   string `json:"termination,omitempty" enums:"optimal,gap,work_limit,deadline,cancelled,infeasible,no_schedule"`
	QueuePosition int    `json:"queue_position,omitempty"`
	// Value is the value of the best schedule so far. It is left out before the first schedule.
	Value *hare.Amount `json:"value,omitempty"`
	// Bound is the best bound so far. It is left out before the first bound.
	Bound *hare.Amount `json:"bound,omitempty"`
	// Error says why the solve failed.
	Error string `json:"error,omitempty"`
} //	@name	SolveEvent
