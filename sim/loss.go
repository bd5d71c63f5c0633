package sim

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// maxTries is the number of failed tasks of a round after which a run ends, because the
// round would never end.
const maxTries = 1 << 20

// taskFails loses a task. A gang loses its round and starts the round again on the same
// GPUs: a training step of which one worker died is lost as a whole, and the GPUs are
// still in service.
func (e *engine) taskFails(slot int32) error {
	t := e.slots[slot]
	j, spec := &e.jobs[t.job], &e.inst.Jobs[t.job]
	e.event(hare.EventTaskFailed, &t)
	e.totals.failures++
	j.failures++
	if j.tries++; j.tries > maxTries {
		return fmt.Errorf("%w: job %.60q at %s s: %d tasks of round %d have failed, and it is not over: lower the "+
			"rate of failures", ErrStalled, spec.ID, hare.FormatMicros(e.nowUs), j.tries, j.round)
	}
	if spec.Sync == hare.Relaxed {
		j.tasks[t.task] = 0
		j.running--
		j.openedUs = e.nowUs
		if e.gpus[t.gpu].slot == slot {
			e.freeTask(slot, false)
		}
		e.lose(slot)
		return e.notify()
	}
	e.markMoved(t.job)
	n := e.groupSize(t.job)
	for at := 0; at < len(j.held); at += n {
		gpus := j.held[at : at+n]
		e.enterTask(gpus, false)
		if s := e.gpus[gpus[0]].slot; s != none {
			if s != slot {
				e.toWithdraw = append(e.toWithdraw, e.placeOf(s))
			}
			e.lose(s)
		}
		for _, g := range gpus {
			e.gpus[g].slot = none
		}
	}
	j.running, j.ended, j.openedUs = 0, 0, e.nowUs
	clear(j.tasks)
	e.failed = t.job
	return e.notify()
}

// leave ends what a GPU does when it leaves service: the task on the GPU is lost, and
// so is the round of the task's gang.
func (e *engine) leave(g int32) {
	x := &e.gpus[g]
	if ji := x.job; ji != none {
		j := &e.jobs[ji]
		if e.inst.Jobs[ji].Sync == hare.Relaxed {
			slot := x.slot
			t := &e.slots[slot]
			e.toWithdraw = append(e.toWithdraw, e.placeOf(slot))
			j.tasks[t.task] = 0
			j.running--
			j.openedUs = e.nowUs
			e.freeTask(slot, false)
			e.lose(slot)
		} else {
			e.loseRound(ji)
		}
	}
	if e.lanes != nil {
		e.lanes[g].cut = true
	}
}

// loseRound takes a gang off its GPUs. The gang must do the round again.
func (e *engine) loseRound(ji int32) {
	j := &e.jobs[ji]
	e.markMoved(ji)
	n := e.groupSize(ji)
	for at := 0; at < len(j.held); at += n {
		s := e.gpus[j.held[at]].slot
		e.freeGroup(j.held[at:at+n], false)
		if s != none {
			e.toWithdraw = append(e.toWithdraw, e.placeOf(s))
			e.lose(s)
		}
	}
	j.held, j.running, j.ended, j.openedUs = j.held[:0], 0, 0, e.nowUs
	clear(j.tasks)
}

// placeOf names a task that runs.
func (e *engine) placeOf(slot int32) place {
	t := &e.slots[slot]
	return place{t.job, e.jobs[t.job].round, t.task, t.gpu, e.otherGPUs(slot)}
}

// markMoved marks a rigid job whose rounds no longer follow each other back to back, and a job
// that loses what ran at time 0.
func (e *engine) markMoved(ji int32) {
	j := &e.jobs[ji]
	if e.inst.Jobs[ji].Sync == hare.Rigid && j.round > 0 || j.atStart {
		j.moved = true
	}
	j.atStart = false
}

// lose forgets a task that has not ended. The occurrences of lost tasks are removed from
// the event queue when they are more than half of it, so that memory does not grow with
// the number of lost tasks.
func (e *engine) lose(slot int32) {
	e.forget(slot)
	e.tail = tail{} // no later task may share an occurrence with a lost one
	if e.stale++; e.stale > len(e.eventQueue)/2+64 {
		e.stale = 0
		e.eventQueue = slices.DeleteFunc(e.eventQueue, func(h occurrence) bool { return e.isStale(&h) })
		e.eventQueue.order()
	}
}

// isStale reports whether an occurrence belongs to a task that was lost.
func (e *engine) isStale(h *occurrence) bool {
	return h.kind() <= taskFails && e.slots[h.ref].serial != h.order()
}
