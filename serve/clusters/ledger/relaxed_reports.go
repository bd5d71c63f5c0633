package ledger

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maxLostInRow is how many compute tasks of an attempt may be lost in a row before the attempt is: so many for each
// task of a round, and a hundred at least.
const maxLostInRow = 4

// serverRuns takes the report of a parameter server that it runs. The first one says where it is reached and at which
// round the attempt begins: the compute tasks that waited for it are ordered.
func (l *Ledger) serverRuns(j *job, at *attempt, r *clusterdoc.TaskReport) {
	x := at.relaxed
	if x.ready || r.Port == 0 && !pretends(&j.spec) {
		return
	}
	x.ready, x.port, x.base, j.rounds.reported = true, r.Port, r.Round, r.Round
	if at.stopping {
		return
	}
	if x.base >= j.spec.Rounds {
		l.completed(j, at)
		return
	}
	for i := range x.out {
		l.orderCompute(j, at, &x.out[i])
	}
}

// completed takes a job from the session whose rounds have all been computed: other jobs have its GPUs while
// the parameter server saves. A pretended one does not know the last round, and gets the order to stop.
func (l *Ledger) completed(j *job, at *attempt) {
	x := at.relaxed
	x.complete = true
	l.dropUnordered(j, at)
	l.leaveSession(j)
	if x.port == 0 {
		l.order(at.tasks[0].agent, clusterdoc.Order{Type: clusterdoc.OrderStop, TaskID: j.taskID(at, 0),
			GraceS: j.graceS()})
	}
}

// serverEnded takes the end of a parameter server that has saved all rounds. The reports of the last tasks may still
// be on their way.
func (l *Ledger) serverEnded(j *job, at *attempt) {
	x := at.relaxed
	l.dropUnordered(j, at)
	for i := range x.out {
		l.stopCompute(j, at, &x.out[i])
	}
}

// reportCompute takes what an agent says of a compute task.
func (l *Ledger) reportCompute(a *agent, j *job, r *clusterdoc.TaskReport) {
	at, x := j.live, j.live.relaxed
	i, found := at.find(r.Task)
	if !found || x.out[i].agent != a || x.out[i].state == clusterdoc.TaskWaiting {
		return
	}
	l.altered.job(j)
	switch r.State {
	case clusterdoc.TaskRunning:
		x.out[i].state = clusterdoc.TaskRunning
	case clusterdoc.TaskEnded, clusterdoc.TaskLost:
		l.endCompute(j, at, i, r)
	}
}

// endCompute takes the end of a compute task, of which nothing is left on its device. The session learns of an end
// that it waits for; of a task that was lost it learns so, or that the GPU has left, and gives the task out again.
func (l *Ledger) endCompute(j *job, at *attempt, i int, r *clusterdoc.TaskReport) {
	x := at.relaxed
	c := x.out[i]
	x.out = slices.Delete(x.out, i, i+1)
	at.open--
	c.agent.dropOrders(j.taskID(at, c.number))
	c.agent.devices[c.device].job = nil
	l.altered.job(j)
	l.altered.agent(c.agent)
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
	case at.tasks[0].final(): // the parameter server has all rounds
	default:
		if x.lostInRow++; x.lostInRow > maxLostInRow*max(25, RoundTasks(&j.spec)) {
			at.lost, at.error = true, fmt.Sprintf("%d tasks were lost in a row, the last one on GPU %s", x.lostInRow, event.GPU)
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
	x := at.relaxed
	if j.relaxed.counted == nil {
		j.relaxed.counted = map[string]int64{}
	}
	j.relaxed.counted[c.agent.Devices[c.device].Type]++
	x.lostInRow = 0
	if k, found := slices.BinarySearch(x.done, c.task); !found {
		x.done = slices.Insert(x.done, k, c.task)
	}
	if len(x.done) < RoundTasks(&j.spec) {
		return
	}
	x.round, x.done = x.round+1, nil
	switch {
	case x.base+x.round >= j.spec.Rounds:
		l.completed(j, at)
	case l.narrow(j):
		x.base, x.round = x.base+x.round, 0
		l.withdraw(j)
		l.arrive(j)
	}
}

// stopOn ends what a relaxed job computes on a device that is not well.
func (l *Ledger) stopOn(j *job, a *agent, device int) {
	at, x := j.live, j.live.relaxed
	i := slices.IndexFunc(x.out, func(c compute) bool { return c.agent == a && c.device == device })
	switch {
	case i < 0:
	case x.out[i].state == clusterdoc.TaskWaiting:
		l.drop(j, at, i)
	default:
		l.stopCompute(j, at, &x.out[i])
	}
}
