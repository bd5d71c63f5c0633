package explain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain/explanation"
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
func (v *laneView) timeline(job int, runs []roundRun, pays func(*jobEntry, int64, int64) float64) []explanation.Span {
	type gap struct {
		before   int // the run that follows the gap
		from, to int64
		after    []explanation.Holder // the jobs for which the job waits
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

	var spans []explanation.Span
	at := 0
	running := func(to int) {
		if at == to {
			return
		}
		x := explanation.Span{State: spanRunning, FromS: hare.Seconds(max(0, runs[at].start)),
			ToS: hare.Seconds(runs[to-1].end), Round: runs[at].round, GPUs: map[string]int64{}}
		x.Spread = v.spreadOf(job, runs[at:to])
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
		x := explanation.Span{State: spanWaiting, FromS: hare.Seconds(g.from), ToS: hare.Seconds(g.to), Round: r.round}
		if g.after != nil {
			until := x.ToS
			x.Waits = []explanation.Wait{{Cause: waitAfter, FromS: x.FromS, ToS: x.ToS, ForS: x.ToS - x.FromS, UntilS: &until,
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
			peak += hare.MostRoom(v.model.TaskRoom(j, k))
		}
		return peak < p.tasks // a round can never run on this pool
	})
}
