package policies

import (
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/online"
)

// follower carries out a plan: each GPU does its tasks in the order of the plan, as soon
// as the round is open, the gang is complete and the task fits in a window of service. No
// job ends later than planned: by induction over the plan's order, no task starts later.
// A task that fails or is lost with its GPU is repeated on the same GPU before the other
// tasks of that GPU; a plan whose GPU never returns stalls. The follower scans all GPUs at
// every event.
type follower struct {
	model *model.Model
	gpus  []followGPU
	gpuOf map[string]int
	jobs  []followJob
	jobOf map[string]int
	ready [][]int // by job, GPUs that wait for its gang; empty between scans
	nowUs int64
	out   []hare.Decision
}

var _ online.Policy = (*follower)(nil)

type followGPU struct {
	lane        *hare.Lane
	at          int   // entry
	round, done int64 // rounds of the entry that are over, tasks of the one at hand that have started
	repeats     []repeatedTask
	here        bool
	job         int   // that holds it, or −1
	task        int64 // that has not ended, or −1
}

// repeatedTask is a task that was lost and must be repeated.
type repeatedTask struct {
	job   int
	round int64
}

type followJob struct {
	here               bool
	round, next, ended int64
	redo               []int64 // tasks of a relaxed round that were lost
	held               []int   // GPUs of a gang's round
}

// NewFollower makes a policy that carries out a schedule of inst, which must be feasible.
// The policy serves the plans of clairvoyant schedulers. Its events must fit the plan, as
// those of the simulator do.
func NewFollower(inst *hare.Instance, s *hare.Schedule) (online.Policy, error) {
	f := &follower{model: model.New(inst), gpuOf: map[string]int{}, jobOf: map[string]int{}}
	f.jobs, f.ready = make([]followJob, len(inst.Jobs)), make([][]int, len(inst.Jobs))
	f.gpus = make([]followGPU, len(f.model.GPUs))
	for i, g := range f.model.GPUs {
		n := &inst.Cluster.Nodes[g.Node]
		f.gpuOf[g.ID] = i
		f.gpus[i] = followGPU{here: n.Windows == nil && len(n.Busy) == 0, job: -1, task: -1}
	}
	for i := range inst.Jobs {
		f.jobOf[inst.Jobs[i].ID] = i
	}
	for i := range s.Lanes {
		g, ok := f.gpuOf[s.Lanes[i].GPU]
		if !ok {
			return nil, fmt.Errorf("policy: the plan names GPU %.60q, which the instance does not have",
				s.Lanes[i].GPU)
		}
		f.gpus[g].lane = &s.Lanes[i]
	}
	for i, id := range s.Jobs {
		if i >= len(inst.Jobs) || inst.Jobs[i].ID != id {
			return nil, fmt.Errorf("policy: the plan's jobs are not the instance's")
		}
	}
	return f, nil
}

// Step is online.Policy.Step.
func (f *follower) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	f.nowUs, f.out = nowUs, f.out[:0]
	for i := range events {
		e := &events[i]
		switch e.Type {
		case hare.EventJobArrived:
			f.jobs[f.jobOf[e.Job]].here = true
		case hare.EventComputeEnded:
			f.freeGPU(f.gpuOf[e.GPU], f.jobOf[e.Job], e.Task)
		case hare.EventTaskEnded:
			f.taskEnded(f.gpuOf[e.GPU], f.jobOf[e.Job], e.Task)
		case hare.EventJobEnded:
			j := &f.jobs[f.jobOf[e.Job]]
			j.here = false
			f.releaseAll(j)
		case hare.EventGPUJoined:
			f.gpus[f.gpuOf[e.GPU]].here = true
		case hare.EventGPULeft:
			f.leave(f.gpuOf[e.GPU])
		case hare.EventTaskFailed:
			f.taskFailed(f.gpuOf[e.GPU], f.jobOf[e.Job], e.Task)
		case hare.EventTick:
		default:
			return f.out, &online.RefusedError{Index: i,
				Err: &hare.InvalidError{Pointer: "/type", Code: "not_supported",
					Detail: fmt.Sprintf("a plan that is followed knows no %v: plan again", e.Type)}}
		}
	}
	f.startAll()
	return f.out, nil
}

// freeGPU frees the GPU of a relaxed task if the GPU has not started another task since.
func (f *follower) freeGPU(g, job int, task int64) {
	if x := &f.gpus[g]; x.job == job && x.task == task && f.model.Jobs[job].Sync == hare.Relaxed {
		x.job, x.task = -1, -1
	}
}

func (f *follower) taskEnded(g, job int, task int64) {
	f.freeGPU(g, job, task)
	j := &f.jobs[job]
	if f.model.Jobs[job].Sync != hare.Relaxed {
		f.gpus[g].task = -1
	}
	if j.ended++; j.ended < f.model.Jobs[job].Tasks {
		return
	}
	j.round, j.next, j.ended = j.round+1, 0, 0
	switch m := &f.model.Jobs[job]; {
	case m.Sync != hare.Rigid:
		f.releaseAll(j)
	case j.round < m.Rounds: // a rigid job keeps its GPUs until it has ended
		for _, h := range j.held {
			f.begin(h, job, j.next)
			f.gpus[h].advance()
			j.next++
		}
	}
}

func (f *follower) releaseAll(j *followJob) {
	for _, h := range j.held {
		f.gpus[h].job, f.gpus[h].task = -1, -1
	}
	j.held = j.held[:0]
}

