package greedy

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare/model"
)

// hasAfter says whether some job waits for others.
func hasAfter(m *model.Model) bool {
	return slices.ContainsFunc(m.Jobs, func(j model.Job) bool { return len(j.After) > 0 })
}

// dependencies are the jobs that jobs wait for, seen from both sides.
type dependencies struct {
	topological []int32 // the jobs, predecessors first
	position    []int32 // by job: the index in topological
	successors  [][]model.Predecessor
	head, tail  []int64 // by job: no schedule starts it before head, and tail is from its start to the last end
}

// dependenciesOf takes O(jobs + predecessors).
func dependenciesOf(m *model.Model) *dependencies {
	d := &dependencies{position: make([]int32, len(m.Jobs)), successors: make([][]model.Predecessor, len(m.Jobs)),
		head: make([]int64, len(m.Jobs)), tail: make([]int64, len(m.Jobs))}
	for n, i := range m.Instance.TopologicalOrder() {
		d.topological = append(d.topological, int32(i))
		d.position[i] = int32(n)
		for _, p := range m.Jobs[i].After {
			d.successors[p.Job] = append(d.successors[p.Job], model.Predecessor{Job: i, LagUs: p.LagUs})
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
func leastTime(j *model.Job) int64 {
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

// sortItems sorts items by key and puts all items of a job before those of the jobs that wait
// for it. It takes O(n log n).
func (d *dependencies) sortItems(items []Item) {
	first := slices.Repeat([]float64{math.Inf(1)}, len(d.position))
	for x := range items {
		first[items[x].Job] = min(first[items[x].Job], items[x].Key)
	}
	d.inherit(first)
	for x := range items {
		it := &items[x]
		for _, s := range d.successors[it.Job] {
			it.Key = min(it.Key, first[s.Job])
		}
	}
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(d.position[a.Job], d.position[b.Job]),
			cmp.Compare(a.Round, b.Round))
	})
}

// readyAt returns the time before which job i cannot start when its predecessors end at ends.
func readyAt(m *model.Model, i int, ends []int64) int64 {
	ready := earliestStart(&m.Jobs[i])
	for _, p := range m.Jobs[i].After {
		ready = max(ready, ends[p.Job]+p.LagUs)
	}
	return ready
}

// annealEdge is a job for which another waits, within the jobs of an annealProblem.
type annealEdge struct {
	job int32
	lag int64
}

// maxDragged is the number of jobs that a move may take along so that predecessors stay first.
const maxDragged = 32

// withDependencies returns the changes of a move, and changes of the keys of other jobs that
// keep predecessors before the jobs that wait for them: a job that moves forward takes its
// predecessors along, and one that moves back its successors. It returns nil where this takes
// too many jobs along.
func (dec *decoder) withDependencies(changes ...change) []change {
	p := dec.p
	if !p.ordered {
		return changes
	}
	find := func(j int32) int { return slices.IndexFunc(changes, func(c change) bool { return c.job == j }) }
	keyOf := func(j int32) int64 {
		if at := find(j); at >= 0 {
			return changes[at].key
		}
		return dec.key[j]
	}
	precedes := func(a, b int32) bool {
		x, y := keyOf(a), keyOf(b)
		return x < y || x == y && a < b
	}
	for x := 0; x < len(changes); x++ {
		c := changes[x]
		drag := func(j int32, key int64) bool {
			// The two jobs of a move may wait for each other: the move then has no place.
			if find(j) >= 0 || len(changes) >= maxDragged {
				return false
			}
			changes = append(changes, change{j, key, dec.plan[j]})
			return true
		}
		for _, e := range p.jobs[c.job].before {
			if !precedes(e.job, c.job) && !drag(e.job, c.key-1) {
				return nil
			}
		}
		for _, e := range p.jobs[c.job].behind {
			if !precedes(c.job, e.job) && !drag(e.job, c.key+1) {
				return nil
			}
		}
	}
	for _, c := range changes {
		for _, e := range p.jobs[c.job].before {
			if !precedes(e.job, c.job) {
				return nil
			}
		}
		for _, e := range p.jobs[c.job].behind {
			if !precedes(c.job, e.job) {
				return nil
			}
		}
	}
	return changes
}

// readyAt returns the time before which job j cannot start in the state that is decoded.
func (dec *decoder) readyAt(j int32) int64 {
	a := dec.form(j)
	ready := a.release
	for _, e := range a.before {
		ready = max(ready, dec.currentEnd(e.job)+e.lag)
	}
	return ready
}

// currentEnd returns the end of job j, as the trial places it if the trial has moved it.
func (dec *decoder) currentEnd(j int32) int64 {
	if dec.trialOf[j] == dec.trial {
		return dec.newEnd[j]
	}
	return dec.end[j]
}

// wake lets the trial decode the jobs again that wait for job j.
func (dec *decoder) wake(j int32) {
	for _, e := range dec.p.jobs[j].behind {
		for _, k := range dec.p.columns(&dec.plan[e.job]) {
			x := &dec.dirty[k]
			if !x.touched {
				dec.markDirty(k, dec.key[e.job])
			}
			x.hi = max(x.hi, dec.key[e.job])
			at := dec.find(k, e.job)
			if x.active && x.next <= at {
				continue // the type is decoded up to hi
			}
			if !x.active {
				x.active = true
				dec.active = append(dec.active, k)
			}
			x.positioned, x.next = false, at
			x.from = min(x.from, at)
		}
	}
}

// orderBy sorts the jobs by rank and puts predecessors first; ties go by index. It may lower
// ranks.
func (ap *annealProblem) orderBy(rank []float64) []int32 {
	if !ap.ordered {
		return orderBy(rank)
	}
	byJob := slices.Repeat([]float64{math.Inf(1)}, len(ap.m.Jobs))
	for i := range ap.jobs {
		byJob[ap.jobs[i].index] = rank[i]
	}
	ap.dependencies.inherit(byJob)
	order := make([]int32, len(rank))
	for j := range order {
		order[j] = int32(j)
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := ap.jobs[a].index, ap.jobs[b].index
		return cmp.Or(cmp.Compare(byJob[x], byJob[y]),
			cmp.Compare(ap.dependencies.position[x], ap.dependencies.position[y]))
	})
	return order
}

// move is try for the changes of a move, with those that dependencies need.
func (dec *decoder) move(changes ...change) (delta float64, ok bool) {
	if changes = dec.withDependencies(changes...); changes == nil {
		return 0, false
	}
	return dec.try(changes...)
}

// waitAcross says whether some of the given jobs and some others wait for each other.
func waitAcross(m *model.Model, jobs []int) bool {
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
