package sim

import (
	"cmp"
	"fmt"
	"slices"

	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/online"
)

// Rules are the kinds of rules that Run knows.
const Rules = hare.RuleNodes | hare.RuleProgress | hare.RuleRunning | hare.RuleQuota | hare.RuleLevels

func newEngine(inst *hare.Instance, policy online.Policy, cfg Config) (*engine, error) {
	if err := inst.RefuseRules("the simulator", Rules); err != nil {
		return nil, err
	}
	e := &engine{
		inst: inst, model: model.New(withoutRunning(inst)), policy: policy, log: cfg.Log, name: cfg.Name,
		jobs: make([]job, len(inst.Jobs)), arrivals: make([]int32, len(inst.Jobs)),
		jobOf: map[string]int32{}, unfinished: len(inst.Jobs),
		gpuOf: map[string]int32{}, failed: none,
	}
	if _, placed := inst.Placed(); placed {
		e.nodes = newNodeUse(inst)
	}
	e.gpus = make([]gpu, len(e.model.GPUs))
	if !cfg.NoSchedule {
		e.lanes = make([]lane, len(e.model.GPUs))
	}
	e.totals.held, e.totals.down = make([]hare.Amount, len(e.model.Types)), make([]hare.Amount, len(e.model.Types))
	if err := e.numberJobs(cfg.Window); err != nil {
		return nil, err
	}
	for i, g := range e.model.GPUs {
		e.gpus[i] = gpu{closed: !alwaysInService(&inst.Cluster.Nodes[g.Node]), job: none, slot: none, last: none, done: none}
		e.gpuOf[g.ID] = int32(i)
		if !e.gpus[i].closed {
			continue
		}
		for _, w := range e.model.Classes[g.Class].Windows {
			e.eventQueue.push(newOccurrence(w.StartUs, gpuJoins, int64(i), int32(i)))
			if w.EndUs != hare.Forever {
				e.eventQueue.push(newOccurrence(w.EndUs, gpuLeaves, int64(i), int32(i)))
			}
		}
	}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if j.Tasks > maxTasks {
			return nil, fmt.Errorf("sim: job %.60q has %d tasks a round; every one is simulated, so %d are the most",
				j.ID, j.Tasks, maxTasks)
		}
		e.jobs[i].startUs = -1
		e.arrivals[i] = int32(i)
		e.levels = e.levels || e.hasLevels(int32(i))
	}
	slices.SortStableFunc(e.arrivals, func(a, b int32) int {
		if inst.Jobs[a].Running() != inst.Jobs[b].Running() { // what runs comes before all that arrives
			if inst.Jobs[a].Running() {
				return -1
			}
			return 1
		}
		return cmp.Compare(inst.Jobs[a].ReleaseUs, inst.Jobs[b].ReleaseUs)
	})
	slices.Reverse(e.arrivals)
	e.nextArrives()
	if err := e.addFaults(&cfg); err != nil {
		return nil, err
	}
	var err error
	if e.planner, err = newPlanner(policy, cfg.PlanLatencyUs); err != nil {
		return nil, err
	}
	e.wakes, e.placed.us = newWakes(policy), cfg.PlacedUs
	e.vary, err = newVariation(&cfg)
	return e, err
}

// process applies one occurrence and notifies the policy.
func (e *engine) process(h occurrence) error {
	if e.isStale(&h) {
		return nil
	}
	if h.atUs > hare.MaxExact {
		return fmt.Errorf("sim: the plan goes on beyond %s s", hare.FormatMicros(hare.MaxExact))
	}
	if h.kind() == policyWakes {
		return e.wake(h.atUs)
	}
	e.nowUs = h.atUs
	switch h.kind() {
	case computeEnds:
		return e.computeEnds(h.ref)
	case taskEnds:
		for slot := h.ref; slot != none; {
			next := e.slots[slot].next
			if err := e.taskEnds(slot); err != nil {
				return err
			}
			slot = next
		}
		return nil
	case taskFails:
		return e.taskFails(h.ref)
	case gpuLeaves:
		return e.change(h.ref, true, 0)
	case gpuJoins:
		return e.change(h.ref, false, 0)
	case faultBegins:
		return e.change(h.ref, e.gpus[h.ref].closed, 1)
	case faultEnds:
		return e.change(h.ref, e.gpus[h.ref].closed, -1)
	case sourceChanges:
		return e.changeSource(h.ref)
	default:
		return e.arrive(h.ref)
	}
}

