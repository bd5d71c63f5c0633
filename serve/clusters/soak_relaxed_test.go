package clusters_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hare-sched/hare/internal/testing/audit"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// soakHome is the process that holds the parameters of a relaxed round job. Its state is guarded by world.homesMu.
type soakHome struct {
	id      clusterdoc.TaskID
	start   *clusterdoc.HomeStart
	machine *machine
	ready   bool // it has begun, from the checkpoint of its machine or the one that the machines share
	round   int64
	saved   int64
	got     map[int]bool
	reports []clusterdoc.TaskReport // that its agent has not taken
	over    bool                    // all rounds are saved, or it has died
	end     clusterdoc.TaskReport   // where it is over
}

// disk is where a home saves: what a machine that loses power keeps.
func (h *soakHome) disk() map[string]int64 {
	if h.start.CheckpointDirectory != "" {
		return h.machine.w.shared
	}
	return h.machine.disk
}

func (h *soakHome) save() {
	h.disk()[h.start.Checkpoint], h.saved = h.round, h.round
}

func (h *soakHome) report(state clusterdoc.TaskState) clusterdoc.TaskReport {
	r := clusterdoc.TaskReport{TaskID: h.id, State: state, Round: h.saved, Loss: "0.5"}
	if h.ready {
		r.Port = 20_000
	}
	return r
}

// home begins a home; the caller holds mu.
func (m *machine) home(o *clusterdoc.Order) {
	w := m.w
	m.running[o.TaskID] = &audit.Run{Agent: m.name, Epoch: m.epoch, Order: o.Number, Job: o.Job, Attempt: o.Attempt,
		Start: time.Now()}
	h := &soakHome{id: o.TaskID, start: o.Home, machine: m, got: map[int]bool{}}
	w.homesMu.Lock()
	defer w.homesMu.Unlock()
	if other := w.homes[o.Job]; other != nil {
		w.t.Errorf("job %s has a home on %s, and another one on %s", o.Job, other.machine.name, m.name)
	}
	w.homes[o.Job] = h
	time.AfterFunc(time.Duration(100+w.number(2000))*time.Millisecond, func() {
		w.homesMu.Lock()
		defer w.homesMu.Unlock()
		if w.homes[o.Job] != h {
			return
		}
		h.ready = true
		h.round = h.disk()[h.start.Checkpoint]
		h.saved = h.round
		h.reports = append(h.reports, h.report(clusterdoc.TaskRunning))
		h.finish()
	})
}

// finish ends a home that has all rounds.
func (h *soakHome) finish() {
	if h.round < h.start.Rounds {
		return
	}
	h.save()
	exit := 0
	h.end = h.report(clusterdoc.TaskEnded)
	h.end.ExitCode, h.over = &exit, true
	h.reports = append(h.reports, h.end)
}

// dies ends a home before it has all rounds.
func (h *soakHome) dies() {
	h.over = true
	h.end = clusterdoc.TaskReport{TaskID: h.id, State: clusterdoc.TaskLost}
	if exit := 1; h.machine.w.number(3) == 0 {
		h.end.State, h.end.ExitCode = clusterdoc.TaskEnded, &exit
	}
	h.reports = append(h.reports, h.end)
}

// gradient brings a home the gradient of a task, and says whether it took it; again says that it had it.
func (w *world) gradient(id clusterdoc.TaskID, c *clusterdoc.Compute) (taken, again bool) {
	w.homesMu.Lock()
	defer w.homesMu.Unlock()
	h := w.homes[id.Job]
	switch {
	case h == nil || !h.ready || h.over || h.id.Attempt != id.Attempt:
		return false, false
	case h.start.Secret != c.Secret || c.Tasks != h.start.Tasks || c.Task >= c.Tasks || c.Round >= c.Rounds:
		w.t.Errorf("task %+v does not fit its home %+v", c, h.start)
	case c.Round > h.round:
		w.t.Errorf("job %s: task %d of round %d is given out while the home has %d of %d gradients of round %d", id.Job,
			c.Task, c.Round, len(h.got), c.Tasks, h.round)
	case c.Round < h.round || h.got[c.Task]:
		return true, true
	}
	h.got[c.Task] = true
	if len(h.got) < c.Tasks {
		return true, false
	}
	h.round++
	clear(h.got)
	if w.number(3) > 0 {
		h.save()
		h.reports = append(h.reports, h.report(clusterdoc.TaskRunning))
	}
	h.finish()
	if !h.over && w.chance(3) {
		h.dies()
	}
	return true, false
}

