package solver

import (
	"cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// taskSeconds and jobSeconds estimate the time of the last phase for each task and for each
// job. The last phase assigns GPUs, checks the schedule and encodes the result; the bound is
// proved before. With millions of tasks, which no cache holds, a task takes five times as
// long.
const (
	taskSeconds = 4e-7
	jobSeconds  = 1e-5
)

// secondsForPlan is the time for each job below which only the bound is computed, and no
// prices for the plan.
const secondsForPlan = 1.5e-4

// secondsForSteps is the time for each job below which relaxed jobs are not bounded round by
// round.
const secondsForSteps = 5e-3

// proofSeconds and rigidProofSeconds estimate how long one core computes the bound of a job exactly
// and proves it, where nodes matter, for gang and relaxed jobs and for rigid ones. Many jobs take
// seconds, which the ascents leave to the proof.
const (
	proofSeconds      = 1.2e-4
	rigidProofSeconds = 3.5e-5
)

// stepWork limits the work of one evaluation round by round, for each second of the time
// limit.
const stepWork = 4e7

// stepWorkPerUnit limits the work of one evaluation round by round, for each unit of a work
// limit. As much work takes a third of the time of a placement.
const stepWorkPerUnit = 4000

// workPerLP is the work of one linear program: on small instances, where LPs are solved,
// an LP takes as long as 1,000 placements.
const workPerLP = 1000

// These constants are the default search effort in units of work: one job placed once by
// the search. To place all rounds of a relaxed job takes far longer than to try another
// place for a gang or rigid job.
const (
	relaxedWork = 60_000
	gangWork    = 50_000 // for each job, up to 300 jobs
	// workPerCall is the work of one oracle call, 1/16 of a placement.
	workPerCall = 1.0 / 16
	// minCalls is the number of oracle calls for each job in the shortest ascents: three
	// steps on each of two grids, for the bound and for the plan.
	minCalls = 12
	// fullCalls is the number of oracle calls for each job in a full ascent.
	fullCalls = 290
)

// With a time limit, an ascent continues as long as a hundredth of the time raises the
// bound by minGainShare of it; the search gets the rest. A step on the finest grid takes
// stepSeconds for each job on one core.
//
// The plan for the search comes first, with an effort that does not depend on the limit, where that takes no more
// than samePlanShare of it: a search with more time then goes on where one with less has ended. More effort than
// samePlanEffort guides gang and rigid jobs no better, and leaves more limits below that share. What is left of the
// share then raises the bound alone.
const (
	minGainShare = 4e-5
	stepSeconds  = 1e-5
	fullSteps    = 250 // the time of a full ascent, in steps on the finest grid
	timedShare   = 0.3 // the share of the time for which an ascent is planned
	minEffort    = 0.5 // the least factor of its effort
	maxEffort    = 3   // the greatest factor of its effort

	samePlanShare   = 0.2
	samePlanEffort  = 0.7
	samePlanRelaxed = 2    // the most effort where jobs are relaxed
	samePlanJobs    = 140  // the number of jobs for which it would then be 1
	samePlanBound   = 1.3  // the most effort for the bound after it
	samePlanRest    = 0.05 // and the least, since no effort at all means the usual one to relax.Config
)

// lpsFor returns how many linear programs a work pays for, as relax.Config has it: −1 means none.
func lpsFor(work float64) int { return cmp.Or(int(work/workPerLP), -1) }

// setLimits sets the limits from the size of the instance and the options.
func (s *solve) setLimits() {
	n := float64(max(1, len(s.model.Jobs)))
	tasks := float64(greedy.Entries(s.model))
	relaxed := false
	for i := range s.model.Jobs {
		relaxed = relaxed || s.model.Jobs[i].Sync == hare.Relaxed
	}
	l := limits{boundEffort: 1, planEffort: 0.7, boundShare: 0.35, planShare: 0.55, reserve: 0.04, cells: 96,
		planCells: 96, workers: s.cfg.Workers}
	if relaxed {
		l.charge, l.chargeVaries = s.firstCharge()
	}
	l.large = tasks > 500_000 || n > 5000
	if n > 1000 {
		l.boundEffort, l.planEffort = 0.6, 0.4
	}
	if n > 5000 {
		l.boundEffort, l.planEffort, l.cells, l.planCells = 0.4, 0.3, 48, 48
	}
	l.steps = 2
	if t := s.opt.TimeLimit.Seconds(); t > 0 {
		l.stepWork = stepWork * t
		if t < n*secondsForSteps {
			l.steps = 0
		}
	}
	if s.opt.TimeLimit > 0 {
		s.limitTime(&l, tasks, relaxed)
	}
	if w := s.cfg.Ablation; w != (Ablation{}) {
		if w.Steps {
			l.steps = 0
		}
		if w.FineGrid {
			l.cells = min(l.cells, 96)
		}
		if w.MinGain {
			l.minGain, l.boundEffort, l.planEffort = 0, 1, 0.7
		}
	}
	work := float64(s.opt.WorkLimit)
	if work == 0 {
		work = min(300, n) * gangWork
		if relaxed {
			work = relaxedWork + 100*n
		}
	}
	if s.opt.WorkLimit > 0 {
		l.stepWork = stepWorkPerUnit * work
		l.maxLPs = lpsFor(work)
	}
	ascents := fullCalls * n * workPerCall * (l.boundEffort + l.planEffort)
	if l.unpriced || s.opt.WorkLimit > 0 && work < minCalls*n*workPerCall {
		l.unpriced, ascents = true, 0
	} else if s.opt.WorkLimit > 0 && ascents > 0.6*work {
		f := 0.6 * work / ascents
		l.boundEffort, l.planEffort = l.boundEffort*f, l.planEffort*f
		ascents = 0.6 * work
		// A few steps on a fine grid gain less than its evaluation costs.
		if f < 0.02 {
			l.cells = 24
		} else if f < 0.1 {
			l.cells = min(48, l.cells)
		}
	}
	l.evaluations = evaluations
	left := work - ascents
	s.limits = l
	if s.opt.WorkLimit > 0 && s.branches() {
		l.evaluations = int64(max(1, branchWork*left/s.evaluationWork()))
		left *= 1 - branchWork
	}
	if s.opt.TimeLimit > 0 && s.opt.WorkLimit == 0 {
		l.evaluations = 0
	}
	l.moves = max(1, int64(left))
	if s.opt.TimeLimit > 0 && s.opt.WorkLimit == 0 {
		l.moves = 1 << 50
	}
	s.limits = l
}

// limitTime divides a time limit among the ascents, the search and the end of the solve.
func (s *solve) limitTime(l *limits, tasks float64, relaxed bool) {
	n := float64(max(1, len(s.model.Jobs)))
	last := tasks*taskSeconds*(1+4*min(1, tasks/2e6)) + n*jobSeconds + 0.005
	l.reserve = min(0.8, 0.01+last/s.opt.TimeLimit.Seconds())
	if usable := (1 - l.reserve) * s.opt.TimeLimit.Seconds(); usable < n*secondsForPlan {
		l.boundShare, l.planShare = 0.7, 0.7
	}
	cores := s.cores()
	step := n * stepSeconds / float64(cores) / s.opt.TimeLimit.Seconds()
	l.minGain = minGainShare * 100 * step
	l.cells *= 4 // finer grids, as far as they pay
	if relaxed && !l.large {
		l.planCells *= 2 // prices of gang and rigid jobs guide no better on finer grids
	}
	l.boundEffort = min(maxEffort, max(minEffort, timedShare/(fullSteps*step)))
	same, most := samePlanEffort, samePlanShare/(fullSteps*step) // most is the effort that the share allows
	if relaxed {
		same = min(samePlanRelaxed, max(same, samePlanJobs/n))
	}
	if l.samePlan = !l.large && same <= most; l.samePlan {
		l.planEffort, l.planShare, l.boundShare = same, l.boundShare, l.planShare
		l.restEffort = min(samePlanBound, max(samePlanRest, most-same))
	} else {
		l.planEffort = l.boundEffort
	}
	l.boundShare *= 1 - l.reserve
	l.planShare *= 1 - l.reserve
	if l.large && s.model.Placed {
		l.leaveToProof(s.proofWork()/float64(cores)/s.opt.TimeLimit.Seconds(), 3*step)
	}
}

// proofWork estimates the time of one core in which a bound by prices is computed exactly and proved.
func (s *solve) proofWork() float64 {
	seconds := 0.0
	for i := range s.model.Jobs {
		if s.model.Jobs[i].Sync == hare.Rigid {
			seconds += rigidProofSeconds
		} else {
			seconds += proofSeconds
		}
	}
	return seconds
}

// leaveToProof ends the ascents so much earlier that their proofs end in time; both are shares of the
// time limit. There are no prices where less is left than the least time of an ascent.
func (l *limits) leaveToProof(proof, least float64) {
	least += proof / 2
	if l.boundShare-proof < least {
		l.boundShare, l.planShare = max(l.boundShare, 0.7*(1-l.reserve)), 0
	}
	l.boundShare -= proof
	l.planShare = max(l.planShare-proof, l.boundShare)
	l.unpriced = l.boundShare < least
}

// evaluationWork is the work of an evaluation of all jobs, by a tree or by prices of jobs, which takes longer.
func (s *solve) evaluationWork() float64 {
	each := float64(max(1, len(s.model.Jobs))) * workPerCall
	if !s.grows() {
		each *= setCalls
	}
	return each
}
