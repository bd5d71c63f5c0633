package online

import "math"

// execute and wait switch the clocks of a job, whose first task started or
// last one ended.
func (c *core) execute(ji int32) {
	j := &c.jobs[ji]
	if j.queue > 0 {
		j.waitedUs += c.nowUs - j.stateUs
	}
	j.stateUs = c.nowUs
	if j.startedUs < 0 {
		j.startedUs = c.nowUs
	}
}

func (c *core) wait(ji int32) {
	j := &c.jobs[ji]
	j.executedUs += c.nowUs - j.stateUs
	j.stateUs = c.nowUs
	c.watch(ji)
}

// dueUs is when the guard acts on a job that waits in a lower queue.
func (c *core) dueUs(j *job) int64 {
	patience := mulDiv(j.executedUs, c.kappa, 1e6) - j.waitedUs
	if patience > math.MaxInt64-j.stateUs {
		return math.MaxInt64
	}
	return j.stateUs + max(patience, 0)
}

// watch tells the guard of a job that waits. An entry that is too early
// corrects itself in guard, so that most waits cost nothing here.
func (c *core) watch(ji int32) {
	j := &c.jobs[ji]
	if j.queue == 0 || j.active > 0 {
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

// guard returns to the first queue the jobs that have waited long enough at
// nowUs, in the order in which they fell due.
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
