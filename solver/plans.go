package solver

import (
	"context"
	"math"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// planCharge says how a plan for the search charges relaxed jobs for GPU-time that nobody can use: sync is
// the share of synchronisation that is charged as compute, and idle is the share of a job's use that is
// charged in addition. A bound charges nothing.
type planCharge struct{ sync, idle float64 }

// The charges of plans lie on a line: up to 1 the number is the share of synchronisation, and what exceeds 1
// is the share of use. Where all jobs are there at the beginning, zeroCharge is best. Where jobs arrive over
// time, the best charge is often about spreadCharge, since jobs that would be late on the busy cluster must
// be planned as late; but it differs between instances. Where the times are multiples of a long unit, rounds
// end together, fewer GPUs idle between them, and unitCharge is better. Fewer jobs than fewForCharges do not
// keep a cluster busy, and zeroCharge serves them as well. Many relaxed jobs without others fill more of what
// each of them leaves idle: the charge falls by chargeFall for each factor e by which the root of jobs · GPUs
// exceeds chargeSize, down to leastZero for jobs that are there at the beginning and to leastSpread for others.
const (
	zeroCharge    = 0.5
	unitCharge    = 0.8
	spreadCharge  = 1.05
	mixedCharge   = 1.2
	chargeSize    = 180
	chargeFall    = 0.45
	leastZero     = 0.2
	leastSpread   = 0.5
	fewForCharges = 20
	longUnit      = 32 // a unit is long if tasks compute for less than so many units on average
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

func chargeAt(x float64) planCharge { return planCharge{min(1, x), max(0, x-1)} }

// at returns the place of the charge on the line.
func (pc planCharge) at() float64 { return pc.sync + pc.idle }

func (pc planCharge) plus(x float64) planCharge { return chargeAt(max(0.05, pc.at()+x)) }

// firstCharge returns the charge of the first plan of a model with relaxed jobs, and whether others may be better.
func (s *solve) firstCharge() (charge planCharge, varies bool) {
	first, last, others := int64(-1), int64(0), false
	total, modes := int64(0), int64(0)
	for i := range s.model.Jobs {
		j := &s.model.Jobs[i]
		for _, md := range j.Modes {
			total, modes = total+md.ComputeUs/1000, modes+1
		}
		if first < 0 || j.ReleaseUs < first {
			first = j.ReleaseUs
		}
		last = max(last, j.ReleaseUs)
		others = others || j.Sync != hare.Relaxed
	}
	size := math.Sqrt(float64(len(s.model.Jobs)) * float64(len(s.model.GPUs)))
	less := chargeFall * math.Log(max(1, size/chargeSize))
	atOnce := last == first || len(s.model.Jobs) < fewForCharges
	switch {
	case others && atOnce:
		return chargeAt(zeroCharge), false
	case others:
		return chargeAt(mixedCharge), false
	case atOnce:
		return chargeAt(max(leastZero, zeroCharge-less)), false
	case total/max(1, modes) < longUnit*greedy.TimeUnit(s.model)/1000:
		return chargeAt(max(leastSpread, unitCharge-less)), true
	}
	return chargeAt(max(leastSpread, spreadCharge-less)), true
}

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
