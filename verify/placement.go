package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// gpusOf returns g, the number of GPUs of one task.
func gpusOf(j *hare.Job) int64 { return max(1, j.GPUsPerTask) }

// allows reports whether a job may use a node: each label of only has one of its values there,
// and no label of exclude has. It takes O(labels · log values).
func allows(j *hare.Job, n *hare.Node) bool {
	for i := range j.Only {
		if !selects(&j.Only[i], n) {
			return false
		}
	}
	for i := range j.Exclude {
		if selects(&j.Exclude[i], n) {
			return false
		}
	}
	return true
}

// selects reports whether the node has the label with one of the values. The name of a node
// counts as its label "node".
func selects(lv *hare.LabelValues, n *hare.Node) bool {
	value := n.Name
	if lv.Label != "node" {
		at := slices.IndexFunc(n.Labels, func(l hare.Label) bool { return l.Name == lv.Label })
		if at < 0 {
			return false
		}
		value = n.Labels[at].Value
	}
	_, found := slices.BinarySearch(lv.Values, value)
	return found
}

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
				"the entries equal to this one on its node and type are no multiple of the %d GPUs of a task",
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

// heldChange says that from a time on, tasks on a node hold more or fewer CPUs and MiB.
type heldChange struct {
	at           int64
	node         int32
	starts       bool
	job          int32
	piece        int32 // −1 for running work
	cpus, memory int64
}

// checkHeld checks that the CPUs and the memory of each node suffice at each instant for
// the tasks that hold GPUs there. An entry holds from its first start to its last end. It
// returns a fault for each node without enough, and takes O(n log n) in entries of jobs that
// need what a node limits.
func (sc *scheduleCheck) checkHeld(lanes []hare.Lane) []Fault {
	nodes := sc.inst.Cluster.Nodes
	if !slices.ContainsFunc(nodes, func(n hare.Node) bool { return n.CPUMilli > 0 || n.MemoryMiB > 0 }) {
		return nil
	}
	var changes []heldChange
	from := 0
	for i := range sc.inst.Jobs {
		job := &sc.inst.Jobs[i]
		ps := sc.pieces[from:sc.next[i]]
		if job.CPUMilliPerTask > 0 || job.MemoryMiBPerTask > 0 {
			for x := range ps {
				p := &ps[x]
				n := sc.nodeOf[p.gpu]
				if p.until == 0 || nodes[n].CPUMilli == 0 && nodes[n].MemoryMiB == 0 {
					continue
				}
				c := heldChange{at: p.start, node: n, starts: true, job: int32(i), piece: int32(from + x),
					cpus: job.CPUMilliPerTask, memory: job.MemoryMiBPerTask}
				changes = append(changes, c)
				c.at, c.starts, c.cpus, c.memory = p.until, false, -c.cpus, -c.memory
				changes = append(changes, c)
			}
		}
		from = sc.next[i]
	}
	for _, h := range sc.running.shares(sc.inst) {
		c := heldChange{node: int32(h.node), starts: true, job: int32(h.job), piece: -1, cpus: h.cpus, memory: h.memory}
		changes = append(changes, c)
		c.at, c.starts, c.cpus, c.memory = h.until, false, -c.cpus, -c.memory
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b heldChange) int {
		early := func(c heldChange) int {
			if c.starts {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.at, b.at), cmp.Compare(early(a), early(b)),
			cmp.Compare(a.piece, b.piece))
	})
	var faults []Fault
	var cpus, memory int64
	faulty := false // the node has a fault already
	for x, c := range changes {
		if x == 0 || changes[x-1].node != c.node {
			cpus, memory, faulty = 0, 0, false
		}
		cpus += c.cpus
		memory += c.memory
		n := &nodes[c.node]
		var constraint, detail string
		switch {
		case n.CPUMilli > 0 && cpus > n.CPUMilli:
			constraint = CodeCPUs
			detail = fmt.Sprintf("the tasks on the node hold %s of its %s CPUs", thousandths(cpus), thousandths(n.CPUMilli))
		case n.MemoryMiB > 0 && memory > n.MemoryMiB:
			constraint = CodeMemory
			detail = fmt.Sprintf("the tasks on the node hold %d of its %d MiB", memory, n.MemoryMiB)
		}
		if constraint == "" || faulty || len(faults) == maxFaults {
			continue
		}
		faulty = true
		f := Fault{Constraint: constraint, Job: sc.inst.Jobs[c.job].ID,
			Detail: detail + " at " + hare.FormatMicros(c.at) + " s"}
		if c.piece >= 0 {
			p := &sc.pieces[c.piece]
			f.Round, f.GPU = &p.round, lanes[p.gpu].GPU
		}
		faults = append(faults, f)
	}
	return faults
}

// thousandths writes a number of thousandths.
func thousandths(n int64) string {
	s := fmt.Sprintf("%d.%03d", n/1000, n%1000)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
