package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// The ports that MASTER_PORT is taken from.
const (
	firstPort = 20_000
	lastPort  = 29_999
)

// assemble starts an attempt of the job where the session has given GPUs to all of its tasks.
func (l *Ledger) assemble(j *job) {
	if j.live != nil || j.state.Final() || j.cancelled != "" || j.held ||
		slices.ContainsFunc(j.granted, func(g []string) bool { return g == nil }) {
		return
	}
	at := &attempt{number: int64(len(j.attempts) + 1), tasks: make([]task, j.tasks), open: j.tasks,
		orderedUs: l.nowUs}
	local := map[*agent]int{}
	devices := map[*agent][]int{} // of all tasks, where each has one
	for k, gpus := range j.granted {
		t := &at.tasks[k]
		t.state = clusterdoc.TaskOrdered
		for _, g := range gpus {
			a, i := l.device(g)
			if a == nil || a.devices[i].job != nil || a.lost {
				return // the events that take it from the job are on their way
			}
			t.agent, t.devices = a, append(t.devices, i)
		}
		local[t.agent]++
		if j.perTask == 1 {
			devices[t.agent] = append(devices[t.agent], t.devices...)
		}
	}
	j.attempts, j.live = append(j.attempts, at), at
	l.started(j)
	clear(j.granted)
	master := at.tasks[0].agent
	port := l.nextPort(master)
	training := j.roundStart()
	if training != nil && j.tasks > 1 {
		training.Secret = secretOf(master, j.id, at.number)
	}
	rank := map[*agent]int{}
	for k := range at.tasks {
		t := &at.tasks[k]
		for _, i := range t.devices {
			t.agent.devices[i].job = j
			l.altered.agent(t.agent)
		}
		gpuType := t.agent.Devices[t.devices[0]].Type
		start := &clusterdoc.Start{Name: j.spec.Name, Command: j.spec.Command, Devices: t.devices,
			GPUType: gpuType, Env: j.env(),
			Rank: k, WorldSize: j.tasks, LocalRank: rank[t.agent], LocalWorldSize: local[t.agent],
			PretendS: seconds(&j.spec, gpuType), Rounds: j.rounds.startOf(training, k),
			MasterAddress: master.Address, MasterPort: port,
			Directory: j.spec.Directory, CheckpointDirectory: j.spec.CheckpointDirectory}
		if local[t.agent] > 1 {
			start.LocalDevices = devices[t.agent]
		}
		rank[t.agent]++
		l.order(t.agent, clusterdoc.Order{Type: clusterdoc.OrderStart, TaskID: j.taskID(at, k),
			GraceS: j.graceS(), Start: start})
	}
	j.startedUs, j.reason = l.nowUs, ""
	l.setState(j, clusterdoc.JobStarting)
}

// nextPort is a port that no attempt of the master has, as long as fewer than 10,000 live. An agent's first one
// follows from its secret, so that agents of several clusters on one node rarely want the same port.
func (l *Ledger) nextPort(a *agent) int {
	if a.port == 0 {
		sum := sha256.Sum256([]byte(a.Incarnation))
		a.port = firstPort + int(binary.BigEndian.Uint32(sum[:])%(lastPort-firstPort+1))
	} else if a.port++; a.port < firstPort || a.port > lastPort {
		a.port = firstPort
	}
	return a.port
}

// stop tells all tasks of an attempt to end that have not.
func (l *Ledger) stop(j *job, at *attempt) {
	if at.stopping {
		return
	}
	at.stopping = true
	if at.open > 0 {
		l.setState(j, clusterdoc.JobStopping)
	}
	if j.relaxed != nil {
		l.release(j, at)
	}
	for k := range at.tasks {
		if t := &at.tasks[k]; !t.final() {
			l.order(t.agent, clusterdoc.Order{Type: clusterdoc.OrderStop, TaskID: j.taskID(at, k), GraceS: j.graceS()})
		}
	}
	if j.relaxed != nil && at.open == 0 {
		l.close(j, at)
	}
}

