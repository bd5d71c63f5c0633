package verify

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// scheduleCheck resolves the names of a schedule and gathers entries by job.
type scheduleCheck struct {
	inst   *hare.Instance
	jobOf  []int // the job of the instance for each of Schedule.Jobs
	nodes  directory
	before []int   // the number of GPUs of the nodes before
	nodeOf []int32 // by lane: the index of its node
	seen   []bool  // by GPU
	pieces []piece
	next   []int // by job of the instance: where in pieces its next entry goes

	running  *running
	cluster  []hare.Node // the nodes, with GPUs busy while running work holds them
	reserved *reservedNodes
	// opened and runsOn are nil unless GPUs need setups: when the first setup or start of each job
	// is, and which job's work runs on a GPU at time 0, by lane.
	opened []int64
	runsOn map[heldGPU]int
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

// quotaChange says that from a time on, more or fewer GPUs are held that a quota counts.
type quotaChange struct {
	at      int64
	by      int64 // 1 or −1
	running bool
	piece   int32 // −1 for running work
	job     int32
}

// checkQuotas checks that at each instant each quota suffices for the GPUs that count there.
// Running work may exceed a quota while nothing else that counts there holds GPUs. An entry
// holds its GPU from its first start to its last end. checkQuotas returns a fault for each quota
// that does not suffice. It takes O(n log n) for the n entries that some quota counts, once for
// each such quota.
func (sc *scheduleCheck) checkQuotas(lanes []hare.Lane) []Fault {
	var faults []Fault
	byUser := map[string][]int{} // jobs
	if len(sc.inst.Quota) > 0 {
		for i := range sc.inst.Jobs {
			for _, user := range sc.inst.Jobs[i].Users {
				byUser[user] = append(byUser[user], i)
			}
		}
	}
	var changes []quotaChange
	least := map[string]int64{} // GPUs, by users and types
	for x := range sc.inst.Quota {
		q := &sc.inst.Quota[x]
		key := fmt.Sprintf("%q %q", q.User, q.Types)
		if most, ok := least[key]; ok && most <= q.GPUs {
			continue // another quota is at least as strict
		}
		least[key] = q.GPUs
		changes = changes[:0]
		for _, h := range sc.running.gpus {
			if counts(q, &sc.inst.Jobs[h.job], h.kind) {
				changes = append(changes, quotaChange{0, 1, true, -1, int32(h.job)},
					quotaChange{h.until, -1, true, -1, int32(h.job)})
			}
		}
		for _, i := range byUser[q.User] {
			from := 0
			if i > 0 {
				from = sc.next[i-1]
			}
			job := &sc.inst.Jobs[i]
			for at := from; at < sc.next[i]; at++ {
				p := &sc.pieces[at]
				if on, _ := profileOf(job, p.mode); counts(q, job, on.Type) {
					changes = append(changes, quotaChange{p.start, 1, false, int32(at), int32(i)},
						quotaChange{p.frees, -1, false, int32(at), int32(i)})
				}
			}
		}
		if f := sc.exceeded(q, changes, lanes); f != nil {
			if faults = append(faults, *f); len(faults) == maxFaults {
				break
			}
		}
	}
	return faults
}

// exceeded returns a fault if a quota does not suffice at some time.
func (sc *scheduleCheck) exceeded(q *hare.Quota, changes []quotaChange, lanes []hare.Lane) *Fault {
	slices.SortFunc(changes, func(a, b quotaChange) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by), cmp.Compare(a.piece, b.piece))
	})
	running, others := int64(0), int64(0)
	for _, c := range changes {
		if c.running {
			running += c.by
			continue
		}
		others += c.by
		// Running work only ends, so that the quota is exceeded first when something else starts.
		if c.by > 0 && running+others > q.GPUs {
			p := &sc.pieces[c.piece]
			return &Fault{Constraint: CodeQuota, Job: sc.inst.Jobs[c.job].ID, Round: &p.round, GPU: lanes[p.gpu].GPU,
				Detail: fmt.Sprintf("the jobs of %.60q hold %d of the %d GPUs of their quota at %s s", q.User,
					running+others, q.GPUs, hare.FormatMicros(c.at))}
		}
	}
	return nil
}
