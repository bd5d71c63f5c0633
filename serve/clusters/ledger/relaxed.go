package ledger

import (
	"net"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// A relaxed round job shares GPUs with other jobs round by round. The session gives each task of each round to a GPU.
// An attempt of the job has a parameter server on one node, which is its only task that lasts. What the session gives
// becomes compute tasks, which wait until the server has said where it is reached. Rounds that have ended leave
// nothing behind but their count.

// answered notes what the session has taken: a task that has ended or failed has lost the start that an earlier answer
// gave it, and a job that has left the session all of its starts.
func (l *Ledger) answered(e *hare.Event) {
	j := l.jobs[e.Job]
	if j == nil || j.relaxed == nil {
		return
	}
	switch e.Type {
	case hare.EventTaskEnded, hare.EventTaskFailed:
		j.relaxed.dropGrants(func(g *grant) bool { return g.round == e.Round && g.task == int(e.Task) && g.gpu == e.GPU })
	case hare.EventJobEnded, hare.EventJobCancelled:
		j.relaxed.grants = nil
	}
}

// grantTask notes a start of a task of a round, or, without GPUs, the end of an earlier start.
func (l *Ledger) grantTask(j *job, d *Decision) {
	if d.Task < 0 || d.Task >= int64(RoundTasks(&j.spec)) {
		return
	}
	task := int(d.Task)
	if len(d.GPUs) > 0 {
		j.relaxed.grants = append(j.relaxed.grants, grant{d.Round, task, d.GPUs[0]})
		return
	}
	if j.relaxed.dropGrants(func(g *grant) bool { return g.round == d.Round && g.task == task }) || j.live == nil {
		return
	}
	at, x := j.live, j.live.relaxed
	i := slices.IndexFunc(x.out, func(c compute) bool { return c.round == d.Round && c.task == task && !c.gone })
	switch {
	case i < 0:
	case x.out[i].state == clusterdoc.TaskWaiting:
		l.drop(j, at, i)
	default:
		l.takeBack(j, at, &x.out[i])
	}
}

// drop forgets a compute task that was not ordered. Its device is free.
func (l *Ledger) drop(j *job, at *attempt, i int) {
	x := at.relaxed
	c := x.out[i]
	x.out = slices.Delete(x.out, i, i+1)
	at.open--
	c.agent.devices[c.device].job = nil
	l.altered.job(j)
	l.altered.agent(c.agent)
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
	x := at.relaxed
	l.dropUnordered(j, at)
	for i := range x.out {
		if c := &x.out[i]; c.gone {
			l.stopCompute(j, at, c)
		} else {
			l.takeBack(j, at, c)
		}
	}
	j.relaxed.grants = nil
	l.withdraw(j)
}

func (l *Ledger) dropUnordered(j *job, at *attempt) {
	x := at.relaxed
	for i := len(x.out) - 1; i >= 0; i-- {
		if x.out[i].state == clusterdoc.TaskWaiting {
			l.drop(j, at, i)
		}
	}
}

// share gives the tasks of rounds that the session has given since it was last at rest to their agents, and begins an
// attempt where none lives.
func (l *Ledger) share(j *job) {
	if j.state.Final() || j.cancelled != "" || !j.arrived {
		j.relaxed.grants = nil
		return
	}
	if len(j.relaxed.grants) == 0 || j.live == nil && !l.startServer(j) {
		return
	}
	at, x := j.live, j.live.relaxed
	grants := j.relaxed.grants
	j.relaxed.grants = nil
	if at.stopping || x.complete || at.tasks[0].final() {
		return
	}
	for _, g := range grants {
		a, i := l.device(g.gpu)
		switch {
		case a == nil || a.lost || a.devices[i].job != nil:
			j.relaxed.grants = append(j.relaxed.grants, g) // the events that take the GPU from the job are on their way
		case g.round < x.round || g.round == x.round && slices.Contains(x.done, g.task):
			// The session did not take the end of the task, because it had taken the GPU from the task just before.
			l.emit(hare.Event{Type: hare.EventTaskEnded, Job: j.id, Round: g.round, Task: int64(g.task), GPU: g.gpu})
		default:
			x.last++
			at.open++
			a.devices[i].job = j
			l.altered.job(j)
			l.altered.agent(a)
			x.out = append(x.out, compute{number: x.last, round: g.round, task: g.task, agent: a, device: i,
				state: clusterdoc.TaskWaiting})
			if x.ready {
				l.orderCompute(j, at, &x.out[len(x.out)-1])
			}
		}
	}
}

// orderCompute has an agent compute a task.
func (l *Ledger) orderCompute(j *job, at *attempt, c *compute) {
	x := at.relaxed
	c.state = clusterdoc.TaskOrdered
	l.altered.job(j)
	gpuType := c.agent.Devices[c.device].Type
	l.ordered = append(l.ordered, Ordered{j.id, at.number, c.number, c.agent.gpu(c.device), x.base + c.round, c.task})
	address := ""
	if x.port > 0 {
		address = net.JoinHostPort(at.tasks[0].agent.Address, strconv.Itoa(x.port))
	}
	l.order(c.agent, clusterdoc.Order{Type: clusterdoc.OrderCompute, TaskID: j.taskID(at, c.number),
		Compute: &clusterdoc.Compute{Round: x.base + c.round, Task: c.task, Device: c.device, Address: address,
			GPUType: gpuType, RoundStart: *j.secretStart(at), Directory: j.spec.Directory, Env: j.env(),
			PretendS: j.spec.On[gpuType]}})
}

// startServer begins an attempt of a relaxed job with its parameter server: on the node with the checkpoint, else on
// the node that has the most of the GPUs that were given, and of several such nodes on one with few servers. It
// reports whether such a node exists.
func (l *Ledger) startServer(j *job) bool {
	server, wait := l.serverNode(j)
	if wait {
		j.relaxed.grants = nil
		l.withdraw(j)
		l.waitForServer(j)
		return false
	}
	if server == nil {
		given := map[*agent]int{}
		for _, g := range j.relaxed.grants {
			a, _ := l.device(g.gpu)
			if a == nil || a.lost {
				continue
			}
			if given[a]++; server == nil || given[a] > given[server] ||
				given[a] == given[server] && len(a.servers) < len(server.servers) {
				server = a
			}
		}
	}
	if server == nil {
		return false // the events that take the GPUs from the job are on their way
	}
	at := &attempt{number: int64(len(j.attempts) + 1), tasks: []task{{agent: server, state: clusterdoc.TaskOrdered}},
		open: 1, orderedUs: l.nowUs, relaxed: &relaxedAttempt{}}
	j.attempts, j.live, j.relaxed.anywhere = append(j.attempts, at), at, false
	l.started(j)
	server.addServer(j)
	l.altered.agent(server)
	l.ordered = append(l.ordered, Ordered{Job: j.id, Attempt: at.number, On: server.Name})
	l.order(server, clusterdoc.Order{Type: clusterdoc.OrderHome, TaskID: j.taskID(at, 0), GraceS: j.graceS(),
		Home: &clusterdoc.HomeStart{Name: j.spec.Name, RoundStart: *j.rounds.startOf(j.secretStart(at), 0),
			Directory: j.spec.Directory, CheckpointDirectory: j.spec.CheckpointDirectory, Env: j.env(),
			Pretend: pretends(&j.spec)}})
	j.startedUs, j.reason = l.nowUs, ""
	l.setState(j, clusterdoc.JobStarting)
	return true
}

// serverNode is the node that has the checkpoint of a relaxed job; nil where any node will do. wait says that the
// node is lost, and worth waiting for.
func (l *Ledger) serverNode(j *job) (node *agent, wait bool) {
	r := j.rounds
	if r.saved == 0 || j.spec.CheckpointDirectory != "" {
		return nil, false
	}
	for _, a := range r.holders {
		switch {
		case a.draining:
		case !a.lost:
			return a, false
		default:
			wait = true
		}
	}
	return nil, wait && !j.relaxed.anywhere && (r.copy == nil || r.copy.Round < r.saved)
}

// readmit brings a relaxed job to the session again after an attempt, or has it wait for the node with its checkpoint.
func (l *Ledger) readmit(j *job) {
	j.affinity, j.relaxed.anywhere = nil, false
	if _, wait := l.serverNode(j); wait {
		l.waitForServer(j)
	} else {
		l.arrive(j)
	}
}

// waitForServer keeps a relaxed job from the session while the node with its checkpoint is lost.
func (l *Ledger) waitForServer(j *job) {
	j.affinity = &affinity{nodes: l.reach(j), untilUs: l.nowUs + min(j.rounds.uncopiedUs(), maxAffinityUs)}
	if !slices.Contains(l.affinities, j) {
		l.affinities = append(l.affinities, j)
	}
}

// rejoin brings the jobs to the session whose node with the checkpoint has come back.
func (l *Ledger) rejoin() {
	for _, j := range l.affinities {
		if j.relaxed == nil || j.affinity == nil || j.live != nil || j.state.Final() || j.arrived {
			continue
		}
		if _, wait := l.serverNode(j); !wait {
			j.affinity = nil
			l.arrive(j)
		}
	}
}
