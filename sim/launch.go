package sim

import (
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// launch gives a GPU to a task. The caller then calls begin for the task.
func (e *engine) launch(ji, g int32, task int64, p *model.Mode) (slot int32) {
	j, x, spec := &e.jobs[ji], &e.gpus[g], &e.inst.Jobs[ji]
	if n := len(e.vacant); n > 0 {
		slot, e.vacant = e.vacant[n-1], e.vacant[:n-1]
	} else {
		slot = int32(len(e.slots))
		e.slots = append(e.slots, running{})
	}
	if j.running == 0 && j.ended == 0 && j.round > 0 && j.round < spec.Rounds && e.nowUs > j.openedUs &&
		j.startUs >= 0 {
		e.totals.preempted++
		j.preemptions++
	}
	e.serial++
	e.running++
	e.idleFaults = 0
	e.slots[slot] = running{serial: e.serial, job: ji, task: task, gpu: g, next: none, computeUs: p.ComputeUs,
		syncUs: p.SyncUs}
	j.tasks[task] = slot + 1
	j.running++
	x.job, x.slot, x.heldUs, x.sinceUs = ji, slot, e.nowUs, e.nowUs
	return slot
}

// begin puts the end of a task that begins at startUs into the event queue. The task
// fails failsUs after its start unless failsUs is 0. The round after a job's last one,
// which only the policy believes in, is not queued.
func (e *engine) begin(slot int32, startUs, failsUs int64) {
	t := &e.slots[slot]
	spec := &e.inst.Jobs[t.job]
	if e.jobs[t.job].round == spec.Rounds {
		return
	}
	x := &e.gpus[t.gpu]
	x.sinceUs, x.last = startUs, t.job
	for _, g := range e.otherGPUs(slot) {
		e.gpus[g].sinceUs, e.gpus[g].last = startUs, t.job
	}
	t.fails = failsUs > 0
	switch {
	case spec.Sync == hare.Relaxed && t.syncUs > 0 && (!t.fails || failsUs > t.computeUs):
		if t.restUs = t.syncUs; t.fails {
			t.restUs = failsUs - t.computeUs
		}
		e.eventQueue.push(newOccurrence(startUs+t.computeUs, computeEnds, t.serial, slot))
		return
	case t.fails:
		e.eventQueue.push(newOccurrence(startUs+failsUs, taskFails, t.serial, slot))
		return
	}
	endUs := startUs + t.computeUs + t.syncUs
	if spec.Sync != hare.Relaxed {
		// Tasks of a gang mostly end together and are lost together, so they share an
		// occurrence.
		if e.tail.job == t.job && e.tail.serial == t.serial-1 && e.tail.endUs == endUs {
			e.slots[e.tail.slot].next = slot
			e.tail.slot, e.tail.serial = slot, t.serial
			return
		}
		e.tail = tail{t.job, slot, t.serial, endUs}
	}
	e.eventQueue.push(newOccurrence(endUs, taskEnds, t.serial, slot))
}

// beginRelaxed begins a relaxed task that was launched, with times that are drawn.
func (e *engine) beginRelaxed(slot int32) error {
	t := &e.slots[slot]
	j, spec := &e.jobs[t.job], &e.inst.Jobs[t.job]
	if j.round == spec.Rounds {
		return nil
	}
	node := int32(e.model.GPUs[t.gpu].Node)
	if j.running == 1 && j.ended == 0 {
		j.home = node
	}
	switchUs, err := e.switching(slot)
	if err != nil {
		return err
	}
	failsUs, err := e.drawTimes(t, node != j.home)
	if err != nil {
		return err
	}
	e.begin(slot, e.nowUs+switchUs, failsUs)
	return nil
}

// beginGang begins a round that was launched, at the time at which its slowest GPU has
// switched.
func (e *engine) beginGang(ji int32) error {
	j, spec := &e.jobs[ji], &e.inst.Jobs[ji]
	if j.round == spec.Rounds {
		return nil
	}
	startUs, spread := e.nowUs, false
	home := e.model.GPUs[j.held[0]].Node
	for _, s := range j.tasks {
		t := &e.slots[s-1]
		switchUs, err := e.switching(s - 1)
		if err != nil {
			return err
		}
		startUs = max(startUs, e.nowUs+switchUs)
		spread = spread || e.model.GPUs[t.gpu].Node != home
	}
	for _, s := range j.tasks {
		failsUs, err := e.drawTimes(&e.slots[s-1], spread)
		if err != nil {
			return err
		}
		e.begin(s-1, startUs, failsUs)
	}
	return nil
}

// switching is how long the GPU of a task is busy with the switch before the task begins.
func (e *engine) switching(slot int32) (int64, error) {
	t := &e.slots[slot]
	x := &e.gpus[t.gpu]
	for _, g := range e.otherGPUs(slot) {
		if y := &e.gpus[g]; x.last == none || x.last == t.job {
			x = y
		}
	}
	if x.last == none || x.last == t.job {
		return 0, nil
	}
	return e.vary.switching(&e.inst.Jobs[t.job], e.model.Types[e.model.GPUs[t.gpu].Type])
}

// drawTimes draws how long a task takes, and after what time the task fails; 0 means
// that it does not fail.
func (e *engine) drawTimes(t *running, spread bool) (failsUs int64, err error) {
	v, j, spec := e.vary, &e.jobs[t.job], &e.inst.Jobs[t.job]
	if v.times != nil {
		x := v.times(int(t.job), j.round, t.task, e.model.Types[e.model.GPUs[t.gpu].Type])
		if err := x.check(spec); err != nil {
			return 0, err
		}
		e.takeTimes(t, x.ComputeUs, x.SyncUs)
		return x.FailsAfterUs, nil
	}
	if v.runs != nil && j.round == spec.Rounds-1 {
		n, last := v.runs[t.job], v.lastRuns[t.job]
		t.computeUs, t.syncUs = t.computeUs/n*last, t.syncUs/n*last
	}
	key := mix(uint64(t.job), uint64(j.round), uint64(t.task), uint64(j.failures))
	computeUs, err := v.stretched(t.computeUs, key, spec)
	if err != nil {
		return 0, err
	}
	syncUs := t.syncUs
	if spread && v.bytes != nil {
		extraUs, err := v.extraUs(spec)
		if err != nil {
			return 0, err
		}
		syncUs += extraUs
	}
	e.takeTimes(t, computeUs, syncUs)
	onGPUUs := t.computeUs
	if spec.Sync != hare.Relaxed {
		onGPUUs += t.syncUs
	}
	return v.failsAfterUs(onGPUUs, t.computeUs+t.syncUs, key), nil
}

// takeTimes sets how long a task takes.
func (e *engine) takeTimes(t *running, computeUs, syncUs int64) {
	if t.computeUs != computeUs || t.syncUs != syncUs {
		e.totals.varied++
		e.lanes = nil
	}
	t.computeUs, t.syncUs = computeUs, syncUs
}

// checkGang checks a start of a gang or rigid job against the others of the round.
func (e *engine) checkGang(ji, g int32) (reason string) {
	j, spec, x := &e.jobs[ji], &e.inst.Jobs[ji], &e.gpus[g]
	if j.batch != e.seq {
		if j.running > 0 || j.ended > 0 {
			return "others of its round have started before: they start together"
		}
		if spec.Sync == hare.Rigid && len(j.held) > 0 && j.openedUs != e.nowUs {
			return "rounds of a rigid job follow each other back to back"
		}
		j.batch = e.seq
		j.roundKind = e.model.GPUs[g].Type
		e.touched = append(e.touched, ji)
	}
	switch {
	case j.roundKind != e.model.GPUs[g].Type && !spec.Mix:
		return "the round mixes GPU types"
	case x.job != ji && int64(len(j.held)) == spec.Tasks*int64(e.groupSize(ji)):
		return fmt.Sprintf("a %v job stays on its GPUs", spec.Sync)
	}
	if x.job != ji {
		j.held = append(j.held, g)
	}
	return ""
}
