package online

import (
	"math"
	"math/bits"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/saturating"
)

// schedule starts whatever can start: it serves the first of the ready jobs that
// may use a free GPU, until no ready job can be served. For a gang that is first and
// does not find enough free GPUs, its cheapest type is gathered: the GPUs of that
// type that are free or become free are kept until the gang starts. A type is
// gathered for one gang at a time, and a gang gathers one type at a time, or several
// where it may mix them; a gang that gathers starts on other types if it can when its
// turn comes. The cost is O(types log jobs) for each task that starts, but see first.
func (c *core) schedule() {
	if c.nodes != nil {
		c.scheduleOnNodes()
		return
	}
	for {
		ji, set := c.next()
		switch {
		case ji == none:
			return
		case set == 0:
			c.gather(ji)
		case c.jobs[ji].sync == hare.Relaxed:
			c.startTask(ji, c.types[c.cheapest(&c.jobs[ji], set, 1, true)].free.least())
		default:
			c.startGang(ji, set)
		}
	}
}

// next is the job to serve and the set of types on which the job can start; the set
// is empty where types must be gathered for the job first. The types that are
// gathered for a gang are kept for it alone, but for other types the gang waits its
// turn: if it passed the jobs before it there, gangs that gather one type and run on
// another in turns could keep the first job waiting for ever.
func (c *core) next() (ji int32, set uint64) {
	for m := c.owned; m != 0; m &= m - 1 {
		ji := c.types[bits.TrailingZeros64(m)].owner
		if j := &c.jobs[ji]; c.canStart(j, j.owns) {
			return ji, j.owns
		}
	}
	open := c.free &^ c.owned
	if open == 0 {
		return none, 0
	}
	ji = c.first(open)
	for m := c.owned; m != 0; m &= m - 1 {
		oi := c.types[bits.TrailingZeros64(m)].owner
		o := &c.jobs[oi]
		if (ji == none || o.order() < c.jobs[ji].order()) && c.canStart(o, o.owns|open) {
			ji = oi
		}
	}
	if ji == none {
		return none, 0
	}
	j := &c.jobs[ji]
	if j.owns != 0 || j.sync == hare.Relaxed || c.canStart(j, open) {
		return ji, j.owns | open
	}
	return ji, 0
}

// gatherNext does what schedule does until schedule would start a task.
func (c *core) gatherNext() {
	for {
		ji, set := c.next()
		if ji == none || set != 0 {
			return
		}
		c.gather(ji)
	}
}

// gatherOnly does what schedule does but starts no task: after recorded decisions
// the same types are gathered for the same gangs as after schedule.
func (c *core) gatherOnly() {
	open := c.free &^ c.owned
	for open != 0 {
		ji := c.first(open)
		if ji == none {
			return
		}
		j := &c.jobs[ji]
		if j.sync == hare.Relaxed || c.canStart(j, open) {
			open &^= j.mask // this version would start the job; the record did not
			continue
		}
		c.gather(ji)
		open &^= c.owned
	}
}

// first is the first of the ready jobs that may use a GPU of the open types, or
// none. The cost is O(types) unless a gang that may mix types is ready; then it is
// O(types) for each class before the one that is found.
func (c *core) first(open uint64) int32 {
	best := none
	bestKey, free := uint64(math.MaxUint64), uint64(0)
	for m := open; m != 0; m &= m - 1 {
		t := &c.types[bits.TrailingZeros64(m)]
		free += uint64(t.free.n)
		if ready := t.ready.jobHeap; len(ready) > 0 && ready[0].key < bestKey {
			best, bestKey = ready[0].job, ready[0].key
		}
	}
	if best == none {
		return none
	}
	if !c.mayServe(&c.classes[best], open) {
		best, bestKey = none, math.MaxUint64
		for m := open; m != 0; m &= m - 1 {
			t := &c.types[bits.TrailingZeros64(m)]
			// Behind the first gang that may mix types, no gang may gather this
			// type, and a gang wider than the number of free GPUs cannot start.
			mix := uint64(math.MaxUint64)
			if len(t.mix.jobHeap) > 0 {
				mix = t.mix.jobHeap[0].key
			}
			for i := range t.ready.jobHeap {
				x := &t.ready.jobHeap[i]
				if x.key < bestKey && (x.tie <= free || x.key <= mix) && c.mayServe(&c.classes[x.job], open) {
					best, bestKey = x.job, x.key
				}
			}
		}
		if best == none {
			return none
		}
	}
	return c.classes[best].ready[0].job
}

