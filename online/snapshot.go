package online

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// snapshotForm begins every snapshot; its number is the version. Varints and strings with their lengths follow: the
// settings, the time, the types, the GPUs by slot, the topology, the nodes with labels or limits, the quotas, the jobs
// by arrival and the nodes that are kept for a job. The SHA-256 of all that stands before ends the snapshot. Heaps are
// not stored but rebuilt.
const snapshotForm = "hare-online/2\n"

// parts says which parts a snapshot has besides settings, types, GPUs and jobs: nodes are the nodes, the rules and
// the other GPUs of tasks, and the kept nodes; quotas are also the users of jobs; levels are the topology and the
// levels of jobs.
type parts struct{ nodes, quotas, levels bool }

// forms are the forms of snapshots that are read. Version 1 had a form for each part that a session made use of.
var forms = map[string]parts{
	snapshotForm:             {nodes: true, quotas: true, levels: true},
	"hare-online/1\n":        {},
	"hare-online-nodes/1\n":  {nodes: true},
	"hare-online-quotas/1\n": {nodes: true, quotas: true},
	"hare-online-levels/1\n": {nodes: true, quotas: true, levels: true},
}

type writer struct{ b []byte }

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
	w := &writer{append(b, snapshotForm...)}
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
	w.names(c.described.Topology())
	w.describe(c.described.All())
	w.writeQuotas(c.quotas)
	order := c.byArrival()
	w.uint(uint64(len(order)))
	for _, ji := range order {
		c.writeJob(w, &c.jobs[ji])
	}
	c.writeClaim(w)
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
	w.rules(j, c.levelsOf(j.rules))
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
		w.text(string(others))
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
	if at := bytes.IndexByte(snapshot, '\n'); at >= 0 {
		form = string(snapshot[:at+1])
	}
	has, known := forms[form]
	if n < 0 || !known {
		return nil, snapshotError("is torn, or of another version")
	}
	if sum := checksum(snapshot[:n]); !bytes.Equal(sum[:], snapshot[n:]) {
		return nil, snapshotError("does not have the checksum that it states: it is torn or was altered")
	}
	if n < len(form) {
		return nil, snapshotError("is torn, or of another version")
	}
	r := &reader{b: snapshot[len(form):n], parts: has}
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
