package solver

import (
	"context"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// first makes some schedule at once, so that every later end has a pair.
func (s *solve) first(ctx context.Context) error {
	s.event(PhaseAssign, true)
	began := time.Now()
	defer func() { s.res.Timing.Assign += time.Since(began) }()
	if s.opt.TimeLimit == 0 && s.parent.Err() == nil {
		return nil // no hurry: the order of the relaxation gives a better one
	}
	if s.limits.large {
		return nil // one assignment alone may take most of the time
	}
	s.take(greedy.Assign(context.WithoutCancel(ctx), s.model, greedy.Order(s.model, nil, "wspt"), greedy.Insertion))
	return nil
}

// take keeps plan when it beats the incumbent.
func (s *solve) take(plan *greedy.Plan, err error) {
	if err != nil || plan == nil {
		return
	}
	if v := plan.Value(s.model); s.incumbent == nil || v.Cmp(s.value) < 0 {
		s.incumbent, s.value = plan, v
	}
}

// searches says that the schedule is improved after its assignment: the plain
// rules of the papers are left as they are.
func (s *solve) searches() bool { return s.opt.Assign == string(greedy.Insertion) }

func (s *solve) assign(ctx context.Context, guide *hare.Relaxation) {
	s.event(PhaseAssign, true)
	began := time.Now()
	defer func() { s.res.Timing.Assign += time.Since(began) }()
	kind := "relaxation"
	if s.opt.Order == "wspt" || s.opt.Order == "arrival" || guide == nil {
		kind = s.opt.Order
		if kind != "arrival" {
			kind = "wspt"
		}
	}
	if !s.searches() {
		s.incumbent = nil // the caller asked for this rule's own schedule
	}
	assignCtx := ctx
	if s.incumbent == nil {
		assignCtx = context.WithoutCancel(ctx)
	}
	if s.incumbent == nil || ctx.Err() == nil {
		s.take(greedy.Assign(assignCtx, s.model, greedy.Order(s.model, guide, kind), greedy.Rule(s.opt.Assign)))
	}
	if s.searches() {
		s.take(s.start, nil)
	}
	for _, fallback := range []string{"wspt", "arrival"} {
		if s.incumbent == nil {
			s.take(greedy.Assign(assignCtx, s.model, greedy.Order(s.model, nil, fallback), greedy.Insertion))
		}
	}
	if s.incumbent == nil && s.settle != nil {
		s.take(s.settle.keep, nil)
	}
	if assignCtx.Err() != nil {
		s.cut = true // a better assignment may not have ended
	}
}

// improve searches, for a long time from several plans: a search from one
// comes to its end sooner than the time.
func (s *solve) improve(ctx context.Context, guide *hare.Relaxation) {
	if !s.searches() || s.reached() || s.cfg.Without.Search {
		return
	}
	began := time.Now()
	defer func() { s.res.Timing.Improve = time.Since(began) }()
	left := func() float64 {
		return float64(s.opt.TimeLimit)*(1-s.limits.reserve) - float64(time.Since(s.began))
	}
	plans := 1
	if s.opt.TimeLimit > 0 && s.limits.beta > 0 && guide != nil && s.opt.Order == hare.MethodPrice && !s.cfg.Without.Plan {
		each := secondsForAPlan * float64(len(s.model.Jobs)) * 1e9
		plans = int(min(float64(len(planBetas)), max(1, left()/each)))
	}
	for n := range plans {
		if n > 0 {
			if ctx.Err() != nil || s.reached() {
				break
			}
			s.event(PhasePlan, true)
			share, cancel := context.WithTimeout(ctx, time.Duration(left()/float64(4*(plans-n))))
			if other := s.price(share, planBetas[n], s.limits.planEffort, 2*s.limits.planCells, guide); other != nil {
				guide = other
			}
			cancel()
		}
		s.search(ctx, guide, int64(n), left()/float64(plans-n))
	}
}

// search improves the incumbent for about span nanoseconds, or until the work
// is done.
func (s *solve) search(ctx context.Context, guide *hare.Relaxation, n int64, span float64) {
	s.event(PhaseImprove, true)
	s.offer(nil)
	began := time.Now()
	cfg := greedy.ImproveConfig{Seed: s.opt.Seed + n<<32, Moves: s.limits.moves, Workers: s.cfg.Workers}
	cfg.Report = func(v hare.Amount) {
		if v.Cmp(s.value) < 0 {
			s.value = v
		}
		s.event(s.phase, false)
	}
	if s.cfg.Checkpoint != nil {
		cfg.Checkpoint = s.offer
	}
	if s.best.rel != nil && s.best.rel.Bound.Sign() > 0 {
		cfg.StopAt = s.best.rel.Bound.Float() * (1 + s.opt.Gap)
	}
	if s.opt.TimeLimit > 0 {
		s.clocked = true
		cfg.Elapsed = func() float64 { return float64(time.Since(began)) / max(1, span) }
	}
	plan, _, err := greedy.Improve(ctx, s.model, guide, s.incumbent, cfg)
	if ctx.Err() != nil {
		s.cut = true
	}
	if err == nil {
		s.incumbent = plan
		s.value = plan.Value(s.model)
	}
}
