package ledger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// The ports that MASTER_PORT is taken from.
const (
	firstPort = 20_000
	lastPort  = 29_999
)

// defaultGraceS is the time between SIGTERM and SIGKILL where a job does not say.
const defaultGraceS = 10

// assemble starts an attempt of the job where the session has given GPUs to all of its tasks.
func (l *Ledger) assemble(j *job) {
	if j.live != nil || j.state.Final() || j.cancelled != "" || slices.ContainsFunc(j.granted, func(g []string) bool {
		return g == nil
	}) {
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
		}
		gpuType := t.agent.Devices[t.devices[0]].Type
		start := &clusterdoc.Start{Name: j.spec.Name, Command: j.spec.Command, Devices: t.devices,
			GPUType: gpuType, Env: j.env(),
			Rank: k, WorldSize: j.tasks, LocalRank: rank[t.agent], LocalWorldSize: local[t.agent],
			PretendS: seconds(&j.spec, gpuType), Rounds: of(training, k, j),
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

func (j *job) graceS() float64 {
	if j.spec.GraceS != nil {
		return *j.spec.GraceS
	}
	return defaultGraceS
}

// graceOf is that of a task of an attempt.
func (j *job) graceOf(k int) float64 {
	if j.relaxed && k > 0 {
		return 0
	}
	return j.graceS()
}

func (j *job) taskID(at *attempt, k int) clusterdoc.TaskID {
	return clusterdoc.TaskID{Job: j.id, Attempt: at.number, Task: k}
}

// order adds an order for an agent.
func (l *Ledger) order(a *agent, o clusterdoc.Order) *clusterdoc.Order {
	a.lastOrder++
	o.Number = a.lastOrder
	l.changed[a.Name] = true
	a.orders = append(a.orders, o)
	return &o
}

// dropOrders forgets the orders of a task that is final.
func (a *agent) dropOrders(id clusterdoc.TaskID) {
	a.orders = slices.DeleteFunc(a.orders, func(o clusterdoc.Order) bool { return o.TaskID == id })
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
	if j.relaxed {
		l.release(j, at)
	}
	for k := range at.tasks {
		if t := &at.tasks[k]; !t.final() {
			l.order(t.agent, clusterdoc.Order{Type: clusterdoc.OrderStop, TaskID: j.taskID(at, k), GraceS: j.graceS()})
		}
	}
	if j.relaxed && at.open == 0 {
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
	if j.relaxed && r.Task > 0 {
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
	if r.Round > 0 {
		j.round, j.loss = r.Round, r.Loss
		j.saved(at, r.Round)
	}
	switch r.State {
	case clusterdoc.TaskRunning:
		if t.state != clusterdoc.TaskRunning {
			t.state = clusterdoc.TaskRunning
			if at.running++; at.running == len(at.tasks) && !at.stopping {
				l.setState(j, clusterdoc.JobRunning)
			}
		}
		if j.relaxed {
			l.homeRuns(j, at, r)
		}
	case clusterdoc.TaskEnded, clusterdoc.TaskLost:
		t.exit, t.signal, t.error, t.ranUs = r.ExitCode, r.Signal, r.Error, int64(r.RanS*1e6)
		bad := r.State == clusterdoc.TaskLost || r.ExitCode == nil || *r.ExitCode != 0
		if early := j.relaxed && !bad && r.Round > 0 && r.Round < j.spec.Rounds; early && !at.stopping {
			bad, r.Error = true, fmt.Sprintf("the home ended behind round %d of %d", r.Round, j.spec.Rounds)
		}
		if bad && !at.stopping {
			what, elsewhere := l.parted(j, at, r)
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
		case j.relaxed && !at.stopping:
			l.homeEnded(j, at)
		}
	}
}

// failure says in one line how a task ended badly.
func failure(j *job, r *clusterdoc.TaskReport) string {
	what := ""
	if j.tasks > 1 || j.relaxed && r.Task > 0 {
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
	if j.relaxed && k > 0 {
		if i, found := at.find(k); found {
			l.endCompute(j, at, i, &clusterdoc.TaskReport{State: state})
		}
		return
	}
	t := &at.tasks[k]
	t.state = state
	t.agent.dropOrders(j.taskID(at, k))
	if at.open--; at.open == 0 {
		l.close(j, at)
	}
}

// close ends an attempt of which no process is left: the session learns what came of it, and its devices are
// given back.
func (l *Ledger) close(j *job, at *attempt) {
	j.live, at.endedUs = nil, l.nowUs
	gone := false // a device of the attempt is not in service any more
	for k := range at.tasks {
		t := &at.tasks[k]
		for _, i := range t.devices {
			t.agent.devices[i].job = nil
			gone = gone || !t.agent.wanted(i)
		}
		if j.relaxed {
			t.agent.homes = slices.DeleteFunc(t.agent.homes, func(x *job) bool { return x == j })
		}
	}
	switch {
	case j.cancelled != "":
		at.result = "cancelled"
		l.void(j)
		l.end(j, clusterdoc.JobCancelled, "cancelled"+byWhom(j.cancelled))
	case !at.failed && !at.lost && !at.moved:
		at.result = "succeeded"
		for k := range at.tasks {
			if t := &at.tasks[k]; !j.relaxed {
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
		case at.moved && !at.lost:
			at.result = "moved"
		default:
			j.lost++
			if j.round > j.lostRound {
				j.vain = 0
			}
			j.vain++
			j.lostRound = j.round
		}
		if at.saved {
			j.trainedUs += max(0, at.endedUs-at.orderedUs)
		}
		switch {
		case j.failures > j.spec.Retries:
			l.void(j)
			l.end(j, clusterdoc.JobFailed, at.error)
		case j.vain > maxLost:
			l.void(j)
			l.end(j, clusterdoc.JobFailed, fmt.Sprintf("lost %d times with its nodes, the last time: %s", j.vain, at.error))
		default:
			l.setState(j, clusterdoc.JobWaiting)
			j.reason = fmt.Sprintf("starts again after attempt %d: %s", at.number, at.error)
			switch {
			case j.relaxed:
				l.release(j, at) // where the home was lost between two rounds, the session has the job
				l.place(j)
			case l.pinned(j):
			case l.narrow(j):
				l.void(j)
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

// void takes the job from the session.
func (l *Ledger) void(j *job) {
	if j.arrived {
		l.emit(hare.Event{Type: hare.EventJobCancelled, Job: j.id})
		j.arrived = false
	}
}

// end makes the job final.
func (l *Ledger) end(j *job, s clusterdoc.JobState, reason string) {
	j.reason, j.endedUs = reason, l.nowUs
	j.spec.SecretEnv = masked(j.spec.SecretEnv)
	clear(j.granted)
	j.grants = nil
	l.setState(j, s)
	l.ended = append(l.ended, j)
}

// submit adds a job. It arrives at the session once a GPU type is known.
func (l *Ledger) submit(s *Submit) {
	j := &job{id: l.NextJob(), spec: s.Job, key: s.Key, secretSum: s.SecretSum, submittedUs: l.nowUs}
	if Shares(&j.spec) && !s.Shares {
		j.spec.Sync = SyncRigid
	}
	j.relaxed = Shares(&j.spec)
	j.tasks, j.perTask = processes(&s.Job)
	j.granted = make([][]string, j.tasks)
	l.jobs[j.id] = j
	l.byTime = append(l.byTime, j)
	if s.Key != "" {
		l.keys[s.Key] = j.id
	}
	l.setState(j, clusterdoc.JobWaiting)
	l.arrive(j)
}

// arrive brings a job to the session.
func (l *Ledger) arrive(j *job) {
	if a := Arrival(j.id, &j.spec, l.types); len(a.On) > 0 {
		a.Only, a.Exclude = j.only(), j.exclude()
		j.arrived, j.knows = true, len(l.types)
		l.emit(hare.Event{Type: hare.EventJobArrived, Job: j.id, Arrived: a})
	}
}

// Arrival is the job as it arrives at the session of a cluster with GPUs of these types.
func Arrival(id string, spec *clusterdoc.NewJob, types map[string]bool) *hare.Job {
	tasks, perTask := processes(spec)
	a := &hare.Job{ID: id, WeightMicro: 1e6, Sync: hare.Rigid, Tasks: int64(tasks),
		DistinctNodes: spec.Nodes > 1}
	if perTask > 1 {
		a.GPUsPerTask = int64(perTask)
	}
	if Shares(spec) {
		a.Sync, a.Tasks = hare.Relaxed, int64(RoundTasks(spec))
	}
	if spec.Weight != nil {
		a.WeightMicro = micros(*spec.Weight)
	}
	on := spec.On
	if len(on) == 0 {
		on = map[string]float64{}
		for t := range types {
			on[t] = 0
		}
	}
	for _, t := range slices.Sorted(maps.Keys(on)) {
		a.On = append(a.On, hare.Profile{Type: t, ComputeUs: micros(seconds(spec, t))})
	}
	if spec.EstimateS != nil || len(spec.Class) > 0 {
		a.Hints = &hare.JobHints{}
		if spec.EstimateS != nil {
			a.Hints.EstimateUs = micros(*spec.EstimateS)
		}
		for _, name := range slices.Sorted(maps.Keys(spec.Class)) {
			a.Hints.Class = append(a.Hints.Class, hare.ClassLabel{Name: name, Value: spec.Class[name]})
		}
	}
	return a
}

// processes is how many processes a job has, and how many GPUs each of them. A round job has one process a node.
func processes(spec *clusterdoc.NewJob) (tasks, perTask int) {
	gpus, perTask := max(1, spec.GPUs), max(1, spec.GPUsPerTask)
	switch {
	case spec.Module != "":
		perTask = gpus / max(1, spec.Nodes)
	case spec.Nodes > 0 && spec.GPUsPerTask == 0:
		perTask = gpus / spec.Nodes
	}
	return gpus / perTask, perTask
}

// seconds is how long the job, or a task of a round of a relaxed job, says that it takes on a type; 0 means that it
// does not say.
func seconds(spec *clusterdoc.NewJob, gpuType string) float64 {
	if spec.Module != "" && !Shares(spec) {
		return spec.On[gpuType] * float64(spec.Rounds)
	}
	return spec.On[gpuType]
}

// roundStart is what a round job trains; nil for a command. The name of the checkpoint has the time of the
// submission, so that a job of another cluster, or of a deleted one of the same name, does not go on from it.
func (j *job) roundStart() *clusterdoc.RoundStart {
	if j.spec.Module == "" {
		return nil
	}
	return &clusterdoc.RoundStart{Module: j.spec.Module, Tasks: RoundTasks(&j.spec), Rounds: j.spec.Rounds,
		Seed: j.spec.Seed, Gang: j.spec.Sync == SyncGang,
		Checkpoint: fmt.Sprintf("%s-%d.hare", j.id, j.submittedUs)}
}

// secretOf is what the programs of an attempt know each other by. It follows from a secret that nobody but the agent
// of the master and the server know, so that the journal gives the same one whenever it is read.
func secretOf(master *agent, job string, attempt int64) string {
	mac := hmac.New(sha256.New, []byte(master.Incarnation))
	fmt.Fprintf(mac, "hare rounds %s.%d", job, attempt)
	return hex.EncodeToString(mac.Sum(nil))
}

// RoundTasks is the number of tasks of a round of a round job.
func RoundTasks(spec *clusterdoc.NewJob) int {
	if spec.Tasks > 0 {
		return spec.Tasks
	}
	return max(1, spec.GPUs)
}

// micros rounds a number of seconds or a weight to units of 1e-6.
func micros(x float64) int64 { return int64(x*1e6 + 0.5) }

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
		j.reason = "is told to end" + byWhom(j.cancelled)
		l.stop(j, j.live)
		return nil
	}
	l.void(j)
	l.end(j, clusterdoc.JobCancelled, "cancelled"+byWhom(j.cancelled))
	return nil
}
