package online

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// reader reads what a writer wrote. It remembers its first error, after which every
// method returns the zero value.
type reader struct {
	b   []byte
	err error
	parts
}

var errSnapshot = errors.New("contradicts itself")

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", what, errSnapshot)
	}
	r.b = nil
}

func (r *reader) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > limit {
		r.fail("number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// int reads a number between −1 and limit.
func (r *reader) int(limit int64) int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 || v < -1 || v > limit {
		r.fail("number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// past reads a time up to limit, which is below 0 for work that ran before the session began.
func (r *reader) past(limit int64) int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 || v < -hare.MaxExact || v > limit {
		r.fail("number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads a length of a list whose entries take at least a byte.
func (r *reader) count() int { return int(r.uint(uint64(len(r.b)))) }

func (r *reader) bool() bool { return r.uint(1) == 1 }

func (r *reader) text() string {
	n := r.count()
	if n > len(r.b) {
		r.fail("text")
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) core(policy string) (*core, error) {
	p := params{policy: r.text()}
	for range r.count() {
		p.thresholds = append(p.thresholds, r.int(hare.MaxExact))
	}
	p.kappa = r.int(math.MaxInt64)
	p.reference = r.text()
	if r.err == nil && p.policy != policy {
		return nil, snapshotError("is one of the policy %q, not of %q", p.policy, policy)
	}
	c := newCore(params{})
	c.params = p
	c.nowUs = r.int(hare.MaxExact)
	c.tickets = r.uint(1 << 55)
	if p.kappa < 0 || c.nowUs < 0 || len(p.thresholds) >= maxQueues {
		r.fail("settings")
	}
	for range r.count() {
		name := r.text()
		if _, twice := c.typeOf[name]; twice || len(c.types) == maxTypes {
			r.fail("types")
			break
		}
		t := &c.types[c.kind(name)]
		t.priorSum, t.priorCount = r.int(math.MaxInt64), r.int(math.MaxInt64)
	}
	if k, ok := c.typeOf[p.reference]; ok && p.reference != "" {
		c.ref = k
	}
	r.gpus(c)
	if r.levels {
		r.topology(c)
	}
	if r.nodes {
		r.describe(c)
	}
	if r.quotas {
		r.readQuotas(c)
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		r.job(c)
	}
	var claim []string
	claimer := none
	if r.nodes {
		claimer, claim = r.claim(c)
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail("length")
	}
	if r.err == nil && c.rebuild(claimer, claim) {
		return c, nil
	}
	r.fail("nodes")
	return nil, snapshotError("cannot be read (%v)", r.err)
}

func (r *reader) gpus(c *core) {
	for n := r.count(); n > 0 && r.err == nil; n-- {
		slot := int(r.uint(2 * hare.MaxGPUs))
		name, kind := r.text(), int32(r.uint(maxTypes))
		if _, twice := c.gpuOf[name]; twice || name == "" || slot < len(c.gpus) || int(kind) >= len(c.types) {
			r.fail("gpus")
			return
		}
		for len(c.gpus) < slot {
			c.vacantGPUs.add(int32(len(c.gpus)))
			c.gpus = append(c.gpus, gpu{job: none, prev: none, next: none})
		}
		c.gpus = append(c.gpus, gpu{name: name, kind: kind, job: none, prev: none, next: none})
		c.gpuOf[name] = int32(slot)
		c.types[kind].total++
		c.freeGPU(int32(slot))
	}
}

func (r *reader) job(c *core) {
	ji := c.newSlot()
	j := &c.jobs[ji]
	*j = job{alive: true, head: none, tail: none, taskGPUs: 1}
	j.id = r.text()
	j.sync = hare.Sync(r.uint(uint64(hare.Rigid)))
	j.mix = r.bool()
	j.tasks = r.int(hare.MaxExact)
	v, n := binary.Varint(r.b) // any weight
	if n <= 0 {
		r.fail("weight")
		return
	}
	j.weight, r.b = v, r.b[n:]
	for range r.count() {
		p := profile{kind: int32(r.uint(maxTypes)), given: r.bool()}
		for _, at := range []*int64{&p.computeUs, &p.syncUs, &p.sumUs, &p.count} {
			*at = max(r.int(math.MaxInt64), 0)
		}
		if int(p.kind) >= len(c.types) || j.mask>>p.kind != 0 {
			r.fail("profiles")
			return
		}
		j.mask |= 1 << p.kind
		j.on = append(j.on, p)
	}
	if r.nodes {
		if r.rules(c, j); j.rules != nil && placement.Matters(j.rules) {
			c.placedJobs++
		}
	}
	j.seq, j.ticket, j.owns = r.uint(c.tickets), r.uint(c.tickets), r.uint(math.MaxUint64)
	queue := r.int(int64(len(c.thresholds)))
	j.queue = int32(queue)
	for _, at := range []*int64{&j.round, &j.next, &j.ended, &j.attained, &j.attainedUs,
		&j.executedUs, &j.waitedUs, &j.stateUs, &j.arrivedUs, &j.startedUs, &j.doneRounds} {
		*at = r.int(math.MaxInt64)
	}
	if _, twice := c.jobOf[j.id]; twice || j.id == "" || r.err != nil {
		r.fail("jobs")
		return
	}
	c.jobOf[j.id] = ji
	r.tasksOf(c, ji)
	if r.err == nil && !c.consistent(j) {
		r.fail("jobs")
	}
}

// tasksOf reads the lost, the synchronising and the running tasks of a job.
func (r *reader) tasksOf(c *core, ji int32) {
	j := &c.jobs[ji]
	last := int64(-1)
	for n := r.count(); n > 0 && r.err == nil; n-- {
		t := r.int(j.next - 1)
		if t <= last {
			r.fail("tasks")
			return
		}
		j.redo, last = append(j.redo, t), t
	}
	last = -1
	for n := r.count(); n > 0 && r.err == nil; n-- {
		s := syncing{task: r.int(j.next - 1), gpus: r.text(), kind: int32(r.uint(maxTypes))}
		if r.nodes {
			s = newSyncing(s.task, s.gpus, s.kind, hare.OtherGPUs(r.text()))
		}
		if s.task <= last || int(s.kind) >= len(c.types) {
			r.fail("tasks")
			return
		}
		j.syncing, last = append(j.syncing, s), s.task
	}
	last = -1
	for n := r.count(); n > 0 && r.err == nil; n-- {
		g, task, ended, since := int32(r.uint(2*hare.MaxGPUs)), r.int(j.next-1), r.bool(), r.past(c.nowUs)
		follows := j.held%j.taskGPUs > 0
		if int(g) >= len(c.gpus) || c.gpus[g].name == "" || c.gpus[g].job != none || (task == last) != follows ||
			task < last || follows && !(ended && c.besides(j.tail, g)) || j.mask>>c.gpus[g].kind&1 == 0 {
			r.fail("tasks")
			return
		}
		last = task
		c.hold(ji, g, task)
		c.gpus[g].ended, c.gpus[g].follows, c.gpus[g].sinceUs = ended, follows, since
	}
	if j.held%j.taskGPUs != 0 {
		r.fail("tasks")
		return
	}
	j.active = j.held/j.taskGPUs + int64(len(j.syncing))
}

// consistent checks that the numbers of a job that was read fit together.
func (c *core) consistent(j *job) bool {
	started := j.next - int64(len(j.redo))
	switch {
	case j.tasks < 1 || len(j.on) == 0 || j.queue < 0 || j.next < 0 || j.next > j.tasks || j.ended < 0 ||
		j.round < 0 || j.attained < 0 || j.attainedUs < 0 || j.executedUs < 0 || j.executedUs > hare.MaxExact ||
		j.waitedUs < 0 || j.waitedUs > hare.MaxExact || j.stateUs < 0 || j.stateUs > c.nowUs || j.seq == 0 ||
		j.ticket == 0:
		return false
	case j.owns&^j.mask != 0 || j.owns != 0 && (j.sync == hare.Relaxed || j.active > 0) || c.owned&j.owns != 0:
		return false
	}
	c.owned |= j.owns
	if j.sync == hare.Relaxed {
		return !j.mix && started == j.active+j.ended && j.ended < j.tasks
	}
	ended := int64(0)
	for g := j.head; g != none; g = c.gpus[g].next {
		if c.gpus[g].ended && !c.gpus[g].follows {
			ended++
		}
	}
	return len(j.redo) == 0 && len(j.syncing) == 0 && (j.held == 0 || j.held == j.tasks*j.taskGPUs) &&
		j.next == j.held/j.taskGPUs &&
		ended == j.ended && (j.held == 0 || ended < j.tasks) && (!j.mix || j.sync == hare.Gang)
}

// rebuild derives the classes, the ready queues and the guard's heap.
//
// It also builds what is free on nodes, and keeps nodes for the job that claims them; false says
// that those are not in service.
func (c *core) rebuild(claimer int32, claim []string) bool {
	if c.placedJobs > 0 || len(c.quotas) > 0 {
		c.goByNodes()
	}
	c.holding = len(c.quotas) > 0
	if c.nodes != nil && slices.ContainsFunc(c.jobs, func(j job) bool { return j.owns != 0 }) {
		return false
	}
	if claimer != none {
		c.claim = nodeClaim{job: claimer, nodes: map[int32]bool{}}
		for _, name := range claim {
			n, ok := c.nodes.Number(name)
			if !ok {
				return false
			}
			c.claim.nodes[n] = true
		}
	}
	for i := range c.jobs {
		ji, j := int32(i), &c.jobs[i]
		j.setSpeeds()
		c.joinClass(ji)
		for k := range c.types {
			if j.owns>>k&1 == 1 {
				c.types[k].owner = ji
			}
		}
		if j.ready() > 0 && j.owns == 0 {
			c.enter(ji)
		}
		j.heldBack = j.queue > 0 && j.active == 0 && len(c.lacking(j)) > 0
		c.watch(ji)
	}
	return true
}
