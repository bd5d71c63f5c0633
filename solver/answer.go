package solver

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// gapReached reports whether the requested gap is met.
func (s *solve) gapReached() bool {
	gap, ok := gapOf(s.value, s.best.rel)
	target := new(big.Rat)
	target.SetFloat64(s.opt.Gap)
	return ok && gap.Cmp(target) <= 0
}

func gapOf(value hare.Amount, bound *hare.Relaxation) (*big.Rat, bool) {
	if bound == nil {
		return nil, false
	}
	b := bound.Bound.RoundDown()
	if value.Cmp(b) == 0 {
		return new(big.Rat), true
	}
	if b.Sign() <= 0 {
		return nil, false
	}
	gap := new(big.Rat).SetFrac(value.Big(), b.Big())
	return gap.Sub(gap, big.NewRat(1, 1)), true
}

// finish verifies the pair and records why the solve stopped.
func (s *solve) finish() (*hare.Result, error) {
	s.event(PhaseVerify, true)
	began := time.Now()
	r := s.res
	if s.cancelled() {
		s.adoptShownBound()
	}
	if r.Bound = s.best.amount(); r.Bound != nil {
		r.Certificate = s.best.rel.Certificate
	}
	if s.incumbent != nil {
		sched := s.made
		if sched == nil {
			var err error
			if sched, err = s.incumbent.Schedule(s.model); err != nil {
				return nil, fmt.Errorf("solver: %w", err)
			}
		}
		v := s.incumbent.Value(s.model)
		s.value = v
		r.Schedule, r.Value = sched, &v
		if constant, ok := greedy.Constant(s.model); ok {
			r.Constant = &constant
		}
		if s.opt.Detail == "tasks" {
			r.TaskList = sched.Tasks(s.inst, hare.MaxTaskObjects)
		}
		s.describe()
		r.GapReport = s.report()
		s.terminate()
		// A plan for the rest of another plan is checked when its replan object is complete.
		if s.stability == nil {
			if rep := s.best.proof.Check(s.inst, r); !rep.OK {
				return nil, fmt.Errorf("solver: %w: %s", ErrUnverified, rep)
			}
		}
	}
	r.Timing.Verify = time.Since(began)
	r.Reproducible = !s.cut && !s.clocked && (s.cfg.Restarts == nil || s.cfg.Restarts() == s.restarts)
	r.Estimated = s.inst.Uncertain()
	r.OptimalBySearch = s.exhausted && s.stability == nil && r.Termination != hare.TerminationOptimal
	r.Timing.Total = time.Since(s.began)
	return r, nil
}

func (s *solve) terminate() {
	r := s.res
	gap, ok := gapOf(s.value, s.best.rel)
	target := new(big.Rat)
	target.SetFloat64(s.opt.Gap)
	switch {
	case ok && gap.Sign() == 0:
		r.Termination = hare.TerminationOptimal
	case ok && gap.Cmp(target) <= 0:
		r.Termination = hare.TerminationGap
	case s.cancelled():
		r.Termination, s.cut = hare.TerminationCancelled, true
	case s.cut:
		r.Termination = hare.TerminationDeadline
	case s.method != nil:
		r.Termination = hare.TerminationMethod
	default:
		r.Termination = hare.TerminationWorkLimit
	}
}

// event reports the state; if now is true, it reports however recent the last report is.
func (s *solve) event(phase string, now bool) {
	s.phase = phase
	if phase != PhaseImprove && phase != PhaseVerify {
		s.offerCheckpoint(nil) // the search offers its own plans
	}
	if s.cfg.Progress == nil {
		return
	}
	t := time.Now()
	if !now && t.Sub(s.lastEvent) < 50*time.Millisecond {
		return
	}
	s.lastEvent = t
	e := Event{Phase: phase, Elapsed: t.Sub(s.began), Left: -1}
	if s.opt.TimeLimit > 0 {
		e.Left = max(0, s.opt.TimeLimit-e.Elapsed)
	}
	if s.incumbent != nil {
		v := s.value
		e.Value = &v
	}
	if phase == PhaseBranch {
		e.Nodes = s.treeNodes
	}
	s.takeShown()
	e.Bound = s.best.amount()
	if !s.best.atLeast(s.shown.rel) {
		e.Bound = s.shown.amount()
	}
	s.cfg.Progress(e)
}

