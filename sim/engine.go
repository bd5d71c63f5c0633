package sim

import (
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

const none = int32(-1)

// maxTasks limits the tasks of a round, whose states are kept one by one.
const maxTasks = 1 << 24

// engine is the cluster: what runs where, and what will happen next.
type engine struct {
	inst   *hare.Instance
	model  *hare.Model
	policy online.Policy
	log    func(hare.Record) error
	name   string // of the policy

	nowUs  int64
	seq    int64 // of the last event
	agenda agenda

	jobs       []job
	jobOf      map[string]int32 // those that have arrived and not ended
	unfinished int
	gpus       []gpu // as Model.GPUs
	gpuOf      map[string]int32
	slots      []running
	vacant     []int32
	serial     int64 // of the last task that started

	void      []place // tasks that the policy must withdraw now
	withdrawn int     // of void, which come first in it
	touched   []int32 // gang and rigid jobs that the answer has started tasks of
	events    [1]hare.Event
	lanes     []lane // by GPU
	books     books

	window      Window
	number      []int32 // by job, where there is a window
	preemptions []int64 // by job
}

// job is the state of one job. Tasks of a round are 0 (not started), a slot + 1
// or ended.
type job struct {
	round   int64
	tasks   []int32
	running int64
	ended   int64
	held    []int32 // GPUs of a gang's round or of a rigid job
	last    []int32 // GPUs of a gang's last round
	// openedUs is the end of the last round; a rigid job must go on then.
	openedUs  int64
	startUs   int64 // first start of a task that was not lost; −1 before
	endUs     int64
	over      bool
	moved     bool
	roundKind int // type of a gang's round
	batch     int64
}

const ended = int32(-1)

// gpu is the state of one GPU.
type gpu struct {
	here bool
	job  int32 // that holds it, or none
	slot int32 // the task that computes on it, or none
	// sinceUs is the start of the last task, or its end where the job keeps the GPU.
	sinceUs int64
}

// running is a task that has started and not ended.
type running struct {
	serial int64 // 0: the slot is vacant
	job    int32
	task   int64
	gpu    int32
}

// place names a task as decisions do.
type place struct {
	job         int32
	round, task int64
	gpu         int32
}

func newEngine(inst *hare.Instance, policy online.Policy, cfg Config) (*engine, error) {
	e := &engine{
		inst: inst, model: hare.NewModel(inst), policy: policy, log: cfg.Log, name: cfg.Name,
		jobs: make([]job, len(inst.Jobs)), jobOf: map[string]int32{}, unfinished: len(inst.Jobs),
		gpuOf: map[string]int32{},
	}
	e.gpus = make([]gpu, len(e.model.GPUs))
	e.lanes = make([]lane, len(e.model.GPUs))
	e.books.held = make([]hare.Amount, len(e.model.Types))
	if err := e.count(cfg.Window); err != nil {
		return nil, err
	}
	for i, g := range e.model.GPUs {
		e.gpus[i] = gpu{here: steady(&inst.Cluster.Nodes[g.Node]), job: none, slot: none}
		e.gpuOf[g.ID] = int32(i)
		if e.gpus[i].here {
			continue
		}
		for _, w := range e.model.Classes[g.Class].Windows {
			e.agenda.push(happening{w.StartUs, gpuJoins, int64(i), int32(i)})
			if w.EndUs != hare.Forever {
				e.agenda.push(happening{w.EndUs, gpuLeaves, int64(i), int32(i)})
			}
		}
	}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if j.Tasks > maxTasks {
			return nil, fmt.Errorf("sim: job %.60q has %d tasks a round; every one is simulated, so %d are the most", j.ID, j.Tasks, maxTasks)
		}
		e.jobs[i].startUs = -1
		e.agenda.push(happening{j.ReleaseUs, jobArrives, int64(i), int32(i)})
	}
	return e, nil
}

// happen lets one thing happen and tells the policy.
func (e *engine) happen(h happening) error {
	if h.kind <= taskEnds && e.slots[h.ref].serial != h.order {
		return nil // the task was lost
	}
	if h.atUs > hare.MaxExact {
		return fmt.Errorf("sim: the plan goes on beyond %s s", hare.FormatMicros(hare.MaxExact))
	}
	e.nowUs = h.atUs
	switch h.kind {
	case computeEnds:
		return e.computeEnds(h.ref)
	case taskEnds:
		return e.taskEnds(h.ref)
	case gpuLeaves:
		e.leave(h.ref)
		return e.tell(hare.Event{Type: hare.EventGPULeft, GPU: e.model.GPUs[h.ref].ID})
	case gpuJoins:
		g := &e.model.GPUs[h.ref]
		e.gpus[h.ref].here = true
		return e.tell(hare.Event{Type: hare.EventGPUJoined, GPU: g.ID, GPUType: e.model.Types[g.Type]})
	default:
		return e.arrive(h.ref)
	}
}

// arrive reveals a job, but for its rounds.
func (e *engine) arrive(ji int32) error {
	j := e.inst.Jobs[ji]
	e.jobs[ji].tasks = make([]int32, j.Tasks)
	e.jobOf[j.ID] = ji
	j.Rounds, j.ReleaseUs = 0, 0
	return e.tell(hare.Event{Type: hare.EventJobArrived, Job: j.ID, Arrived: &j})
}

func (e *engine) computeEnds(slot int32) error {
	t := &e.slots[slot]
	event := e.event(hare.EventComputeEnded, t)
	e.free(t.gpu, true)
	return e.tell(event)
}

