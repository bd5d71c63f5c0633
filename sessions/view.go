package sessions

import (
	"context"
	"errors"

	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/store"
)

var errNoView = errors.New("sessions: the policy of the session shows nothing of itself")

// Status says how the session stands, of what is durable.
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

// Explain tells about one active job, of what is durable; found is false where
// there is none of that id.
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

// Store is where the logs are.
func (ss *Sessions) Store() store.SessionStore { return ss.cfg.Store }