// offerCheckpoint lets the caller take the best pair so far: that of plan, or of the
// incumbent if plan is nil or returns nil. A schedule without a bound is no pair, so there
// is no checkpoint before the first bound. The plain rules offer no checkpoint, since only
// their own schedule is the answer.
func (s *solve) offerCheckpoint(plan func() *greedy.Plan) {
	if s.cfg.Checkpoint == nil || !s.searches() || s.incumbent == nil && plan == nil || s.best.rel == nil {
		return
	}
	if s.stability.chargesMoves() {
		// If moves have a price, the answer has the least sum of value and price of moves. A
		// plan that the search has found so far may be of less value than the answer. The kept
		// plan is not, so only the kept plan is offered.
		if s.stability.kept == nil {
			return
		}
		plan = func() *greedy.Plan { return s.stability.kept }
	}
	s.takeShown()
	s.cfg.Checkpoint(func() (*hare.Result, error) {
		// The copy is finished as the solve would be.
		c, res := *s, *s.res
		c.res, c.cfg.Progress, c.cfg.Checkpoint = &res, nil, nil
		if c.opt.Detail == "tasks" {
			c.opt.Detail = "lanes" // the list is made from the schedule
		}
		c.adoptShownBound()
		if plan != nil {
			if p := plan(); p != nil && (c.incumbent == nil || s.stability.chargesMoves() ||
				p.Value(c.model).Cmp(c.incumbent.Value(c.model)) < 0) {
				c.incumbent = p
			}
		}
		r, err := c.finish()
		if err == nil {
			r.Reproducible = false // the clock decides where the checkpoint is taken
			if s.stability != nil {
				r.Replan = s.stability.fillReplan(&c)
			}
		}
		return r, err
	})
}

// updateIncumbent keeps plan if it is better than the incumbent.
func (s *solve) updateIncumbent(plan *greedy.Plan, err error) {
	if err != nil || plan == nil {
		return
	}
	if v := plan.Value(s.model); s.incumbent == nil || v.Cmp(s.value) < 0 {
		s.incumbent, s.value = plan, v
	}
}

// takeShown takes over the bound on the way that was found beside the search.
func (s *solve) takeShown() {
	if s.concurrent == nil {
		return
	}
	if p := s.concurrent.shown.Load(); p != nil && !s.shown.atLeast(p.rel) {
		s.shown = *p
	}
}

// gapMargin is a share of the value: a bound in floating point may be above the exact one by so much.
const gapMargin = 1e-5

// gapReachedConcurrently reports whether the bound that is found beside the search reaches the gap that was asked for.
func (s *solve) gapReachedConcurrently() bool {
	if s.concurrent == nil {
		return false
	}
	bound := math.Float64frombits(s.concurrent.bound.Load())
	return bound > 0 && s.value.Float() <= bound*(1+s.opt.Gap-gapMargin)
}

// fillReplan reports what the plan of s moves, and composes the plan with what has run.
// s must be finished.
func (ss *stabilitySearch) fillReplan(s *solve) *hare.Replan {
	report, m, p := *ss.remainder.report, s.model, s.incumbent
	rep := &report
	for i := range ss.remainder.jobs {
		j := &ss.remainder.jobs[i]
		if j.added || m.Jobs[i].Rounds == 0 {
			continue
		}
		id := ss.remainder.inst.Jobs[i].ID
		moved, all := movedTime(j.planned, taskRuns(m, i, p.Jobs[i], p.ShapesOf(i)))
		rep.PlannedGPU = rep.PlannedGPU.Add(all)
		rep.MovedGPU = rep.MovedGPU.Add(moved)
		if j.why != "" {
			rep.ForcedGPU = rep.ForcedGPU.Add(moved)
		}
		if moved.Sign() == 0 && j.why != hare.MovedLost {
			rep.Kept = append(rep.Kept, id)
			continue
		}
		to := hare.JobPlace{StartUs: s.res.Jobs[i].StartUs + ss.remainder.at, EndUs: p.EndUs[i] + ss.remainder.at}
		for _, b := range p.Jobs[i] {
			to.Types = append(to.Types, m.Types[m.Classes[b.Class].Type])
		}
		slices.Sort(to.Types)
		to.Types = slices.Compact(to.Types)
		why := j.why
		switch {
		case why != "":
		case to.EndUs < j.from.EndUs:
			why = hare.MovedEarlier
		default:
			why = hare.MovedMadeWay
		}
		rep.Moved = append(rep.Moved, hare.MovedJob{ID: id, From: j.from, To: to, GPU: moved, Why: why})
	}
	whole, err := ss.remainder.compose(ss.whole, s.res.Schedule)
	if rep.Whole = whole; err != nil {
		rep.WholeMissing = err.Error()
	}
	return rep
}

// optimal reports whether the bound is the value.
func (s *solve) optimal() bool {
	gap, ok := gapOf(s.value, s.best.rel)
	return ok && gap.Sign() == 0
}

// timeLeft returns the time until the reserve begins.
func (s *solve) timeLeft() time.Duration {
	return time.Duration(float64(s.opt.TimeLimit)*(1-s.limits.reserve)) - time.Since(s.began)
}

// stopAt is the value at which the search has reached the gap, or 0.
func (s *solve) stopAt() float64 {
	if s.best.rel == nil || s.best.rel.Bound.Sign() <= 0 {
		return 0
	}
	return s.best.rel.Bound.Float() * (1 + s.opt.Gap)
}
