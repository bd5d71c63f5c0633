package list

import (
	"slices"

	"github.com/hare-sched/hare"
)

// This file starts and ends tasks on GPUs that are chosen, with the decisions that say so.

// start begins the job's next task on a GPU that it holds.
func (l *Scheduler) start(j *JobState, g int) {
	task := j.nextTask()
	if len(j.redo) > 0 {
		j.redo = j.redo[1:]
	} else {
		j.next++
	}
	x := &l.gpus[g]
	x.Task, x.SinceUs = task, l.nowUs
	if x.switched = x.user >= 0 && x.user != j.serial; x.switched {
		l.loseGPU(x.user)
	}
	x.user = j.serial
	if j.spec.GPUsPerTask > 1 {
		l.startOthers(j, g)
	}
	j.promise = nil
	if j.startedUs < 0 {
		j.startedUs = l.nowUs
	}
	l.activate(j, 1)
	l.touch(j)
	l.emit(hare.DecisionStart, j, task, x.Name, l.othersOf(j, g))
}

// startOthers notes on the other GPUs of a task what start notes on its first.
func (l *Scheduler) startOthers(j *JobState, g int) {
	lead := &l.gpus[g]
	for _, h := range l.taskOn(j, g)[1:] {
		x := &l.gpus[h]
		x.SinceUs, x.switched = l.nowUs, false
		if x.user >= 0 && x.user != j.serial {
			lead.switched = true
			l.loseGPU(x.user)
		}
		x.user = j.serial
	}
}

// startLeads starts the round of a job on the GPUs that it holds.
func (l *Scheduler) startLeads(j *JobState) {
	for at := 0; at < len(j.gpus); at += j.TaskGPUs() {
		l.start(j, j.gpus[at])
	}
}

// StartGPUs starts a job's next tasks on free GPUs, those of each task together.
func (l *Scheduler) StartGPUs(j *JobState, gpus []int) {
	n := j.TaskGPUs()
	for _, g := range slices.Clone(gpus) {
		t := l.gpus[g].Type
		at, _ := slices.BinarySearch(l.free[t], g)
		l.hold(j, t, at)
		if len(j.gpus)%n == 0 {
			l.start(j, j.gpus[len(j.gpus)-n])
		}
	}
}

// activate counts tasks that run, and the time of running and waiting.
func (l *Scheduler) activate(j *JobState, by int64) {
	if j.active == 0 || j.active+by == 0 {
		if j.active == 0 {
			j.waitedUs += l.nowUs - j.sinceUs
		} else {
			j.executedUs += l.nowUs - j.sinceUs
			j.totalUs += l.nowUs - j.sinceUs
		}
		if j.active == 0 && by > 0 {
			l.guardTurn(j, false)
		}
		j.sinceUs = l.nowUs
		if j.active > 0 {
			l.guardTurn(j, true)
		}
	}
	j.active += by
}

func (l *Scheduler) emit(t hare.DecisionType, j *JobState, task int64, gpu string, others hare.OtherGPUs) {
	l.out = append(l.out, hare.Decision{Type: t, Job: j.spec.ID, Round: j.round, Task: task, GPU: gpu, Others: others,
		AtUs: l.nowUs})
}

// withdraw takes back the task that runs on a GPU of the job, if one does.
func (l *Scheduler) withdraw(j *JobState, g int) {
	x := &l.gpus[g]
	if x.Task < 0 {
		return
	}
	l.emit(hare.DecisionWithdraw, j, x.Task, x.Name, l.othersOf(j, g))
	x.Task = -1
	if j.spec.Sync == hare.Relaxed {
		l.activate(j, -1)
	}
}

// leaveGPU ends what a job does on a GPU, and frees the GPU where the job goes task
// by task.
func (l *Scheduler) leaveGPU(j *JobState, g int) {
	l.gpus[g].Task = -1
	if j.hold == hare.Relaxed {
		l.releaseTask(j, g)
	}
}

// endTask forgets a task on GPU g, or at a place among those that synchronise.
func (l *Scheduler) endTask(j *JobState, g, at int) {
	if g < 0 {
		j.syncing = slices.Delete(j.syncing, at, at+1)
	} else {
		l.leaveGPU(j, g)
	}
}

// goTaskByTask lets the rest of a relaxed job's round go on without the GPUs that
// it holds and does not use.
func (l *Scheduler) goTaskByTask(j *JobState) {
	j.hold = hare.Relaxed
	n := j.TaskGPUs()
	for i := len(j.gpus) - n; i >= 0; i -= n {
		if g := j.gpus[i]; l.gpus[g].Task < 0 {
			l.releaseTask(j, g)
		}
	}
}

// loseGPU notes that another job begins on a GPU of the last round of a job, given by its
// number.
func (l *Scheduler) loseGPU(user int) {
	if l.rule.Touched == nil || l.rule.Setup.Us() == 0 {
		return
	}
	at, found := slices.BinarySearchFunc(l.jobs, user, func(o *JobState, serial int) int { return o.serial - serial })
	if found {
		l.rule.Touched(l, l.jobs[at])
	}
}
