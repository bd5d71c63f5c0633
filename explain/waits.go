package explain

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// waits says what a round of a job waits for that could start at from and starts
// at to. waits is O(n log n) for n GPUs and entries between from and to.
func (v *laneView) waits(job int, from, to int64) []explaindoc.Wait {
	var all []explaindoc.Wait
	for _, p := range v.pools(job) {
		all = append(all, v.waitsFor(job, &p, from, to)...)
	}
	if v.model.Placed {
		all = append(all, v.neverWaits(job, from, to)...)
	}
	slices.SortStableFunc(all, func(a, b explaindoc.Wait) int { return cmp.Compare(a.FromS, b.FromS) })
	return all
}

// levelChange says that one of the counts changes at a time.
type levelChange struct {
	at    int64
	level int // the count: countService to countReady, or countLong + the index of a threshold
	by    int64
}

const (
	countService = iota
	countUsable
	countOpen
	countFree
	countReady // GPUs that are free, and on which a setup for the job could be over
	countLong
)

// interval is a half-open interval of time, in microseconds.
type interval struct{ from, to int64 }

// waitsFor is waits for one pool. The counts of the pool's GPUs change at the ends
// of windows and entries; between two changes the wait has one cause.
func (v *laneView) waitsFor(job int, p *waitPool, from, to int64) []explaindoc.Wait {
	// A gang that mixes types holds all GPUs until its slowest task ends. The times
	// that the types need are thresholds: GPUs of all types that need no more than a
	// threshold can be used together.
	var thresholds []int64
	for _, d := range p.each {
		thresholds = append(thresholds, d)
	}
	slices.Sort(thresholds)
	thresholds = slices.Compact(thresholds)
	var levelOf []int
	if v.byLevels(job) {
		thresholds, levelOf = v.levelThresholds(job, p)
	}
	var changes []levelChange
	count := func(level int, a, b int64) {
		if a, b = max(a, from), min(b, to); a < b {
			changes = append(changes, levelChange{a, level, 1}, levelChange{b, level, -1})
		}
	}
	for g := range v.model.GPUs {
		hold, ok := p.each[v.model.GPUs[g].Type]
		if !ok || !v.mayUse(job, v.model.GPUs[g].Node) {
			continue
		}
		v.service(g, func(w hare.Window) { count(countService, w.StartUs, w.EndUs) })
		for _, w := range v.model.Classes[v.model.GPUs[g].Class].Windows {
			count(countUsable, w.StartUs, w.EndUs)
		}
		v.open(job, g, func(w hare.Window) {
			count(countOpen, w.StartUs, w.EndUs)
			v.gaps(job, g, w, from, to, thresholds[len(thresholds)-1], func(free gap) {
				count(countFree, free.from, free.to)
				count(countReady, free.ready, free.to)
				if v.model.Placed {
					return // nodeChanges goes by nodes
				}
				for i, d := range thresholds {
					if d >= hold {
						count(countLong+i, free.ready, free.until-d+1) // a start at until − d is the latest that fits
					}
				}
			})
		})
	}
	levels := make([]int64, countLong+len(thresholds))
	quotas := v.quotaLoads(job, p, from, to+thresholds[len(thresholds)-1])
	for i := range quotas {
		for _, t := range quotas[i].held.at { // the cause may change here, and where a block begins that lasts until here
			changes = append(changes, levelChange{at: t})
			for _, d := range thresholds {
				changes = append(changes, levelChange{at: t - d + 1})
			}
		}
	}
	long := func(t int64, first int, need int64) bool {
		for i, n := range levels[first:] {
			if n >= need && !slices.ContainsFunc(quotas, func(q quotaLoad) bool {
				return q.room(v, t, t+thresholds[i]) < p.need
			}) {
				return true
			}
		}
		return false
	}
	short := func(t int64) bool {
		return slices.ContainsFunc(quotas, func(q quotaLoad) bool { return q.room(v, t, t+1) < p.need })
	}
	cause := func(t int64) string {
		return causeOf(levels, p.need, long(t, countLong, p.need), short(t))
	}
	if v.model.Placed {
		changes = append(changes, v.nodeChanges(job, p, thresholds, levelOf, from, to)...)
		levels = make([]int64, countRoomLong+len(thresholds))
		cause = func(t int64) string {
			return causeOnNodes(levels, p.need, p.tasks, long(t, countRoomLong, p.tasks), short(t))
		}
	}
	slices.SortFunc(changes, func(a, b levelChange) int { return cmp.Compare(a.at, b.at) })

	found := map[string]*explaindoc.Wait{}
	spans := map[string][]interval{}
	for t, i := from, 0; t < to; {
		for ; i < len(changes) && changes[i].at <= t; i++ {
			levels[changes[i].level] += changes[i].by
		}
		end := to
		if i < len(changes) {
			end = changes[i].at
		}
		cause := cause(t)
		w := found[cause]
		if w == nil {
			w = &explaindoc.Wait{Type: p.name, Cause: cause, FromS: hare.Seconds(t), Need: p.need,
				NeedS: hare.Seconds(thresholds[0]), SetupS: v.longestSetup(job, p),
				PerTask: perTask(&v.model.Jobs[job]), Within: v.inst.Jobs[job].Within}
			found[cause] = w
		}
		w.ToS = hare.Seconds(end)
		w.ForS += hare.Seconds(end - t)
		w.Free = max(w.Free, levels[countFree])
		if at := spans[cause]; len(at) > 0 && at[len(at)-1].to == t {
			at[len(at)-1].to = end
		} else {
			spans[cause] = append(at, interval{t, end})
		}
		t = end
	}
	var all []explaindoc.Wait
	for _, cause := range waitCauses {
		w := found[cause]
		if w == nil {
			continue
		}
		switch cause {
		case waitHeld:
			w.Jobs, w.Others = v.holders(job, p, cause, spans[cause], nil)
		case waitQuota:
			at := slices.IndexFunc(quotas, func(q quotaLoad) bool {
				return q.room(v, int64(w.FromS), int64(w.FromS)+1) < p.need
			})
			quota := &v.model.Quotas[quotas[at].quota]
			w.User = v.inst.Quota[quotas[at].quota].User
			w.Jobs, w.Others = v.holders(job, p, cause, spans[cause], func(g int, other *model.Job) bool {
				return quota.Types[v.model.GPUs[g].Type] && slices.Contains(other.Quotas, int32(quotas[at].quota))
			})
		case waitFragmented, waitCPUs, waitMemory:
			w.Jobs, w.Others = v.holders(job, p, cause, spans[cause], nil)
			w.Nodes, w.OtherNodes = v.where(job, p, int64(w.FromS))
		case waitNoService, waitBusy, waitReserved:
			w.UntilS = v.back(job, p, cause, int64(w.ToS))
		}
		all = append(all, *w)
	}
	return all
}

