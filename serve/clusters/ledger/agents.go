package ledger

import (
	"crypto/subtle"
	"fmt"
	"maps"
	"slices"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// register begins the next epoch of an agent. The tasks that the agent holds go on where the cluster still
// wants them. All others are lost, those too of which the agent has not said that they run: whether it has
// started them is not known, and no task of an attempt starts twice.
func (l *Ledger) register(r *Register) {
	a := l.agents[r.Name]
	if a != nil && r.Again {
		again := *r
		again.Labels, again.Devices = a.Labels, a.Devices
		r = &again
	}
	if a == nil {
		a = &agent{}
		l.agents[r.Name] = a
	} else if !sameDevices(a.Devices, r.Devices) {
		l.expire(a)
		for i := range a.devices {
			l.forget(a, i)
		}
		l.discount(a)
		a.devices = nil
	}
	a.Registration, a.secretSum = r.Registration, r.SecretSum
	a.Holds = nil
	a.epoch++
	a.orders, a.lastOrder, a.reports = nil, 0, 0
	a.lost = false
	l.changed[a.Name] = true
	l.altered.agent(a)
	fresh := false
	for i := range r.Devices {
		if i >= len(a.devices) {
			a.devices = append(a.devices, device{})
		}
		if t := r.Devices[i].Type; !l.types[t] {
			l.types[t], fresh = true, true
		}
	}
	held := map[clusterdoc.TaskID]*clusterdoc.TaskReport{}
	for i := range r.Holds {
		held[r.Holds[i].TaskID] = &r.Holds[i]
	}
	l.eachTask(a, func(j *job, at *attempt, k int) {
		id := j.taskID(at, k)
		h := held[id]
		switch {
		case h != nil:
			if at.ends(j, k) {
				l.order(a, clusterdoc.Order{Type: clusterdoc.OrderStop, TaskID: id, GraceS: j.graceOf(k)})
			}
			l.report(a, h)
		default:
			if !at.stopping && (k == 0 || j.relaxed == nil) {
				at.lost, at.error = true, fmt.Sprintf("agent %q came back without the task", a.Name)
				l.stop(j, at)
			}
			l.finish(j, at, k, clusterdoc.TaskLost)
		}
	})
	l.faults(a, registeredFaults(&r.Registration))
	l.rejoin()
	if fresh {
		l.widen()
	}
}

// Registration is the record of a registration: without the devices and labels of the one before where they are the
// same, and with those tasks alone that the agent may have. Where short is set, the labels and faults of an agent
// with the same devices stay as they were; known is false where the devices are not the same.
func (l *Ledger) Registration(r *clusterdoc.Registration, secretSum string, short bool) (rec *Register, known bool) {
	rec = &Register{Registration: *r, SecretSum: secretSum}
	rec.Holds = nil
	at := map[clusterdoc.TaskID]int{}
	for _, h := range r.Holds {
		if name, ok := l.HasTask(h.TaskID); !ok || name != r.Name {
			continue
		}
		if i, twice := at[h.TaskID]; twice {
			rec.Holds[i] = h // the last one counts
			continue
		}
		at[h.TaskID] = len(rec.Holds)
		rec.Holds = append(rec.Holds, h)
	}
	a := l.agents[r.Name]
	if known = a != nil && sameDevices(a.Devices, r.Devices); !known {
		return rec, false
	}
	if short || slices.Equal(a.Devices, r.Devices) && maps.Equal(a.Labels, r.Labels) {
		rec.Labels, rec.Devices, rec.Again = nil, nil, true
	}
	return rec, true
}

func registeredFaults(r *clusterdoc.Registration) map[int]string {
	faults := map[int]string{}
	for i := range r.Devices {
		if r.Devices[i].Fault != "" {
			faults[i] = r.Devices[i].Fault
		}
	}
	return faults
}

func sameDevices(a, b []clusterdoc.AgentDevice) bool {
	return slices.EqualFunc(a, b, func(x, y clusterdoc.AgentDevice) bool { return x.Type == y.Type && x.UUID == y.UUID })
}

// ends reports whether a task of an attempt was told to end.
func (at *attempt) ends(j *job, k int) bool {
	if j.relaxed != nil && k > 0 {
		i, found := at.find(k)
		return found && at.relaxed.out[i].stopping
	}
	return at.stopping || at.relaxed != nil && at.relaxed.complete && at.relaxed.port == 0
}

// eachTask calls f with the tasks of an agent that were ordered and are not final, by job and task.
func (l *Ledger) eachTask(a *agent, f func(j *job, at *attempt, k int)) {
	var jobs []*job
	for i := range a.devices {
		if j := a.devices[i].job; j != nil && !slices.Contains(jobs, j) {
			jobs = append(jobs, j)
		}
	}
	for _, j := range a.servers {
		if !slices.Contains(jobs, j) {
			jobs = append(jobs, j)
		}
	}
	for _, j := range jobs {
		at := j.live
		var computes []int
		if at.relaxed != nil {
			for i := range at.relaxed.out {
				if c := &at.relaxed.out[i]; c.agent == a && c.state != clusterdoc.TaskWaiting {
					computes = append(computes, c.number)
				}
			}
		}
		for k := range at.tasks {
			if t := &at.tasks[k]; t.agent == a && !t.final() {
				f(j, at, k)
			}
		}
		for _, k := range computes {
			if _, found := at.find(k); found {
				f(j, at, k)
			}
		}
	}
}

// widen lets waiting jobs know a new type. The session learns it by a new arrival.
func (l *Ledger) widen() {
	for _, j := range l.byTime {
		if j != nil && !j.state.Final() && j.live == nil && l.narrow(j) && (j.relaxed == nil || j.affinity == nil) {
			l.withdraw(j)
			l.arrive(j)
		}
	}
}

// Confirmed are the tasks that an agent may go on with.
func (l *Ledger) Confirmed(name string, holds []clusterdoc.TaskReport) []clusterdoc.TaskID {
	var ids []clusterdoc.TaskID
	a := l.agents[name]
	l.eachTask(a, func(j *job, at *attempt, k int) {
		id := j.taskID(at, k)
		if slices.ContainsFunc(holds, func(h clusterdoc.TaskReport) bool { return h.TaskID == id }) {
			ids = append(ids, id)
		}
	})
	return ids
}

// expire takes what an agent has from it: its lease has run out, and all of its processes have ended.
func (l *Ledger) expire(a *agent) {
	if a.lost {
		return
	}
	a.lost = true
	l.changed[a.Name] = true
	l.altered.agent(a)
	for i := range a.devices {
		if j := a.devices[i].job; j != nil && j.relaxed != nil {
			x := j.live.relaxed
			k := slices.IndexFunc(x.out, func(c compute) bool { return c.agent == a && c.device == i })
			if k >= 0 && x.out[k].state == clusterdoc.TaskWaiting {
				l.drop(j, j.live, k)
			}
		}
	}
	l.eachTask(a, func(j *job, at *attempt, k int) {
		if !at.stopping && (k == 0 || j.relaxed == nil) {
			at.lost, at.error = true, fmt.Sprintf("agent %q was lost", a.Name)
			l.stop(j, at)
		}
		l.finish(j, at, k, clusterdoc.TaskLost)
	})
	a.orders = nil
	l.reconcileAll(a)
}

// sync takes the reports of an agent that are new.
func (l *Ledger) sync(s *SyncRecord) error {
	a, err := l.agentOf(s.AgentEpoch)
	if err != nil {
		return err
	}
	for i := range s.Reports {
		if n := s.After + int64(i) + 1; n == a.reports+1 {
			a.reports = n
			l.report(a, &s.Reports[i])
		}
	}
	if s.Faults != nil {
		l.faults(a, *s.Faults)
	}
	return nil
}

// faults takes the devices of an agent that are not well. What runs there is lost.
func (l *Ledger) faults(a *agent, faults map[int]string) {
	for i := range a.devices {
		d := &a.devices[i]
		if d.fault != faults[i] {
			l.altered.agent(a)
		}
		d.fault = faults[i]
		if d.job != nil && d.job.relaxed != nil {
			if d.fault != "" {
				l.stopOn(d.job, a, i)
			}
			continue
		}
		if j := d.job; j != nil && d.fault != "" && !j.live.stopping {
			j.live.lost, j.live.error = true, fmt.Sprintf("GPU %s: %s", a.gpu(i), d.fault)
			l.stop(j, j.live)
		}
	}
	l.reconcileAll(a)
}

// drain keeps new work from an agent, or ends that.
func (l *Ledger) drain(d *Drain) error {
	a := l.agents[d.Agent]
	if a == nil {
		return fmt.Errorf("ledger: no agent %q", d.Agent)
	}
	a.draining, a.drainReason = d.On, d.Reason
	l.altered.agent(a)
	l.endAffinities()
	if d.On {
		l.moveServers(a)
	}
	l.reconcileAll(a)
	return nil
}

// moveServers ends the parameter servers on an agent that is drained whose checkpoint another node can go on from.
// They save first. Others stay until their jobs end.
func (l *Ledger) moveServers(a *agent) {
	for _, j := range slices.Clone(a.servers) {
		if at := j.live; j.spec.CheckpointDirectory != "" && !at.stopping && !at.relaxed.complete {
			at.relaxed.moved, at.error = true, fmt.Sprintf("agent %q is drained", a.Name)
			l.stop(j, at)
		}
	}
}

// Conflict says why something cannot be done in the present state.
type Conflict struct{ Code, Detail string }

func (c *Conflict) Error() string { return c.Detail }

// Registrable says why an agent may not register now: *Conflict, or nil. alive says that the lease of an agent
// may still run.
func (l *Ledger) Registrable(r *clusterdoc.Registration, alive func(name string) bool) error {
	a := l.agents[r.Name]
	if a != nil && subtle.ConstantTimeCompare([]byte(a.Incarnation), []byte(r.Incarnation)) != 1 && !a.lost &&
		alive(r.Name) {
		return &Conflict{"agent_exists", fmt.Sprintf("another agent is called %q and was heard lately: give --name, or "+
			"wait until its lease has run out", r.Name)}
	}
	for _, o := range l.agents {
		if o == a || o.lost && !alive(o.Name) {
			continue
		}
		for i := range o.Devices {
			for _, d := range r.Devices {
				if d.UUID != "" && d.UUID == o.Devices[i].UUID {
					return &Conflict{"gpu_claimed", fmt.Sprintf("GPU %s belongs to agent %q: end one of the two agents",
						hare.Clip(d.UUID), o.Name)}
				}
			}
		}
	}
	types := maps.Clone(l.types)
	for i := range r.Devices {
		types[r.Devices[i].Type] = true
	}
	if len(types) > max(maxTypes, len(l.types)) {
		return &Conflict{"too_many_types", fmt.Sprintf("agents of the cluster have had %d types of GPUs, and the node "+
			"brings new ones: at most %d are allowed: take another cluster, or call GPUs that are alike by one name",
			len(l.types), maxTypes)}
	}
	if a != nil && !sameDevices(a.Devices, r.Devices) && l.sharesAttempts(a) {
		return &Conflict{"devices_busy", fmt.Sprintf("agent %q has other devices than before, and jobs that used them are "+
			"still ending on other nodes: try again in some seconds", r.Name)}
	}
	return nil
}

// sharesAttempts reports whether an attempt that has a device of the agent has tasks elsewhere that are not final.
func (l *Ledger) sharesAttempts(a *agent) bool {
	for i := range a.devices {
		if j := a.devices[i].job; j != nil && j.relaxed == nil && slices.ContainsFunc(j.live.tasks, func(t task) bool {
			return t.agent != a && !t.final()
		}) {
			return true
		}
	}
	return false
}