// nextArrives puts the arrival of the next job into the event queue. A queue with all
// arrivals in it would be slow.
func (e *engine) nextArrives() {
	if n := len(e.arrivals) - 1; n >= 0 {
		i := e.arrivals[n]
		e.arrivals = e.arrivals[:n]
		e.eventQueue.push(newOccurrence(e.inst.Jobs[i].ReleaseUs, jobArrives, int64(i), i))
	}
}

// arrive reveals a job to the policy, except for its number of rounds.
func (e *engine) arrive(ji int32) error {
	j := &e.arrived
	if e.log != nil { // the log may keep the event
		j = new(hare.Job)
	}
	*j = e.inst.Jobs[ji]
	e.nextArrives()
	e.jobs[ji].tasks = make([]int32, j.Tasks)
	e.jobOf[j.ID] = ji
	j.Rounds, j.ReleaseUs = 0, 0
	if err := e.resume(ji, j); err != nil {
		return err
	}
	e.events[0] = hare.Event{Type: hare.EventJobArrived, Job: j.ID, Arrived: j}
	return e.notify()
}

func (e *engine) computeEnds(slot int32) error {
	t := &e.slots[slot]
	end := taskEnds
	if t.fails {
		end = taskFails
	}
	e.eventQueue.push(newOccurrence(e.nowUs+t.restUs, end, t.serial, slot))
	e.event(hare.EventComputeEnded, t)
	e.freeTask(slot, !t.fails)
	return e.notify()
}

func (e *engine) taskEnds(slot int32) error {
	t := &e.slots[slot]
	ji := t.job
	j, spec := &e.jobs[ji], &e.inst.Jobs[ji]
	event := e.event(hare.EventTaskEnded, t)
	event.ComputeUs, event.SyncUs = t.computeUs, t.syncUs
	e.fruitlessFaults = 0
	e.forget(slot)
	j.tasks[t.task] = ended
	j.running--
	j.ended++
	if g := &e.gpus[t.gpu]; g.slot == slot {
		g.slot = none
		for _, h := range e.otherGPUs(slot) {
			e.gpus[h].slot = none
		}
		if spec.Sync == hare.Relaxed {
			e.freeTask(slot, true)
		}
	}
	if j.ended < spec.Tasks {
		return e.notify()
	}
	e.roundEnds(ji)
	if j.round < spec.Rounds {
		return e.notify()
	}
	// The policy does not know that this was the last round.
	j.endUs = e.nowUs
	if err := e.notify(); err != nil {
		return err
	}
	e.endJob(ji)
	e.events[0] = hare.Event{Type: hare.EventJobEnded, Job: spec.ID}
	return e.notify()
}

// roundEnds opens the next round, and frees the GPUs of a gang.
func (e *engine) roundEnds(ji int32) {
	j := &e.jobs[ji]
	switch e.inst.Jobs[ji].Sync {
	case hare.Gang:
		e.freeHeld(j, true)
		j.held = j.held[:0]
		j.atStart = false
	case hare.Rigid:
		if e.nodes == nil {
			for _, g := range j.held {
				e.enter(g, true)
			}
			break
		}
		n := e.groupSize(ji)
		for at := 0; at < len(j.held); at += n {
			e.enterTask(j.held[at:at+n], true)
		}
	}
	j.openedUs, j.tries = e.nowUs, 0
	j.round++
	j.ended = 0
	clear(j.tasks)
}

// endJob removes a job, and withdraws the tasks that the policy started of a round that
// the job does not have.
func (e *engine) endJob(ji int32) {
	j := &e.jobs[ji]
	for task, s := range j.tasks {
		if s > 0 {
			t := &e.slots[s-1]
			e.toWithdraw = append(e.toWithdraw, place{ji, j.round, int64(task), t.gpu, e.otherGPUs(s - 1)})
			if e.gpus[t.gpu].slot == s-1 {
				e.freeTask(s-1, false)
			}
			e.forget(s - 1)
		}
	}
	n := e.groupSize(ji)
	for at := 0; at < len(j.held); at += n {
		if e.gpus[j.held[at]].job == ji {
			e.freeGroup(j.held[at:at+n], false)
		}
	}
	j.tasks, j.held, j.over = nil, nil, true
	delete(e.jobOf, e.inst.Jobs[ji].ID)
	e.unfinished--
	e.countEnd(ji)
}

// wake sends a tick where the policy still wants one at the time of the occurrence atUs.
func (e *engine) wake(atUs int64) error {
	w := &e.wakes
	if atUs == w.queuedUs {
		w.queuedUs = math.MaxInt64
	}
	if w.askedUs != atUs {
		e.queueWake()
		return nil
	}
	e.nowUs = atUs
	e.events[0] = hare.Event{Type: hare.EventTick}
	return e.notify()
}
