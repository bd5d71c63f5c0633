package explain

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// interval is a half-open interval of time, in microseconds.
type interval struct{ from, to int64 }

// after returns the jobs for whose ends a job waits beyond its release, the last first, and
// when the last of them has ended and its lag has passed.
func (v *laneView) after(job int) (last int64, jobs []explaindoc.Holder) {
	j := &v.model.Jobs[job]
	for _, p := range j.After {
		if until := v.ends[p.Job] + p.LagUs; until > j.ReleaseUs {
			last = max(last, until)
			jobs = append(jobs, explaindoc.Holder{Job: v.inst.Jobs[p.Job].ID, UntilS: hare.Seconds(until)})
		}
	}
	slices.SortStableFunc(jobs, func(a, b explaindoc.Holder) int { return cmp.Compare(b.UntilS, a.UntilS) })
	return last, jobs[:min(len(jobs), maxHolders)]
}

// mayUse reports whether the job may use the node.
func (v *laneView) mayUse(job, node int) bool {
	return !v.model.Placed || v.model.Kinds[v.model.Nodes[node].Kind].Allows(&v.model.Jobs[job])
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

// open calls f with the windows in which GPU g is available, not busy and not reserved for
// others than the job.
func (v *laneView) open(job, g int, f func(hare.Window)) {
	windows := v.model.Classes[v.model.GPUs[g].Class].Windows
	for _, r := range v.closed(job, v.model.GPUs[g].Node) {
		var left []hare.Window
		for _, w := range windows {
			if r.UntilUs <= w.StartUs || w.EndUs <= r.FromUs {
				left = append(left, w)
				continue
			}
			if w.StartUs < r.FromUs {
				left = append(left, hare.Window{StartUs: w.StartUs, EndUs: r.FromUs})
			}
			if r.UntilUs < w.EndUs {
				left = append(left, hare.Window{StartUs: r.UntilUs, EndUs: w.EndUs})
			}
		}
		windows = left
	}
	for _, w := range windows {
		f(w)
	}
}

// closed returns the reservations of a node that keep the job off.
func (v *laneView) closed(job, node int) []hare.Reservation {
	if len(v.inst.Cluster.Reservations) == 0 {
		return nil
	}
	set := v.model.Jobs[job].Set
	if set < 0 {
		return nil
	}
	var out []hare.Reservation
	for _, r := range v.model.Kinds[v.model.Nodes[node].Kind].Reserved {
		if _, closed := slices.BinarySearch(v.model.Sets[set].Closed, r); closed {
			out = append(out, v.inst.Cluster.Reservations[r])
		}
	}
	return out
}

// usable calls f with the windows in which GPU g is in service and not busy.
func (v *laneView) usable(g int, f func(hare.Window)) {
	for _, w := range v.model.Classes[v.model.GPUs[g].Class].Windows {
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

// load is what jobs but one hold on a node over time.
type load struct {
	at   []int64   // ascending, the first at or before all times that are asked for
	most [][]int64 // most[k][i] is the greatest load of the steps i to i + 2^k − 1
}

// newLoad adds up changes of a load.
func newLoad(from int64, changes map[int64]int64) *load {
	changes[from] += 0
	l := &load{}
	for t := range changes {
		l.at = append(l.at, t)
	}
	slices.Sort(l.at)
	sums, sum := make([]int64, len(l.at)), int64(0)
	for i, t := range l.at {
		sum += changes[t]
		sums[i] = sum
	}
	l.most = append(l.most, sums)
	for width := 1; 2*width <= len(sums); width *= 2 {
		last := l.most[len(l.most)-1]
		next := make([]int64, len(sums)-2*width+1)
		for i := range next {
			next[i] = max(last[i], last[i+width])
		}
		l.most = append(l.most, next)
	}
	return l
}

// over returns the greatest load in [from, to).
func (l *load) over(from, to int64) int64 {
	step := func(t int64) int { // the step that holds t
		i, found := slices.BinarySearch(l.at, t)
		if !found {
			i--
		}
		return max(0, i)
	}
	a, b := step(from), step(max(from, to-1))
	k := bits.Len(uint(b-a+1)) - 1
	return max(l.most[k][a], l.most[k][b-1<<k+1])
}

// loadsOf returns the CPUs and the memory that jobs other than job hold on a node between
// from and to. An entry holds from its first start to its last end.
func (v *laneView) loadsOf(job, node int, from, to int64) (cpus, memory *load) {
	type block struct {
		job, shape       int
		start, end, name int64
	}
	lanes := map[block]int64{} // the number of lanes with such an entry
	n := &v.inst.Cluster.Nodes[node]
	for g := v.model.Nodes[node].FirstGPU; g < v.model.Nodes[node].FirstGPU+int(n.GPUCount()); g++ {
		l := v.lanes[g]
		if l == nil {
			continue
		}
		for e := v.first(g, from); e < len(l.Job) && l.StartUs[e] < to; e++ {
			if other := v.jobOf[l.Job[e]]; other != job {
				x := l.Entry(e)
				lanes[block{other, int(x.Shape), x.StartUs, v.until(g, e), x.Round}]++
			}
		}
	}
	changes := [2]map[int64]int64{{}, {}}
	for b, count := range lanes {
		j := &v.model.Jobs[b.job]
		tasks := count / v.jobIn(b.job, b.shape).GPUs
		for i, each := range [2]int64{j.CPUMilli, j.MemoryMiB} {
			changes[i][max(from, b.start)] += tasks * each
			changes[i][b.end] -= tasks * each
		}
	}
	return newLoad(from, changes[0]), newLoad(from, changes[1])
}

// quotaLoad is what other jobs hold of a quota that counts a job on all types of a pool.
type quotaLoad struct {
	quota int
	held  *load
}

// room returns the GPUs that the quota leaves from t to until.
func (ql *quotaLoad) room(v *laneView, t, until int64) int64 {
	return v.model.Quotas[ql.quota].GPUs - ql.held.over(t, until)
}

// quotaLoads returns the loads of the quotas of a job between from and to.
func (v *laneView) quotaLoads(job int, p *waitPool, from, to int64) (out []quotaLoad) {
	for _, q := range v.model.Jobs[job].Quotas {
		all := true
		for kind := range p.each {
			all = all && v.model.Quotas[q].Types[kind]
		}
		if !all {
			continue
		}
		changes := map[int64]int64{}
		for g, l := range v.lanes {
			if l == nil || !v.model.Quotas[q].Types[v.model.GPUs[g].Type] {
				continue
			}
			for e := v.first(g, from); e < len(l.Job) && l.StartUs[e] < to; e++ {
				if other := v.jobOf[l.Job[e]]; other != job && slices.Contains(v.model.Jobs[other].Quotas, q) {
					changes[max(from, l.StartUs[e])]++
					changes[v.until(g, e)]--
				}
			}
		}
		out = append(out, quotaLoad{int(q), newLoad(from, changes)})
	}
	return out
}

// Limits of a timeline, which people read.
const (
	maxWaits   = 12 // waits that are spans of their own: the longest
	maxHolders = 6  // holders that are listed for a wait and type
)