// causeOf returns the cause of a wait where the counts stand at these levels.
// long says that the round could start, and overQuota that a quota leaves too little.
func causeOf(levels []int64, need int64, long, overQuota bool) string {
	switch {
	case long:
		return waitChoice
	case levels[countService] < need:
		return waitNoService
	case levels[countUsable] < need:
		return waitBusy
	case levels[countOpen] < need:
		return waitReserved
	case levels[countFree] < need:
		return waitHeld
	case overQuota:
		return waitQuota
	case levels[countReady] < need:
		return waitSetup
	}
	return waitTooShort
}

// service calls f with the windows in which GPU g is in service, busy or not.
func (v *laneView) service(g int, f func(hare.Window)) {
	n := &v.inst.Cluster.Nodes[v.model.GPUs[g].Node]
	if n.Windows == nil {
		f(hare.Window{EndUs: hare.Forever})
	}
	for _, w := range n.Windows {
		f(w)
	}
}

// gap is a time in which no job holds a GPU, nor has it set up.
type gap struct {
	from, to int64
	// ready is when work of the job at hand could start, after a setup if it needs one, and until is when such work
	// must have ended, so that what follows can be set up. ready may be after until.
	ready, until int64
}

// gaps calls f with the gaps in window w that begin before to, cut at from, in
// which no other job holds GPU g. What the job itself does there would move with
// its start. gaps looks no further than need after to for the end of a gap.
func (v *laneView) gaps(job, g int, w hare.Window, from, to, need int64, f func(gap)) {
	at := max(from, w.StartUs)
	if at >= min(to, w.EndUs) {
		return
	}
	setup := v.modes[job][v.model.GPUs[g].Type].SwitchUs
	ready := max(w.StartUs, v.mayBegin(job)) // when a setup of the job could begin
	if l := v.lanes[g]; l != nil {
		e := v.first(g, at)
		if e > 0 {
			ready = max(ready, v.until(g, e-1))
			if v.jobOf[l.Job[e-1]] == job {
				ready, setup = at, 0
			}
		}
		for ; e < len(l.Job) && at < to; e++ {
			start := v.taken(g, e)
			if start >= w.EndUs || start >= to+need {
				break
			}
			if v.jobOf[l.Job[e]] == job {
				continue
			}
			if start > at {
				f(gap{at, start, max(at, ready+setup), l.StartUs[e] - v.switchOf(g, e)})
			}
			at = v.until(g, e)
			ready, setup = max(at, v.mayBegin(job)), v.modes[job][v.model.GPUs[g].Type].SwitchUs
		}
	}
	if at < min(to, w.EndUs) {
		f(gap{at, w.EndUs, max(at, ready+setup), w.EndUs})
	}
}

