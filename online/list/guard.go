package list

import (
	"math"

	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/placement"
)

// guard keeps jobs from starving. A turn is the time in which all GPUs in service together
// could run a round of each job that is there. A job that waits through a turn misses a
// round, but no more rounds than it could run in the time of its wait. Once a job has
// missed more than κ × (the rounds that it has had + guardPatience) rounds it is due: it gets
// a ticket and GPUs of its own, in the order of tickets, and nobody else starts on these
// GPUs until the job has started. docs/inside/online.md#the-guard-of-rolling-and-hgittins proves what follows.
//
// Every method does nothing where the rule has no guard.
type guard struct {
	turns   int64 // the clock of turns, in billionths, at sinceUs
	sinceUs int64
	work    int64 // of a round of each job that is there, in GPU-microseconds
	tickets int64 // the last ticket

	fresh []*JobState // jobs that have begun to wait since the last event
	// byTurn and byTime hold jobs that wait until either clock says that they are due. Entries
	// of waits that have ended are dropped when they come up or are the most.
	byTurn, byTime dueHeap
	due            []*JobState // by ticket
	reservedBy     map[int]*JobState
	hidden         []int          // reserved GPUs that are not in free during a schedule
	held           []heldForGuard // the same of CPUs and memory
	quotas         []heldQuota    // the same of quotas
	back           int            // jobs with guarded.back
	// settled says that since the quotas of all jobs were looked at nothing has happened but that jobs arrived, so
	// that those in arrived alone are to be looked at: a long queue arrives at once.
	settled bool
	arrived []*JobState

	slowdown slowdownLimit
}

// guarded is what the guard knows of a job.
type guarded struct {
	work    int64 // of a round, counted in guard.work
	roundUs int64 // the time of a round; for rigid jobs of all rounds that they were believed to have
	missed  int64 // rounds missed in waits that have ended, in billionths
	turns   int64 // the clock when the wait began, or when the job came back
	sinceUs int64 // the time then
	back    bool  // whether quotas hold the job back
	wait    int64 // counts waits, so that entries of earlier ones can be told
	ticket  int64 // 0 while the job is not due
	chosen  bool  // whether the types are chosen
	onType  int   // the type that is reserved; −1 means all types that the job may use
	gpus    []int // the GPUs that are reserved, ascending

	clusterUs int64 // how long the whole cluster would take for a round
	fifoUs    int64 // how long the job would wait under first come, first served
	aged      int64 // the weight in the order of hgittins, as of the last look; 0 before the first
	lookUs    int64 // from when on it is looked at whether the job is late
}

// slowdownLimit keeps the slowdown of jobs below a multiple of the 99th percentile that first
// come, first served would have. No order of jobs on GPUs that are alike changes how much work
// is there when a job arrives, if GPUs are idle under neither. So that work, by the rounds that the
// jobs are believed to have left and at the speed of the whole cluster, is about how long the job
// would wait under first come, first served; once it has ended, its slowdown there is known.
type slowdownLimit struct {
	ended sortedWindow // slowdowns under first come, first served, in millionths
	// backlogUs is how long the work that is there takes, by the jobs at the time of the last
	// count and those that have arrived since. Many changes since then make it be counted again.
	backlogUs int64
	changes   int64

	inServiceUs int64 // the GPU time in service until guard.sinceUs
	spentUs     int64 // the GPU time of the rounds for which late jobs got tickets
	late        dueHeap
}

// heldForGuard are the CPUs and the memory that are taken from the others for a task, beside
// its GPUs.
type heldForGuard struct {
	gpu   int
	shape placement.Shape
}

// heldQuota is what is held of quotas for a job that is due.
type heldQuota struct {
	shape   placement.Shape
	gpuType int
	tasks   int64
}

// dueRound is an entry of a dueHeap.
type dueRound struct {
	at, wait int64
	job      *JobState
}

// dueHeap is a binary heap by at, then by arrival. It does not use container/heap, which
// allocates memory for every entry, because each wait of a job is an entry.
type dueHeap []dueRound

func (dr *dueRound) before(o *dueRound) bool {
	return dr.at < o.at || dr.at == o.at && dr.job.serial < o.job.serial
}

