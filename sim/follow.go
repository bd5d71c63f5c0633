package sim

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// notify sends events[0] to the policy and carries out the decisions.
func (e *engine) notify() error {
	e.seq++
	e.events[0].Seq, e.events[0].AtUs = e.seq, e.nowUs
	var plan []byte
	if e.planner.policy != nil {
		var err error
		if plan, err = e.planner.give(); err != nil {
			return fmt.Errorf("sim: plan before event %d: %w", e.seq, err)
		}
	}
	decisions, err := e.policy.Step(e.nowUs, e.events[:])
	if err != nil {
		return fmt.Errorf("sim: event %d: %w", e.seq, err)
	}
	if e.planner.policy != nil {
		e.planner.ask(e.nowUs)
	}
	if e.wakes.policy != nil {
		e.askWake()
	}
	if e.log != nil {
		if err := e.log(wire.Record{Event: e.events[0], Plan: plan, Decisions: decisions}); err != nil {
			return err
		}
	}
	e.touched = e.touched[:0]
	for i := range decisions {
		d := &decisions[i]
		reason := "is not a type of decision"
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
		if e.err != nil {
			return e.err
		}
	}
	if e.withdrawn < len(e.toWithdraw) {
		p := e.toWithdraw[e.withdrawn]
		return e.refuse(hare.Decision{Type: hare.DecisionWithdraw, Job: e.inst.Jobs[p.job].ID, Round: p.round,
			Task: p.task, GPU: e.model.GPUs[p.gpu].ID, Others: e.othersOf(p.gpu, p.others), AtUs: e.nowUs}, "it is missing")
	}
	e.toWithdraw, e.withdrawn, e.freed, e.used = e.toWithdraw[:0], 0, e.freed[:0], 0
	for _, ji := range e.touched {
		j := &e.jobs[ji]
		if j.over {
			continue
		}
		if j.running != e.inst.Jobs[ji].Tasks {
			return e.refuse(e.firstMissing(ji), "it is missing: the tasks of the round start together")
		}
		levels := e.levels && e.hasLevels(ji)
		if levels {
			if reason := e.setSpread(ji); reason != "" {
				return e.refuse(e.firstOf(ji), reason)
			}
		}
		if e.placed.us != nil && e.inst.Jobs[ji].Sync != hare.Relaxed {
			e.setPlaced(ji)
		}
		if e.vary != nil {
			if err := e.beginGang(ji); err != nil {
				return err
			}
		} else if e.together(ji) {
			e.beginSpread(ji)
		}
	}
	if ji := e.failed; ji != none {
		e.failed = none
		if e.jobs[ji].running == 0 {
			return e.refuse(e.firstMissing(ji), "it is missing: a round of which a task failed starts again at once")
		}
	}
	return nil
}

// firstMissing is the start of the lowest task of a round that has not started.
func (e *engine) firstMissing(ji int32) hare.Decision {
	j := &e.jobs[ji]
	return hare.Decision{Job: e.inst.Jobs[ji].ID, Round: j.round, Task: int64(slices.Index(j.tasks, 0)), AtUs: e.nowUs}
}

// firstOf is the start of the first task of a round that has started.
func (e *engine) firstOf(ji int32) hare.Decision {
	j := &e.jobs[ji]
	slot := j.tasks[0] - 1
	g := e.slots[slot].gpu
	return hare.Decision{Job: e.inst.Jobs[ji].ID, Round: j.round, GPU: e.model.GPUs[g].ID,
		Others: e.othersOf(g, e.otherGPUs(slot)), AtUs: e.nowUs}
}

func (e *engine) refuse(d hare.Decision, reason string) error {
	return &DecisionError{Event: e.seq, AtUs: e.nowUs, Decision: d, Reason: reason, Policy: e.name}
}

// withdraw checks that a task had to be withdrawn. Withdrawals mostly come in the order
// of toWithdraw.
func (e *engine) withdraw(d *hare.Decision) (reason string) {
	left := e.toWithdraw[e.withdrawn:]
	i := slices.IndexFunc(left, func(p place) bool {
		return p.round == d.Round && p.task == d.Task && e.model.GPUs[p.gpu].ID == d.GPU &&
			e.inst.Jobs[p.job].ID == d.Job && (p.others == nil && d.Others == "" || e.othersOf(p.gpu, p.others) == d.Others)
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
	ji, ok := e.findJob(d.Job)
	if !ok {
		return "no such job runs or waits"
	}
	g, ok := e.findGPU(ji, d.GPU)
	if !ok {
		return "there is no such GPU"
	}
	j, spec := &e.jobs[ji], &e.inst.Jobs[ji]
	var gpus []int32 // all of the task where nodes matter
	if e.nodes != nil {
		if gpus, reason = e.startPlaced(ji, d); reason != "" {
			return reason
		}
		for _, h := range gpus[1:] {
			if reason := e.checkGPU(ji, h); reason != "" {
				return reason
			}
		}
	} else if d.Others != "" {
		return "a task holds one GPU"
	}
	x := &e.gpus[g]
	switch {
	case !x.here() || x.job != none && (x.job != ji || x.slot != none || spec.Sync == hare.Relaxed):
		return e.checkGPU(ji, g)
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
		if reason := e.checkGang(ji, g); reason != "" {
			return reason
		}
	}
	var slot int32
	if gpus == nil {
		slot = e.launch(ji, g, d.Task, p)
	} else if slot, reason = e.launchPlaced(ji, gpus, d.Task, p); reason != "" {
		return reason
	}
	if e.vary == nil {
		if !e.together(ji) {
			e.begin(slot, e.nowUs, 0)
		}
	} else if spec.Sync == hare.Relaxed {
		e.err = e.beginRelaxed(slot)
	}
	return ""
}

// checkGPU says why a task of a job cannot start on a GPU.
func (e *engine) checkGPU(ji, g int32) (reason string) {
	x := &e.gpus[g]
	switch {
	case !x.here():
		return "the GPU is not in service"
	case x.job != none && (x.job != ji || x.slot != none || e.inst.Jobs[ji].Sync == hare.Relaxed):
		return fmt.Sprintf("job %.60q holds the GPU", e.inst.Jobs[x.job].ID)
	}
	return ""
}

// findJob looks for a job that has arrived and not ended.
func (e *engine) findJob(id string) (ji int32, ok bool) {
	if ji = e.named; e.jobs[ji].tasks != nil && e.inst.Jobs[ji].ID == id {
		return ji, true
	}
	if ji, ok = e.jobOf[id]; ok {
		e.named = ji
	}
	return ji, ok
}

// findGPU finds a GPU by its name. It tries the freed GPUs first, in their order, and
// then the GPUs that the job holds, in the order of its tasks. A policy that uses GPUs in
// these orders needs no look-up.
func (e *engine) findGPU(ji int32, id string) (g int32, ok bool) {
	if e.used < len(e.freed) && e.model.GPUs[e.freed[e.used]].ID == id {
		e.used++
		return e.freed[e.used-1], true
	}
	if j := &e.jobs[ji]; j.running < int64(len(j.held)) && e.model.GPUs[j.held[j.running]].ID == id {
		return j.held[j.running], true
	}
	g, ok = e.gpuOf[id]
	return g, ok
}
