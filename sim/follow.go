package sim

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// tell sends an event to the policy and does what it decides.
func (e *engine) tell(event hare.Event) error {
	e.seq++
	event.Seq, event.AtUs = e.seq, e.nowUs
	e.events[0] = event
	decisions, err := e.policy.Step(e.nowUs, e.events[:])
	if err != nil {
		return fmt.Errorf("sim: event %d: %w", e.seq, err)
	}
	if e.log != nil {
		if err := e.log(hare.Record{Event: event, Decisions: decisions}); err != nil {
			return err
		}
	}
	e.touched = e.touched[:0]
	for i := range decisions {
		d := &decisions[i]
		reason := "is no type of decision"
		switch {
		case d.AtUs != e.nowUs:
			reason = "it is dated " + hare.FormatMicros(d.AtUs) + " s, not now, " + hare.FormatMicros(e.nowUs) + " s"
		case d.Type == hare.DecisionStart:
			reason = e.start(d)
		case d.Type == hare.DecisionWithdraw:
			reason = e.withdraw(d)
		}
		if reason != "" {
			return e.refuse(*d, reason)
		}
	}
	if e.withdrawn < len(e.void) {
		p := e.void[e.withdrawn]
		return e.refuse(hare.Decision{Type: hare.DecisionWithdraw, Job: e.inst.Jobs[p.job].ID, Round: p.round, Task: p.task, GPU: e.model.GPUs[p.gpu].ID, AtUs: e.nowUs}, "it is missing")
	}
	e.void, e.withdrawn = e.void[:0], 0
	for _, ji := range e.touched {
		if j := &e.jobs[ji]; !j.over && j.running != e.inst.Jobs[ji].Tasks {
			return e.refuse(hare.Decision{Job: e.inst.Jobs[ji].ID, Round: j.round, Task: int64(slices.Index(j.tasks, 0)), AtUs: e.nowUs}, "it is missing: the tasks of the round start together")
		}
		e.resumes(ji)
	}
	return nil
}

func (e *engine) refuse(d hare.Decision, reason string) error {
	return &DecisionError{Event: e.seq, AtUs: e.nowUs, Decision: d, Reason: reason, Policy: e.name}
}

// withdraw checks that a task was void. They come in the order of void, or
// nearly so.
func (e *engine) withdraw(d *hare.Decision) (reason string) {
	left := e.void[e.withdrawn:]
	i := slices.IndexFunc(left, func(p place) bool {
		return p.round == d.Round && p.task == d.Task && e.model.GPUs[p.gpu].ID == d.GPU && e.inst.Jobs[p.job].ID == d.Job
	})
	if i < 0 {
		return "neither has its job ended nor has a GPU left that it needs: running tasks are not killed"
	}
	left[0], left[i] = left[i], left[0]
	e.withdrawn++
	return ""
}

// start begins a task, or says why that is not possible.
func (e *engine) start(d *hare.Decision) (reason string) {
	ji, ok := e.jobOf[d.Job]
	if !ok {
		return "no such job runs or waits"
	}
	g, ok := e.gpuOf[d.GPU]
	if !ok {
		return "there is no such GPU"
	}
	j, x, spec := &e.jobs[ji], &e.gpus[g], &e.inst.Jobs[ji]
	switch {
	case !x.here:
		return "the GPU is not in service"
	case x.job != none && (x.job != ji || x.slot != none || spec.Sync == hare.Relaxed):
		return fmt.Sprintf("job %.60q holds the GPU", e.inst.Jobs[x.job].ID)
	case d.Round != j.round:
		return fmt.Sprintf("round %d is the one to run", j.round)
	case d.Task < 0 || d.Task >= spec.Tasks:
		return fmt.Sprintf("a round has %d tasks", spec.Tasks)
	case j.tasks[d.Task] != 0:
		return "the task runs or has ended"
	}
	p := e.mode(ji, g)
	if p == nil {
		return "the job has no profile for the GPU's type"
	}
	if spec.Sync != hare.Relaxed {
		if reason := e.together(ji, g); reason != "" {
			return reason
		}
	}
	e.launch(ji, g, d.Task, p)
	return ""
}

// together checks a start of a gang or rigid job against the others of the round.
func (e *engine) together(ji, g int32) (reason string) {
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
	case spec.Sync == hare.Rigid && j.round > 0 && x.job != ji && int64(len(j.held)) == spec.Tasks:
		return "a rigid job stays on its GPUs"
	}
	if x.job != ji {
		j.held = append(j.held, g)
	}
	return ""
}

// launch books the start of a task and its ends to come. Rounds that the job
// does not have take place in the policy's mind alone.
func (e *engine) launch(ji, g int32, task int64, p *hare.Mode) {
	j, x, spec := &e.jobs[ji], &e.gpus[g], &e.inst.Jobs[ji]
	var slot int32
	if n := len(e.vacant); n > 0 {
		slot, e.vacant = e.vacant[n-1], e.vacant[:n-1]
	} else {
		slot = int32(len(e.slots))
		e.slots = append(e.slots, running{})
	}
	e.serial++
	e.slots[slot] = running{serial: e.serial, job: ji, task: task, gpu: g}
	j.tasks[task] = slot + 1
	j.running++
	x.job, x.slot, x.sinceUs = ji, slot, e.nowUs
	if j.round == spec.Rounds {
		return
	}
	if spec.Sync == hare.Relaxed && p.SyncUs > 0 {
		e.agenda.push(happening{e.nowUs + p.ComputeUs, computeEnds, e.serial, slot})
	}
	e.agenda.push(happening{e.nowUs + p.DurationUs(), taskEnds, e.serial, slot})
}
