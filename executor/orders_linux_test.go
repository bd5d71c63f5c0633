package executor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hare-sched/hare/client"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// orders gives agents orders as a server does, without one: relaxed jobs share the devices of all agents, and each
// task of a round goes to any free device.
type orders struct {
	t      *testing.T
	leaseS float64

	mu     sync.Mutex
	rng    *rand.Rand
	agents map[string]*ordered
	jobs   []*relaxedJob
	tasks  map[clusterdoc.TaskID]*placedTask
	logs   map[clusterdoc.TaskID]string
	ends   []clusterdoc.TaskReport
	// sequence has for each device the jobs of the tasks that have ended there.
	sequence map[string][]string
}

// ordered is an agent as the server sees it.
type ordered struct {
	epoch   int64
	orders  []clusterdoc.Order
	reports int64 // that it has seen
	devices int
}

// placedTask is a home, a task of a round or a command that an agent has, with its device; −1 of a home.
type placedTask struct {
	agent  string
	device int
	job    *relaxedJob
	task   int // of the round
}

// relaxedJob is a job that is trained.
type relaxedJob struct {
	id          string
	start       clusterdoc.RoundStart
	dir         string
	checkpoints string
	env         map[string]string
	pretendS    float64
	homes       []string // the agents that may be its home; any where it is empty
	hold        int64    // the round that is not begun before hold is 0; 0 means that all are

	attempt int64
	home    string
	port    int // −1 until the home runs
	number  int // of the last task
	round   int64
	left    map[int]bool // tasks of the round that have not ended
	out     map[int]bool // of these, those that an agent has
	saved   int64
	loss    string
	done    bool
	failed  string
	used    map[string]int // tasks by agent and device
}

func newOrders(t *testing.T, seed uint64) *orders {
	return &orders{t: t, leaseS: 15, rng: rand.New(rand.NewPCG(seed, 3)), agents: map[string]*ordered{},
		tasks: map[clusterdoc.TaskID]*placedTask{}, logs: map[clusterdoc.TaskID]string{},
		sequence: map[string][]string{}}
}

// add submits a job.
func (o *orders) add(j *relaxedJob) {
	o.mu.Lock()
	defer o.mu.Unlock()
	j.used = map[string]int{}
	o.jobs = append(o.jobs, j)
	o.place()
}

// letGo lets all jobs come to their ends.
func (o *orders) letGo() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, j := range o.jobs {
		j.hold = 0
	}
	o.place()
}

func (o *orders) order(agent string, x clusterdoc.Order) {
	a := o.agents[agent]
	x.Number = int64(len(a.orders)) + 1
	a.orders = append(a.orders, x)
}

// place orders homes, and tasks on free devices.
func (o *orders) place() {
	type slot struct {
		agent  string
		device int
	}
	var free []slot
	for name, a := range o.agents {
		for d := range a.devices {
			if !o.busy(name, d) {
				free = append(free, slot{name, d})
			}
		}
	}
	slices.SortFunc(free, func(a, b slot) int {
		return slices.Compare([]string{a.agent, fmt.Sprint(a.device)}, []string{b.agent, fmt.Sprint(b.device)})
	})
	o.rng.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	for _, j := range o.jobs {
		if j.home == "" && !j.done && j.failed == "" && len(o.agents) > 0 {
			o.orderHome(j)
		}
	}
	for {
		var ready []*relaxedJob
		for _, j := range o.jobs {
			if j.port >= 0 && j.home != "" && !j.done && j.failed == "" && j.round < j.start.Rounds &&
				(j.hold == 0 || j.round < j.hold) && len(j.out) < len(j.left) {
				ready = append(ready, j)
			}
		}
		if len(ready) == 0 || len(free) == 0 {
			return
		}
		j, at := ready[o.rng.IntN(len(ready))], free[0]
		free = free[1:]
		var todo []int
		for k := range j.left {
			if !j.out[k] {
				todo = append(todo, k)
			}
		}
		slices.Sort(todo)
		k := todo[o.rng.IntN(len(todo))]
		j.number++
		j.out[k] = true
		address := "" // as a server says of a home that is played
		if j.port > 0 {
			address = net.JoinHostPort("127.0.0.1", strconv.Itoa(j.port))
		}
		id := clusterdoc.TaskID{Job: j.id, Attempt: j.attempt, Task: j.number}
		o.tasks[id] = &placedTask{at.agent, at.device, j, k}
		o.order(at.agent, clusterdoc.Order{Type: clusterdoc.OrderCompute, TaskID: id, GraceS: 5,
			Compute: &clusterdoc.Compute{Round: j.round, Task: k, Device: at.device, RoundStart: j.start, Directory: j.dir,
				Env: j.env, PretendS: j.pretendS, GPUType: "cpu", Address: address}})
	}
}