// leave takes a GPU out of service. The task on the GPU is lost, and the round of its gang.
func (f *follower) leave(g int) {
	x := &f.gpus[g]
	x.here = false
	if x.job < 0 {
		return
	}
	job := x.job
	j := &f.jobs[job]
	if f.model.Jobs[job].Sync == hare.Relaxed {
		f.withdraw(g)
		f.repeat(g, job)
		j.redo = append(j.redo, x.task)
		x.job, x.task = -1, -1
		return
	}
	for _, h := range j.held {
		f.withdraw(h)
		f.repeat(h, job)
	}
	j.next, j.ended = 0, 0
	f.releaseAll(j)
}

func (f *follower) taskFailed(g, job int, task int64) {
	j := &f.jobs[job]
	if f.model.Jobs[job].Sync == hare.Relaxed {
		f.freeGPU(g, job, task)
		f.repeat(g, job)
		j.redo = append(j.redo, task)
		return
	}
	f.gpus[g].task = -1
	j.next, j.ended = 0, 0
	for _, h := range j.held {
		f.withdraw(h)
	}
	for _, h := range j.held {
		f.begin(h, job, j.next)
		j.next++
	}
}

// withdraw takes back the task of a GPU that has not ended, if there is one.
func (f *follower) withdraw(g int) {
	if x := &f.gpus[g]; x.task >= 0 {
		f.emit(hare.DecisionWithdraw, g, x.job, x.task)
	}
}

func (f *follower) repeat(g, job int) {
	f.gpus[g].repeats = append(f.gpus[g].repeats, repeatedTask{job, f.jobs[job].round})
}

// head is the task that a GPU does next.
func (fg *followGPU) head() (job int, round int64, ok bool) {
	if len(fg.repeats) > 0 {
		return fg.repeats[0].job, fg.repeats[0].round, true
	}
	if fg.lane == nil || fg.at == len(fg.lane.Job) {
		return 0, 0, false
	}
	e := fg.lane.Entry(fg.at)
	return int(e.Job), e.Round + fg.round, true
}

func (fg *followGPU) advance() {
	e := fg.lane.Entry(fg.at)
	if fg.done++; fg.done < e.Tasks {
		return
	}
	fg.done = 0
	if fg.round++; fg.round < e.Rounds {
		return
	}
	fg.round, fg.at = 0, fg.at+1
}

func (f *follower) startAll() {
	var gangs []int
	for g := range f.gpus {
		x := &f.gpus[g]
		job, round, ok := x.head()
		if !ok || !x.here || x.job >= 0 || !f.jobs[job].here || f.jobs[job].round != round {
			continue
		}
		if f.model.Jobs[job].Sync == hare.Relaxed {
			if f.staysInService(g, f.mode(job, g).ComputeUs) {
				f.start(g, job)
			}
			continue
		}
		if f.ready[job] = append(f.ready[job], g); int64(len(f.ready[job])) == f.model.Jobs[job].Tasks {
			gangs = append(gangs, job)
		}
	}
	for _, job := range gangs {
		f.startGang(job)
	}
	for g := range f.gpus { // those that no gang took
		if job, _, ok := f.gpus[g].head(); ok {
			f.ready[job] = f.ready[job][:0]
		}
	}
}

// startGang starts a round if its GPUs stay in service for the whole round, or, for a
// rigid job, for all its remaining rounds.
func (f *follower) startGang(job int) {
	m, j := &f.model.Jobs[job], &f.jobs[job]
	longUs := int64(0)
	for _, g := range f.ready[job] {
		longUs = max(longUs, f.mode(job, g).DurationUs())
	}
	if m.Sync == hare.Rigid {
		longUs *= m.Rounds - j.round
	}
	for _, g := range f.ready[job] {
		if !f.staysInService(g, longUs) {
			return
		}
	}
	for _, g := range f.ready[job] {
		f.start(g, job)
		j.held = append(j.held, g)
	}
	f.ready[job] = f.ready[job][:0]
}

func (f *follower) start(g, job int) {
	j := &f.jobs[job]
	task := j.next
	if len(j.redo) > 0 {
		task, j.redo = j.redo[0], j.redo[1:]
	} else {
		j.next++
	}
	f.begin(g, job, task)
	if x := &f.gpus[g]; len(x.repeats) > 0 {
		x.repeats = x.repeats[1:]
	} else {
		x.advance()
	}
}

func (f *follower) begin(g, job int, task int64) {
	f.gpus[g].job, f.gpus[g].task = job, task
	f.emit(hare.DecisionStart, g, job, task)
}

func (f *follower) emit(t hare.DecisionType, g, job int, task int64) {
	f.out = append(f.out, hare.Decision{Type: t, Job: f.model.Instance.Jobs[job].ID, Round: f.jobs[job].round,
		Task: task, GPU: f.model.GPUs[g].ID, AtUs: f.nowUs})
}

// staysInService reports whether a GPU stays in service for longUs from now on.
func (f *follower) staysInService(g int, longUs int64) bool {
	for _, w := range f.model.Classes[f.model.GPUs[g].Class].Windows {
		if w.StartUs <= f.nowUs && f.nowUs+longUs <= w.EndUs {
			return true
		}
	}
	return false
}

func (f *follower) mode(job, g int) model.Mode {
	for _, m := range f.model.Jobs[job].Modes {
		if m.Type == f.model.GPUs[g].Type {
			return m
		}
	}
	return model.Mode{}
}
