package whatif

import (
	"context"
	"errors"
	"math/big"
	"sync"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// boundAll bounds every scenario and answers the scenarios that fail or are pruned.
// The bounds hold one slot of the engine, which boundAll acquires again for each
// scenario.
func (w *whatIf) boundAll(ctx context.Context) error {
	all := make([]known, len(w.req.Scenarios))
	for i := range all {
		k := &all[i]
		work, release, err := w.engine.Acquire(ctx, w.deadline)
		switch {
		case errors.Is(err, admission.ErrLate):
			// Bounds are quick: late bounds without a slot are better than none.
			work, release = ctx, func() {}
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			k.done = true
			if err := w.answer(i, failedLine(err)); err != nil {
				return err
			}
			continue
		}
		k.began = time.Now()
		inst, err := ScenarioInstance(w.req, i)
		if err == nil {
			w.bound(work, i, inst, k)
		}
		k.spent = time.Since(k.began)
		release()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			k.done = true
			l := failedLine(err)
			l.Timing.TotalS = k.spent.Seconds()
			if err := w.answer(i, l); err != nil {
				return err
			}
			continue
		}
		if w.prunes(k) {
			k.done = true
			l := w.line(k)
			l.Pruned = new(bool)
			*l.Pruned = true
			if err := w.answer(i, l); err != nil {
				return err
			}
			continue
		}
		w.left++
	}
	w.known = all
	return nil
}

// prunes reports whether the scenario's value is proved not to fall by more than
// PruneBelow: whether bound ≥ value of the base − PruneBelow.
func (w *whatIf) prunes(k *known) bool {
	below, v := w.req.PruneBelow, w.result.Value
	return below != nil && v != nil && k.bound != nil && k.bound.Cmp(v.Sub(*below)) >= 0
}

// bound finds the best bound of scenario i that needs no solve, and the cost of the
// base's plan in the scenario.
func (w *whatIf) bound(ctx context.Context, i int, inst *hare.Instance, k *known) {
	k.sha = wire.SHA256(inst)
	if ctx.Err() != nil {
		return
	}
	keep := func(from string, b *big.Rat, err error) {
		if err != nil {
			return
		}
		if a, ok := hare.FloorAmount(b); ok && (k.bound == nil || a.Cmp(*k.bound) > 0) {
			k.bound, k.from = &a, from
		}
	}
	for _, method := range []string{hare.MethodCriticalPath, hare.MethodMachine} {
		b, err := verify.Bound(inst, &hare.Certificate{Method: method, Objective: inst.Objective})
		keep(method, b, err)
	}
	if k.bound == nil {
		return // a job can never run; the solve says which job
	}
	if w.prices != nil {
		b, err := w.prices.Bound(inst)
		keep(whatifdoc.BoundBasePrices, b, err)
		// If all weights change by a factor, the best prices change by the same factor.
		if f, ok := w.req.Scenarios[i].ScaleOfAll(); ok {
			b, err := w.prices.Scaled(inst, f)
			keep(whatifdoc.BoundBasePrices, b, err)
		}
	}
	if v, ok := w.costOfBasePlan(inst); ok {
		k.value = &v
	}
	k.base, k.notes = w.relate(inst), unusedGPUs(&w.req.Scenarios[i], inst)
	if k.base.tighter && w.result.Bound != nil {
		if b := w.result.Bound.Add(k.base.slack); b.Cmp(*k.bound) > 0 {
			k.bound, k.from = &b, whatifdoc.BoundBase
		}
	}
}

// line returns the answer that is known without a solve.
func (w *whatIf) line(k *known) *Line {
	l := &Line{Outcome: whatifdoc.Outcome{
		Status: hare.StatusSucceeded, InstanceSHA256: k.sha, Pruned: new(bool),
		Value: k.value, Bound: k.bound, BoundFrom: k.from, Notes: k.notes,
		Timing: whatifdoc.Timing{TotalS: k.spent.Seconds()},
	}}
	if k.value != nil {
		l.Plan = whatifdoc.PlanBase
	}
	w.compare(l, k)
	return l
}

// compare fills in the differences from the base.
func (w *whatIf) compare(l *Line, k *known) {
	b := w.result
	if l.Value != nil && b.Value != nil {
		d := l.Value.Sub(*b.Value)
		l.ValueChange = &d
	}
	l.OptimumChange = k.base.differenceOfOptima(l.Bound, l.Value, b.Bound, b.Value)
}

type quotaKey struct{}

