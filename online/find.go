package online

import (
	"slices"

	"github.com/hare-sched/hare"
)

func (c *core) findJob(id string) (int32, *hare.InvalidError) {
	// Events of a job often follow each other.
	if ji := c.lastFound.job; int(ji) < len(c.jobs) && c.jobs[ji].alive && c.jobs[ji].id == id {
		return ji, nil
	}
	if ji, ok := c.jobOf[id]; ok {
		c.lastFound.job = ji
		return ji, nil
	}
	return none, UnknownJob(id)
}

// findTask finds the running task that an event names: g is the GPU that runs the
// task; for a relaxed task that has left its GPU, g is none and at is the index of
// the task in job.syncing.
func (c *core) findTask(e *hare.Event) (ji, g int32, at int, err *hare.InvalidError) {
	ji, err = c.findJob(e.Job)
	if err != nil {
		return
	}
	j := &c.jobs[ji]
	if e.Round != j.round {
		err = WrongRound(e, j.round)
		return
	}
	if g = c.findHeld(j, ji, e); g != none {
		return
	}
	at, ok := slices.BinarySearchFunc(j.syncing, e.Task, func(s syncing, t int64) int { return compare(s.task, t) })
	if !ok || !j.syncing[at].on(e.GPU) {
		err = NotRunning(e)
	}
	return
}

// findHeld is the GPU that runs the task of an event, or none. Tasks mostly end in
// the order of their starts, so the GPU that follows the last one found, and the
// first GPU of the job, are tried before the GPU is looked up by its name.
func (c *core) findHeld(j *job, ji int32, e *hare.Event) int32 {
	for _, g := range [...]int32{c.lastFound.next, j.head} {
		if g >= 0 && int(g) < len(c.gpus) && c.gpus[g].job == ji && c.gpus[g].task == e.Task && !c.gpus[g].ended &&
			c.gpus[g].name == e.GPU {
			c.lastFound.next = c.gpus[g].next
			return g
		}
	}
	g, ok := c.gpuOf[e.GPU]
	if !ok || c.gpus[g].job != ji || c.gpus[g].task != e.Task || c.gpus[g].ended {
		return none
	}
	c.lastFound.next = c.gpus[g].next
	return g
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
