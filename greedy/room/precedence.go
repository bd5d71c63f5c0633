package room

import (
	"math"
	"slices"

	"github.com/hare-sched/hare/model"
)

// HasAfter reports whether some job waits for others.
func HasAfter(m *model.Model) bool {
	return slices.ContainsFunc(m.Jobs, func(j model.Job) bool { return len(j.After) > 0 })
}

// Dependencies are the jobs that jobs wait for, seen from both sides.
type Dependencies struct {
	Topological []int32 // the jobs, predecessors first
	Position    []int32 // by job: the index in topological
	Successors  [][]model.Predecessor
	Head, Tail  []int64 // by job: no schedule starts it before head, and tail is from its start to the last end
}

// DependenciesOf takes O(jobs + predecessors).
func DependenciesOf(m *model.Model) *Dependencies {
	d := &Dependencies{Position: make([]int32, len(m.Jobs)), Successors: make([][]model.Predecessor, len(m.Jobs)),
		Head: make([]int64, len(m.Jobs)), Tail: make([]int64, len(m.Jobs))}
	for n, i := range m.Instance.TopologicalOrder() {
		d.Topological = append(d.Topological, int32(i))
		d.Position[i] = int32(n)
		for _, p := range m.Jobs[i].After {
			d.Successors[p.Job] = append(d.Successors[p.Job], model.Predecessor{Job: i, LagUs: p.LagUs})
		}
	}
	for _, i := range d.Topological {
		d.Head[i] = EarliestStart(&m.Jobs[i])
		for _, p := range m.Jobs[i].After {
			d.Head[i] = max(d.Head[i], d.Head[p.Job]+LeastTime(&m.Jobs[p.Job])+p.LagUs)
		}
	}
	for _, i := range slices.Backward(d.Topological) {
		for _, s := range d.Successors[i] {
			d.Tail[i] = max(d.Tail[i], s.LagUs+d.Tail[s.Job])
		}
		d.Tail[i] += LeastTime(&m.Jobs[i])
	}
	return d
}

// LeastTime is the time of the rounds of a job on its fastest type. For a job with shapes it is a
// time that no choice of shapes can undercut.
func LeastTime(j *model.Job) int64 {
	least := int64(math.MaxInt64)
	for s := range j.Shapes {
		in := j.InShape(s)
		if j.Reshape {
			in.Rounds = j.Rounds / j.Shapes[s].Counts // the rest may be in another shape
		}
		least = min(least, LeastTime(&in))
	}
	if j.Shapes != nil {
		return least
	}
	for _, md := range j.Modes {
		least = min(least, LeastRoundUs(md))
	}
	if len(j.Modes) == 0 {
		return 0
	}
	return least * j.Rounds
}

// Inherit lowers the rank of each job to that of the jobs that wait for it, so that sorting by
// rank and then by position puts predecessors first.
func (d *Dependencies) Inherit(rank []float64) {
	for _, i := range slices.Backward(d.Topological) {
		for _, s := range d.Successors[i] {
			rank[i] = min(rank[i], rank[s.Job])
		}
	}
}

// ReadyAt returns the time before which job i cannot start when its predecessors end at ends.
func ReadyAt(m *model.Model, i int, ends []int64) int64 {
	ready := EarliestStart(&m.Jobs[i])
	for _, p := range m.Jobs[i].After {
		ready = max(ready, ends[p.Job]+p.LagUs)
	}
	return ready
}

// WaitAcross reports whether some of the given jobs and some others wait for each other.
func WaitAcross(m *model.Model, jobs []int) bool {
	among := make([]bool, len(m.Jobs))
	for _, i := range jobs {
		among[i] = true
	}
	for i := range m.Jobs {
		for _, p := range m.Jobs[i].After {
			if among[i] != among[p.Job] && !IsFixed(&m.Jobs[p.Job]) {
				return true
			}
		}
	}
	return false
}
