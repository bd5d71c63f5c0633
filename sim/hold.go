package sim

import (
	"github.com/hare-sched/hare"
)

// free takes a GPU from its job and adds up what the GPU did since its last task
// started.
func (e *engine) free(g int32, done bool) {
	e.enter(g, done)
	e.gpus[g].job, e.gpus[g].slot = none, none
	e.freed = append(e.freed, g)
}

// freeTask frees the GPUs of a relaxed task.
func (e *engine) freeTask(slot int32, done bool) {
	g := e.slots[slot].gpu
	if e.nodes == nil {
		e.free(g, done)
		return
	}
	e.freeGroup(append([]int32{g}, e.otherGPUs(slot)...), done)
}

// freeHeld frees the GPUs of a gang or rigid job.
func (e *engine) freeHeld(j *job, done bool) {
	if len(j.held) == 0 {
		return
	}
	if e.nodes == nil {
		for _, g := range j.held {
			e.free(g, done)
		}
		return
	}
	n := e.groupSize(e.gpus[j.held[0]].job)
	for at := 0; at < len(j.held); at += n {
		e.freeGroup(j.held[at:at+n], done)
	}
}

// enter adds up what a GPU did from the start of its last task until now. With done the
// time becomes a part of the schedule, otherwise the time is lost. The job still holds
// the GPU afterwards.
func (e *engine) enter(g int32, done bool) {
	x := &e.gpus[g]
	spec, j := &e.inst.Jobs[x.job], &e.jobs[x.job]
	startUs := min(x.sinceUs, e.nowUs) // sinceUs is later where the task was lost during the switch
	span := e.nowUs - startUs
	e.totals.switchUs += startUs - x.heldUs
	x.heldUs, x.sinceUs = e.nowUs, e.nowUs
	if !done {
		e.totals.lostUs += span
		if x.slot != none && j.round < spec.Rounds {
			e.totals.lost++
		}
		return
	}
	k := e.model.GPUs[g].Type
	e.totals.held[k] = e.totals.held[k].Add(hare.Product(1, span))
	e.totals.tasks++
	if x.done != x.job && x.done != none {
		e.totals.switches++
	}
	x.done = x.job
	if e.lanes != nil && e.nodes == nil {
		var computeUs int64
		if spec.Sync == hare.Relaxed {
			computeUs = span
		}
		e.lanes[g].add(x.job, j.round, startUs, computeUs)
	}
	if j.startUs < 0 || startUs < j.startUs {
		j.startUs = startUs
	}
}

// quotasOn are the quotas that count what a job holds on a GPU.
func (e *engine) quotasOn(ji, g int32) (on []int32) {
	if e.nodes.quotas == nil {
		return nil
	}
	kind := e.model.Types[e.model.GPUs[g].Type]
	for _, q := range e.nodes.quotas[ji] {
		if e.inst.Quota[q].Limits(&e.inst.Jobs[ji], kind) {
			on = append(on, q)
		}
	}
	return on
}

// hold adds what a task of a job holds of the node of a GPU, or takes it back where by is −1.
func (e *engine) hold(ji, g int32, by int64) {
	if e.nodes == nil {
		return
	}
	spec, n := &e.inst.Jobs[ji], e.model.GPUs[g].Node
	e.nodes.cpuMilli[n] += by * spec.CPUMilliPerTask
	e.nodes.memoryMiB[n] += by * spec.MemoryMiBPerTask
	for _, q := range e.quotasOn(ji, g) {
		e.nodes.quotaHeld[q] += by * spec.TaskGPUs()
	}
}

// release takes back what the task holds beside its GPU, of which it is the first.
func (e *engine) release(g int32) {
	if e.nodes != nil {
		e.hold(e.gpus[g].job, g, -1)
	}
}

// freeGroup frees the GPUs of a task.
func (e *engine) freeGroup(gpus []int32, done bool) {
	if e.nodes == nil {
		e.free(gpus[0], done)
		return
	}
	e.release(gpus[0])
	e.enterTask(gpus, done)
	for _, g := range gpus {
		e.gpus[g].job, e.gpus[g].slot = none, none
		e.freed = append(e.freed, g)
	}
}

// enterTask is enter for the GPUs of a task.
func (e *engine) enterTask(gpus []int32, done bool) {
	x := &e.gpus[gpus[0]]
	ji, round := x.job, e.jobs[x.job].round
	startUs := min(x.sinceUs, e.nowUs)
	tasks, lost := e.totals.tasks, e.totals.lost
	for _, g := range gpus {
		e.enter(g, done)
	}
	e.totals.tasks, e.totals.lost = min(e.totals.tasks, tasks+1), min(e.totals.lost, lost+1)
	if done && e.lanes != nil && e.nodes != nil && !e.jobs[ji].atStart {
		e.addPlaced(gpus, ji, round, startUs)
	}
}

// addPlaced adds a task of an instance to which nodes matter to the lanes of its GPUs. The
// entries of a task stay equal, and one entry has no times in between in which the job holds
// nothing: the CPUs and the memory of its tasks are counted from its first start to its last
// end.
func (e *engine) addPlaced(gpus []int32, ji int32, round, startUs int64) {
	computeUs := int64(0)
	if e.inst.Jobs[ji].Sync == hare.Relaxed {
		computeUs = e.nowUs - startUs
	}
	joins := true
	for _, g := range gpus {
		l, first := &e.lanes[g], &e.lanes[gpus[0]]
		joins = joins && l.joins(ji, startUs, e.nowUs-startUs) && l.last() == first.last()
	}
	for _, g := range gpus {
		l := &e.lanes[g]
		l.cut = l.cut || !joins
		l.add(ji, round, startUs, computeUs)
		l.endUs, l.spanUs = e.nowUs, e.nowUs-startUs
	}
}

// joins reports whether a stretch of spanUs of a job begins where the last entry ends, and
// has the length of its periods.
func (l *lane) joins(ji int32, startUs, spanUs int64) bool {
	if len(l.entries) == 0 || l.cut {
		return false
	}
	x := l.last()
	return x.Job == ji && l.endUs == startUs && l.spanUs == spanUs
}

func (l *lane) last() hare.Entry {
	if len(l.entries) == 0 {
		return hare.Entry{Job: none}
	}
	return l.entries[len(l.entries)-1].entry()
}
