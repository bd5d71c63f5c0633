package online

import (
	"fmt"
	"math/bits"

	"github.com/hare-sched/hare"
)

// adopt is Durable.Adopt. Withdrawals follow from the event and must be the
// recorded ones; starts are choices, and every start that the state allows is
// taken. In a record the tasks of a round start lowest first and the starts of a
// gang stand together, whatever the policy.
func (c *core) adopt(nowUs int64, e *hare.Event, recorded []hare.Decision) error {
	c.out = c.out[:0]
	c.dirty = e.Type != hare.EventTaskEnded
	if err := c.apply(nowUs, e); err != nil {
		return fmt.Errorf("recorded event: %w", err)
	}
	n := len(c.out)
	if len(recorded) < n || !SameDecisions(c.out, recorded[:n]) {
		return fmt.Errorf("recorded decisions: the event withdraws %d tasks, and the record begins otherwise", n)
	}
	if c.nodes != nil && c.dirty {
		c.dropHeldClaim()
	}
	for starts := recorded[n:]; len(starts) > 0; {
		if c.restarting == none && c.nodes == nil {
			c.gatherNext()
		}
		used, err := c.adoptStart(starts)
		if err != nil {
			return fmt.Errorf("recorded decision %d: %w", len(recorded)-len(starts), err)
		}
		starts = starts[used:]
	}
	if c.restarting != none {
		return fmt.Errorf("recorded decisions: job %q holds its GPUs for the next round, and the record does not "+
			"start it", c.jobs[c.restarting].id)
	}
	switch {
	case c.nodes == nil:
		c.gatherOnly()
	case c.dirty:
		c.keepNodes()
		c.nodes.OpenQuotas()
	}
	c.holdBack()
	return nil
}

// adoptStart applies the start at the head of a list, with the rest of its
// gang, and returns the number of decisions applied.
func (c *core) adoptStart(starts []hare.Decision) (int, error) {
	d := &starts[0]
	ji, ok := c.jobOf[d.Job]
	if !ok {
		return 0, fmt.Errorf("no job %q", d.Job)
	}
	j := &c.jobs[ji]
	if c.restarting == ji {
		return c.adoptRestart(ji, starts)
	}
	n := 1
	if j.sync != hare.Relaxed {
		n = int(j.tasks)
		if len(starts) < n {
			return 0, fmt.Errorf("job %q starts %d tasks together, and %d are recorded", j.id, n, len(starts))
		}
	}
	if c.nodes != nil {
		return n, c.adoptOnNodes(ji, starts[:n])
	}
	var kinds uint64
	for i := range n {
		d := &starts[i]
		if err := c.checkStart(j, d); err != nil {
			return 0, err
		}
		if j.ready() == 0 || d.Task != j.lowest() {
			return 0, notNext(j, d)
		}
		g, err := c.checkFree(j, d.GPU)
		if err != nil {
			return 0, err
		}
		if d.Others != "" {
			return 0, wrongGPUs(j)
		}
		kinds |= 1 << c.gpus[g].kind
		if n > 1 && !j.mix && bits.OnesCount64(kinds) > 1 {
			return 0, severalTypes(j)
		}
		c.startTask(ji, g)
	}
	return n, nil
}

// checkFree finds a GPU on which a job may start.
func (c *core) checkFree(j *job, name string) (int32, error) {
	g, ok := c.gpuOf[name]
	if !ok || c.gpus[g].job != none {
		return 0, notFree(name)
	}
	if j.mask>>c.gpus[g].kind&1 == 0 {
		return 0, fmt.Errorf("job %q has no profile for GPU %q", j.id, name)
	}
	return g, nil
}

func notFree(gpu string) error { return fmt.Errorf("GPU %q is not free", gpu) }

func notNext(j *job, d *hare.Decision) error {
	return fmt.Errorf("task %d of job %q is not the next to start", d.Task, j.id)
}

func severalTypes(j *job) error {
	return fmt.Errorf("a round of job %q is on GPUs of several types", j.id)
}

func wrongGPUs(j *job) error { return fmt.Errorf("a task of job %q holds %d GPUs", j.id, j.taskGPUs) }

func notAllowed(j *job, reason string) error { return fmt.Errorf("job %q: %s", j.id, reason) }

func (c *core) adoptRestart(ji int32, starts []hare.Decision) (int, error) {
	j := &c.jobs[ji]
	n := 0
	for g := j.head; g != none; g = c.gpus[g].next {
		if c.gpus[g].follows {
			continue
		}
		if n == len(starts) {
			return 0, fmt.Errorf("the round of job %q is started in part", j.id)
		}
		d := &starts[n]
		if err := c.checkStart(j, d); err != nil {
			return 0, err
		}
		if d.Task != j.next || d.GPU != c.gpus[g].name || d.Others != c.othersOf(g) {
			return 0, fmt.Errorf("task %d of job %q must go on on GPU %q", j.next, j.id, c.gpus[g].name)
		}
		c.restartTask(j, g)
		n++
	}
	c.restarting = none
	return n, nil
}

// checkStart checks the type, job, round and time of a start.
func (c *core) checkStart(j *job, d *hare.Decision) error {
	if d.Type != hare.DecisionStart || d.Job != j.id || d.Round != j.round || d.AtUs != c.nowUs {
		return fmt.Errorf("is not a start of round %d of job %q at %s", j.round, j.id, hare.FormatMicros(c.nowUs))
	}
	return nil
}
