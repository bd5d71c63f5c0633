package online

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// snapshotForm begins every snapshot. Varints and strings with their lengths follow:
// the settings, the time, the types, the GPUs by slot and the jobs by arrival. The
// SHA-256 of all that stands before ends the snapshot. Heaps are not stored but
// rebuilt.
const snapshotForm = "hare-online/1\n"

// nodesForm begins a snapshot of a session in which nodes have labels or limits, or jobs have
// rules about nodes. It has the nodes behind the GPUs, the rules behind the profiles of each
// job, and the nodes that are kept for a job at the end.
const nodesForm = "hare-online-nodes/1\n"

// quotasForm is nodesForm of a session with quotas, or with jobs of which the users are known. It
// has the quotas behind the nodes, and the users behind the rules of each job.
const quotasForm = "hare-online-quotas/1\n"

// levelsForm is quotasForm of a session on a cluster with a topology, or with jobs that have levels. It
// has the topology before the nodes, and the names of the levels behind the users of each job.
const levelsForm = "hare-online-levels/1\n"

type writer struct {
	b []byte
	// levels is by levelsForm, quotas by levelsForm or quotasForm, and nodes by all but snapshotForm.
	nodes, quotas, levels bool
}

func (wr *writer) int(v int64)   { wr.b = binary.AppendVarint(wr.b, v) }
func (wr *writer) uint(v uint64) { wr.b = binary.AppendUvarint(wr.b, v) }

func (wr *writer) bool(v bool) {
	if v {
		wr.b = append(wr.b, 1)
	} else {
		wr.b = append(wr.b, 0)
	}
}

func (wr *writer) text(s string) {
	wr.uint(uint64(len(s)))
	wr.b = append(wr.b, s...)
}

func (c *core) appendSnapshot(b []byte) []byte {
	start := len(b)
	nodes := c.described.All()
	w := &writer{b: b, levels: c.usesLevels()}
	w.quotas = w.levels || len(c.quotas) > 0 || c.knowsUsers()
	w.nodes = w.quotas || len(nodes) > 0 || c.placedJobs > 0
	switch {
	case w.levels:
		w.b = append(w.b, levelsForm...)
	case w.quotas:
		w.b = append(w.b, quotasForm...)
	case w.nodes:
		w.b = append(w.b, nodesForm...)
	default:
		w.b = append(w.b, snapshotForm...)
	}
	w.text(c.policy)
	w.uint(uint64(len(c.thresholds)))
	for _, t := range c.thresholds {
		w.int(t)
	}
	w.int(c.kappa)
	w.text(c.reference)
	w.int(c.nowUs)
	w.uint(c.tickets)
	w.uint(uint64(len(c.types)))
	for i := range c.types {
		t := &c.types[i]
		w.text(t.name)
		w.int(t.priorSum)
		w.int(t.priorCount)
	}
	w.uint(uint64(len(c.gpuOf)))
	for i := range c.gpus {
		if g := &c.gpus[i]; g.name != "" {
			w.uint(uint64(i))
			w.text(g.name)
			w.uint(uint64(g.kind))
		}
	}
	if w.levels {
		w.names(c.described.Topology())
	}
	if w.nodes {
		w.describe(nodes)
	}
	if w.quotas {
		w.writeQuotas(c.quotas)
	}
	order := c.byArrival()
	w.uint(uint64(len(order)))
	for _, ji := range order {
		c.writeJob(w, &c.jobs[ji])
	}
	if w.nodes {
		c.writeClaim(w)
	}
	sum := checksum(w.b[start:])
	return append(w.b, sum[:]...)
}

// byArrival lists the active jobs in the order in which they arrived.
func (c *core) byArrival() []int32 {
	order := make([]int32, 0, len(c.jobOf))
	for i := range c.jobs {
		if c.jobs[i].alive {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(c.jobs[a].seq, c.jobs[b].seq) })
	return order
}

func (c *core) writeJob(w *writer, j *job) {
	w.text(j.id)
	w.uint(uint64(j.sync))
	w.bool(j.mix)
	w.int(j.tasks)
	w.int(j.weight)
	w.uint(uint64(len(j.on)))
	for i := range j.on {
		p := &j.on[i]
		w.uint(uint64(p.kind))
		w.bool(p.given)
		for _, v := range []int64{p.computeUs, p.syncUs, p.sumUs, p.count} {
			w.int(v)
		}
	}
	if w.nodes {
		w.rules(j, c.levelsOf(j.rules))
	}
	w.uint(j.seq)
	w.uint(j.ticket)
	w.uint(j.owns)
	for _, v := range []int64{int64(j.queue), j.round, j.next, j.ended, j.attained, j.attainedUs,
		j.executedUs, j.waitedUs, j.stateUs, j.arrivedUs, j.startedUs, j.doneRounds} {
		w.int(v)
	}
	w.uint(uint64(len(j.redo)))
	for _, t := range j.redo {
		w.int(t)
	}
	w.uint(uint64(len(j.syncing)))
	for i := range j.syncing {
		s := &j.syncing[i]
		w.int(s.task)
		gpu, others := s.names()
		w.text(gpu)
		w.uint(uint64(s.kind))
		if w.nodes {
			w.text(string(others))
		}
	}
	var held []int32
	for g := j.head; g != none; g = c.gpus[g].next {
		held = append(held, g)
	}
	// In a gang the order of starts is the order of the tasks; for other jobs the
	// order has no meaning.
	slices.SortFunc(held, func(a, b int32) int { return c.compareHeld(a, b) })
	w.uint(uint64(len(held)))
	for _, g := range held {
		x := &c.gpus[g]
		w.uint(uint64(g))
		w.int(x.task)
		w.bool(x.ended)
		w.int(x.sinceUs)
	}
}

// restore reads a snapshot of the named policy.
func restore(policy string, snapshot []byte) (*core, error) {
	n := len(snapshot) - sha256.Size
	form := ""
	for _, known := range []string{snapshotForm, nodesForm, quotasForm, levelsForm} {
		if bytes.HasPrefix(snapshot, []byte(known)) {
			form = known
		}
	}
	if n < 0 || form == "" {
		return nil, snapshotError("is torn, or of another version")
	}
	if sum := checksum(snapshot[:n]); !bytes.Equal(sum[:], snapshot[n:]) {
		return nil, snapshotError("does not have the checksum that it states: it is torn or was altered")
	}
	if n < len(form) {
		return nil, snapshotError("is torn, or of another version")
	}
	r := &reader{b: snapshot[len(form):n], nodes: form != snapshotForm, quotas: form == quotasForm || form == levelsForm,
		levels: form == levelsForm}
	c, err := r.core(policy)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func snapshotError(format string, a ...any) error {
	return Invalid("/snapshot", "bad_snapshot", "the snapshot "+format+": start from an older one and the log "+
		"behind it", a...)
}

func checksum(b []byte) [sha256.Size]byte { return sha256.Sum256(b) }
