package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/wire"
)

const none = int32(-1)

// maxTasks limits the tasks of a round, whose states are kept one by one.
const maxTasks = 1 << 24

// Rules are the kinds of rules that Run knows.
const Rules = hare.RuleNodes | hare.RuleProgress | hare.RuleRunning | hare.RuleQuota | hare.RuleLevels

// engine is the state of the cluster with the events that are to come.
type engine struct {
	inst   *hare.Instance
	model  *model.Model
	policy online.Policy
	log    func(wire.Record) error
	name   string // name of the policy
	// planner makes the plans of a policy that follows plans.
	planner planner
	wakes   wakes
	placed  placedTimes

	nowUs      int64
	seq        int64 // number of the last event
	eventQueue eventQueue
	stale      int // upper limit of the occurrences of lost tasks in the event queue

	jobs       []job
	jobOf      map[string]int32 // the jobs that have arrived and not ended
	arrivals   []int32          // the jobs that are still to arrive, the next one last
	unfinished int
	gpus       []gpu // in the order of Model.GPUs
	gpuOf      map[string]int32
	running    int // number of running tasks
	slots      []running
	vacant     []int32
	serial     int64 // serial number of the last task that started
	tail       tail

	toWithdraw []place // tasks that the policy must withdraw now
	withdrawn  int     // how many of toWithdraw are withdrawn; these come first
	touched    []int32 // gang and rigid jobs of which the answer has started tasks
	failed     int32   // the gang or rigid job whose round must start again now, or none
	err        error   // error of a function of Config
	events     [1]hare.Event
	arrived    hare.Job // the job of events, where it arrives and nothing is logged
	freed      []int32  // GPUs that the event has freed: most likely the next to be named
	used       int      // how many of freed the answer has named
	named      int32    // the job that a decision named last
	lanes      []lane   // by GPU; nil where there will be no schedule
	totals     totals

	window          Window
	number          []int32    // by job, its number by arrival; nil without a window
	nodes           *nodeUse   // nil where nodes do not matter
	levels          bool       // whether hasLevels is true of any job
	vary            *variation // nil where all times are those of the profiles
	sources         []source
	sourcesOut      int
	idleFaults      int // faults drawn since a task started
	fruitlessFaults int // faults drawn since a task ended
}

// job is the state of one job. An element of tasks is 0 for a task that has not
// started, its slot + 1 while the task runs, and ended afterwards.
type job struct {
	round   int64
	tasks   []int32
	running int64
	ended   int64
	held    []int32 // GPUs of a gang's round or of a rigid job
	// openedUs is when the round could start: the end of the round before. A rigid job
	// must start its next round at that time.
	openedUs    int64
	preemptions int64
	tries       int64 // failed tasks of the current round
	failures    int64 // failed tasks in all
	home        int32 // node on which a relaxed round started
	startUs     int64 // first start of a task that was not lost; −1 before it
	endUs       int64
	over        bool
	moved       bool  // whether a rigid job lost a round after its first, or a job what ran at time 0
	atStart     bool  // whether the work that runs is that of time 0
	roundKind   int   // type of the GPUs of a gang's round
	batch       int64 // number of the event at which the round started
}

const ended = int32(-1)

// gpu is the state of one GPU.
type gpu struct {
	closed bool  // whether the time is outside the GPU's windows of service
	faults int32 // number of faults that keep the GPU out of service
	job    int32 // the job that holds the GPU, or none
	slot   int32 // the task that computes on the GPU, or none
	last   int32 // the job that last began on the GPU since it joined, or none
	done   int32 // the job whose task last ended on the GPU, or none
	// sinceUs is the start of the last task, or its end where the job keeps the GPU.
	// heldUs is when the GPU was taken for that task, which is earlier where the GPU
	// has to switch between jobs.
	heldUs, sinceUs int64
	changedUs       int64 // when closed or faults changed last
}

// running is a task that has started and not ended.
type running struct {
	serial int64 // 0: the slot is vacant
	job    int32
	task   int64
	gpu    int32
	fails  bool
	next   int32 // slot of the task of the same gang that ends right after this one, or none
	// computeUs and syncUs are the times as drawn; restUs is what follows the compute of
	// a relaxed task.
	computeUs, syncUs, restUs int64
}

// tail is the task of a gang whose end was put into the event queue last.
type tail struct {
	job, slot     int32
	serial, endUs int64
}

// place names a task as decisions do.
type place struct {
	job         int32
	round, task int64
	gpu         int32
	others      []int32
}

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

// event makes the event of a task, which notify then sends.
func (e *engine) event(kind hare.EventType, t *running) *hare.Event {
	x := &e.events[0]
	x.Type, x.Job, x.Round, x.Task, x.GPU = kind, e.inst.Jobs[t.job].ID, e.jobs[t.job].round, t.task,
		e.model.GPUs[t.gpu].ID
	x.Arrived, x.Change, x.GPUType, x.ComputeUs, x.SyncUs = nil, nil, "", 0, 0
	return x
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

func (e *engine) forget(slot int32) {
	e.slots[slot].serial = 0
	e.running--
	e.vacant = append(e.vacant, slot)
}

// mode returns the times of a job on a GPU, or nil where the job has no profile for the
// type.
func (e *engine) mode(ji, g int32) *model.Mode {
	modes := e.model.Jobs[ji].Modes
	for i := range modes {
		if modes[i].Type == e.model.GPUs[g].Type {
			return &modes[i]
		}
	}
	return nil
}
