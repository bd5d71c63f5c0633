package solves

import (
	"github.com/hare-sched/hare/serve/store"
)

// tailEvents is how many of the last events of a running solve stay in memory.
const tailEvents = 64

// newEvents appends events of a value and a bound that are better than all reported ones.
// The lock of the solve must be held.
func (r *reporter) newEvents(events []Event) []Event {
	if r.value != nil && (r.reportedValue == nil || r.value.Cmp(*r.reportedValue) < 0) {
		r.reportedValue = r.value
		events = append(events, r.solve.event(Event{Type: EventIncumbent, Value: r.value}))
	}
	if r.bound != nil && (r.reportedBound == nil || r.bound.Cmp(*r.reportedBound) > 0) {
		r.reportedBound = r.bound
		events = append(events, r.solve.event(Event{Type: EventBound, Bound: r.bound}))
	}
	return events
}

// event gives an event its number and time. The lock must be held.
func (s *solve) event(ev Event) Event {
	s.seq++
	s.atUs = max(s.atUs, micros(s.parent.cfg.Now())-s.next.CreatedUs)
	ev.Seq, ev.AtUs = s.seq, s.atUs
	return ev
}

// doneEvent makes the last event from the next state. The lock must be held.
func (s *solve) doneEvent() Event {
	ev := store.SolveEvent{Type: EventDone, Status: s.next.Status, Termination: s.next.Termination,
		Error: s.next.Error}
	ev.Value, _ = store.ReadAmount(s.next.Value) // written by Amount.String: cannot fail
	ev.Bound, _ = store.ReadAmount(s.next.Bound)
	return s.event(ev)
}

// logEvents hands events to the committer and does not wait. The lock must be held.
func (s *solve) logEvents(events ...Event) {
	if !s.durable {
		s.early = append(s.early, events...)
		return
	}
	ch := &change{solve: s, must: true, events: events}
	ch.settle = func(err error) {
		if err == nil {
			s.publish(events, nil)
		}
	}
	s.parent.committer.add(ch, false) // a server that is ending may lose these events
}

// logEarlyEvents logs the events of the time before the solve was durable.
func (s *solve) logEarlyEvents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durable = true
	if len(s.early) > 0 {
		s.logEvents(s.early...)
		s.early = nil
	}
}

// publish shows events and a state that have become durable.
func (s *solve) publish(events []Event, state *store.SolveState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state != nil {
		s.stored = *state
	}
	for i := range events {
		s.fold(&events[i])
	}
	s.tail = append(s.tail, events...)
	if n := len(s.tail); n > 2*tailEvents {
		s.tail = append([]Event(nil), s.tail[n-tailEvents:]...)
	}
	if store.Finished(s.stored.Status) {
		s.tail = nil
	}
	s.broadcast()
}

// fold applies a durable event to the published progress of a running solve.
func (s *solve) fold(ev *Event) {
	s.lastDurable = ev.Seq
	switch ev.Type {
	case EventStatus:
		s.live = store.SolveEvent{Status: ev.Status}
	case EventPhase:
		s.live.Phase = ev.Phase
	case EventIncumbent:
		s.live.Value = ev.Value
	case EventBound:
		s.live.Bound = ev.Bound
	}
}
