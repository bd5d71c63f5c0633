package explain

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
)

// Limits of a timeline, which people read.
const (
	maxWaits   = 12 // waits that are spans of their own: the longest
	maxHolders = 6  // holders that are listed for a wait and type
)

// States of spans.
const (
	spanWaiting = "waiting"
	spanRunning = "running"
)

// Span is a part of a job's time from its release to its end, in order and
// without gaps.
type Span struct {
	State string       `json:"state" enums:"waiting,running"`
	FromS hare.Seconds `json:"from_s"`
	ToS   hare.Seconds `json:"to_s"`
	// Round is the first of the rounds that run, or the round that waits: the job is released, and every earlier
	// round has synchronised.
	Round  int64 `json:"round"`
	Rounds int64 `json:"rounds,omitempty"`
	// GPUs holds, by type, the most GPUs that a round of the span uses.
	GPUs map[string]int64 `json:"gpus,omitempty"`
	// PausedS is for how long in all no round runs within the span. These are short waits, which are not listed.
	PausedS hare.Seconds `json:"paused_s,omitempty"`
	// Pays holds, by type, what the GPU time costs at the certificate's prices, in weight-seconds.
	Pays map[string]float64 `json:"pays,omitempty"`
	// Waits say what a waiting round waits for, by type.
	Waits []Wait `json:"waits,omitempty"`
} //	@name	JobSpan

// timeline returns the job's time as spans: its longest waits, and the spans
// between these waits.
func (v *laneView) timeline(job int, runs []roundRun, pays func(*jobEntry, int64, int64) float64) []Span {
	type gap struct {
		before   int // the run that follows the gap
		from, to int64
		after    []Holder // the jobs for which the job waits
	}
	var gaps []gap
	ready := v.model.Jobs[job].ReleaseUs
	if last, jobs := v.after(job); last > ready {
		gaps = append(gaps, gap{0, ready, last, jobs})
		ready = last
	}
	for i := range runs {
		if runs[i].start > ready {
			gaps = append(gaps, gap{before: i, from: ready, to: runs[i].start})
		}
		ready = runs[i].end
	}
	long := func(g gap) int64 { return g.to - g.from }
	slices.SortStableFunc(gaps, func(a, b gap) int { return cmp.Compare(long(b), long(a)) })
	gaps = gaps[:min(len(gaps), maxWaits)]
	slices.SortFunc(gaps, func(a, b gap) int {
		return cmp.Or(cmp.Compare(a.before, b.before), cmp.Compare(a.from, b.from))
	})

	var spans []Span
	at := 0
	running := func(to int) {
		if at == to {
			return
		}
		x := Span{State: spanRunning, FromS: hare.Seconds(max(0, runs[at].start)), ToS: hare.Seconds(runs[to-1].end),
			Round: runs[at].round, GPUs: map[string]int64{}}
		if pays != nil {
			x.Pays = map[string]float64{}
		}
		for i := at; i < to; i++ {
			r := &runs[i]
			x.Rounds += r.rounds
			x.PausedS += hare.Seconds(r.paused)
			if i > at {
				x.PausedS += hare.Seconds(r.start - runs[i-1].end)
			}
			for k, n := range r.gpus {
				x.GPUs[v.model.Types[k]] = max(x.GPUs[v.model.Types[k]], n)
			}
			if pays == nil {
				continue
			}
			for p := range r.entries {
				x.Pays[v.model.Types[r.entries[p].kind]] += pays(&r.entries[p], r.round, r.rounds)
			}
		}
		for k, paid := range x.Pays {
			x.Pays[k] = sixDecimals(paid)
		}
		spans = append(spans, x)
		at = to
	}
	for _, g := range gaps {
		running(g.before)
		r := &runs[g.before]
		x := Span{State: spanWaiting, FromS: hare.Seconds(g.from), ToS: hare.Seconds(g.to), Round: r.round}
		if g.after != nil {
			until := x.ToS
			x.Waits = []Wait{{Cause: waitAfter, FromS: x.FromS, ToS: x.ToS, ForS: x.ToS - x.FromS, UntilS: &until,
				Jobs: g.after}}
		} else {
			x.Waits = v.waits(job, g.from, g.to)
		}
		spans = append(spans, x)
	}
	running(len(runs))
	return spans
}

// Causes of a wait.
const (
	waitNoService = "no_service" // fewer GPUs are in service than a round needs
	waitBusy      = "busy"       // enough GPUs are in service, and too many of them busy
	waitHeld      = "held"       // other jobs hold too many GPUs
	waitTooShort  = "too_short"  // enough GPUs are free, but not for long enough
	waitChoice    = "choice"     // the round could have started: the plan waits for better GPUs
	waitAfter     = "after"      // another job, for which the job waits, has not ended, or its lag has not passed
	waitReserved  = "reserved"   // enough GPUs are available, and too many of them reserved for others
	waitQuota     = "quota"      // the jobs of a user hold too many GPUs for a quota

	// Where nodes matter:
	waitNotAllowed = "not_allowed" // the nodes that the job may use never have room for a round
	waitFragmented = "fragmented"  // enough GPUs are free in all, but not together on nodes
	waitCPUs       = "cpus"        // the nodes with free GPUs have too few free CPUs
	waitMemory     = "memory"      // the nodes with free GPUs have too little free memory
)

