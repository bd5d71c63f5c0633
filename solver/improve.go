package solver

import (
	"context"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/verify"
)

// firstShare is the share of the time limit after which the first schedule of a large instance is
// given up.
const firstShare = 0.3

// searchStarts is the time that the search on nodes needs until its first plan, in list schedules.
const searchStarts = 4

// firstSchedule makes a schedule at once, so that the solve has a pair whenever it ends.
func (s *solve) firstSchedule(ctx context.Context) error {
	s.event(PhaseAssign, true)
	began := time.Now()
	defer func() { s.res.Timing.Assign += time.Since(began) }()
	if s.opt.TimeLimit == 0 && s.parent.Err() == nil {
		return nil // without a time limit, the order of the relaxation gives a better schedule
	}
	if s.limits.large {
		// One assignment alone may take most of the time. On nodes, prices that had too little time
		// give a worse order than the weights, so that both are tried.
		if s.model.Placed && s.searches() {
			share, cancel := s.context(firstShare)
			if s.limits.unpriced {
				share, s.cut = context.WithoutCancel(ctx), true // there will be no other order
			}
			s.updateIncumbent(greedy.AssignInOrder(share, s.model, nil, "wspt", greedy.Insertion))
			cancel()
			s.clocked, s.listTime = true, time.Since(began)
		}
		return nil
	}
	s.updateIncumbent(greedy.AssignInOrder(context.WithoutCancel(ctx), s.model, nil, "wspt", greedy.Insertion))
	return nil
}

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
		s.incumbent = nil // the caller asked for the schedule of this rule
	}
	assignCtx := ctx
	if s.incumbent == nil {
		assignCtx = context.WithoutCancel(ctx)
	}
	placed := s.incumbent != nil && kind == "wspt" && s.limits.large // firstSchedule has made this plan
	if s.incumbent == nil || ctx.Err() == nil && !placed {
		s.updateIncumbent(greedy.AssignInOrder(assignCtx, s.model, guide, kind, greedy.Rule(s.opt.Assign)))
	}
	if s.searches() {
		s.updateIncumbent(s.start, nil)
	}
	for _, fallback := range []string{"wspt", "arrival"} {
		if s.incumbent == nil {
			s.updateIncumbent(greedy.AssignInOrder(assignCtx, s.model, nil, fallback, greedy.Insertion))
		}
	}
	if s.incumbent == nil && s.stability != nil {
		s.updateIncumbent(s.stability.kept, nil)
	}
	if assignCtx.Err() != nil {
		s.cut = true // a better assignment may not have ended
	}
}

// improve runs the search. With much time it searches from several plans, since a search
// from one plan converges before the time is over.
func (s *solve) improve(ctx context.Context, guide *hare.Relaxation) {
	if !s.searches() || s.gapReached() || s.exhausted || s.cfg.Ablation.Search {
		return
	}
	began := time.Now()
	defer func() { s.res.Timing.Improve += time.Since(began) }()
	left := func() float64 {
		return float64(s.opt.TimeLimit)*(1-s.limits.reserve) - float64(time.Since(s.began))
	}
	if s.limits.large && s.model.Placed && s.opt.TimeLimit > 0 && left() < searchStarts*float64(s.listTime) {
		s.cut = true
		return // the search would end before its first plan
	}
	charge, guide := s.choosePlan(ctx, guide, left)
	plans := 1
	if s.plansPay(guide) {
		each := secondsForExtraPlan * float64(len(s.model.Jobs)) * 1e9
		plans = int(min(float64(len(chargeSteps)), max(1, left()/each)))
	}
	for n := range plans {
		if n > 0 {
			if ctx.Err() != nil || s.gapReached() || s.exhausted {
				break
			}
			if other := s.otherPlan(ctx, charge.plus(chargeSteps[n]), 2*s.limits.planCells, guide,
				left()/float64(4*(plans-n))); other != nil {
				guide = other
			}
		}
		s.search(ctx, guide, s.searchConfig(int64(n)), left()/float64(plans-n))
	}
}

// searchConfig configures the n-th search.
func (s *solve) searchConfig(n int64) greedy.ImproveConfig {
	return greedy.ImproveConfig{Seed: s.opt.Seed + n<<32, Moves: s.limits.moves, Workers: s.limits.workers,
		Chains: s.limits.chains, Without: s.cfg.Ablation.searchParts()}
}

// search improves the incumbent for about span nanoseconds, or until the work is done. It returns that work.
func (s *solve) search(ctx context.Context, guide *hare.Relaxation, cfg greedy.ImproveConfig, span float64) int64 {
	s.event(PhaseImprove, true)
	s.offerCheckpoint(nil)
	began := time.Now()
	cfg.Report = func(v hare.Amount) {
		if v.Cmp(s.value) < 0 {
			s.value = v
		}
		s.event(s.phase, false)
	}
	if s.cfg.Checkpoint != nil {
		cfg.Checkpoint = s.offerCheckpoint
	}
	cfg.StopAt = s.stopAt()
	if s.stability == nil && s.priced != nil {
		cfg.Prove = s.proveBySearch
	}
	if s.opt.TimeLimit > 0 {
		s.clocked = true
		cfg.JobSeconds = span / 1e9 / float64(max(1, len(s.model.Jobs)))
		cfg.Elapsed = func() float64 {
			if s.gapReachedConcurrently() {
				return 1
			}
			return float64(time.Since(began)) / max(1, span)
		}
	}
	plan, stats, err := greedy.Improve(ctx, s.model, guide, s.incumbent, cfg)
	if ctx.Err() != nil {
		s.cut = true
	}
	if err == nil {
		s.value = s.incumbent.Value(s.model) // Between may have found a better plan
		if v := plan.Value(s.model); v.Cmp(s.value) <= 0 {
			s.incumbent, s.value = plan, v
		}
		s.exhausted = s.exhausted || stats.Exhausted
	}
	return stats.Moves
}

// proveBySearch proves by prices of a search that no plan is better than best, and returns what keeps the proof; nil
// without one. It reads only what does not change while the search runs.
func (s *solve) proveBySearch(ctx context.Context, best *greedy.Plan, c *hare.Certificate) (keep func()) {
	value := best.Value(s.model)
	c.InstanceSHA256, c.Bound = s.res.InstanceSHA256, value.Bound6()
	proof, err := verify.Prove(ctx, s.inst, c)
	if err != nil {
		return nil
	}
	rel := &hare.Relaxation{Method: hare.MethodSearch, Certified: true, Bound: value.RoundDown(), Certificate: c,
		Progress: s.priced.Progress, GridUs: s.priced.GridUs, Prices: s.priced.Prices}
	return func() {
		if !s.best.atLeast(rel) {
			s.best = proven{rel, proof}
		}
	}
}