// WithQuota makes a what-if call acquire for each solve that runs beside its first,
// and run no more solves at a time than acquire allows. Without a quota the slots
// of the engine alone limit the solves.
func WithQuota(ctx context.Context, acquire func() (release func(), err error)) context.Context {
	return context.WithValue(ctx, quotaKey{}, acquire)
}

// solveAll solves the scenarios that are not answered yet, in order, as many at a
// time as the engine's slots and the quota allow.
func (w *whatIf) solveAll(ctx context.Context) error {
	w.parallel = max(1, min(w.engine.Slots(), w.left))
	if acquire, ok := ctx.Value(quotaKey{}).(func() (func(), error)); ok {
		for n := 1; n < w.parallel; n++ {
			release, err := acquire()
			if err != nil {
				w.parallel = n
				break
			}
			defer release()
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	todo := make(chan int)
	for range w.parallel {
		wg.Go(func() {
			for i := range todo {
				if err := w.solve(ctx, i); err != nil {
					once.Do(func() { first = err })
					cancel()
				}
			}
		})
	}
	for i := range w.known {
		if !w.known[i].done {
			todo <- i
		}
	}
	close(todo)
	wg.Wait()
	return first
}

// share returns the time limit of the next scenario: an even share of the time that
// is left, given how many scenarios run at a time.
func (w *whatIf) share(own time.Duration) (limit time.Duration, deadline time.Time) {
	if w.deadline.IsZero() {
		return own, time.Time{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	waves := (w.left + w.parallel - 1) / w.parallel
	w.left--
	limit = (time.Until(w.deadline) - answerTime) / time.Duration(max(1, waves))
	if own > 0 {
		limit = min(limit, own)
	}
	return limit, w.deadline
}

// solve solves one scenario and answers it. A failure is the scenario's alone,
// except where the batch has ended.
func (w *whatIf) solve(ctx context.Context, i int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	k := &w.known[i]
	began := time.Now()
	opt := scenarioOptions(w.req, i)
	limit, deadline := w.share(opt.TimeLimit)
	if !deadline.IsZero() && limit < admission.LeastTime {
		l := w.line(k)
		l.Termination = hare.TerminationDeadline
		return w.answer(i, l)
	}
	opt.TimeLimit = limit
	inst, err := ScenarioInstance(w.req, i)
	if err != nil {
		return err // impossible: boundAll made this instance before
	}
	// The comparison of jobs needs the ends of jobs and no lanes.
	opt.Detail = "jobs"
	var warm *hare.Certificate
	if w.prices != nil {
		warm = w.result.Certificate
	}
	res, wait, err := w.engine.Solve(ctx, inst, opt, Start{Warm: warm, Deadline: deadline, WaitWhenFull: true})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var l *Line
	switch {
	case errors.Is(err, admission.ErrLate):
		l = w.line(k)
		l.Termination = hare.TerminationDeadline
	case errors.Is(err, admission.ErrDraining), errors.Is(err, context.Canceled):
		l = w.line(k)
		l.Termination = hare.TerminationCancelled
	case err != nil:
		l = failedLine(err)
		l.InstanceSHA256 = k.sha
	default:
		l = w.solved(inst, k, res)
	}
	l.Timing = whatifdoc.Timing{TotalS: (k.spent + time.Since(began)).Seconds(), WaitS: wait.Seconds()}
	return w.answer(i, l)
}

// solved returns the answer after a solve: the better plan and the better bound of
// the solve and of what was known before.
func (w *whatIf) solved(inst *hare.Instance, k *known, res *hare.Result) *Line {
	l := w.line(k)
	l.Termination, l.Reasons, l.Reproducible = res.Termination, reasonLines(res.Reasons), &res.Reproducible
	if res.Value != nil && (l.Value == nil || res.Value.Cmp(*l.Value) < 0) {
		l.Value, l.Plan = res.Value, whatifdoc.PlanSearch
	}
	if res.Bound != nil && (l.Bound == nil || res.Bound.Cmp(*l.Bound) >= 0) {
		l.Bound, l.BoundFrom = res.Bound, res.Certificate.Method
	}
	if l.Value != nil && l.Bound != nil && l.Value.Cmp(*l.Bound) == 0 {
		l.Termination = hare.TerminationOptimal
	}
	if l.Plan == whatifdoc.PlanSearch {
		l.Jobs = w.changes(inst, res.Jobs)
	} else if l.Plan == whatifdoc.PlanBase {
		l.Jobs = w.changes(inst, w.result.Jobs)
	}
	w.compare(l, k)
	if l.Termination == hare.TerminationInfeasible {
		l.OptimumChange = make([]*hare.Amount, 2) // there is no optimum
	}
	return l
}
