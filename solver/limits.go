package solver

import (
	"runtime"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// limits are what a solve may spend, from the instance's size and the options.
// The clock only guards: without a time limit they alone decide.
type limits struct {
	boundEffort, planEffort float64 // multiply the ascent's iterations
	worth                   float64 // least rise of a step of the ascents, as a share; 0 makes all
	boundShare, planShare   float64 // of the time limit, by when each is over
	reserve                 float64 // share kept for verification and encoding
	beta                    float64 // share of synchronisation charged in the plan
	cells, planCells        int     // of the finest grids
	steps                   int     // of relax.Config
	stepWork                float64 // the same
	lps                     int     // of relax.Config
	moves                   int64
	large                   bool
	unpriced                bool // the work does not pay for any prices
}

// What the last phase takes for a task (giving out GPUs, checking, encoding),
// five times as much where there are millions, which no cache holds, and for a
// job, in seconds. The bound is proved before.
const (
	taskSeconds = 4e-7
	jobSeconds  = 1e-5
)

// secondsForPlan is the time for each job below which only the bound is worth
// its while.
const secondsForPlan = 1.5e-4

// secondsForSteps is the time for each job below which relaxed jobs are not
// bounded round by round.
const secondsForSteps = 5e-3

// stepWork is the work of one evaluation of that for each second of the time
// limit.
const stepWork = 4e7

// stepWorkPerUnit is the same for each unit of a work limit: a third of what a
// placement takes.
const stepWorkPerUnit = 4000

// workPerLP is the work of one linear program: on small instances, where they
// are solved, it takes as long as 1,000 placements.
const workPerLP = 1000

// planBetas are the shares of synchronisation that plans charge as compute,
// one after another where the time allows secondsForAPlan for each job.
var planBetas = [...]float64{0.5, 0.35, 0.65, 0.5}

const secondsForAPlan = 0.035

// Default search effort, in units of work: one job placed once by the search.
// Placing all rounds of a relaxed job takes far longer than trying another
// place for a gang or rigid one.
const (
	relaxedWork = 60_000
	gangWork    = 50_000 // for each job, up to 300 of them
	// workPerCall is the work of one oracle call, 1/16 of a placement.
	workPerCall = 1.0 / 16
	// callsLeast is the number of oracle calls a job of the shortest ascents:
	// three steps on each of two grids, for the bound and for the plan.
	callsLeast = 12
	// callsFull is the number of oracle calls a job of a full ascent.
	callsFull = 290
)

// With a time limit an ascent goes on as long as a hundredth of the time raises
// the bound by worthShare of it; the rest is the search's. A step on the finest
// grid takes stepSeconds for each job, on one core.
const (
	worthShare  = 4e-5
	stepSeconds = 1e-5
	fullSteps   = 250 // of the finest grid, that a whole ascent takes the time of
	timedShare  = 0.3 // of the time, that an ascent is laid out for
	leastEffort = 0.5 // so much it takes at least,
	mostEffort  = 3   // and so much at most
)

func (s *solve) plan() {
	n := float64(max(1, len(s.model.Jobs)))
	tasks := float64(greedy.Entries(s.model))
	relaxed := false
	for i := range s.model.Jobs {
		relaxed = relaxed || s.model.Jobs[i].Sync == hare.Relaxed
	}
	l := limits{boundEffort: 1, planEffort: 0.7, boundShare: 0.35, planShare: 0.55, reserve: 0.04, cells: 96, planCells: 96}
	if relaxed {
		l.beta = 0.5
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
		last := tasks*taskSeconds*(1+4*min(1, tasks/2e6)) + n*jobSeconds + 0.005
		l.reserve = min(0.8, 0.01+last/s.opt.TimeLimit.Seconds())
		if usable := (1 - l.reserve) * s.opt.TimeLimit.Seconds(); usable < n*secondsForPlan {
			l.boundShare, l.planShare = 0.7, 0.7
		}
		cores := s.cfg.Workers
		if cores <= 0 {
			cores = runtime.GOMAXPROCS(0)
		}
		step := n * stepSeconds / float64(cores) / s.opt.TimeLimit.Seconds()
		l.worth = worthShare * 100 * step
		l.cells *= 4 // as far as they are worth it
		l.boundEffort = min(mostEffort, max(leastEffort, timedShare/(fullSteps*step)))
		l.planEffort = l.boundEffort
		l.boundShare *= 1 - l.reserve
		l.planShare *= 1 - l.reserve
	}
	if w := s.cfg.Without; w != (Without{}) {
		if w.Steps {
			l.steps = 0
		}
		if w.FineGrid {
			l.cells = min(l.cells, 96)
		}
		if w.Worth {
			l.worth, l.boundEffort, l.planEffort = 0, 1, 0.7
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
		if l.lps = int(work / workPerLP); l.lps == 0 {
			l.lps = -1
		}
	}
	ascents := callsFull * n * workPerCall * (l.boundEffort + l.planEffort)
	if s.opt.WorkLimit > 0 && work < callsLeast*n*workPerCall {
		l.unpriced, ascents = true, 0
	} else if s.opt.WorkLimit > 0 && ascents > 0.6*work {
		f := 0.6 * work / ascents
		l.boundEffort, l.planEffort = l.boundEffort*f, l.planEffort*f
		ascents = 0.6 * work
		// A few steps on a fine grid do less than its evaluation costs.
		if f < 0.02 {
			l.cells = 24
		} else if f < 0.1 {
			l.cells = min(48, l.cells)
		}
	}
	l.moves = max(1, int64(work-ascents))
	if s.opt.TimeLimit > 0 && s.opt.WorkLimit == 0 {
		l.moves = 1 << 50
	}
	s.limits = l
}
