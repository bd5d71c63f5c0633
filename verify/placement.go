package verify

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// placeChecker checks the rules of docs/reference/model.md for the entries of one job after another,
// except what tasks of several jobs hold together.
type placeChecker struct {
	cluster *hare.Cluster
	nodeOf  []int32   // by lane
	spec    *hare.Job // the job with its shapes while one with shapes is checked
	order   []int32   // the entries of a job by node, then equal entries together
	changes []roundChange
}

// roundChange says that from a round on, a node has so many entries more in each round.
type roundChange struct {
	round int64
	by    int64
	entry int32
}

// check finds a job's entry on a node that the job may not use, g equal entries that are
// not complete, or two tasks of a round on a node that must be on distinct nodes. It also sets
// until in one piece of each task, to the end of compute of the last round. check takes
// O(n log n).
func (pl *placeChecker) check(job *hare.Job, ps []piece) (constraint string, line int32, detail string) {
	g := gpusOf(job)
	if pl.spec != nil {
		g = 0 // each entry has that of its shape
	}
	holds := job.CPUMilliPerTask > 0 || job.MemoryMiBPerTask > 0
	if g == 1 && !holds && !job.DistinctNodes && len(job.Only)+len(job.Exclude) == 0 {
		return "", 0, ""
	}
	pl.order = pl.order[:0]
	for i := range ps {
		pl.order = append(pl.order, int32(i))
	}
	slices.SortFunc(pl.order, func(a, b int32) int {
		x, y := &ps[a], &ps[b]
		return cmp.Or(cmp.Compare(pl.nodeOf[x.gpu], pl.nodeOf[y.gpu]), compareEntries(x, y), cmp.Compare(a, b))
	})
	for from := 0; from < len(pl.order); {
		node := pl.nodeOf[ps[pl.order[from]].gpu]
		to := from
		for to < len(pl.order) && pl.nodeOf[ps[pl.order[to]].gpu] == node {
			to++
		}
		here := pl.order[from:to]
		if !allows(job, &pl.cluster.Nodes[node]) {
			return CodeNode, here[0], "the job may not use this node"
		}
		if line := pl.tasksOn(here, ps, g); line >= 0 {
			return CodeTask, line, fmt.Sprintf(
				"the entries equal to this one on its node and type are not a multiple of the %d GPUs of a task",
				pl.gpus(g, &ps[line]))
		}
		if job.DistinctNodes {
			if line := pl.crowded(here, ps, g); line >= 0 {
				return CodeDistinct, line, "a node has two tasks of a round, although the job wants distinct nodes"
			}
		}
		from = to
	}
	return "", 0, ""
}

// gpus returns the number of GPUs of a task of an entry, which is g where all shapes have as many.
func (pl *placeChecker) gpus(g int64, p *piece) int64 {
	if pl.spec == nil {
		return g
	}
	_, shape := profileOf(pl.spec, p.mode)
	return max(1, pl.spec.Shapes[shape].GPUsPerTask)
}

// compareEntries orders the entries of a job on a node such that the entries of equal tasks
// follow each other.
func compareEntries(x, y *piece) int {
	return cmp.Or(cmp.Compare(x.mode, y.mode), cmp.Compare(x.round, y.round), cmp.Compare(x.rounds, y.rounds),
		cmp.Compare(x.tasks, y.tasks), cmp.Compare(x.period, y.period), cmp.Compare(x.start, y.start))
}

// tasksOn checks that equal entries on a node come in multiples of g, and returns an entry
// that does not, or −1. The first of every g equal entries stands for what the task holds.
func (pl *placeChecker) tasksOn(here []int32, ps []piece, g int64) int32 {
	for len(here) > 0 {
		first := &ps[here[0]]
		g := pl.gpus(g, first)
		n := int64(0)
		for n < int64(len(here)) && compareEntries(first, &ps[here[n]]) == 0 {
			if x := &ps[here[n]]; n%g == 0 {
				x.until = x.startOf(x.lastRound()) + x.compute
			}
			n++
		}
		if n%g != 0 {
			return here[0]
		}
		here = here[n:]
	}
	return -1
}

// crowded returns an entry on a node on which some round has more than g entries, or −1.
func (pl *placeChecker) crowded(here []int32, ps []piece, g int64) int32 {
	pl.changes = pl.changes[:0]
	for _, i := range here {
		x := &ps[i]
		pl.changes = append(pl.changes, roundChange{x.round, 1, i}, roundChange{x.round + x.rounds, -1, i})
	}
	slices.SortFunc(pl.changes, func(a, b roundChange) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.by, b.by))
	})
	n := int64(0)
	for _, c := range pl.changes {
		if n += c.by; c.by > 0 && n > g && n > pl.gpus(g, &ps[c.entry]) {
			return c.entry
		}
	}
	return -1
}
