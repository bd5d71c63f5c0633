package clusters_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hare-sched/hare/internal/testing/audit"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// machine is a node with its agent: it keeps the rules of the protocol, and nothing else.
type machine struct {
	w    *world
	name string
	reg  *clusterdoc.Registration

	mu       sync.Mutex
	epoch    int64
	secret   string
	deadline time.Time
	orders   int64
	seen     int64
	reports  []clusterdoc.TaskReport
	running  map[clusterdoc.TaskID]*audit.Run
	disk     map[string]int64 // the rounds of its checkpoints
}

// end notes the end of a process that runs; the caller holds mu.
func (m *machine) end(id clusterdoc.TaskID) bool {
	r := m.running[id]
	if r == nil {
		return false
	}
	delete(m.running, id)
	m.forgetHome(id)
	r.End = time.Now()
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.runs = append(m.w.runs, *r)
	return true
}

func (m *machine) killAll() {
	for id := range maps.Clone(m.running) {
		m.end(id)
	}
}

// lapse ends all that runs, as soon as the lease has run out.
func (m *machine) lapse(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
		m.mu.Lock()
		if !time.Now().Before(m.deadline) {
			m.killAll()
			m.epoch = 0
		}
		m.mu.Unlock()
	}
}

func (m *machine) live(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		switch {
		case m.w.chance(1): // the machine loses power
			m.mu.Lock()
			m.killAll()
			m.epoch = 0
			m.mu.Unlock()
			time.Sleep(time.Duration(m.w.number(60_000)) * time.Millisecond)
		case m.w.chance(1): // the agent is restarted, its processes go on
			m.mu.Lock()
			m.epoch = 0
			m.mu.Unlock()
		case m.w.chance(1): // the network is cut
			time.Sleep(time.Duration(m.w.number(40_000)) * time.Millisecond)
		}
		m.mu.Lock()
		epoch := m.epoch
		m.mu.Unlock()
		if epoch == 0 {
			m.register()
		} else {
			m.sync()
		}
		time.Sleep(time.Duration(10+m.w.number(200)) * time.Millisecond)
	}
}

func (m *machine) register() {
	m.mu.Lock()
	r := *m.reg
	for _, id := range slices.SortedFunc(maps.Keys(m.running), compareTasks) {
		h := m.hold(id)
		r.Holds = append(r.Holds, h)
		if h.State != clusterdoc.TaskRunning {
			m.end(id)
		}
	}
	m.mu.Unlock()
	sent := time.Now()
	var answer *clusterdoc.Registered
	err := m.w.call(func(c *clusters.Cluster) (err error) {
		answer, err = c.Register(context.Background(), &r)
		return err
	})
	if err != nil || m.w.chance(2) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch, m.secret, m.orders, m.seen, m.reports = answer.Epoch, answer.Secret, 0, 0, nil
	m.deadline = sent.Add(time.Duration(answer.LeaseS * float64(time.Second)))
	for id := range maps.Clone(m.running) {
		if !slices.Contains(answer.Confirmed, id) {
			m.end(id)
		}
	}
	for _, id := range answer.Confirmed {
		if m.running[id] == nil && m.hold(id).State == clusterdoc.TaskRunning { // it ended since the request was sent
			m.reports = append(m.reports, clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskLost})
		}
	}
}

func compareTasks(a, b clusterdoc.TaskID) int {
	return slices.Compare([]string{a.Job, fmt.Sprint(a.Attempt), fmt.Sprint(a.Task)},
		[]string{b.Job, fmt.Sprint(b.Attempt), fmt.Sprint(b.Task)})
}

func (m *machine) sync() {
	m.mu.Lock()
	m.collect()
	s := &clusterdoc.Sync{Epoch: m.epoch, Secret: m.secret, WaitS: 2, ReportsAfter: m.seen,
		Reports: slices.Clone(m.reports), OrdersSeen: m.orders}
	if m.w.chance(1) {
		s.Faults = map[int]string{0: "XID 79"}
	}
	m.mu.Unlock()
	sent := time.Now()
	var answer *clusterdoc.Synced
	err := m.w.call(func(c *clusters.Cluster) (err error) {
		answer, err = c.Sync(context.Background(), m.name, s)
		return err
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.epoch != s.Epoch {
		return // the lease ran out meanwhile: the answer comes too late
	}
	var conflict *ledger.Conflict
	if errors.As(err, &conflict) {
		m.killAll()
		m.epoch = 0
	}
	if err != nil || m.w.chance(2) {
		return
	}
	m.deadline = sent.Add(time.Duration(answer.LeaseS * float64(time.Second)))
	m.reports = m.reports[answer.ReportsSeen-m.seen:]
	m.seen = answer.ReportsSeen
	for _, o := range answer.Orders {
		if o.Number <= m.orders {
			continue
		}
		m.orders = o.Number
		switch o.Type {
		case clusterdoc.OrderStart:
			m.start(&o)
			continue
		case clusterdoc.OrderHome:
			m.home(&o)
			continue
		case clusterdoc.OrderCompute:
			m.compute(&o)
			continue
		}
		report := clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskLost}
		m.stopped(o.TaskID, &report)
		if m.end(o.TaskID) {
			report.State, report.Signal = clusterdoc.TaskEnded, "SIGTERM"
		}
		m.reports = append(m.reports, report)
	}
}

func (m *machine) start(o *clusterdoc.Order) {
	run := &audit.Run{Agent: m.name, Epoch: m.epoch, Order: o.Number, Job: o.Job, Attempt: o.Attempt, Task: o.Task,
		Start: time.Now()}
	for _, i := range o.Start.Devices {
		run.GPUs = append(run.GPUs, fmt.Sprintf("%s/%d", m.name, i))
	}
	m.running[o.TaskID] = run
	m.reports = append(m.reports, clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskRunning})
	exit := 0
	if m.w.chance(10) {
		exit = 1
	}
	ended := clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskEnded, ExitCode: &exit}
	time.AfterFunc(time.Duration(100+m.w.number(20_000))*time.Millisecond, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.running[o.TaskID] == run && m.end(o.TaskID) && m.epoch != 0 {
			ended.RanS = time.Since(run.Start).Seconds()
			m.reports = append(m.reports, ended)
		}
	})
}