func (o *orders) orderHome(j *relaxedJob) {
	names := j.homes
	if len(names) == 0 {
		for name := range o.agents {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	j.attempt++
	j.home, j.port = names[o.rng.IntN(len(names))], -1
	j.start.Secret = fmt.Sprintf("secret of %s.%d", j.id, j.attempt)
	id := clusterdoc.TaskID{Job: j.id, Attempt: j.attempt}
	o.tasks[id] = &placedTask{j.home, -1, j, -1}
	o.order(j.home, clusterdoc.Order{Type: clusterdoc.OrderHome, TaskID: id, GraceS: 5, Home: &clusterdoc.HomeStart{
		Name: j.id, RoundStart: j.start, Directory: j.dir, CheckpointDirectory: j.checkpoints, Env: j.env,
		Pretend: j.pretendS > 0}})
}

// has reports whether an agent has a task that has not ended.
func (o *orders) has(agent string, id clusterdoc.TaskID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.tasks[id]
	return p != nil && p.agent == agent
}

func (o *orders) busy(agent string, device int) bool {
	for _, p := range o.tasks {
		if p.agent == agent && p.device == device {
			return true
		}
	}
	return false
}

// report takes what an agent says.
func (o *orders) report(agent string, r *clusterdoc.TaskReport) {
	p := o.tasks[r.TaskID]
	if p == nil || p.agent != agent {
		return
	}
	final := r.State == clusterdoc.TaskEnded || r.State == clusterdoc.TaskLost
	good := r.State == clusterdoc.TaskEnded && r.ExitCode != nil && *r.ExitCode == 0
	if final {
		delete(o.tasks, r.TaskID)
		o.ends = append(o.ends, *r)
	}
	j := p.job
	if j == nil || r.Attempt != j.attempt || j.home == "" {
		return
	}
	if p.task >= 0 {
		switch {
		case !final || j.done || j.failed != "": // what is stopped then has not failed
		case good:
			if j.left[p.task] {
				at := fmt.Sprintf("%s/%d", agent, p.device)
				j.used[at]++
				o.sequence[at] = append(o.sequence[at], j.id)
			}
			delete(j.left, p.task)
			delete(j.out, p.task)
			if len(j.left) == 0 {
				j.round++
				j.begin()
				if j.round == j.start.Rounds && j.port == 0 { // it is played
					o.order(j.home, clusterdoc.Order{Type: clusterdoc.OrderStop, TaskID: clusterdoc.TaskID{Job: j.id,
						Attempt: j.attempt}, GraceS: 5})
				}
			}
		case r.State == clusterdoc.TaskLost:
			delete(j.out, p.task)
		default:
			j.failed = r.Error
			o.stop(j)
		}
		return
	}
	if r.Round < j.saved && j.checkpoints != "" && !(final && r.Round == 0) {
		o.t.Errorf("job %s says %d rounds after %d", j.id, r.Round, j.saved)
	}
	j.saved, j.loss = max(j.saved, r.Round), r.Loss
	switch {
	case r.State == clusterdoc.TaskRunning && j.port < 0:
		j.port, j.round = r.Port, r.Round
		j.begin()
	case good:
		j.done = true
		o.stop(j)
	case final && r.State == clusterdoc.TaskEnded && r.Error != "":
		j.failed = r.Error
		o.stop(j)
	case final:
		o.stop(j)
		j.home = ""
	}
}

// begin begins a round.
func (j *relaxedJob) begin() {
	j.left, j.out = map[int]bool{}, map[int]bool{}
	for k := range j.start.Tasks {
		j.left[k] = true
	}
}

// stop ends what agents have of a job.
func (o *orders) stop(j *relaxedJob) {
	for id, p := range o.tasks {
		if p.job == j {
			o.order(p.agent, clusterdoc.Order{Type: clusterdoc.OrderStop, TaskID: id, GraceS: 5})
		}
	}
}

func (o *orders) RegisterAgent(_ context.Context, _ string, r *clusterdoc.Registration) (*clusterdoc.Registered,
	error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.agents[r.Name]
	if a == nil {
		a = &ordered{}
		o.agents[r.Name] = a
	}
	a.epoch++
	a.orders, a.reports, a.devices = nil, 0, len(r.Devices)
	held := map[clusterdoc.TaskID]bool{}
	answer := &clusterdoc.Registered{Epoch: a.epoch, LeaseS: o.leaseS, LogLimitBytes: 1 << 20}
	for i := range r.Holds {
		h := &r.Holds[i]
		held[h.TaskID] = true
		if p := o.tasks[h.TaskID]; p != nil && p.agent == r.Name {
			answer.Confirmed = append(answer.Confirmed, h.TaskID)
			o.report(r.Name, h)
		}
	}
	for id, p := range o.tasks {
		if p.agent == r.Name && !held[id] {
			o.report(r.Name, &clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskLost})
		}
	}
	o.place()
	return answer, nil
}

func (o *orders) SyncAgent(ctx context.Context, _, agent string, s *clusterdoc.Sync) (*clusterdoc.Synced, error) {
	end := time.Now().Add(time.Duration(s.WaitS * float64(time.Second)))
	for {
		o.mu.Lock()
		a := o.agents[agent]
		if a.epoch != s.Epoch {
			o.mu.Unlock()
			return nil, &client.Problem{Status: 409, Code: "stale_epoch"}
		}
		for i := range s.Reports {
			if n := s.ReportsAfter + int64(i) + 1; n > a.reports {
				a.reports = n
				o.report(agent, &s.Reports[i])
			}
		}
		o.place()
		answer := &clusterdoc.Synced{LeaseS: o.leaseS, ReportsSeen: a.reports}
		if n := int(s.OrdersSeen); n < len(a.orders) {
			answer.Orders = slices.Clone(a.orders[n:])
		}
		o.mu.Unlock()
		if len(answer.Orders) > 0 || time.Now().After(end) {
			return answer, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (o *orders) PutLog(_ context.Context, _, _ string, at *clusterdoc.LogChunk, piece []byte) (
	*clusterdoc.LogStored, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at.Stream == clusterdoc.StreamStdout {
		o.logs[at.TaskID] = o.logs[at.TaskID][:at.Offset] + string(piece)
	}
	return &clusterdoc.LogStored{Next: at.Offset + int64(len(piece))}, nil
}

// await waits until a condition holds.
func (o *orders) await(what string, patience time.Duration, condition func() bool) {
	o.t.Helper()
	for begun := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		o.mu.Lock()
		ok := condition()
		o.mu.Unlock()
		if ok {
			return
		}
		if time.Since(begun) > patience {
			o.mu.Lock()
			defer o.mu.Unlock()
			for _, j := range o.jobs {
				o.t.Logf("%+v", *j)
			}
			for id, p := range o.tasks {
				o.t.Logf("%v: %+v", id, *p)
			}
			o.t.Fatalf("never: %s", what)
		}
	}
}

// log is what a task has printed, as far as the server has it.
func (o *orders) log(id clusterdoc.TaskID) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.logs[id]
}

// over says that all jobs have ended, and agents have nothing left.
func (o *orders) over() bool {
	for _, j := range o.jobs {
		if !j.done && j.failed == "" {
			return false
		}
	}
	return len(o.tasks) == 0
}

func (o *orders) PutCheckpoint(context.Context, string, string, *clusterdoc.CheckpointChunk, []byte) (
	*clusterdoc.CheckpointStored, error) {
	return nil, errNoCopies
}

func (o *orders) GetCheckpoint(context.Context, string, string, *clusterdoc.CheckpointChunk) ([]byte, error) {
	return nil, errNoCopies
}

var errNoCopies = &client.Problem{Status: 409, Code: "checkpoints_off"}