// mayBegin returns when the setups of a job may begin: it is released, and the jobs have ended for
// which it waits.
func (v *laneView) mayBegin(job int) int64 {
	last, _ := v.after(job)
	return max(last, v.model.Jobs[job].ReleaseUs)
}

// longestSetup returns for how long a GPU of a pool is set up for a job, at most.
func (v *laneView) longestSetup(job int, p *waitPool) (longest hare.Seconds) {
	for kind := range p.each {
		longest = max(longest, hare.Seconds(v.modes[job][kind].SwitchUs))
	}
	return longest
}

// holders returns the jobs that hold GPUs of a pool in the spans, and the number
// of further such jobs. Where CPUs or memory lack, it returns the jobs that hold these on
// nodes that the job may use. counts, where it is not nil, says which jobs to list in their
// place, and on which GPUs.
func (v *laneView) holders(job int, p *waitPool, cause string, spans []interval,
	counts func(g int, other *model.Job) bool) ([]explaindoc.Holder, int) {
	holds := func(g int, other *model.Job) bool {
		_, ok := p.each[v.model.GPUs[g].Type]
		switch cause {
		case waitQuota:
			return counts(g, other)
		case waitCPUs:
			return other.CPUMilli > 0
		case waitMemory:
			return other.MemoryMiB > 0
		}
		return ok
	}
	type held struct {
		explaindoc.Holder
		time int64
		last int // the GPU that was counted last
	}
	by := map[int]*held{}
	for g := range v.model.GPUs {
		l := v.lanes[g]
		if l == nil || cause != waitQuota && !v.mayUse(job, v.model.GPUs[g].Node) {
			continue
		}
		x := 0
		for e := v.first(g, spans[0].from); e < len(l.Job); {
			start := v.taken(g, e)
			if x < len(spans) && spans[x].to <= start {
				x++
				continue
			}
			if x == len(spans) {
				break
			}
			end := v.until(g, e)
			if other := v.jobOf[l.Job[e]]; other != job && end > spans[x].from && holds(g, &v.model.Jobs[other]) {
				h := by[other]
				if h == nil {
					h = &held{Holder: explaindoc.Holder{Job: v.inst.Jobs[other].ID}, last: -1}
					by[other] = h
				}
				if h.last != g {
					h.last = g
					h.GPUs++
				}
				for y := x; y < len(spans) && spans[y].from < end; y++ {
					h.time += min(end, spans[y].to) - max(start, spans[y].from)
				}
				h.UntilS = max(h.UntilS, hare.Seconds(end))
			}
			e++
		}
	}
	all := make([]*held, 0, len(by))
	for _, h := range by {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *held) int {
		return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(a.Job, b.Job))
	})
	var out []explaindoc.Holder
	for _, h := range all[:min(len(all), maxHolders)] {
		out = append(out, h.Holder)
	}
	return out, len(all) - len(out)
}

// back returns the first time from t on at which a GPU of a pool that the job may use
// comes into service, or is no longer busy; nil where no GPU does.
func (v *laneView) back(job int, p *waitPool, cause string, t int64) *hare.Seconds {
	first := int64(math.MaxInt64)
	look := func(w hare.Window) {
		if w.StartUs >= t {
			first = min(first, w.StartUs)
		}
	}
	for g := range v.model.GPUs {
		if _, ok := p.each[v.model.GPUs[g].Type]; !ok || !v.mayUse(job, v.model.GPUs[g].Node) {
			continue
		}
		if cause == waitNoService {
			v.service(g, look)
			continue
		}
		if cause == waitReserved {
			v.open(job, g, look)
			continue
		}
		for _, w := range v.model.Classes[v.model.GPUs[g].Class].Windows {
			look(w)
		}
	}
	if first == math.MaxInt64 {
		return nil
	}
	s := hare.Seconds(first)
	return &s
}