var waitCauses = [...]string{waitNoService, waitBusy, waitReserved, waitHeld, waitQuota, waitFragmented, waitCPUs,
	waitMemory, waitTooShort, waitChoice}

// Wait is why a round did not start on GPUs of a type.
type Wait struct {
	// Type is the type of the GPUs; a gang that mixes types has several, joined by "+".
	Type string `json:"type"`
	// Cause is no_service where too few GPUs were in service, busy where too many of them were busy, held where other
	// jobs held too many, too_short where enough were free but not for long enough, and choice where the round could
	// have started and the plan waits for better GPUs. Where nodes matter, it is also not_allowed where the nodes that
	// the job may use never have room for a round, fragmented where enough GPUs were free in all, but not together on
	// nodes, and cpus or memory where too little of these was free beside the GPUs; reserved where too many GPUs were
	// kept for others, and quota where the jobs of user held too many. It is after, without a type, until the jobs
	// have ended for which the job waits, and their lags have passed.
	Cause string `json:"cause" enums:"no_service,busy,held,too_short,choice,not_allowed,fragmented,cpus,memory,after,reserved,quota"`
	// User is the user of the quota where the cause is quota.
	User string `json:"user,omitempty"`
	// FromS is when the cause first held.
	FromS hare.Seconds `json:"from_s"`
	// ToS is when the cause last held.
	ToS hare.Seconds `json:"to_s"`
	// ForS is for how long in all the cause held between from_s and to_s.
	ForS hare.Seconds `json:"for_s"`
	// Need is how many GPUs have to be free together.
	Need int64 `json:"need"`
	// PerTask is how many of these GPUs have to be on one node, for each task; it is left out where a task holds one.
	PerTask int64 `json:"per_task,omitempty"`
	// NeedS is for how long the GPUs have to be free.
	NeedS hare.Seconds `json:"need_s"`
	// Free is the most GPUs that were free at a time.
	Free int64 `json:"free"`
	// UntilS is when the first GPU becomes available: back in service, or no longer busy. Where the cause is after, it
	// is when the job may start.
	UntilS *hare.Seconds `json:"until_s,omitempty"`
	// Jobs are the jobs that hold the GPUs during the wait, those that hold the most first. Where the cause is after,
	// they are the jobs that have not ended, the last first, each until its end and lag.
	Jobs []Holder `json:"jobs,omitempty"`
	// Others counts further jobs that hold GPUs.
	Others int `json:"others,omitempty"`
	// Nodes says, for the causes fragmented, cpus and memory, what was free on nodes when the cause first held, the
	// nodes with the most free GPUs first.
	Nodes []NodeFree `json:"nodes,omitempty"`
	// OtherNodes counts further nodes with free GPUs.
	OtherNodes int `json:"other_nodes,omitempty"`
} //	@name	JobWait

// Holder is a job that holds GPUs for which another job waits.
type Holder struct {
	Job  string `json:"job"`
	GPUs int64  `json:"gpus"`
	// UntilS is when the job releases the last of the GPUs that it holds during the wait.
	UntilS hare.Seconds `json:"until_s"`
} //	@name	JobHolder

// waitPool is a set of types on which a round could run.
type waitPool struct {
	name string
	each map[int]int64
	need int64 // GPUs
	// tasks of a job of several GPUs a task are on one node each.
	tasks int64
}

// pools returns the sets of types that a round of a job could use. Each set has,
// by type, for how long a round needs a GPU of the type at least: a task's compute
// time for a relaxed job, a round for a gang, all rounds for a rigid job.
func (v *laneView) pools(job int) []waitPool {
	j := &v.model.Jobs[job]
	var all []waitPool
	for _, md := range j.Modes {
		hold := md.DurationUs()
		need := j.Tasks
		switch j.Sync {
		case hare.Relaxed:
			hold, need = md.ComputeUs, 1
		case hare.Rigid:
			hold *= j.Rounds
		}
		if name := v.model.Types[md.Type]; j.Mix && len(all) > 0 {
			all[0].name += "+" + name
			all[0].each[md.Type] = hold
		} else {
			all = append(all, waitPool{name: name, each: map[int]int64{md.Type: hold}, need: need * j.GPUs, tasks: need})
		}
	}
	return slices.DeleteFunc(all, func(p waitPool) bool {
		var peak int64
		for k := range p.each {
			peak += hare.MostRoom(v.model.TaskRoom(j, k))
		}
		return peak < p.tasks // a round can never run on this pool
	})
}
