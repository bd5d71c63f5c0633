package task

import (
	"math"
	"slices"

	"github.com/hare-sched/hare/placement"
	"github.com/hare-sched/hare/planner"
)

// Where the scheduler goes by nodes, rolling plans on the sums of GPUs of each type, with gangs
// as wide as all GPUs of their tasks, and follows the plan by type and order as elsewhere.
// Places on nodes are found when a round starts, by best fit. For the first job in the order
// of the plan that has no room, whole nodes are kept.

// startOnNodes starts a round, or tasks, of a job that fits and is expected to hold its GPUs
// until endUs.
func (r *rolling) startOnNodes(j *JobState, types []planner.TypeCount, endUs int64) {
	l := r.l
	avoid := r.onNodes.avoid(endUs)
	var gpus []int
	if len(types) > 1 {
		gpus = l.pickMixed(j, j.spec.Tasks, avoid)
	} else {
		gpus = l.pick(j, types[0].Type, types[0].Count/j.spec.TaskGPUs(), avoid)
	}
	if l.rule.started != nil {
		for _, c := range types {
			l.rule.started(l, j, c.Type)
		}
	}
	for _, g := range gpus {
		r.free[l.gpus[g].gpuType]--
	}
	l.startGPUs(j, gpus)
}

// startMixedOnNodes starts a round on GPUs of several types where they fit.
func (r *rolling) startMixedOnNodes(j *JobState) {
	var all, types []planner.TypeCount
	for _, m := range j.modes {
		all = append(all, planner.TypeCount{Type: m.gpuType, Count: j.width()})
	}
	endUs := r.endUs(j, all)
	for _, g := range r.l.pickMixed(j, j.spec.Tasks, r.onNodes.avoid(endUs)) {
		t := r.l.gpus[g].gpuType
		at := slices.IndexFunc(types, func(c planner.TypeCount) bool { return c.Type == t })
		if at < 0 {
			at = len(types)
			types = append(types, planner.TypeCount{Type: t})
		}
		types[at].Count++
	}
	if len(types) > 0 {
		r.l.openRound(j)
		r.startOnNodes(j, types, endUs)
	}
}

// reserveOnNodes keeps the nodes on which a row of a job is expected to find room first.
func (r *rolling) reserveOnNodes(j *JobState, row *planner.Row, c planner.TypeCount,
	notBeforeUs int64) gpuReservation {
	l := r.l
	type heldOnType struct {
		job     *JobState
		gpuType int
	}
	ends := map[heldOnType]int64{}
	endUs := func(o *JobState, g int) int64 {
		key := heldOnType{o, l.gpus[g].gpuType}
		end, known := ends[key]
		if known {
			return end
		}
		if h, ok := r.heldOf(o, key.gpuType); ok {
			if end = max(h.endUs, l.nowUs); h.startUs <= row.StartUs {
				end += h.restUs
			}
		}
		ends[key] = end
		return end
	}
	use := func(g int) placement.Use {
		u := l.use(g, endUs)
		if o := l.guard.reservedBy[g]; o != nil && o != j && u.AtUs == 0 {
			u.AtUs = l.reservedEndUs(o)
		}
		return u
	}
	at, gpus, ok := l.nodes.Earliest(j.shape, []int{c.Type}, c.Count/j.spec.TaskGPUs(), use)
	if !ok {
		return gpuReservation{made: true, shadowUs: math.MaxInt64, extra: math.MaxInt64}
	}
	v := gpuReservation{made: true, shadowUs: max(at, notBeforeUs, l.nowUs), extra: math.MaxInt64}
	if r.onNodes == nil {
		r.onNodes = nodeReservation{}
	}
	r.onNodes.keep(l, gpus, v.shadowUs)
	return v
}

// onWholeTasks reports whether a row takes whole tasks of a job on each type.
func onWholeTasks(j *JobState, types []planner.TypeCount) bool {
	return !slices.ContainsFunc(types, func(c planner.TypeCount) bool { return c.Count%j.spec.TaskGPUs() != 0 })
}
