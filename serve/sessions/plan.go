package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/wire"
)

// planning is the part of an actor that gets plans for a policy that follows them. At most
// one of job, ready and taken is set: a question is asked once the plan before it is in
// the log.
type planning struct {
	job     *planJob  // the question that is being answered
	ready   []byte    // the plan that the policy takes before the next event
	askedAt time.Time // when the question of ready was asked
	taken   []byte    // the policy has taken the plan, and no event is recorded with it yet
	// hung is an abandoned question. Nothing is asked while its planner runs.
	hung *planJob
	// again is when a question may be asked after failures in a row; nil: at once.
	again    <-chan time.Time
	failures int
	counts   PlanCounts
	last     error // the last failure; nil after a plan was taken
	logged   map[PlanOutcome]bool
}

// PlanCounts counts plans since the session was brought into memory.
type PlanCounts struct {
	Made, Taken, Refused, Failed, Late, Panicked int64
}

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
	err := s.look(ctx, func(a *actor) {
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

// ask asks the policy for a question, where the last one is settled.
func (a *actor) ask() {
	pl := &a.plans
	if pl.job != nil || pl.ready != nil || pl.taken != nil || pl.again != nil || a.policy == nil {
		return
	}
	p, ok := a.policy.(online.Planned)
	if !ok {
		return
	}
	ps := a.session.parent.planners
	if pl.hung != nil {
		if _, runs := ps.state(pl.hung); runs {
			a.retryLater()
			return
		}
		pl.hung = nil
	}
	var question online.PlanQuestion
	if err := recovered(func() error { question = p.Ask(); return nil }); err != nil {
		a.planFailed(PlanPanicked, err)
		return
	}
	if question != nil {
		pl.job = ps.ask(question)
	}
}

// answered returns the channel of the answer to the question in flight; nil where there is
// none.
func (a *actor) answered() <-chan plannedAnswer {
	if a.plans.job == nil {
		return nil
	}
	return a.plans.job.done
}

// receive keeps a plan for the next event.
func (a *actor) receive(ans plannedAnswer) {
	pl := &a.plans
	j := pl.job
	pl.job = nil
	if ans.outcome != PlanMade {
		if ans.outcome == PlanLate {
			pl.hung = j
		}
		a.planFailed(ans.outcome, ans.err)
		return
	}
	pl.counts.Made++
	pl.ready, pl.askedAt = ans.plan, j.askedAt
}

// planFailed counts and logs a failure, the first of each kind, and lets the next question
// wait, twice as long after each failure in a row.
func (a *actor) planFailed(kind PlanOutcome, err error) {
	pl := &a.plans
	pl.last = fmt.Errorf("%s: %w", kind, err)
	switch kind {
	case PlanFailed:
		pl.counts.Failed++
	case PlanLate:
		pl.counts.Late++
	case PlanPanicked:
		pl.counts.Panicked++
	case PlanRefused:
		pl.counts.Refused++
	}
	a.retryLater()
	if pl.logged[kind] {
		return
	}
	if pl.logged == nil {
		pl.logged = map[PlanOutcome]bool{}
	}
	pl.logged[kind] = true
	line := []any{"session", a.session.id, "outcome", kind, "error", err}
	var panicked *panicError
	if errors.As(err, &panicked) {
		line = append(line, "stack", string(panicked.stack))
	}
	a.session.parent.cfg.Logger.Error("a plan of a session failed: the session goes on without the plan, and tries "+
		"again", line...)
}

// longestRetry is the longest time between two tries for a plan.
const longestRetry = 5 * time.Minute

func (a *actor) retryLater() {
	pl := &a.plans
	wait := longestRetry
	if pl.failures < 16 {
		wait = min(wait, a.session.parent.cfg.PlanRetry<<pl.failures)
	}
	pl.failures++
	pl.again = time.After(wait)
}

// takePlan lets the policy take the plan that is ready, if any, and reports whether the
// policy's state is sound. Otherwise the policy must be loaded again.
func (a *actor) takePlan() (sound bool) {
	pl := &a.plans
	if pl.ready == nil {
		return true
	}
	plan := pl.ready
	pl.ready = nil
	age, hooks := time.Since(pl.askedAt), a.session.parent.currentHooks()
	err := recovered(func() error { return a.policy.(online.Planned).Take(plan) })
	switch {
	case err == nil:
		pl.taken = plan
		pl.counts.Taken++
		pl.failures, pl.last = 0, nil
		hooks.given(PlanTaken, age)
		return true
	case errors.As(err, new(*panicError)):
		hooks.given(PlanPanicked, age)
		a.planFailed(PlanPanicked, err)
	default:
		hooks.given(PlanRefused, age)
		a.planFailed(PlanRefused, err)
	}
	// Only a refusal leaves the policy as it was.
	return errors.As(err, new(*hare.InvalidError))
}

// stepAfterPlan lets the policy apply the event in a.step. Where the policy panics with a
// plan that no event is recorded with yet, the plan is the reason: sound is false, and the
// policy must be loaded again, without the plan.
func (a *actor) stepAfterPlan(nowUs int64) (ds []hare.Decision, sound bool, err error) {
	if a.plans.taken == nil {
		ds, err = a.policy.Step(nowUs, a.step[:])
		return ds, true, err
	}
	err = recovered(func() (err error) { ds, err = a.policy.Step(nowUs, a.step[:]); return err })
	if errors.As(err, new(*panicError)) {
		a.session.parent.currentHooks().given(PlanPanicked, time.Since(a.plans.askedAt))
		a.planFailed(PlanPanicked, err)
		return nil, false, nil
	}
	return ds, true, err
}

// dropPlans forgets the question in flight, and the plans that are not in the log, because
// the state that they are about is gone. They are asked for again.
func (a *actor) dropPlans() {
	pl := &a.plans
	if pl.job != nil {
		a.session.parent.planners.drop(pl.job)
	}
	if pl.ready != nil {
		a.session.parent.currentHooks().given(PlanDropped, time.Since(pl.askedAt))
	}
	pl.job, pl.ready, pl.taken = nil, nil, nil
}