// report takes what an agent says of a task. What is said of a task that it does not have, or that is final, is
// not used.
func (l *Ledger) report(a *agent, r *clusterdoc.TaskReport) {
	j := l.jobs[r.Job]
	if j == nil || j.live == nil || j.live.number != r.Attempt || r.Task < 0 {
		return
	}
	if j.relaxed != nil && r.Task > 0 {
		l.reportCompute(a, j, r)
		return
	}
	if r.Task >= len(j.live.tasks) {
		return
	}
	at := j.live
	t := &at.tasks[r.Task]
	if t.agent != a || t.final() {
		return
	}
	l.altered.job(j)
	if r.Round > 0 && j.rounds != nil {
		j.rounds.reported, j.rounds.loss = r.Round, r.Loss
		j.rounds.saveIn(at, r.Round)
	}
	switch r.State {
	case clusterdoc.TaskRunning:
		if t.state != clusterdoc.TaskRunning {
			t.state = clusterdoc.TaskRunning
			if at.running++; at.running == len(at.tasks) && !at.stopping {
				l.setState(j, clusterdoc.JobRunning)
			}
		}
		if j.relaxed != nil {
			l.serverRuns(j, at, r)
		}
	case clusterdoc.TaskEnded, clusterdoc.TaskLost:
		t.exit, t.signal, t.error, t.ranUs = r.ExitCode, r.Signal, r.Error, int64(r.RanS*1e6)
		bad := r.State == clusterdoc.TaskLost || r.ExitCode == nil || *r.ExitCode != 0
		if early := j.relaxed != nil && !bad && r.Round > 0 && r.Round < j.spec.Rounds; early && !at.stopping {
			bad, r.Error = true, fmt.Sprintf("the parameter server ended after round %d of %d", r.Round, j.spec.Rounds)
		}
		if bad && !at.stopping {
			what, elsewhere := l.noteUnreachable(j, at, r)
			at.error = what + failure(j, r)
			if r.State == clusterdoc.TaskLost || elsewhere {
				at.lost = true // not by its own fault: with its runner, or with the lease of its agent
			} else {
				at.failed = true
			}
		}
		l.finish(j, at, r.Task, r.State)
		switch {
		case j.live != at:
		case bad:
			l.stop(j, at)
		case j.relaxed != nil && !at.stopping:
			l.serverEnded(j, at)
		}
	}
}

// failure says in one line how a task ended badly.
func failure(j *job, r *clusterdoc.TaskReport) string {
	what := ""
	if j.tasks > 1 || j.relaxed != nil && r.Task > 0 {
		what = fmt.Sprintf("task %d: ", r.Task)
	}
	switch {
	case r.Error != "":
		return what + r.Error
	case r.Signal != "":
		return what + "ended by " + r.Signal
	case r.ExitCode != nil:
		return fmt.Sprintf("%sexit code %d", what, *r.ExitCode)
	}
	return what + "lost"
}

// finish makes a task final, and closes the attempt with its last task.
func (l *Ledger) finish(j *job, at *attempt, k int, state clusterdoc.TaskState) {
	if j.relaxed != nil && k > 0 {
		if i, found := at.find(k); found {
			l.endCompute(j, at, i, &clusterdoc.TaskReport{State: state})
		}
		return
	}
	t := &at.tasks[k]
	t.state = state
	l.altered.job(j)
	t.agent.dropOrders(j.taskID(at, k))
	if at.open--; at.open == 0 {
		l.close(j, at)
	}
}

