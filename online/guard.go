package online

import (
	"math"

	"github.com/hare-sched/hare/internal/saturating"
)

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
