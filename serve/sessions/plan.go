package sessions

import (
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

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
