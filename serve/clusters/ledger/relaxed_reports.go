package ledger

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maxVain is how many compute tasks of an attempt may be lost in a row, before the attempt is: so many for each task
// of a round, and a hundred at least.
const maxVain = 4

// homeRuns takes the report of a home that it runs. The first one says where the home is reached and at which round
// the attempt begins: the compute tasks that waited for it are ordered.
func (l *Ledger) homeRuns(j *job, at *attempt, r *clusterdoc.TaskReport) {
	if at.ready || r.Port == 0 && !pretends(&j.spec) {
		return
	}
	at.ready, at.port, at.base, j.round = true, r.Port, r.Round, r.Round
	if at.stopping {
		return
	}
	if at.base >= j.spec.Rounds {
		l.completed(j, at)
		return
	}
	for i := range at.out {
		l.orderCompute(j, at, &at.out[i])
	}
}

// completed takes a job from the session whose rounds have all been computed: its GPUs are those of other jobs while
// the home saves. A home that is played does not know the last round, and is told to stop.
func (l *Ledger) completed(j *job, at *attempt) {
	at.complete = true
	l.dropUnordered(j, at)
	l.leaveSession(j)
	if at.port == 0 {
		l.order(at.tasks[0].agent, clusterdoc.Order{Type: clusterdoc.OrderStop, TaskID: j.taskID(at, 0),
			GraceS: j.graceS()})
	}
}

// leaveSession tells the session that a relaxed job has ended.
func (l *Ledger) leaveSession(j *job) {
	j.grants = nil
	if j.arrived {
		l.emit(hare.Event{Type: hare.EventJobEnded, Job: j.id})
		j.arrived = false
	}
}

// homeEnded takes the end of a home that has saved all rounds. The reports of the last tasks may still be on their
// way.
func (l *Ledger) homeEnded(j *job, at *attempt) {
	l.dropUnordered(j, at)
	for i := range at.out {
		l.stopCompute(j, at, &at.out[i])
	}
}

// reportCompute takes what an agent says of a compute task.
func (l *Ledger) reportCompute(a *agent, j *job, r *clusterdoc.TaskReport) {
	at := j.live
	i, found := at.find(r.Task)
	if !found || at.out[i].agent != a || at.out[i].state == clusterdoc.TaskWaiting {
		return
	}
	switch r.State {
	case clusterdoc.TaskRunning:
		at.out[i].state = clusterdoc.TaskRunning
	case clusterdoc.TaskEnded, clusterdoc.TaskLost:
		l.endCompute(j, at, i, r)
	}
}

// find is the place of a compute task.
func (at *attempt) find(number int) (int, bool) {
	return slices.BinarySearchFunc(at.out, number, func(c compute, n int) int { return c.number - n })
}

// endCompute takes the end of a compute task, of which nothing is left on its device. The session learns of an end
// that it waits for; of a task that was lost it learns so, or that the GPU has left, and gives the task out again.
func (l *Ledger) endCompute(j *job, at *attempt, i int, r *clusterdoc.TaskReport) {
	c := at.out[i]
	at.out = slices.Delete(at.out, i, i+1)
	at.open--
	c.agent.dropOrders(j.taskID(at, c.number))
	c.agent.devices[c.device].job = nil
	good := r.State == clusterdoc.TaskEnded && r.ExitCode != nil && *r.ExitCode == 0
	event := hare.Event{Job: j.id, Round: c.round, Task: int64(c.task), GPU: c.agent.gpu(c.device)}
	switch {
	case c.gone || at.stopping:
	case good:
		event.Type, event.ComputeUs, event.SyncUs = hare.EventTaskEnded, max(1, micros(r.RanS)), micros(r.SyncS)
		l.emit(event)
		l.taskDone(j, at, &c)
	case r.State == clusterdoc.TaskEnded && !c.stopping:
		at.failed, at.error = true, failure(j, r)
		l.stop(j, at)
	case at.tasks[0].final(): // the home has all rounds
	default:
		if at.vain++; at.vain > maxVain*max(25, RoundTasks(&j.spec)) {
			at.lost, at.error = true, fmt.Sprintf("%d tasks were lost in a row, the last one on GPU %s", at.vain, event.GPU)
			l.stop(j, at)
		} else if c.agent.wanted(c.device) {
			event.Type = hare.EventTaskFailed
			l.emit(event)
		}
	}
	l.reconcile(c.agent, c.device)
	if at.open == 0 && j.live == at {
		l.close(j, at)
	}
}

// taskDone counts the end of a task. Behind the last one of a round the next round begins, where the job learns GPU
// types that have come to the cluster since it arrived.
func (l *Ledger) taskDone(j *job, at *attempt, c *compute) {
	if j.counted == nil {
		j.counted = map[string]int64{}
	}
	j.counted[c.agent.Devices[c.device].Type]++
	at.vain = 0
	if k, found := slices.BinarySearch(at.done, c.task); !found {
		at.done = slices.Insert(at.done, k, c.task)
	}
	if len(at.done) < RoundTasks(&j.spec) {
		return
	}
	at.round, at.done = at.round+1, nil
	switch {
	case at.base+at.round >= j.spec.Rounds:
		l.completed(j, at)
	case l.narrow(j):
		at.base, at.round = at.base+at.round, 0
		l.void(j)
		l.arrive(j)
	}
}

// stopOn ends what a relaxed job computes on a device that is not well.
func (l *Ledger) stopOn(j *job, a *agent, device int) {
	at := j.live
	i := slices.IndexFunc(at.out, func(c compute) bool { return c.agent == a && c.device == device })
	switch {
	case i < 0:
	case at.out[i].state == clusterdoc.TaskWaiting:
		l.drop(j, at, i)
	default:
		l.stopCompute(j, at, &at.out[i])
	}
}
