package solver

import (
	"context"
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// rung is a step of a budget ladder. Under a work limit, a solve climbs one whose rungs are the same under each limit:
// an ascent for the bound and one for the search, and then a search. A rung begins where its ascents fit into the work
// that is left. Each rung goes on from the best prices and the best plan before. A solve with a greater limit
// therefore does all that one with a smaller limit does, so that its value is not higher, and its bound is not lower.
type rung struct {
	effort float64 // of the ascents; see relax.Config
	cells  int
	calls  float64 // of the oracle in both ascents, for each job
	moves  float64 // of the search after them, for each job; 0 means none
}

// ladder are the rungs of prices for the search. The search on the last one has the rest of the work.
var ladder = [...]rung{
	{effort: 0.05, cells: 24, calls: 12},
	{effort: 0.3, cells: 96, calls: 106, moves: 12},
	{effort: 1, cells: 96, calls: 353, moves: math.Inf(1)},
}

const (
	// stepFactor is the share of bounds round by round: where few relaxed jobs are bounded so, these bounds are worth
	// most.
	stepFactor = 3
	planShare  = 0.7 // the effort of the ascent for the search, as a share of that for the bound
	// lateShare is the share of the work after the ladder for bounds on finer grids and with more linear programs,
	// each of which costs lateCalls of the oracle for each job and 96 cells.
	lateShare = 0.1
	lateCalls = 90
	lateRungs = 12
	lateGain  = 1e-4 // the share of the bound that a bound on the finest grid gains if another one is to follow
	// branchShare is the share of branch and bound in the work of the search, and firstEvaluations the first number
	// of its evaluations where the search is over.
	branchShare      = 0.3
	firstEvaluations = 400
	firstSteps       = 50 // of prices of jobs, before the search
)

// climbLadder raises the bound and improves the incumbent within the work limit.
func (s *solve) climbLadder(ctx context.Context, guide *hare.Relaxation) error {
	n := float64(max(1, len(s.model.Jobs)))
	left := float64(s.opt.WorkLimit)
	if !s.pricesWanted() {
		s.lastSearch(ctx, guide, left)
		return s.fault
	}
	spent := 0.0 // by the ladder, whatever the limit
	for x, r := range ladder {
		cost := r.calls * n * workPerCall
		if left < cost || ctx.Err() != nil {
			return s.fault
		}
		left, spent = left-cost, spent+cost
		// An ascent from a guess is worth as many steps from the prices of the rung before.
		from := warmStart(s.model, s.cfg.WarmPrices)
		s.limitRung(r.effort, r.cells, 2*spent)
		s.event(PhaseBound, true)
		guide = s.priceAndPlan(ctx, guide, from)
		if s.fault != nil {
			return s.fault
		}
		s.assign(ctx, guide)
		if math.IsInf(r.moves, 1) {
			break
		}
		if moves := r.moves * n; moves > 0 && !s.gapReached() {
			cfg := s.searchConfig(int64(x) + 1)
			cfg.Moves = int64(min(moves, left))
			left -= float64(s.searchOn(ctx, guide, cfg))
			spent += moves
		}
	}
	late := lateShare * left
	s.lastSearch(ctx, guide, left-late)
	return s.lateBounds(ctx, spent, late)
}

// limitRung sets the limits of one rung, as of a solve with a work limit.
func (s *solve) limitRung(effort float64, cells int, work float64) {
	l := &s.limits
	l.boundEffort, l.planEffort, l.cells, l.planCells = effort, planShare*effort, cells, min(cells, 96)
	l.stepWork = stepFactor * stepWorkPerUnit * work
	l.maxLPs = lpsFor(work)
}

// searchOn improves the incumbent, and returns the work.
func (s *solve) searchOn(ctx context.Context, guide *hare.Relaxation, cfg greedy.ImproveConfig) int64 {
	if cfg.Moves <= 0 || ctx.Err() != nil || s.exhausted {
		return 0
	}
	cfg.Continual = true
	return max(1, s.search(ctx, guide, cfg, 0))
}

// lastSearch spends the rest of the work on the search and, for gang and rigid jobs, on branch and bound or on prices
// of jobs.
func (s *solve) lastSearch(ctx context.Context, guide *hare.Relaxation, left float64) {
	branches := s.branches()
	each := s.evaluationWork()
	if cost := firstSteps * each; branches && !s.grows() && !s.gapReached() && left >= 2*cost {
		left -= cost
		s.branchOrPrice(ctx, firstSteps)
	}
	if !s.gapReached() {
		cfg := s.searchConfig(0)
		cfg.Moves = int64(left)
		taken := 0.0
		if branches {
			cfg.Between = func(best func() *greedy.Plan, stage, rest int64) (int64, float64, bool) {
				evaluations := math.Floor(branchShare / (1 - branchShare) * float64(stage) / each)
				cost := evaluations * each
				if cost > float64(rest) || s.optimal() {
					return 0, 0, false
				}
				s.updateIncumbent(best(), nil)
				s.branchOrPrice(ctx, max(1, int64(evaluations)))
				s.event(PhaseImprove, true)
				taken += cost
				return int64(cost), s.stopAt(), !s.gapReached()
			}
		}
		left -= float64(s.searchOn(ctx, guide, cfg)) + taken
	}
	if !branches || !s.gapReached() {
		return
	}
	for evaluations, all := firstEvaluations, 0; all < fewer && !s.optimal(); evaluations *= 2 {
		if left -= float64(evaluations) * each; left < 0 || ctx.Err() != nil {
			return
		}
		s.branchOrPrice(ctx, int64(evaluations))
		all += evaluations
	}
}

// branchOrPrice raises the bound by a tree or by prices of jobs.
func (s *solve) branchOrPrice(ctx context.Context, evaluations int64) {
	if s.grows() {
		s.branch(ctx, evaluations)
	} else {
		s.limits.evaluations = evaluations
		s.priceJobs(ctx)
	}
}

// lateBounds raises the bound by ascents on finer grids, each with twice the work of the one before for its linear
// programs and its bounds round by round. They come after the search, which does not depend on them: otherwise a
// solve with a greater limit could reach its gap, and end, with a worse plan.
func (s *solve) lateBounds(ctx context.Context, work, left float64) error {
	if s.opt.Bound != hare.MethodPrice || s.inst.Objective == hare.ObjectiveMakespan {
		return s.fault
	}
	s.event(PhaseBound, true)
	for x := range lateRungs {
		if s.optimal() || ctx.Err() != nil {
			break
		}
		work *= 2
		cells := min(384, 96<<x)
		if s.cfg.Ablation.FineGrid {
			cells = 96
		}
		left -= lateCalls * float64(cells) / 96 * float64(len(s.model.Jobs)) * workPerCall
		if left < 0 || work > float64(s.opt.WorkLimit) {
			break
		}
		before := s.best.rel.Bound.Float()
		s.limitRung(1, cells, work)
		s.keepPrices(s.price(ctx, ascent{effort: 1, gain: s.limits.minGain, cells: cells, lps: s.limits.maxLPs,
			from: s.priced}))
		if s.fault != nil || cells == 384 && s.best.rel.Bound.Float() < (1+lateGain)*before {
			break
		}
	}
	return s.fault
}
