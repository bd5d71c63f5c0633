package solver

import (
	"context"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// chargeSteps are added to the charge of the best plan for further plans, one after another if the time
// allows secondsForExtraPlan for each job.
var chargeSteps = [...]float64{0, -0.15, 0.15, 0}

const secondsForExtraPlan = 0.035

// lessCharges are tried one after another, each where the one before has won, and then moreCharges if none of them
// has; each is a step from the first charge.
var (
	lessCharges = []float64{-0.25, -0.45}
	moreCharges = []float64{0.1, 0.2}
)

// A charge is tried if the time allows secondsForTrial for each job. A trial places all jobs a few times
// (trialMoves) by a plan, and is won if the value falls by the share trialGain.
const (
	secondsForTrial = 0.02
	trialMoves      = 12
	trialGain       = 3e-3
)

// plansPay reports whether plans other than that of guide may be worth their time.
func (s *solve) plansPay(guide *hare.Relaxation) bool {
	return s.opt.TimeLimit > 0 && s.limits.charge.sync > 0 && guide != nil && s.opt.Order == hare.MethodPrice &&
		!s.cfg.Ablation.PlanPrices
}

// choosePlan tries plans of other charges while there is time for them, and returns the best one.
func (s *solve) choosePlan(ctx context.Context, guide *hare.Relaxation,
	left func() float64) (planCharge, *hare.Relaxation) {
	first, best := s.limits.charge, s.limits.charge
	least := secondsForTrial * float64(len(s.model.Jobs)) * 1e9
	if !s.plansPay(guide) || !s.limits.chargeVaries || s.limits.large || left() < least {
		return best, guide
	}
	s.tryPlan(ctx, guide)
	for _, charges := range [][]float64{lessCharges, moreCharges} {
		for _, step := range charges {
			if left() < least || ctx.Err() != nil || s.gapReached() {
				return best, guide
			}
			if !s.tryCharge(ctx, first.plus(step), &best, &guide, left()/4) {
				break
			}
		}
		if best != first {
			break // less charge has won
		}
	}
	return best, guide
}

// tryCharge makes a plan of a charge and keeps both if the plan is better than those before.
func (s *solve) tryCharge(ctx context.Context, charge planCharge, best *planCharge, guide **hare.Relaxation,
	span float64) bool {
	other := s.otherPlan(ctx, charge, s.limits.planCells, *guide, span)
	if other == nil || !s.tryPlan(ctx, other) {
		return false
	}
	*best, *guide = charge, other
	return true
}

// otherPlan makes a plan of a charge within span nanoseconds, from another plan.
func (s *solve) otherPlan(ctx context.Context, charge planCharge, cells int, from *hare.Relaxation,
	span float64) *hare.Relaxation {
	s.event(PhasePlan, true)
	share, cancel := context.WithTimeout(ctx, time.Duration(span))
	defer cancel()
	return s.price(share, ascent{charge: charge, effort: s.limits.planEffort, gain: s.limits.minGain, cells: cells,
		lps: s.limits.maxLPs, from: from})
}

// tryPlan improves the incumbent by few placements in the order of guide, and reports whether they gain
// much.
func (s *solve) tryPlan(ctx context.Context, guide *hare.Relaxation) bool {
	before := s.value.Float()
	plan, _, err := greedy.Improve(ctx, s.model, guide, s.incumbent, greedy.ImproveConfig{
		Seed: s.opt.Seed, Moves: trialMoves * int64(len(s.model.Jobs)), Workers: s.cfg.Workers,
		Without: s.cfg.Ablation.searchParts()})
	if err != nil {
		return false
	}
	s.updateIncumbent(plan, nil)
	return s.value.Float() < before*(1-trialGain)
}
