package list

import (
	"slices"

	"github.com/hare-sched/hare"
)

// This file keeps which job has which GPU, and what is free.

// MaxTypes limits the GPU types of a session.
const MaxTypes = 64

func (l *Scheduler) addType(name string) int {
	t := len(l.types)
	l.types = append(l.types, name)
	l.typeOf[name] = t
	l.free, l.inService = append(l.free, nil), append(l.inService, 0)
	return t
}

// addGPU makes a GPU known, out of service, in the least vacant slot.
func (l *Scheduler) addGPU(name string, gpuType int) int {
	i := len(l.gpus)
	if n := len(l.vacant); n > 0 {
		i = l.vacant[n-1]
		l.vacant = l.vacant[:n-1]
	} else {
		l.gpus = append(l.gpus, GPU{})
	}
	l.gpus[i] = GPU{Name: name, Type: gpuType, node: -1 - i, Task: -1, user: -1}
	l.gpuOf[name] = i
	return i
}

// enterService puts a known GPU in service, free.
func (l *Scheduler) enterService(g int) {
	l.guardResized()
	x := &l.gpus[g]
	x.InService, x.user, x.switched = true, -1, false
	l.inService[x.Type]++
	l.capacity++
	l.waiting.stale = true
	if l.nodes != nil {
		l.nodes.Join(g, x.Type, l.described.Of(x.Name))
	}
	l.markFree(g)
}

func (l *Scheduler) markFree(g int) {
	t := l.gpus[g].Type
	at, _ := slices.BinarySearch(l.free[t], g)
	l.free[t] = slices.Insert(l.free[t], at, g)
	l.changed = true
}

// hold hands a free GPU of a type, by its place among the free ones, to a job.
func (l *Scheduler) hold(j *JobState, gpuType, at int) int {
	g := l.free[gpuType][at]
	l.free[gpuType] = slices.Delete(l.free[gpuType], at, at+1)
	l.gpus[g].Job = j
	if l.nodes != nil {
		l.nodes.Take(g)
		j.spread.held = 0
		if l.gpus[g].lead = len(j.gpus)%j.TaskGPUs() == 0; l.gpus[g].lead {
			l.nodes.Hold(g, j.shape, 1)
		}
	}
	j.gpus = append(j.gpus, g)
	return g
}

// release takes a GPU from the job that holds it and frees it.
func (l *Scheduler) release(g int) {
	x := &l.gpus[g]
	i := slices.Index(x.Job.gpus, g)
	if l.nodes != nil {
		l.nodes.Free(g)
		x.Job.spread.held = 0
		if x.lead {
			l.nodes.Hold(g, x.Job.shape, -1)
		}
	}
	x.lead = false
	x.Job.gpus = slices.Delete(x.Job.gpus, i, i+1)
	if l.rule.Touched != nil {
		l.rule.Touched(l, x.Job)
	}
	x.Job, x.Task = nil, -1
	l.markFree(g)
}

func (l *Scheduler) releaseAll(j *JobState) {
	for len(j.gpus) > 0 {
		l.release(j.gpus[len(j.gpus)-1])
	}
}

// releaseTask releases the GPUs of a task, of which one is given.
func (l *Scheduler) releaseTask(j *JobState, g int) {
	if j.spec.GPUsPerTask < 2 {
		l.release(g)
		return
	}
	for _, h := range slices.Clone(l.taskOn(j, g)) {
		l.release(h)
	}
}

// taskOn are the GPUs of the task of a job that holds a GPU.
func (l *Scheduler) taskOn(j *JobState, g int) []int {
	n := j.TaskGPUs()
	at := slices.Index(j.gpus, g) / n * n
	return j.gpus[at : at+n]
}

// othersOf names the other GPUs of a task of a job that holds a GPU as its first.
func (l *Scheduler) othersOf(j *JobState, g int) hare.OtherGPUs {
	if j.spec.GPUsPerTask < 2 {
		return ""
	}
	var names []string
	for _, h := range l.taskOn(j, g) {
		names = append(names, l.gpus[h].Name)
	}
	return hare.OthersOf(names)
}