// close ends an attempt of which no process is left: the session learns what came of it, and its devices are
// given back.
func (l *Ledger) close(j *job, at *attempt) {
	j.live, at.endedUs = nil, l.nowUs
	moved := at.relaxed != nil && at.relaxed.moved
	gone := false // a device of the attempt is not in service any more
	for k := range at.tasks {
		t := &at.tasks[k]
		for _, i := range t.devices {
			t.agent.devices[i].job = nil
			l.altered.agent(t.agent)
			gone = gone || !t.agent.wanted(i)
		}
		if j.relaxed != nil {
			t.agent.servers = slices.DeleteFunc(t.agent.servers, func(x *job) bool { return x == j })
			l.altered.agent(t.agent)
		}
	}
	switch {
	case j.cancelled != "":
		at.result = "cancelled"
		l.withdraw(j)
		l.end(j, clusterdoc.JobCancelled, "cancelled"+byWhom(j.cancelled))
	case !at.failed && !at.lost && !moved:
		at.result = "succeeded"
		for k := range at.tasks {
			if t := &at.tasks[k]; j.relaxed == nil {
				l.emit(hare.Event{Type: hare.EventTaskEnded, Job: j.id, Task: int64(k), GPU: t.agent.gpu(t.devices[0]),
					ComputeUs: max(1, t.ranUs)})
			}
		}
		l.leaveSession(j)
		l.end(j, clusterdoc.JobSucceeded, "")
	default:
		at.result = "lost"
		switch {
		case at.failed:
			at.result = "failed"
			j.failures++
		case moved && !at.lost:
			at.result = "moved"
		default:
			j.lost++
			if r := j.rounds; r != nil {
				if r.reported > r.lost {
					j.lossesSinceSave = 0
				}
				r.lost = r.reported
			}
			j.lossesSinceSave++
		}
		if at.saved {
			j.rounds.trainedUs += max(0, at.endedUs-at.orderedUs)
		}
		switch {
		case j.failures > j.spec.Retries:
			l.withdraw(j)
			l.end(j, clusterdoc.JobFailed, at.error)
		case j.lossesSinceSave > maxLost:
			l.withdraw(j)
			l.end(j, clusterdoc.JobFailed, fmt.Sprintf("lost %d times with its nodes, the last time: %s", j.lossesSinceSave,
				at.error))
		default:
			l.setState(j, clusterdoc.JobWaiting)
			j.reason = fmt.Sprintf("starts again after attempt %d: %s", at.number, at.error)
			switch {
			case j.relaxed != nil:
				l.release(j, at) // where the parameter server was lost between two rounds, the session has the job
				l.readmit(j)
			case l.restrict(j):
			case l.narrow(j):
				l.withdraw(j)
				l.arrive(j)
			case !gone:
				t := &at.tasks[0]
				l.emit(hare.Event{Type: hare.EventTaskFailed, Job: j.id, GPU: t.agent.gpu(t.devices[0])})
			}
		}
	}
	for k := range at.tasks {
		t := &at.tasks[k]
		for _, i := range t.devices {
			l.reconcile(t.agent, i)
		}
	}
}

func byWhom(by string) string {
	if by == "" || by == "-" {
		return ""
	}
	return " by " + by
}

// end makes the job final.
func (l *Ledger) end(j *job, s clusterdoc.JobState, reason string) {
	j.reason, j.endedUs, j.held = reason, l.nowUs, false
	l.usage.open.Ended++
	j.spec.SecretEnv = masked(j.spec.SecretEnv)
	clear(j.granted)
	if j.relaxed != nil {
		j.relaxed.grants = nil
	}
	l.setState(j, s)
	l.ended = append(l.ended, j)
}

// submit adds a job. It arrives at the session once a GPU type is known.
func (l *Ledger) submit(s *Submit) {
	if Shares(&s.Job) && !s.Shares {
		rigid := *s
		rigid.Job.Sync = SyncRigid
		s = &rigid
	}
	j := newJob(l.NextJob(), &s.Job)
	j.key, j.secretSum, j.submittedUs = s.Key, s.SecretSum, l.nowUs
	j.granted = make([][]string, j.tasks)
	l.jobs[j.id] = j
	l.byTime = append(l.byTime, j)
	if s.Key != "" {
		l.keys[s.Key] = j.id
	}
	l.setState(j, clusterdoc.JobWaiting)
	l.arrive(j)
}

// cancel ends a job, or begins to end it.
func (l *Ledger) cancel(c *Cancel) error {
	j := l.jobs[c.Job]
	if j == nil && l.past.has(number(c.Job)-1) {
		return nil
	}
	if j == nil {
		return fmt.Errorf("ledger: no job %q", c.Job)
	}
	if j.state.Final() || j.cancelled != "" {
		return nil
	}
	if j.cancelled = c.By; c.By == "" {
		j.cancelled = "-"
	}
	if j.live != nil {
		j.reason = "is being ended" + byWhom(j.cancelled)
		l.altered.job(j)
		l.stop(j, j.live)
		return nil
	}
	l.withdraw(j)
	l.end(j, clusterdoc.JobCancelled, "cancelled"+byWhom(j.cancelled))
	return nil
}
