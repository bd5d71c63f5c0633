package policytest

import (
	"slices"

	"github.com/hare-sched/hare"
)

// apply applies a true event and checks the decisions on it.
func (w *world) apply(e *hare.Event, decisions []hare.Decision, nowUs int64) error {
	voids := map[void]bool{}
	var again *job // the round of this job must start again at once
	switch j := w.find(e.Job); e.Type {
	case hare.EventJobArrived:
		w.arrived++
		spec := w.specs[w.arrived-1]
		j := &job{spec: spec, tasks: make([]taskState, spec.Tasks), on: make([]string, spec.Tasks),
			held: make([][]string, spec.Tasks)}
		w.jobs = append(w.jobs, j)
		w.resume(j, e.Arrived.Progress)
	case hare.EventComputeEnded:
		j.tasks[e.Task] = syncing
		w.leave(j, e.Task)
	case hare.EventTaskEnded:
		again = w.taskEnded(j, e)
	case hare.EventTaskFailed:
		again = w.taskFailed(j, e, voids)
	case hare.EventJobEnded, hare.EventJobCancelled:
		if w.ending == j {
			w.ending = nil
		}
		w.voidAll(j, voids)
		w.jobs = slices.DeleteFunc(w.jobs, func(o *job) bool { return o == j })
	case hare.EventGPUJoined:
		g := w.gpu(e.GPU)
		if g == nil {
			g = &gpu{name: e.GPU, task: -1}
			w.gpus = append(w.gpus, g)
			w.joined++
		}
		if g.here, g.gpuType = true, e.GPUType; e.Node() != nil {
			w.nodes[e.Node().Name] = *e.Node()
		}
	case hare.EventGPULeft:
		w.gpuLeft(w.gpu(e.GPU), voids)
	case hare.EventNodeJoined, hare.EventNodeLeft:
		w.nodeChanged(e, voids)
	case hare.EventSetQuota:
		w.setQuota(e.Quota())
	}
	return w.check(decisions, voids, again, nowUs)
}

// resume puts a job that arrives where its progress has it.
func (w *world) resume(j *job, p *hare.Progress) {
	if p == nil {
		return
	}
	j.round = p.RoundsDone
	n := int(j.spec.TaskGPUs())
	for at := 0; at < len(p.GPUs); at += n {
		task := int64(at / n)
		j.tasks[task], j.on[task], j.held[task] = computing, p.GPUs[at], p.GPUs[at:at+n]
		for _, name := range p.GPUs[at : at+n] {
			g := w.gpu(name)
			g.job, g.task = j, task
		}
	}
}

func (w *world) taskEnded(j *job, e *hare.Event) (again *job) {
	if j.tasks[e.Task] == computing {
		if j.spec.Sync == hare.Relaxed {
			w.leave(j, e.Task)
		} else {
			w.rest(j, e.Task)
		}
	}
	j.tasks[e.Task] = ended
	if slices.ContainsFunc(j.tasks, func(s taskState) bool { return s != ended }) {
		return nil
	}
	j.round++
	clear(j.tasks)
	if j.round == j.spec.Rounds {
		w.ending = j
	}
	if j.spec.Sync == hare.Gang {
		w.free(j)
	}
	if j.spec.Sync == hare.Rigid && j.round < j.spec.Rounds {
		return j
	}
	return nil
}

func (w *world) taskFailed(j *job, e *hare.Event, voids map[void]bool) (again *job) {
	if j.spec.Sync == hare.Relaxed {
		if j.tasks[e.Task] == computing {
			w.leave(j, e.Task)
		}
		j.tasks[e.Task] = ready
		return nil
	}
	for _, g := range w.gpus {
		if g.job == j {
			if g.task >= 0 && g.task != e.Task {
				voids[j.voidTask(g.task)] = true
			}
			g.task = -1
		}
	}
	clear(j.tasks)
	return j
}

// voidAll makes all tasks of a job void that have started and not ended.
func (w *world) voidAll(j *job, voids map[void]bool) {
	for i, s := range j.tasks {
		if s == computing || s == syncing {
			voids[j.voidTask(int64(i))] = true
		}
	}
	w.free(j)
}

func (w *world) gpuLeft(g *gpu, voids map[void]bool) {
	g.here = false
	j := g.job
	switch {
	case j == nil:
	case j.spec.Sync == hare.Relaxed:
		task := g.task
		voids[j.voidTask(task)] = true
		j.tasks[task] = ready
		w.leave(j, task)
	default:
		w.voidAll(j, voids)
		clear(j.tasks)
	}
}

func (w *world) nodeChanged(e *hare.Event, voids map[void]bool) {
	if e.Type == hare.EventNodeJoined {
		w.addNode(e.Node())
		return
	}
	for _, g := range w.gpus {
		if g.here && nodeOf(g.name) == e.Node().Name {
			w.gpuLeft(g, voids)
		}
	}
	w.gpus = slices.DeleteFunc(w.gpus, func(g *gpu) bool { return nodeOf(g.name) == e.Node().Name })
	delete(w.nodes, e.Node().Name)
}

func (w *world) setQuota(q *hare.Quota) {
	w.quotas = slices.DeleteFunc(w.quotas, func(o hare.Quota) bool {
		return o.User == q.User && slices.Equal(o.Types, q.Types)
	})
	w.quotas = append(w.quotas, *q)
}
