package solves

import (
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/store"
)

// Of what a running solve tells.
const (
	// tellEvery is the least time between events of better values, and between
	// those of better bounds.
	tellEvery = 50 * time.Millisecond
	// saveShare limits the time that checkpoints take to this share.
	saveShare = 0.05
	// tailEvents is how many of the last events a running solve has in memory.
	tailEvents = 64
)

// watcher turns what the solver says into events and checkpoints. It is of the
// goroutine that runs the solve.
type watcher struct {
	solve         *solve
	phase         string
	value, bound  *hare.Amount // the best heard of
	reportedValue *hare.Amount // the best told
	reportedBound *hare.Amount
	reportedAt    time.Time
	nextSave      time.Time
}

func (w *watcher) begin(s *solve) {
	*w = watcher{solve: s, nextSave: time.Now().Add(s.parent.cfg.Checkpoint / 4)}
}

// progress is a solver.Config.Progress.
func (w *watcher) progress(ev solver.Event) {
	w.value, w.bound = better(w.value, ev.Value, -1), better(w.bound, ev.Bound, 1)
	now := time.Now()
	if ev.Phase == w.phase && now.Sub(w.reportedAt) < tellEvery {
		return
	}
	w.solve.mu.Lock()
	defer w.solve.mu.Unlock()
	events := w.news(nil)
	if ev.Phase != w.phase {
		w.phase = ev.Phase
		events = append(events, w.solve.event(Event{Type: EventPhase, Phase: ev.Phase}))
	}
	if len(events) > 0 {
		w.reportedAt = now
		w.solve.tell(events...)
	}
}

// news appends events of what is better than all that was told, with the lock
// of the solve held.
func (w *watcher) news(events []Event) []Event {
	if w.value != nil && (w.reportedValue == nil || w.value.Cmp(*w.reportedValue) < 0) {
		w.reportedValue = w.value
		events = append(events, w.solve.event(Event{Type: EventIncumbent, Value: w.value}))
	}
	if w.bound != nil && (w.reportedBound == nil || w.bound.Cmp(*w.reportedBound) > 0) {
		w.reportedBound = w.bound
		events = append(events, w.solve.event(Event{Type: EventBound, Bound: w.bound}))
	}
	return events
}

// checkpoint is a solver.Config.Checkpoint.
func (w *watcher) checkpoint(best func() (*hare.Result, error)) {
	now := time.Now()
	if now.Before(w.nextSave) {
		return
	}
	w.solve.mu.Lock()
	saving := w.solve.saving
	w.solve.mu.Unlock()
	if saving {
		return
	}
	res, err := best()
	took := time.Since(now)
	w.nextSave = now.Add(max(w.solve.parent.cfg.Checkpoint, time.Duration(float64(took)/saveShare)))
	if err != nil {
		// The end of the solve will meet the same and say so.
		w.solve.parent.cfg.Logger.Error("a checkpoint could not be made", "solve", w.solve.id, "error", err)
		return
	}
	w.solve.mu.Lock()
	w.solve.saving = true
	w.solve.mu.Unlock()
	w.solve.parent.work.Add(1)
	go func() {
		defer w.solve.parent.work.Done()
		w.solve.save(res)
		w.solve.mu.Lock()
		w.solve.saving = false
		w.solve.mu.Unlock()
	}()
}

// event gives an event its number and time, with the lock held.
func (s *solve) event(ev Event) Event {
	s.seq++
	s.atUs = max(s.atUs, micros(s.parent.cfg.Now())-s.next.CreatedUs)
	ev.Seq, ev.AtUs = s.seq, s.atUs
	return ev
}

// doneEvent is the last event of what next says, with the lock held.
func (s *solve) doneEvent() Event {
	ev := store.SolveEvent{Type: EventDone, Status: s.next.Status, Termination: s.next.Termination,
		Error: s.next.Error}
	ev.Value, _ = store.ReadAmount(s.next.Value) // made by String of an Amount
	ev.Bound, _ = store.ReadAmount(s.next.Bound)
	return s.event(ev)
}

// tell lets events become durable in time, with the lock held.
func (s *solve) tell(events ...Event) {
	ch := &change{solve: s, must: true, events: events}
	ch.settle = func(err error) {
		if err == nil {
			s.publish(events, nil)
		}
	}
	s.parent.out.add(ch, false) // at its end the server does not know of more
}

// publish shows what is durable now.
func (s *solve) publish(events []Event, state *store.SolveState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state != nil {
		s.seen = *state
	}
	for i := range events {
		s.fold(&events[i])
	}
	s.tail = append(s.tail, events...)
	if n := len(s.tail); n > 2*tailEvents {
		s.tail = append([]Event(nil), s.tail[n-tailEvents:]...)
	}
	if store.Finished(s.seen.Status) {
		s.tail = nil
	}
	s.broadcast()
}

// fold takes a durable event into what is shown of a running solve.
func (s *solve) fold(ev *Event) {
	s.durable = ev.Seq
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