func (dh *dueHeap) push(x dueRound) {
	h := append(*dh, x)
	*dh = h
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (dh *dueHeap) pop() dueRound {
	h := *dh
	x, last := h[0], len(h)-1
	h[0] = h[last]
	h[last] = dueRound{}
	h = h[:last]
	*dh = h
	for i := 0; ; {
		next := 2*i + 1
		if next >= last {
			return x
		}
		if next+1 < last && h[next+1].before(&h[next]) {
			next++
		}
		if !h[next].before(&h[i]) {
			return x
		}
		h[i], h[next] = h[next], h[i]
		i = next
	}
}

// GuardConfig tunes the guard against starvation of rolling and hgittins. The zero value
// is good.
type GuardConfig struct {
	// Off leaves the guard out.
	Off bool
	// Kappa is κ: how many rounds a job may miss, against round robin, for each round that it
	// has had, and before its first. Zero means 8; the least is 0.1 and the
	// largest a million, with which the guard hardly ever acts.
	Kappa float64
	// FIFOSlowdown limits slowdowns to about this multiple of the 99th percentile that first
	// come, first served would have. Zero means 1 where all GPUs are of one type, and no limit
	// elsewhere; below zero there is no limit.
	FIFOSlowdown float64
}

// leastFIFOSlowdown and largestFIFOSlowdown are the limits of GuardConfig.FIFOSlowdown, and
// defaultFIFOSlowdown is what it is on GPUs of one type.
const (
	defaultFIFOSlowdown = 1
	leastFIFOSlowdown   = 0.1
	largestFIFOSlowdown = 1e6
)

// defaultKappa is GuardConfig.Kappa where it is zero; leastKappa and largestKappa are its
// limits.
const (
	DefaultKappa = 8
	leastKappa   = 0.1
	largestKappa = 1e6
)

// Rule is what list schedulers need of the configuration. Under the limit of slowdowns, the order
// goes by weights that age, and jobs that are late get tickets, where tickets says so.
func (cfg GuardConfig) Rule(belief *SizeBelief, tickets bool) GuardRule {
	if cfg.Off {
		return GuardRule{}
	}
	if !(cfg.Kappa > 0) {
		cfg.Kappa = DefaultKappa
	}
	oneType := cfg.FIFOSlowdown == 0
	if oneType {
		cfg.FIFOSlowdown = defaultFIFOSlowdown
	}
	return GuardRule{
		kappa:   int64(math.Round(min(max(cfg.Kappa, leastKappa), largestKappa) * 1e6)),
		size:    belief.RoundsLeft,
		factor:  int64(math.Round(min(max(cfg.FIFOSlowdown, 0), largestFIFOSlowdown) * 1e6)),
		oneType: oneType, belief: belief, tickets: tickets,
	}
}

// GuardRule is a guard as Rule has it; the zero value means none.
type GuardRule struct {
	kappa int64                 // in millionths
	size  func(*JobState) int64 // the rounds that a rigid job is believed to have

	factor  int64 // GuardConfig.FIFOSlowdown, in millionths; 0 means no limit
	oneType bool  // whether the limit is for GPUs of one type alone
	belief  *SizeBelief
	tickets bool // whether late jobs get tickets
}

// GuardForm are the parameters of the guard in sessions.
type GuardForm struct {
	Guard        *bool    `json:"guard"`
	Kappa        *float64 `json:"kappa"`
	FIFOSlowdown *float64 `json:"fifo_slowdown"`
}

// Config checks the parameters of a policy.
func (gf *GuardForm) Config(policy string) (GuardConfig, error) {
	cfg := GuardConfig{Off: gf.Guard != nil && !*gf.Guard}
	for _, x := range []struct {
		name           string
		value          *float64
		least, largest float64
		to             *float64
	}{
		{"kappa", gf.Kappa, leastKappa, largestKappa, &cfg.Kappa},
		{"fifo_slowdown", gf.FIFOSlowdown, leastFIFOSlowdown, largestFIFOSlowdown, &cfg.FIFOSlowdown},
	} {
		if x.value == nil {
			continue
		}
		if x.name == "fifo_slowdown" && *x.value == 0 && !cfg.Off {
			cfg.FIFOSlowdown = -1
			continue
		}
		if !(*x.value >= x.least && *x.value <= x.largest) {
			return cfg, online.Invalid("/"+x.name, "out_of_range", "%s: %s is %v: it must be from %v to %v", policy,
				x.name, *x.value,
				x.least, x.largest)
		}
		if cfg.Off {
			return cfg, online.Invalid("/"+x.name, "contradiction",
				"%s: %s is of the guard, which is off: leave one of them out", policy, x.name)
		}
		*x.to = *x.value
	}
	return cfg, nil
}
