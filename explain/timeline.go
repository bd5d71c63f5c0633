package explain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	explaindoc "github.com/hare-sched/hare/wire/explain"
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

// timeline returns the job's time as spans: its longest waits, and the spans
// between these waits.
func (v *laneView) timeline(job int, runs []roundRun, prices *jobPrices) []explaindoc.Span {
	type pause struct {
		before   int // the run that follows
		from, to int64
		cause    string              // after or reshape, or "" where the causes go by type
		after    []explaindoc.Holder // the jobs for which the job waits
	}
	var pauses []pause
	j := &v.model.Jobs[job]
	ready := j.ReleaseUs
	if last, jobs := v.after(job); last > ready {
		pauses = append(pauses, pause{0, ready, last, waitAfter, jobs})
		ready = last
	}
	for i := range runs {
		if i > 0 && runs[i-1].shape != runs[i].shape && j.ReshapeUs > 0 {
			changed := ready + j.ReshapeUs
			pauses = append(pauses, pause{before: i, from: ready, to: changed, cause: waitReshape})
			ready = changed
		}
		if runs[i].start > ready {
			pauses = append(pauses, pause{before: i, from: ready, to: runs[i].start})
		}
		ready = runs[i].end
	}
	long := make([]int64, len(runs)) // the time before a run
	for _, p := range pauses {
		long[p.before] += p.to - p.from
	}
	slices.SortStableFunc(pauses, func(a, b pause) int {
		return cmp.Or(cmp.Compare(long[b.before], long[a.before]), cmp.Compare(a.before, b.before))
	})
	few := min(len(pauses), maxWaits)
	for 0 < few && few < len(pauses) && pauses[few-1].before == pauses[few].before {
		few++
	}
	pauses = pauses[:few]
	slices.SortFunc(pauses, func(a, b pause) int {
		return cmp.Or(cmp.Compare(a.before, b.before), cmp.Compare(a.from, b.from))
	})

	var spans []explaindoc.Span
	at := 0
	running := func(to int) {
		if at == to {
			return
		}
		x := explaindoc.Span{State: spanRunning, FromS: hare.Seconds(max(0, runs[at].start)),
			ToS: hare.Seconds(runs[to-1].end), Round: runs[at].round, GPUs: map[string]int64{}}
		x.Spread, x.Shapes = v.spreadOf(job, runs[at:to]), v.shapesOf(job, runs[at:to])
		if prices.charges != nil {
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
			if prices.charges == nil {
				continue
			}
			for p := range r.entries {
				x.Pays[v.model.Types[r.entries[p].kind]] += prices.paid(r, &r.entries[p])
			}
		}
		for k, paid := range x.Pays {
			x.Pays[k] = sixDecimals(paid)
		}
		spans = append(spans, x)
		at = to
	}
	for _, p := range pauses {
		running(p.before)
		r := &runs[p.before]
		x := explaindoc.Span{State: spanWaiting, FromS: hare.Seconds(p.from), ToS: hare.Seconds(p.to), Round: r.round}
		if p.cause != "" {
			until := x.ToS
			x.Waits = []explaindoc.Wait{{Cause: p.cause, FromS: x.FromS, ToS: x.ToS, ForS: x.ToS - x.FromS, UntilS: &until,
				Jobs: p.after}}
		} else {
			x.Waits = v.inShape(job, r.shape).waits(job, p.from, p.to)
			v.nameShape(job, r.shape, x.Waits)
		}
		if p.cause != waitAfter {
			x.Waits = append(x.Waits, v.shapeWaits(job, runs, p.before, p.from, p.to)...)
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

	waitSetup   = "setup"   // enough GPUs are free, but for too short a time to be set up for the job
	waitReshape = "reshape" // the job changes its shape, which takes this time
	waitShape   = "shape"   // the round could have started in another shape

	// Where nodes matter:
	waitNotAllowed = "not_allowed" // the nodes that the job may use never have room for a round
	waitFragmented = "fragmented"  // enough GPUs are free in all, but not together on nodes
	waitCPUs       = "cpus"        // the nodes with free GPUs have too few free CPUs
	waitMemory     = "memory"      // the nodes with free GPUs have too little free memory
)

var waitCauses = [...]string{waitNoService, waitBusy, waitReserved, waitHeld, waitQuota, waitFragmented, waitCPUs,
	waitMemory, waitSetup, waitTooShort, waitChoice}

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
		if v.byLevels(job) {
			return v.model.LevelRoom(j, slices.Sorted(maps.Keys(p.each)), j.Within) < p.tasks
		}
		var peak int64
		for k := range p.each {
			peak += model.MostRoom(v.model.TaskRoom(j, k))
		}
		return peak < p.tasks // a round can never run on this pool
	})
}
