package greedy

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// hasAfter says whether some job waits for others.
func hasAfter(m *hare.Model) bool {
	return slices.ContainsFunc(m.Jobs, func(j hare.ModelJob) bool { return len(j.After) > 0 })
}

// dependencies are the jobs that jobs wait for, seen from both sides.
type dependencies struct {
	topological []int32 // the jobs, predecessors first
	position    []int32 // by job: the index in topological
	successors  [][]hare.ModelPredecessor
	head, tail  []int64 // by job: no schedule starts it before head, and tail is from its start to the last end
}

// dependenciesOf takes O(jobs + predecessors).
func dependenciesOf(m *hare.Model) *dependencies {
	d := &dependencies{position: make([]int32, len(m.Jobs)), successors: make([][]hare.ModelPredecessor, len(m.Jobs)),
		head: make([]int64, len(m.Jobs)), tail: make([]int64, len(m.Jobs))}
	for n, i := range m.Instance.TopologicalOrder() {
		d.topological = append(d.topological, int32(i))
		d.position[i] = int32(n)
		for _, p := range m.Jobs[i].After {
			d.successors[p.Job] = append(d.successors[p.Job], hare.ModelPredecessor{Job: i, LagUs: p.LagUs})
		}
	}
	for _, i := range d.topological {
		d.head[i] = earliestStart(&m.Jobs[i])
		for _, p := range m.Jobs[i].After {
			d.head[i] = max(d.head[i], d.head[p.Job]+leastTime(&m.Jobs[p.Job])+p.LagUs)
		}
	}
	for _, i := range slices.Backward(d.topological) {
		for _, s := range d.successors[i] {
			d.tail[i] = max(d.tail[i], s.LagUs+d.tail[s.Job])
		}
		d.tail[i] += leastTime(&m.Jobs[i])
	}
	return d
}

// leastTime is the time of the rounds of a job on its fastest type. For a job with shapes it is a
// time that no choice of shapes can undercut.
func leastTime(j *hare.ModelJob) int64 {
	least := int64(math.MaxInt64)
	for s := range j.Shapes {
		in := j.InShape(s)
		if j.Reshape {
			in.Rounds = j.Rounds / j.Shapes[s].Counts // the rest may be in another shape
		}
		least = min(least, leastTime(&in))
	}
	if j.Shapes != nil {
		return least
	}
	for _, md := range j.Modes {
		least = min(least, leastRoundUs(md))
	}
	if len(j.Modes) == 0 {
		return 0
	}
	return least * j.Rounds
}

// inherit lowers the rank of each job to that of the jobs that wait for it, so that sorting by
// rank and then by position puts predecessors first.
func (d *dependencies) inherit(rank []float64) {
	for _, i := range slices.Backward(d.topological) {
		for _, s := range d.successors[i] {
			rank[i] = min(rank[i], rank[s.Job])
		}
	}
}

// readyAt returns the time before which job i cannot start when its predecessors end at ends.
func readyAt(m *hare.Model, i int, ends []int64) int64 {
	ready := earliestStart(&m.Jobs[i])
	for _, p := range m.Jobs[i].After {
		ready = max(ready, ends[p.Job]+p.LagUs)
	}
	return ready
}

// waitAcross says whether some of the given jobs and some others wait for each other.
func waitAcross(m *hare.Model, jobs []int) bool {
	among := make([]bool, len(m.Jobs))
	for _, i := range jobs {
		among[i] = true
	}
	for i := range m.Jobs {
		for _, p := range m.Jobs[i].After {
			if among[i] != among[p.Job] && !isFixed(&m.Jobs[p.Job]) {
				return true
			}
		}
	}
	return false
}