func (e *engine) event(kind hare.EventType, t *running) hare.Event {
	return hare.Event{
		Type: kind, Job: e.inst.Jobs[t.job].ID, Round: e.jobs[t.job].round, Task: t.task, GPU: e.model.GPUs[t.gpu].ID,
	}
}

func (e *engine) taskEnds(slot int32) error {
	t := e.slots[slot]
	j, spec := &e.jobs[t.job], &e.inst.Jobs[t.job]
	event := e.event(hare.EventTaskEnded, &t)
	p := e.mode(t.job, t.gpu)
	event.ComputeUs, event.SyncUs = p.ComputeUs, p.SyncUs
	e.forget(slot)
	j.tasks[t.task] = ended
	j.running--
	j.ended++
	if g := &e.gpus[t.gpu]; g.slot == slot {
		g.slot = none
		if spec.Sync == hare.Relaxed {
			e.free(t.gpu, true)
		}
	}
	if j.ended < spec.Tasks {
		return e.tell(event)
	}
	e.roundEnds(t.job)
	if j.round < spec.Rounds {
		return e.tell(event)
	}
	// The policy does not know that this was the last round.
	j.endUs = e.nowUs
	if err := e.tell(event); err != nil {
		return err
	}
	e.endJob(t.job)
	return e.tell(hare.Event{Type: hare.EventJobEnded, Job: spec.ID})
}

// roundEnds opens the next round, and frees the GPUs of a gang.
func (e *engine) roundEnds(ji int32) {
	j := &e.jobs[ji]
	switch e.inst.Jobs[ji].Sync {
	case hare.Gang:
		for _, g := range j.held {
			e.free(g, true)
		}
		j.openedUs = e.nowUs
		j.last, j.held = j.held, j.last[:0]
	case hare.Rigid:
		for _, g := range j.held {
			e.enter(g, true)
		}
		j.openedUs = e.nowUs
	}
	j.round++
	j.ended = 0
	clear(j.tasks)
}

// endJob takes a job and what was started of rounds that it does not have.
func (e *engine) endJob(ji int32) {
	j := &e.jobs[ji]
	for task, s := range j.tasks {
		if s > 0 {
			t := &e.slots[s-1]
			e.void = append(e.void, place{ji, j.round, int64(task), t.gpu})
			if e.gpus[t.gpu].slot == s-1 {
				e.free(t.gpu, false)
			}
			e.forget(s - 1)
		}
	}
	for _, g := range j.held {
		if e.gpus[g].job == ji {
			e.free(g, false)
		}
	}
	j.tasks, j.held, j.last, j.over = nil, nil, nil, true
	delete(e.jobOf, e.inst.Jobs[ji].ID)
	e.unfinished--
	e.counts(ji)
}

// leave takes a GPU out of service, with its task and the gang of that.
func (e *engine) leave(g int32) {
	x := &e.gpus[g]
	if ji := x.job; ji != none {
		j := &e.jobs[ji]
		if e.inst.Jobs[ji].Sync == hare.Relaxed {
			t := &e.slots[x.slot]
			e.void = append(e.void, place{ji, j.round, t.task, g})
			j.tasks[t.task] = 0
			j.running--
			e.forget(x.slot)
			e.free(g, false)
		} else {
			e.loseRound(ji)
		}
	}
	x.here = false
	e.lanes[g].cut = true
}

// loseRound takes a gang off its GPUs; it must do the round again.
func (e *engine) loseRound(ji int32) {
	j := &e.jobs[ji]
	if e.inst.Jobs[ji].Sync == hare.Rigid && j.round > 0 {
		j.moved = true
	}
	for _, g := range j.held {
		if s := e.gpus[g].slot; s != none {
			e.void = append(e.void, place{ji, j.round, e.slots[s].task, g})
			e.forget(s)
		}
		e.free(g, false)
	}
	j.held, j.running, j.ended = j.held[:0], 0, 0
	clear(j.tasks)
}

// free hands a GPU back that some job held since the start of its last task.
func (e *engine) free(g int32, done bool) {
	e.enter(g, done)
	e.gpus[g].job, e.gpus[g].slot = none, none
}

// enter books what a GPU did from the start of its last task until now: a part
// of the plan, or lost. A rigid job keeps the GPU.
func (e *engine) enter(g int32, done bool) {
	x := &e.gpus[g]
	spec, j := &e.inst.Jobs[x.job], &e.jobs[x.job]
	startUs, span := x.sinceUs, e.nowUs-x.sinceUs
	x.sinceUs = e.nowUs
	if !done {
		e.books.lostUs += span
		if x.slot != none && j.round < spec.Rounds {
			e.books.lost++
		}
		return
	}
	e.books.held[e.model.GPUs[g].Type] = e.books.held[e.model.GPUs[g].Type].Add(hare.Product(1, span))
	e.books.tasks++
	var computeUs int64
	if spec.Sync == hare.Relaxed {
		computeUs = span
	}
	e.lanes[g].add(x.job, j.round, startUs, computeUs)
	if j.startUs < 0 || startUs < j.startUs {
		j.startUs = startUs
	}
}

func (e *engine) forget(slot int32) {
	e.slots[slot].serial = 0
	e.vacant = append(e.vacant, slot)
}

// mode gives the times of a job on a GPU, or nil where it has none.
func (e *engine) mode(ji, g int32) *hare.Mode {
	modes := e.model.Jobs[ji].Modes
	for i := range modes {
		if modes[i].Type == e.model.GPUs[g].Type {
			return &modes[i]
		}
	}
	return nil
}
