package online

import (
	"slices"
	"sort"

	"github.com/hare-sched/hare"
)

func (sl *slow) rest(j *slowJob) {
	j.executed += sl.now - j.since
	j.running, j.since = false, sl.now
}

// gang returns the GPUs of a gang by task.
func (sl *slow) gang(j *slowJob) []*slowGPU {
	var out []*slowGPU
	for _, g := range sl.gpus {
		if g.job == j {
			out = append(out, g)
		}
	}
	sort.Slice(out, func(a, b int) bool { return out[a].task < out[b].task })
	return out
}

// endGang counts the time for which a gang held its GPUs, withdraws the running tasks if void,
// and frees the GPUs or starts the round on them again.
func (sl *slow) endGang(j *slowJob, void, again bool, failed *slowGPU, next int64) {
	gpus := sl.gang(j)
	for _, g := range gpus {
		if void && !g.ended && g != failed {
			sl.emit(hare.DecisionWithdraw, j, g.task, g.name)
		}
	}
	for _, g := range gpus {
		sl.credit(j, g.kind, sl.now-g.since)
	}
	sl.demote(j)
	j.round = next
	for i, g := range gpus {
		if again {
			g.task, g.ended, g.since, j.state[i] = int64(i), false, sl.now, 1
			sl.emit(hare.DecisionStart, j, g.task, g.name)
		} else {
			g.job = nil
			j.state[i] = 0
		}
	}
	if !again {
		sl.rest(j)
	}
}

func (sl *slow) step(now int64, e hare.Event) []hare.Decision {
	sl.now, sl.out = now, nil
	sl.guard()
	j, g := sl.job(e.Job), sl.gpu(e.GPU)
	here := g != nil && g.job == j && j != nil && g.task == e.Task && !g.ended
	switch e.Type {
	case hare.EventJobArrived:
		sl.arrive(e.Arrived)
	case hare.EventComputeEnded:
		if j.Sync == hare.Relaxed {
			sl.credit(j, g.kind, now-g.since)
			sl.demote(j)
			g.job, j.state[e.Task], j.syncOn[e.Task] = nil, 2, g.kind
		}
	case hare.EventTaskEnded:
		kind := j.syncOn[e.Task]
		if here {
			kind = g.kind
		}
		if e.ComputeUs > 0 {
			j.measured[kind] = append(j.measured[kind], e.ComputeUs)
		}
		j.state[e.Task] = 3
		if j.Sync != hare.Relaxed {
			g.ended = true
			if j.count(3) == j.Tasks {
				sl.endGang(j, false, j.Sync == hare.Rigid, nil, j.round+1)
			}
			break
		}
		if here {
			sl.credit(j, g.kind, now-g.since)
			sl.demote(j)
			g.job = nil
		}
		if j.count(3) == j.Tasks {
			j.round++
			clear(j.state)
		}
		if j.count(1)+j.count(2) == 0 {
			sl.rest(j)
		}
	case hare.EventTaskFailed:
		if j.Sync != hare.Relaxed {
			sl.endGang(j, true, true, g, j.round)
			break
		}
		if here {
			sl.credit(j, g.kind, now-g.since)
			sl.demote(j)
			g.job = nil
		}
		sl.requeue(j, e.Task)
	case hare.EventJobEnded, hare.EventJobCancelled:
		sl.end(j)
	case hare.EventGPUJoined:
		sl.name(e.GPUType)
		n := &slowGPU{name: e.GPU, kind: e.GPUType}
		if at := slices.IndexFunc(sl.gpus, func(g *slowGPU) bool { return g.name == "" }); at >= 0 {
			sl.gpus[at] = n
		} else {
			sl.gpus = append(sl.gpus, n)
		}
	case hare.EventGPULeft:
		sl.left(g)
	}
	sl.schedule()
	return sl.out
}

func (sl *slow) arrive(a *hare.Job) {
	sl.tickets++
	j := &slowJob{Job: *a, ticket: sl.tickets, since: sl.now, state: make([]int, a.Tasks), syncOn: map[int64]string{},
		measured: map[string][]int64{}}
	given := 0
	for _, p := range a.On {
		sl.name(p.Type)
		if p.ComputeUs > 0 {
			given++
		}
	}
	if given > 1 {
		var h []slowSpeed
		for _, p := range a.On {
			if p.ComputeUs > 0 {
				h = append(h, slowSpeed{p.Type, sl.speed(j, p.Type)})
			}
		}
		sl.history = append(sl.history, h)
	}
	sl.jobs = append(sl.jobs, j)
}

func (sl *slow) requeue(j *slowJob, task int64) {
	j.state[task] = 0
	if j.count(1)+j.count(2) == 0 {
		sl.rest(j)
	}
}

// end withdraws the running tasks of a job, in order, and removes the job.
func (sl *slow) end(j *slowJob) {
	for task, x := range j.state {
		for _, g := range sl.gpus {
			if x == 1 && g.job == j && g.task == int64(task) {
				sl.emit(hare.DecisionWithdraw, j, g.task, g.name)
			}
		}
		if x == 2 {
			sl.emit(hare.DecisionWithdraw, j, int64(task), "?") // the test fills in the GPU
		}
	}
	for _, g := range sl.gpus {
		if g.job == j {
			g.job = nil
		}
	}
	sl.drop(j)
	sl.jobs = slices.DeleteFunc(sl.jobs, func(x *slowJob) bool { return x == j })
}

func (sl *slow) left(g *slowGPU) {
	if j := g.job; j != nil && j.Sync == hare.Relaxed {
		sl.emit(hare.DecisionWithdraw, j, g.task, g.name)
		sl.credit(j, g.kind, sl.now-g.since)
		sl.demote(j)
		g.job = nil
		sl.requeue(j, g.task)
	} else if j != nil {
		sl.endGang(j, true, false, nil, j.round)
	}
	kind := g.kind
	*g = slowGPU{}
	if o := sl.owner[kind]; o != nil {
		var n int64
		for k, x := range sl.owner {
			if x == o {
				n += sl.total(k)
			}
		}
		if n < o.Tasks {
			sl.drop(o)
		}
	}
}

func (sl *slow) emit(t hare.DecisionType, j *slowJob, task int64, gpu string) {
	sl.out = append(sl.out, hare.Decision{Type: t, Job: j.ID, Round: j.round, Task: task, GPU: gpu, AtUs: sl.now})
}

func (sl *slow) drop(j *slowJob) {
	for k, o := range sl.owner {
		if o == j {
			delete(sl.owner, k)
		}
	}
}

func (sl *slow) start(j *slowJob, kind string) {
	for _, g := range sl.gpus {
		if g.kind == kind && g.job == nil {
			task := int64(slices.Index(j.state, 0))
			*g = slowGPU{g.name, g.kind, j, task, false, sl.now}
			if !j.running {
				if j.queue > 0 {
					j.waited += sl.now - j.since
				}
				j.running, j.since = true, sl.now
			}
			j.state[task] = 1
			if j.count(0) == 0 {
				sl.drop(j)
			}
			sl.emit(hare.DecisionStart, j, task, g.name)
			return
		}
	}
}

func (sl *slow) startGang(j *slowJob, among []string) {
	kind := sl.cheapest(j, j.Tasks, true, among)
	for range j.Tasks {
		if kind == "" || sl.free(kind) == 0 {
			kind = sl.cheapest(j, 1, true, among)
		}
		sl.start(j, kind)
	}
}