// mayServe reports whether the first job of a class, which fits an open type, can
// start or gather.
func (c *core) mayServe(cl *class, open uint64) bool {
	if cl.width == 0 || c.mixing == 0 || c.canStart(&c.jobs[cl.ready[0].job], open) {
		return true
	}
	set := c.gatherable(cl)
	return set&open != 0 && (!cl.mix || c.inService(set) >= cl.width)
}

// gatherable is the set of types that may be gathered for the first gang of a class:
// the types that are gathered for no gang. While gangs that may mix types are ready,
// a type for which an earlier mixing gang waits is left out as well, and a mixing
// gang leaves out every type for which any earlier job waits. A mixing gang also
// gathers types that have no free GPU; without this rule two mixing gangs could pass
// such a type between them for ever, or two other gangs could keep a mixing one from
// ever having all of its types.
func (c *core) gatherable(cl *class) uint64 {
	set := cl.fits &^ c.owned
	if c.mixing == 0 {
		return set
	}
	for m := set; m != 0; m &= m - 1 {
		k := bits.TrailingZeros64(m)
		before := c.types[k].mix.jobHeap
		if cl.mix {
			before = c.types[k].ready.jobHeap
		}
		if len(before) > 0 && before[0].key < cl.listed {
			set &^= 1 << k
		}
	}
	return set
}

// inService is how many GPUs of a set of types are in service.
func (c *core) inService(set uint64) int64 {
	var n int64
	for m := set & (1<<len(c.types) - 1); m != 0; m &= m - 1 {
		n += c.types[bits.TrailingZeros64(m)].total
	}
	return n
}

// freeOf is how many GPUs of a set of types are free.
func (c *core) freeOf(set uint64) int64 {
	var n int64
	for m := set & c.free; m != 0; m &= m - 1 {
		n += int64(c.types[bits.TrailingZeros64(m)].free.n)
	}
	return n
}

// canStart reports whether the free GPUs of the types of set are enough for a gang.
func (c *core) canStart(j *job, set uint64) bool {
	return c.cheapest(j, set, j.tasks, false) != none || j.mix && c.freeOf(j.mask&set) >= j.tasks
}

// startGang starts the round of a gang for which canStart holds, on free GPUs of one
// type of set, or of several where the gang may mix types and must, the cheapest
// type first.
func (c *core) startGang(ji int32, set uint64) {
	j := &c.jobs[ji]
	k := c.cheapest(j, set, j.tasks, true)
	for range j.tasks {
		if k == none || c.types[k].free.n == 0 {
			k = c.cheapest(j, set, 1, true)
		}
		c.startTask(ji, c.types[k].free.least())
	}
}

// gather keeps the GPUs of a type that are free or become free for a gang. The type
// is the cheapest with a free GPU; a gang that may mix types has every gatherable
// type gathered for it.
func (c *core) gather(ji int32) {
	j := &c.jobs[ji]
	set := c.gatherable(&c.classes[j.class])
	c.leave(ji)
	if j.mix {
		j.owns = set
	} else {
		j.owns = 1 << c.cheapest(j, set, 1, false)
	}
	for m := j.owns; m != 0; m &= m - 1 {
		c.types[bits.TrailingZeros64(m)].owner = ji
	}
	c.owned |= j.owns
}

// ungather gives the types that are gathered for a job free again.
func (c *core) ungather(j *job) {
	for m := j.owns; m != 0; m &= m - 1 {
		c.types[bits.TrailingZeros64(m)].owner = none
	}
	c.owned &^= j.owns
	j.owns = 0
}

// startTask starts the next task of a job on a free GPU.
func (c *core) startTask(ji, g int32) {
	j := &c.jobs[ji]
	if j.active == 0 {
		c.execute(ji)
	}
	task := j.take()
	c.hold(ji, g, task)
	if j.ready() == 0 {
		c.ungather(j)
		c.leave(ji)
	}
	c.emit(hare.DecisionStart, j, task, c.gpus[g].name, "")
}

// take counts the start of the next task of a job, and is small enough to be inlined. A job
// without active tasks begins to execute before.
func (j *job) take() (task int64) {
	j.active++
	if len(j.redo) > 0 {
		return j.takeLost()
	}
	j.next++
	return j.next - 1
}

func (j *job) takeLost() (task int64) {
	task = j.redo[0]
	j.redo = j.redo[:copy(j.redo, j.redo[1:])]
	return task
}

