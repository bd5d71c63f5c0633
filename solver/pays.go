package solver

import (
	"runtime"
	"slices"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/relax/branch"
)

// A solve asks here, before and between its phases, which parts pay at all within its limits.

// concurrencyPays reports whether the search leaves a core to prices of jobs.
func (s *solve) concurrencyPays() bool {
	// The replicas of the stages of up to StagedJobs use all cores.
	return s.opt.TimeLimit > 0 && s.opt.WorkLimit == 0 && s.cores() > 1 && len(s.model.Jobs) > greedy.StagedJobs
}

// cores returns the number of goroutines that may run at a time.
func (s *solve) cores() int {
	if s.cfg.Workers > 0 {
		return s.cfg.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// Branch and bound comes after a first part of the search, whose plan prunes the tree. It proves the optimum of most
// instances of up to ten rigid jobs, and of some of up to treeJobs. Other instances of gang and rigid jobs are bounded
// by prices of each job, before the search or, where the search cannot use all cores, beside the search.
const (
	treeJobs     = 24
	treeWork     = 1 << 13                // the most jobs times GPUs of a tree
	treeShare    = 0.6                    // of the time after the price bound, where there may be a tree
	rootShare    = 0.25                   // of the time after the price bound, for prices of jobs
	provingShare = 0.25                   // the share of the time of a tree for the proof by package verify
	evaluations  = 8_000                  // without a limit
	rootPricings = 120_000                // without a limit: how often a job is priced where there is no tree
	fewer        = 3_000                  // where the gap that was asked for is reached
	branchWork   = 0.25                   // the share of a work limit
	searchSpan   = 100 * time.Millisecond // for each job, until a tree is tried
	longTree     = 10 * time.Second       // a tree that takes longer leaves time to the search
	rootSeconds  = 0.01                   // the time for each job below which the search has all of it
	sideSeconds  = 0.004                  // the same where the prices are found beside the search
	keptSeconds  = 0.005                  // the time for each job that prices of jobs leave to the search
	leastSeconds = 0.001                  // the time for each job in which they gain something
	rootCells    = 96                     // the grid of prices of jobs
	timedCells   = 384                    // the finest one where there is a time limit
	mixtureJobs  = 300                    // the most jobs, some of them relaxed, that get prices beside the search
	setCalls     = 10                     // the oracle calls that stand for the part of a job in a step
)

// grows reports whether a tree may follow the search.
func (s *solve) grows() bool {
	jobs := len(s.model.Jobs)
	return jobs > 1 && jobs <= treeJobs && jobs*len(s.model.GPUs) <= treeWork && branch.New(s.model) != nil
}

// branches reports whether branch and bound, or prices of jobs, follow the search.
func (s *solve) branches() bool {
	if s.opt.Bound != hare.MethodPrice || !s.searches() || s.stability.chargesMoves() || s.limits.unpriced ||
		s.cfg.Ablation.Branch || s.cfg.Ablation.Search {
		return false
	}
	if s.grows() {
		return true
	}
	jobs := len(s.model.Jobs)
	least := rootSeconds
	if s.concurrencyPays() {
		least = sideSeconds
	}
	t := s.opt.TimeLimit.Seconds()
	return (t == 0 || jobs <= treeJobs || t >= least*float64(jobs)) && relax.PricesJobs(s.model) &&
		(!s.relaxes() || s.pricesRelaxed())
}

// relaxes reports whether some job is relaxed.
func (s *solve) relaxes() bool {
	return slices.ContainsFunc(s.model.Jobs, func(j model.Job) bool { return j.Sync == hare.Relaxed })
}

// pricesRelaxed reports whether prices of jobs are found although some job is relaxed: where rounds are wide, the
// clock ends the search, and there are few jobs, or a core that the search does not need.
func (s *solve) pricesRelaxed() bool {
	jobs, t := len(s.model.Jobs), s.opt.TimeLimit.Seconds()
	if t == 0 || s.opt.WorkLimit > 0 || !relax.WideRounds(s.model) {
		return false
	}
	return jobs <= greedy.StagedJobs || jobs <= mixtureJobs && t >= rootSeconds*float64(jobs) && s.concurrencyPays() &&
		greedy.AnnealsMixture(s.model)
}

// climbs reports whether the solve climbs the ladder. The schedules of plain rules are not improved; a search that
// charges for moves has a share of the work of its own; a time limit beside the work limit ends what its time
// allows.
func (s *solve) climbs() bool {
	return s.opt.WorkLimit > 0 && s.opt.TimeLimit == 0 && s.searches() && !s.stability.chargesMoves() &&
		!s.cfg.Ablation.Search
}

// pricesWanted reports whether the bound or the search goes by prices.
func (s *solve) pricesWanted() bool {
	return s.opt.Bound == hare.MethodPrice || s.opt.Order == hare.MethodPrice
}
