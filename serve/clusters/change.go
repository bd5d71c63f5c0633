package clusters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/sessions"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Change changes a job that has not ended, and remembers who asked for it. The error is hare.InvalidErrors where the
// change is not sound, *ledger.Conflict where the job has ended, or runs and cannot be held.
func (c *Cluster) Change(ctx context.Context, id string, change *clusterdoc.JobPatch, by string) (job *clusterdoc.Job,
	err error) {
	if err := ledger.CheckChange(change); err != nil {
		return nil, err
	}
	err = c.do(ctx, &request{
		prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
			if l.Job(id, false) == nil {
				return nil, ErrNoJob
			}
			if needed, err := l.Changes(id, change); err != nil || !needed {
				return nil, err
			}
			// A release alone goes on where the room is used up.
			if change.Hold == nil || *change.Hold || change.Weight != nil || len(change.Labels) > 0 {
				if err := c.parent.cfg.Quotas.Room(c.cfg.Tenant); err != nil {
					return nil, err
				}
			}
			return &ledger.Record{Change: &ledger.Change{Job: id, By: by, JobPatch: *change}}, nil
		},
		after: func(l *ledger.Ledger) { job = l.Job(id, true) },
	})
	return job, err
}

// maxUnsettled is how long a preview waits until the session has answered all events.
const maxUnsettled = 2 * time.Second

var errUnsettled = &ledger.Conflict{Code: "unsettled",
	Detail: "the scheduler is being told of what has happened: ask again"}

// settled looks at the ledger when the session has answered all events, and otherwise after maxUnsettled gives
// errUnsettled.
func (c *Cluster) settled(ctx context.Context, look func(*ledger.Ledger) error) error {
	for start := time.Now(); ; {
		err := c.do(ctx, &request{prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
			if err := look(l); err != nil || len(l.Events()) == 0 {
				return nil, err
			}
			return nil, errUnsettled
		}})
		if !errors.Is(err, errUnsettled) || time.Since(start) > maxUnsettled {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// pause is the time between two looks at a session that has not answered yet.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5 * time.Millisecond):
		return nil
	}
}

// PreviewChange says what is expected of a job and of the others with a change and without it. Nothing is recorded.
// The errors are those of Change, and *sessions.NoPlansError where the cluster's policy makes no plans.
func (c *Cluster) PreviewChange(ctx context.Context, id string, change *clusterdoc.JobPatch) (
	*clusterdoc.ChangePreview, error) {
	if err := ledger.CheckChange(change); err != nil {
		return nil, err
	}
	var job *clusterdoc.Job
	var p *sessions.Preview
	for start := time.Now(); p == nil; {
		var events []hare.Event
		err := c.settled(ctx, func(l *ledger.Ledger) error {
			if job = l.Job(id, false); job == nil {
				return ErrNoJob
			}
			if _, err := l.Changes(id, change); err != nil {
				return err
			}
			if events = l.ForeseeChange(id, change); len(events) == 0 {
				events = []hare.Event{{Type: hare.EventTick}}
			}
			l.Explain(job, true)
			return nil
		})
		if err != nil {
			return nil, err
		}
		p, err = c.session.Foresee(ctx, id, events...)
		var bad *hare.InvalidError
		switch {
		case errors.As(err, &bad) && time.Since(start) > maxUnsettled:
			return nil, &ledger.Conflict{Code: "unsettled", Detail: fmt.Sprintf("the scheduler refuses the change as the "+
				"cluster is now (%s): ask again", bad.Detail)}
		case bad != nil: // the session has gone on meanwhile
			err = pause(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	held := job.Hold && (change.Hold == nil || *change.Hold) || change.Hold != nil && *change.Hold
	d := &clusterdoc.ChangePreview{Before: expected(p.Before, p.NowUs, id, p.ReasonBefore),
		After: expected(p.Rows, p.NowUs, id, p.Reason), Assumes: assumes}
	for _, x := range []*clusterdoc.Expected{&d.Before, &d.After} {
		notAbove(&x.EarliestEndInS, &job.NewJob, 0)
	}
	if job.ReasonCode != "" { // the session does not know why
		for _, x := range []*clusterdoc.Expected{&d.Before, &d.After} {
			if x == &d.Before || !job.Hold {
				x.Reason, x.ReasonShort, x.ReasonCode = job.Reason, job.ReasonShort, job.ReasonCode
			}
		}
	}
	if held {
		d.After = clusterdoc.Expected{Reason: "is held", ReasonShort: ledger.HeldShort, ReasonCode: "held"}
	}
	d.Delays, d.Delayed = delays(p.Before, p.Rows, id)
	d.Advances, d.Advanced = delays(p.Rows, p.Before, id)
	return d, c.names(ctx, append(d.Delays, d.Advances...)...)
}
