package sessions

import (
	"context"
	"errors"
	"fmt"

	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
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
	err = s.look(ctx, func(a *actor) {
		if o, ok := a.policy.(online.Observable); ok {
			status, found = o.Explain(job)
			seen = true
		}
		if found && a.told[job].Next {
			status.State, status.StartedUs = "waiting", -1
			status.Reason = handedOver(s.followed.helper)
			status.Why = status.Reason.Text
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

// PlanReport says how the plans of a session come along.
type PlanReport struct {
	// State is "idle" (the plan is of the last change), "waiting" (for other sessions'
	// plans), "running", "ready" (taken with the next event) or "retrying" (the last plan
	// failed, and another is made soon).
	State  string
	Counts PlanCounts
	// Err is the last failure; nil where a plan was taken since.
	Err error
	// Fallback is the policy that decides because there is no plan or because the plan is
	// too old; "" where the plan is followed, or where the policy does not say.
	Fallback string
}

// NoPlansError says that the policy of a session makes no plans aside.
type NoPlansError struct{ Policy string }

func (e *NoPlansError) Error() string {
	return fmt.Sprintf("the policy %s makes no plans: open a session with the policy rolling", e.Policy)
}

// Plan describes the plan that the session follows, after the events that were submitted
// before. The error is *NoPlansError where the policy makes no plans. The description is
// made of a copy of the policy, so that no event waits for it.
func (s *Session) Plan(ctx context.Context) (*wire.SessionPlan, error) {
	var state []byte
	var seq, atUs int64
	var told map[string]sessiondoc.HelperJob
	err := s.look(ctx, func(a *actor) {
		told = a.told
		if _, ok := a.policy.(online.Planned); ok {
			state, seq, atUs = a.policy.AppendSnapshot(nil), a.links.Last+a.pending(), a.atUs
		}
	})
	switch {
	case err != nil:
		return nil, err
	case state == nil:
		return nil, &NoPlansError{s.cfg.Policy}
	}
	var doc *wire.SessionPlan
	err = recovered(func() error {
		copied, err := s.parent.cfg.Restore(s.cfg.Policy, state)
		if err != nil {
			return err
		}
		status := copied.(online.Planned).Plan()
		doc = status.Document(s.cfg.Policy, seq, atUs)
		for i := range doc.Jobs {
			doc.Jobs[i].Running = doc.Jobs[i].Running && !told[doc.Jobs[i].Job].Next
		}
		return nil
	})
	return doc, err
}

// PlanReport says how the plans of the session come along; nil where its policy makes
// none.
func (s *Session) PlanReport(ctx context.Context) (report *PlanReport, err error) {
	err = s.look(ctx, func(a *actor) {
		if _, ok := a.policy.(online.Planned); !ok {
			return
		}
		report = &PlanReport{State: a.planState(), Counts: a.plans.counts, Err: a.plans.last}
		if p, ok := a.policy.(interface{ Fallback() string }); ok {
			report.Fallback = p.Fallback()
		}
	})
	return report, err
}

func (a *actor) planState() string {
	pl := &a.plans
	switch {
	case pl.job != nil:
		if begun, _ := a.session.parent.planners.state(pl.job); !begun {
			return "waiting"
		}
		return "running"
	case pl.ready != nil:
		return "ready"
	case pl.again != nil:
		return "retrying"
	}
	return "idle"
}
