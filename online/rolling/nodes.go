package rolling

import (
	"math"
	"slices"

	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/placement"
	"github.com/hare-sched/hare/online/planner"
)

// Where the scheduler goes by nodes, rolling plans on the sums of GPUs of each type, with gangs
// as wide as all GPUs of their tasks, and follows the plan by type and order as elsewhere.
// Places on nodes are found when a round starts, by best fit. For the first job in the order
// of the plan that has no room, whole nodes are kept.

// startOnNodes starts a round, or tasks, of a job that fits and is expected to hold its GPUs
// until endUs.
func (r *rolling) startOnNodes(j *list.JobState, types []planner.TypeCount, endUs int64) {
	l := r.l
	avoid := r.onNodes.Avoid(endUs)
	var gpus []int
	if len(types) > 1 {
		gpus = l.PickMixed(j, j.Spec().Tasks, avoid)
	} else {
		gpus = l.Pick(j, types[0].Type, types[0].Count/j.Spec().TaskGPUs(), avoid)
	}
	for _, g := range gpus {
		t := l.Slots()[g].Type
		r.free[t]--
		if _, kept := r.onNodes[l.Nodes().Node(g)]; !kept && r.reserved[t].made {
			r.reserved[t].extra--
		}
	}
	r.takeExtra(j, types, endUs)
	l.StartGPUs(j, gpus)
}

// nodesHaveRoom reports whether nodes have room for the tasks of a job until endUs. During an assignment room only
// becomes less, so that what had none has none: nodes are looked at once for jobs that need the same.
func (r *rolling) nodesHaveRoom(j *list.JobState, c planner.TypeCount, endUs int64) bool {
	need, n := needOnNodes{j.Shape(), c.Type}, c.Count/j.Spec().TaskGPUs()
	for _, f := range r.noRoom[need] {
		if n >= f.tasks && endUs >= f.endUs {
			return false
		}
	}
	if r.l.Nodes().Room(j.Shape(), c.Type, n, r.onNodes.Avoid(endUs)) >= n {
		return true
	}
	if r.noRoom == nil {
		r.noRoom = map[needOnNodes][]tasksUntil{}
	}
	failed := slices.DeleteFunc(r.noRoom[need], func(f tasksUntil) bool { return f.tasks >= n && f.endUs >= endUs })
	r.noRoom[need] = append(failed, tasksUntil{n, endUs})
	return false
}

// startMixedOnNodes starts a round on GPUs of several types where they fit.
func (r *rolling) startMixedOnNodes(j *list.JobState) {
	var all, types []planner.TypeCount
	for _, m := range j.Modes() {
		all = append(all, planner.TypeCount{Type: m.Type, Count: j.Width()})
	}
	endUs := r.endUs(j, all)
	for _, g := range r.l.PickMixed(j, j.Spec().Tasks, r.onNodes.Avoid(endUs)) {
		t := r.l.Slots()[g].Type
		at := slices.IndexFunc(types, func(c planner.TypeCount) bool { return c.Type == t })
		if at < 0 {
			at = len(types)
			types = append(types, planner.TypeCount{Type: t})
		}
		types[at].Count++
	}
	if len(types) > 0 {
		r.l.OpenRound(j)
		r.startOnNodes(j, types, endUs)
	}
}

// reserveOnNodes keeps the nodes on which a row of a job is expected to find room first.
func (r *rolling) reserveOnNodes(j *list.JobState, row *planner.Row, c planner.TypeCount,
	notBeforeUs int64) gpuReservation {
	l := r.l
	type heldOnType struct {
		job     *list.JobState
		gpuType int
	}
	ends := map[heldOnType]int64{} // of jobs with several GPUs
	endUs := func(o *list.JobState, g int) (end int64) {
		key := heldOnType{o, l.Slots()[g].Type}
		if len(o.GPUs()) > 1 {
			if end, known := ends[key]; known {
				return end
			}
		}
		end = r.endOf(o, key.gpuType, row.StartUs)
		if len(o.GPUs()) > 1 {
			ends[key] = end
		}
		return end
	}
	use := func(g int) placement.Use {
		u := l.Use(g, endUs)
		if o := l.ReservedFor(g); o != nil && o != j && u.AtUs == 0 {
			u.AtUs = l.ReservedEndUs(o)
		}
		return u
	}
	at, gpus, ok := l.Nodes().Earliest(j.Shape(), []int{c.Type}, c.Count/j.Spec().TaskGPUs(), use)
	if !ok {
		return gpuReservation{made: true, shadowUs: math.MaxInt64, extra: math.MaxInt64, chunk: math.MaxInt64}
	}
	v := gpuReservation{made: true, shadowUs: max(at, notBeforeUs, l.NowUs())}
	if r.onNodes == nil {
		r.onNodes = list.NodeReservation{}
	}
	r.onNodes.Keep(l, gpus, v.shadowUs)
	v.extra, v.chunk = l.Nodes().FreeGPUs(c.Type, func(node int32) bool { _, kept := r.onNodes[node]; return kept })
	return v
}

// quotasAllow reports whether a job may start on GPUs of some types until endUs, beside what is kept
// of quotas for jobs before it.
func (r *rolling) quotasAllow(j *list.JobState, types []planner.TypeCount, endUs int64) bool {
	l := r.l
	if len(r.onQuotas) == 0 {
		return true
	}
	for _, c := range types {
		for _, q := range l.Nodes().Quotas(j.Shape(), c.Type) {
			v, kept := r.onQuotas[q]
			if kept && v.ForJob != j && endUs > v.ShadowUs && v.Extra < c.Count {
				return false
			}
		}
	}
	return true
}

// takeExtra takes GPUs on which a job starts until endUs from those that are left beside what is
// kept of quotas.
func (r *rolling) takeExtra(j *list.JobState, types []planner.TypeCount, endUs int64) {
	l := r.l
	if len(r.onQuotas) == 0 {
		return
	}
	for _, c := range types {
		for _, q := range l.Nodes().Quotas(j.Shape(), c.Type) {
			if v, kept := r.onQuotas[q]; kept && v.ForJob != j && endUs > v.ShadowUs {
				v.Extra -= c.Count
				r.onQuotas[q] = v
			}
		}
	}
}

// reserveQuotas reports whether quotas lack room for a row of a job, and then keeps GPUs of those
// for the job, as reserve keeps GPUs of a type.
func (r *rolling) reserveQuotas(j *list.JobState, row *planner.Row, notBeforeUs int64) (held bool) {
	l := r.l
	if l.Nodes() == nil || !l.Nodes().HasQuotas() || len(j.Spec().Users) == 0 {
		return false
	}
	for _, c := range row.Types {
		for _, q := range l.Nodes().Lacking(j.Shape(), c.Type, c.Count/j.Spec().TaskGPUs()) {
			held = true
			if _, kept := r.onQuotas[q]; kept {
				continue
			}
			if r.onQuotas == nil {
				r.onQuotas = map[int32]list.QuotaReservation{}
			}
			v := l.ReserveQuota(q, j.Width(), notBeforeUs,
				func(o *list.JobState, g int) int64 { return r.endOf(o, l.Slots()[g].Type, row.StartUs) })
			v.ForJob = j
			r.onQuotas[q] = v
		}
	}
	return held
}

// onWholeTasks reports whether a row takes whole tasks of a job on each type.
func onWholeTasks(j *list.JobState, types []planner.TypeCount) bool {
	return !slices.ContainsFunc(types, func(c planner.TypeCount) bool { return c.Count%j.Spec().TaskGPUs() != 0 })
}
