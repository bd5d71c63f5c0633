package sessions

import (
	"context"
	"errors"

	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/store"
)

var errNoView = errors.New("sessions: the policy of the session shows nothing of itself")

// Status returns the state of the policy after the durable events.
func (s *Session) Status(ctx context.Context) (status online.Status, err error) {
	seen := false
	err = s.View(ctx, func(p online.Durable) {
		if o, ok := p.(online.Observable); ok {
			status, seen = o.Status(), true
		}
	})
	if err == nil && !seen {
		err = errNoView
	}
	return status, err
}

// Explain returns the state of one active job after the durable events. found is false
// where there is no active job of that ID.
func (s *Session) Explain(ctx context.Context, job string) (status online.JobStatus, found bool, err error) {
	seen := false
	err = s.View(ctx, func(p online.Durable) {
		if o, ok := p.(online.Observable); ok {
			status, found = o.Explain(job)
			seen = true
		}
	})
	if err == nil && !seen {
		err = errNoView
	}
	return status, found, err
}

// WakeDue reports whether the policy wants a tick at a time that the server's clock has passed
// (online.Waker). It is false for sessions whose clock is that of their events, which only the client knows.
func (s *Session) WakeDue(ctx context.Context) (due bool, err error) {
	err = s.look(ctx, func(a *actor) {
		if w, ok := a.policy.(online.Waker); ok && a.session.cfg.Clock == ClockServer {
			due = w.WakeUs() <= a.serverUs()
		}
	})
	return due && err == nil, err
}

// Store returns the store of the logs.
func (ss *Sessions) Store() store.SessionStore { return ss.cfg.Store }