// restart starts the round of a gang again on the GPUs that it holds.
func (c *core) restart(ji int32) {
	j := &c.jobs[ji]
	for g := j.head; g != none; g = c.gpus[g].next {
		x := &c.gpus[g]
		if c.nodes != nil {
			if !x.follows { // otherwise restarted with the first GPU of its task
				c.restartTask(j, g)
			}
			continue
		}
		x.task, x.ended, x.sinceUs = j.next, false, c.nowUs
		j.next++
		c.emit(hare.DecisionStart, j, x.task, x.name, "")
	}
	c.restarting = none
}

func (c *core) restartTask(j *job, g int32) {
	x := &c.gpus[g]
	x.task, x.ended, x.sinceUs = j.next, false, c.nowUs
	for h := x.next; h != none && c.gpus[h].follows; h = c.gpus[h].next {
		c.gpus[h].task, c.gpus[h].sinceUs = j.next, c.nowUs
	}
	j.next++
	c.emit(hare.DecisionStart, j, x.task, x.name, c.othersOf(g))
}

func (c *core) emit(t hare.DecisionType, j *job, task int64, gpu string, others hare.OtherGPUs) {
	c.out = append(c.out, hare.Decision{Type: t, Job: j.id, Round: j.round, Task: task, GPU: gpu, Others: others,
		AtUs: c.nowUs})
}

// execute ends the waiting time of a job of which no task ran and one starts.
func (c *core) execute(ji int32) {
	j := &c.jobs[ji]
	if j.queue > 0 && !j.heldBack {
		j.waitedUs += c.nowUs - j.stateUs
	}
	j.heldBack = false
	j.stateUs = c.nowUs
	if j.startedUs < 0 {
		j.startedUs = c.nowUs
	}
}

// wait ends the execution time of a job whose last running task has ended.
func (c *core) wait(ji int32) {
	j := &c.jobs[ji]
	j.executedUs += c.nowUs - j.stateUs
	j.stateUs = c.nowUs
	c.watch(ji)
}

// dueUs is when the guard acts on a job that waits in a lower queue.
func (c *core) dueUs(j *job) int64 {
	if j.heldBack {
		return math.MaxInt64
	}
	left := saturating.MulDiv(j.executedUs, c.kappa, 1e6) - j.waitedUs
	if left > math.MaxInt64-j.stateUs {
		return math.MaxInt64
	}
	return j.stateUs + max(left, 0)
}

// watch enters a job that waits in the guard's heap. An entry that is there already
// may be too early; guard corrects such an entry when it is due, so that most waits
// cost nothing here.
func (c *core) watch(ji int32) {
	j := &c.jobs[ji]
	if j.queue == 0 || j.active > 0 || j.heldBack {
		return
	}
	x := item{key: uint64(c.dueUs(j)), tie: j.ticket, job: ji}
	at := c.dueAt[ji]
	if at < 0 {
		c.due.push(x, c.dueAt)
	} else if x.before(&c.due[at]) {
		c.due[at] = x
		c.due.fix(int(at), c.dueAt)
	}
}

// holdBack stops the clock of the guard for the jobs that wait in lower queues and of which a quota
// has no room for a start, and goes on with the clock of the others. It takes O(jobs) where there are
// quotas.
func (c *core) holdBack() {
	quotas := len(c.quotas) > 0
	if !quotas && !c.holding {
		return
	}
	c.holding = quotas
	for i := range c.jobs {
		ji, j := int32(i), &c.jobs[i]
		if !j.alive || j.queue == 0 || j.active > 0 {
			continue
		}
		switch held := quotas && len(c.lacking(j)) > 0; {
		case held && !j.heldBack:
			j.waitedUs += c.nowUs - j.stateUs
			j.stateUs, j.heldBack = c.nowUs, true
		case !held && j.heldBack:
			j.stateUs, j.heldBack = c.nowUs, false
			c.watch(ji)
		}
	}
}

// guard returns the jobs that have waited long enough at nowUs to the first queue,
// in the order in which they fell due.
func (c *core) guard() {
	for len(c.due) > 0 && int64(c.due[0].key) <= c.nowUs {
		x := c.due[0]
		j := &c.jobs[x.job]
		if j.queue == 0 || j.active > 0 {
			c.due.remove(0, c.dueAt)
			continue
		}
		if due := c.dueUs(j); due > int64(x.key) {
			c.due[0] = item{key: uint64(due), tie: j.ticket, job: x.job}
			c.due.fix(0, c.dueAt)
			continue
		}
		c.due.remove(0, c.dueAt)
		j.queue, j.ticket = 0, c.ticket()
		j.attained, j.executedUs, j.waitedUs, j.stateUs = 0, 0, 0, c.nowUs
		c.reorder(x.job)
	}
}
