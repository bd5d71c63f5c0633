package ledger

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// emit adds an event for the session.
func (l *Ledger) emit(e hare.Event) { l.waiting = append(l.waiting, e) }

// Events are the events that the session has not answered, as far as the journal knows. They are numbered from
// the first event after those that it answered.
func (l *Ledger) Events() []hare.Event {
	all := slices.Clone(l.waiting)
	for i := range all {
		all[i].Seq = l.seq + 1 + int64(i)
	}
	return all
}

// reconcileAll is reconcile of all devices of an agent. A whole node joins at once, so that a job that waits can
// choose among its GPUs.
func (l *Ledger) reconcileAll(a *agent) {
	var gpus []hare.TypeCount
	for i := range a.devices {
		if d := &a.devices[i]; d.job != nil || d.inSession || !a.wanted(i) {
			gpus = nil
			break
		}
		if n := len(gpus); n > 0 && gpus[n-1].Type == a.Devices[i].Type {
			gpus[n-1].Count++
		} else {
			gpus = append(gpus, hare.TypeCount{Type: a.Devices[i].Type, Count: 1})
		}
	}
	// The session numbers the GPUs of a node by their types' names.
	if len(a.devices) > 1 && len(gpus) > 0 && slices.IsSortedFunc(gpus, func(x, y hare.TypeCount) int {
		return strings.Compare(x.Type, y.Type)
	}) && !twice(gpus) {
		for i := range a.devices {
			a.devices[i].inSession = true
		}
		l.emit(hare.Event{Type: hare.EventNodeJoined,
			Change: &hare.Change{Node: &hare.Node{Name: a.Name, GPUs: gpus}}})
		return
	}
	for i := range a.devices {
		l.reconcile(a, i)
	}
}

// twice reports whether a type is in two places of a sorted list.
func twice(gpus []hare.TypeCount) bool {
	for i := range gpus[1:] {
		if gpus[i].Type == gpus[i+1].Type {
			return true
		}
	}
	return false
}

// reconcile tells the session whether a device that nobody holds is in service.
func (l *Ledger) reconcile(a *agent, i int) {
	d := &a.devices[i]
	if d.job != nil || d.inSession == a.wanted(i) {
		return
	}
	d.inSession = a.wanted(i)
	e := hare.Event{Type: hare.EventGPULeft, GPU: a.gpu(i)}
	if d.inSession {
		e.Type, e.GPUType = hare.EventGPUJoined, a.Devices[i].Type
	}
	l.emit(e)
}

// withdraw takes the job from the session.
func (l *Ledger) withdraw(j *job) {
	if j.arrived {
		l.emit(hare.Event{Type: hare.EventJobCancelled, Job: j.id})
		j.arrived = false
	}
}

// arrive brings a job to the session, unless it is held.
func (l *Ledger) arrive(j *job) {
	if j.held {
		return
	}
	if a := arrival(j.id, &j.spec, l.types); len(a.On) > 0 {
		a.Only, a.Exclude = j.only(), j.exclude()
		j.arrived, j.knows = true, len(l.types)
		l.emit(hare.Event{Type: hare.EventJobArrived, Job: j.id, Arrived: a})
	}
}

// leaveSession tells the session that a job has ended.
func (l *Ledger) leaveSession(j *job) {
	if j.relaxed != nil {
		j.relaxed.grants = nil
	}
	if j.arrived {
		l.emit(hare.Event{Type: hare.EventJobEnded, Job: j.id})
		j.arrived = false
	}
}

// forget takes a device from the session for good.
func (l *Ledger) forget(a *agent, i int) {
	if d := &a.devices[i]; d.inSession {
		d.inSession = false
		l.emit(hare.Event{Type: hare.EventGPULeft, GPU: a.gpu(i)})
	}
}

// narrow reports whether the session is to hear of a job again: one that may run on every type arrived before a type
// was known, or the weight has changed while it ran.
func (l *Ledger) narrow(j *job) bool {
	return j.knows < 0 || len(j.spec.On) == 0 && j.knows < len(l.types)
}

// only are the nodes that the session may give a job.
func (j *job) only() []hare.LabelValues {
	if j.affinity == nil || j.relaxed != nil || j.affinity.nodes == nil {
		return nil // the parameter server of a relaxed job needs no GPU
	}
	return []hare.LabelValues{{Label: hare.LabelNode, Values: j.affinity.nodes}}
}

// exclude are the nodes that the session may not give a job.
func (j *job) exclude() []hare.LabelValues {
	if j.affinity == nil || len(j.affinity.avoid) == 0 {
		return nil
	}
	return []hare.LabelValues{{Label: hare.LabelNode, Values: j.affinity.avoid}}
}