// compute begins a task of a round; the caller holds mu.
func (m *machine) compute(o *clusterdoc.Order) {
	w := m.w
	run := &audit.Run{Agent: m.name, Epoch: m.epoch, Order: o.Number, Job: o.Job, Attempt: o.Attempt, Task: o.Task,
		GPUs: []string{fmt.Sprintf("%s/%d", m.name, o.Compute.Device)}, Start: time.Now()}
	m.running[o.TaskID] = run
	m.reports = append(m.reports, clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskRunning})
	w.homesMu.Lock()
	w.computed++
	w.homesMu.Unlock()
	exit := 0
	ended := clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskEnded, ExitCode: &exit}
	switch {
	case w.chance(1) && w.chance(30): // the module raises
		exit = 1
	case w.chance(2): // the worker dies
		ended.State, ended.ExitCode = clusterdoc.TaskLost, nil
	}
	tries := 0
	var deliver func()
	deliver = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.running[o.TaskID] != run {
			return
		}
		if tries++; ended.ExitCode != nil && exit == 0 {
			reached := !w.chance(5)
			taken := false
			if reached {
				taken, _ = w.gradient(o.TaskID, o.Compute)
			}
			if !taken {
				if tries < 50 {
					time.AfterFunc(100*time.Millisecond, deliver)
					return
				}
				ended.State, ended.ExitCode = clusterdoc.TaskLost, nil
			}
		}
		if m.end(o.TaskID) && m.epoch != 0 {
			ended.RanS, ended.SyncS = time.Since(run.Start).Seconds(), 0.1
			m.reports = append(m.reports, ended)
		}
	}
	time.AfterFunc(time.Duration(100+w.number(3000))*time.Millisecond, deliver)
}

// stopped ends a home that was told to, and says what came of it; the caller holds mu.
func (m *machine) stopped(id clusterdoc.TaskID, r *clusterdoc.TaskReport) {
	m.w.homesMu.Lock()
	defer m.w.homesMu.Unlock()
	if h := m.w.homes[id.Job]; h != nil && h.id == id && h.ready && !h.over {
		h.save()
		r.Round, r.Loss = h.saved, "0.5"
	}
}

// collect takes what the homes of the machine have to say; the caller holds mu.
func (m *machine) collect() {
	m.w.homesMu.Lock()
	var over []clusterdoc.TaskID
	for _, job := range slices.Sorted(maps.Keys(m.w.homes)) {
		h := m.w.homes[job]
		if h.machine != m || m.running[h.id] == nil {
			continue
		}
		m.reports = append(m.reports, h.reports...)
		h.reports = nil
		if h.over {
			over = append(over, h.id)
		}
	}
	m.w.homesMu.Unlock()
	for _, id := range over {
		m.end(id)
	}
}

// hold is the report of what a machine has when its agent registers.
func (m *machine) hold(id clusterdoc.TaskID) clusterdoc.TaskReport {
	m.w.homesMu.Lock()
	defer m.w.homesMu.Unlock()
	if h := m.w.homes[id.Job]; h != nil && h.id == id {
		h.reports = nil
		if h.over {
			return h.end
		}
		return h.report(clusterdoc.TaskRunning)
	}
	return clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskRunning}
}

// forgetHome notes that a home is gone; the caller holds mu.
func (m *machine) forgetHome(id clusterdoc.TaskID) {
	m.w.homesMu.Lock()
	defer m.w.homesMu.Unlock()
	if h := m.w.homes[id.Job]; h != nil && h.id == id {
		delete(m.w.homes, id.Job)
	}
}

// soakRounds is a relaxed round job of the soak.
func soakRounds(i int) *clusterdoc.NewJob {
	n := &clusterdoc.NewJob{Module: "line", Directory: "/jobs", Rounds: int64(2 + i%7), Tasks: 1 + i%4, Retries: 3}
	if i%3 == 0 {
		n.CheckpointDirectory = "/shared"
	}
	return n
}
