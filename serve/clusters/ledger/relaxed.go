package ledger

import (
	"net"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// A relaxed round job shares GPUs with other jobs round by round. The session gives each task of each round to a GPU.
// An attempt of the job has a home, which is its only task that lasts: a node that holds the parameters. What the
// session gives becomes compute tasks, which wait until the home has said where it is reached. Rounds that have ended
// leave nothing behind but their count.

// grant is a task of a round of the session, and the GPU that the session has given it.
type grant struct {
	round int64
	task  int
	gpu   string
}

// compute is a task of a round that has a device.
type compute struct {
	number   int
	round    int64 // of the session
	task     int
	agent    *agent
	device   int
	state    clusterdoc.TaskState // waiting until the home runs
	stopping bool                 // the agent was told to end the task
	gone     bool                 // the session does not count on the task any more
}

// Shares reports whether a round job shares GPUs with other jobs round by round.
func Shares(spec *clusterdoc.NewJob) bool { return spec.Module != "" && spec.Sync == SyncRelaxed }

// pretends reports whether pretended devices play the tasks of a job.
func pretends(spec *clusterdoc.NewJob) bool {
	for _, s := range spec.On {
		if s > 0 {
			return true
		}
	}
	return false
}

// answered notes what the session has taken: a task that has ended or failed has lost the start that an earlier answer
// gave it, and a job that has left the session all of its starts.
func (l *Ledger) answered(e *hare.Event) {
	j := l.jobs[e.Job]
	if j == nil || !j.relaxed {
		return
	}
	switch e.Type {
	case hare.EventTaskEnded, hare.EventTaskFailed:
		j.dropGrants(func(g *grant) bool { return g.round == e.Round && g.task == int(e.Task) && g.gpu == e.GPU })
	case hare.EventJobEnded, hare.EventJobCancelled:
		j.grants = nil
	}
}

func (j *job) dropGrants(which func(g *grant) bool) (dropped bool) {
	n := len(j.grants)
	j.grants = slices.DeleteFunc(j.grants, func(g grant) bool { return which(&g) })
	return len(j.grants) < n
}

// grantTask notes a start of a task of a round, or, without GPUs, the end of an earlier start.
func (l *Ledger) grantTask(j *job, d *Decision) {
	if d.Task < 0 || d.Task >= int64(RoundTasks(&j.spec)) {
		return
	}
	task := int(d.Task)
	if len(d.GPUs) > 0 {
		j.grants = append(j.grants, grant{d.Round, task, d.GPUs[0]})
		return
	}
	if j.dropGrants(func(g *grant) bool { return g.round == d.Round && g.task == task }) || j.live == nil {
		return
	}
	at := j.live
	i := slices.IndexFunc(at.out, func(c compute) bool { return c.round == d.Round && c.task == task && !c.gone })
	switch {
	case i < 0:
	case at.out[i].state == clusterdoc.TaskWaiting:
		l.drop(j, at, i)
	default:
		l.takeBack(j, at, &at.out[i])
	}
}

// drop forgets a compute task that was not ordered. Its device is free.
func (l *Ledger) drop(j *job, at *attempt, i int) {
	c := at.out[i]
	at.out = slices.Delete(at.out, i, i+1)
	at.open--
	c.agent.devices[c.device].job = nil
	l.reconcile(c.agent, c.device)
}

// takeBack ends a compute task that the session does not count on any more. The session gets the GPU again once
// nothing of the task is left there.
func (l *Ledger) takeBack(j *job, at *attempt, c *compute) {
	c.gone = true
	l.stopCompute(j, at, c)
	if d := &c.agent.devices[c.device]; d.inSession {
		d.inSession = false
		l.emit(hare.Event{Type: hare.EventGPULeft, GPU: c.agent.gpu(c.device)})
	}
}

// stopCompute tells the agent to end a compute task. What a task has computed so far is of no use, so that there is no
// grace.
func (l *Ledger) stopCompute(j *job, at *attempt, c *compute) {
	if c.stopping {
		return
	}
	c.stopping = true
	l.order(c.agent, clusterdoc.Order{Type: clusterdoc.OrderStop, TaskID: j.taskID(at, c.number)})
}

// release takes a relaxed job from the session, and tells all that it computes to end. The GPUs of what has not ended
// are out of service for the session until they have.
func (l *Ledger) release(j *job, at *attempt) {
	l.dropUnordered(j, at)
	for i := range at.out {
		if c := &at.out[i]; c.gone {
			l.stopCompute(j, at, c)
		} else {
			l.takeBack(j, at, c)
		}
	}
	j.grants = nil
	l.void(j)
}

func (l *Ledger) dropUnordered(j *job, at *attempt) {
	for i := len(at.out) - 1; i >= 0; i-- {
		if at.out[i].state == clusterdoc.TaskWaiting {
			l.drop(j, at, i)
		}
	}
}

// share gives the tasks of rounds that the session has given since it was last at rest to their agents, and begins an
// attempt where none lives.
func (l *Ledger) share(j *job) {
	if j.state.Final() || j.cancelled != "" || !j.arrived {
		j.grants = nil
		return
	}
	if len(j.grants) == 0 || j.live == nil && !l.settle(j) {
		return
	}
	at := j.live
	grants := j.grants
	j.grants = nil
	if at.stopping || at.complete || at.tasks[0].final() {
		return
	}
	for _, g := range grants {
		a, i := l.device(g.gpu)
		switch {
		case a == nil || a.lost || a.devices[i].job != nil:
			j.grants = append(j.grants, g) // the events that take the GPU from the job are on their way
		case g.round < at.round || g.round == at.round && slices.Contains(at.done, g.task):
			// The session did not take the end of the task, because it had taken the GPU from the task just before.
			l.emit(hare.Event{Type: hare.EventTaskEnded, Job: j.id, Round: g.round, Task: int64(g.task), GPU: g.gpu})
		default:
			at.last++
			at.open++
			a.devices[i].job = j
			at.out = append(at.out, compute{number: at.last, round: g.round, task: g.task, agent: a, device: i,
				state: clusterdoc.TaskWaiting})
			if at.ready {
				l.orderCompute(j, at, &at.out[len(at.out)-1])
			}
		}
	}
}

// orderCompute has an agent compute a task.
func (l *Ledger) orderCompute(j *job, at *attempt, c *compute) {
	c.state = clusterdoc.TaskOrdered
	gpuType := c.agent.Devices[c.device].Type
	l.ordered = append(l.ordered, Ordered{j.id, at.number, c.number, c.agent.gpu(c.device), at.base + c.round, c.task})
	address := ""
	if at.port > 0 {
		address = net.JoinHostPort(at.tasks[0].agent.Address, strconv.Itoa(at.port))
	}
	l.order(c.agent, clusterdoc.Order{Type: clusterdoc.OrderCompute, TaskID: j.taskID(at, c.number),
		Compute: &clusterdoc.Compute{Round: at.base + c.round, Task: c.task, Device: c.device, Address: address,
			GPUType: gpuType, RoundStart: *j.secretStart(at), Directory: j.spec.Directory, Env: j.env(),
			PretendS: j.spec.On[gpuType]}})
}

// secretStart is what an attempt of a relaxed job trains.
func (j *job) secretStart(at *attempt) *clusterdoc.RoundStart {
	s := j.roundStart()
	s.Secret = secretOf(at.tasks[0].agent, j.id, at.number)
	return s
}

// settle begins an attempt of a relaxed job with its home: on the node with the checkpoint, else on the node that has
// the most of the GPUs that were given, and of several such nodes on one with few homes. It says whether there is a
// home.
func (l *Ledger) settle(j *job) bool {
	home, wait := l.homeOf(j)
	if wait {
		j.grants = nil
		l.void(j)
		l.await(j)
		return false
	}
	if home == nil {
		given := map[*agent]int{}
		for _, g := range j.grants {
			a, _ := l.device(g.gpu)
			if a == nil || a.lost {
				continue
			}
			if given[a]++; home == nil || given[a] > given[home] ||
				given[a] == given[home] && len(a.homes) < len(home.homes) {
				home = a
			}
		}
	}
	if home == nil {
		return false // the events that take the GPUs from the job are on their way
	}
	at := &attempt{number: int64(len(j.attempts) + 1), tasks: []task{{agent: home, state: clusterdoc.TaskOrdered}},
		open: 1, orderedUs: l.nowUs}
	j.attempts, j.live, j.anywhere = append(j.attempts, at), at, false
	home.addHome(j)
	l.ordered = append(l.ordered, Ordered{Job: j.id, Attempt: at.number, On: home.Name})
	l.order(home, clusterdoc.Order{Type: clusterdoc.OrderHome, TaskID: j.taskID(at, 0), GraceS: j.graceS(),
		Home: &clusterdoc.HomeStart{Name: j.spec.Name, RoundStart: *of(j.secretStart(at), 0, j),
			Directory: j.spec.Directory, CheckpointDirectory: j.spec.CheckpointDirectory, Env: j.env(),
			Pretend: pretends(&j.spec)}})
	j.startedUs, j.reason = l.nowUs, ""
	l.setState(j, clusterdoc.JobStarting)
	return true
}

func (a *agent) addHome(j *job) {
	i, _ := slices.BinarySearchFunc(a.homes, j, func(x, y *job) int { return number(x.id) - number(y.id) })
	a.homes = slices.Insert(a.homes, i, j)
}

// homeOf is the node that has the checkpoint of a relaxed job; nil where any node will do. wait says that the node is
// lost, and worth waiting for.
func (l *Ledger) homeOf(j *job) (home *agent, wait bool) {
	if j.savedRound == 0 || j.spec.CheckpointDirectory != "" {
		return nil, false
	}
	for _, a := range j.holders {
		switch {
		case a.draining:
		case !a.lost:
			return a, false
		default:
			wait = true
		}
	}
	return nil, wait && !j.anywhere && (j.copy == nil || j.copy.Round < j.savedRound)
}

// place brings a relaxed job to the session again after an attempt, or has it wait for the node with its checkpoint.
func (l *Ledger) place(j *job) {
	j.pin, j.anywhere = nil, false
	if _, wait := l.homeOf(j); wait {
		l.await(j)
	} else {
		l.arrive(j)
	}
}

// await keeps a relaxed job from the session while the node with its checkpoint is lost.
func (l *Ledger) await(j *job) {
	j.pin = &pin{nodes: l.reach(j), untilUs: l.nowUs + min(j.lacksUs(), maxPinUs)}
	if !slices.Contains(l.pins, j) {
		l.pins = append(l.pins, j)
	}
}

// unawait brings the jobs to the session whose node with the checkpoint has come back.
func (l *Ledger) unawait() {
	for _, j := range l.pins {
		if !j.relaxed || j.pin == nil || j.live != nil || j.state.Final() || j.arrived {
			continue
		}
		if _, wait := l.homeOf(j); !wait {
			j.pin = nil
			l.arrive(j)
		}
	}
}
