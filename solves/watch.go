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
	e            *solve
	phase        string
	value, bound *hare.Amount // the best heard of
	toldValue    *hare.Amount // the best told
	toldBound    *hare.Amount
	toldAt       time.Time
	nextSave     time.Time
}

func (w *watcher) begin(e *solve) {
	*w = watcher{e: e, nextSave: time.Now().Add(e.s.cfg.Checkpoint / 4)}
}

// progress is a solver.Config.Progress.
func (w *watcher) progress(ev solver.Event) {
	w.value, w.bound = better(w.value, ev.Value, -1), better(w.bound, ev.Bound, 1)
	now := time.Now()
	if ev.Phase == w.phase && now.Sub(w.toldAt) < tellEvery {
		return
	}
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	events := w.news(nil)
	if ev.Phase != w.phase {
		w.phase = ev.Phase
		events = append(events, w.e.event(Event{Type: EventPhase, Phase: ev.Phase}))
	}
	if len(events) > 0 {
		w.toldAt = now
		w.e.tell(events...)
	}
}

// news appends events of what is better than all that was told, with the lock
// of the solve held.
func (w *watcher) news(events []Event) []Event {
	if w.value != nil && (w.toldValue == nil || w.value.Cmp(*w.toldValue) < 0) {
		w.toldValue = w.value
		events = append(events, w.e.event(Event{Type: EventIncumbent, Value: w.value}))
	}
	if w.bound != nil && (w.toldBound == nil || w.bound.Cmp(*w.toldBound) > 0) {
		w.toldBound = w.bound
		events = append(events, w.e.event(Event{Type: EventBound, Bound: w.bound}))
	}
	return events
}

// checkpoint is a solver.Config.Checkpoint.
func (w *watcher) checkpoint(best func() (*hare.Result, error)) {
	now := time.Now()
	if now.Before(w.nextSave) {
		return
	}
	w.e.mu.Lock()
	saving := w.e.saving
	w.e.mu.Unlock()
	if saving {
		return
	}
	res, err := best()
	took := time.Since(now)
	w.nextSave = now.Add(max(w.e.s.cfg.Checkpoint, time.Duration(float64(took)/saveShare)))
	if err != nil {
		// The end of the solve will meet the same and say so.
		w.e.s.cfg.Logger.Error("a checkpoint could not be made", "solve", w.e.id, "error", err)
		return
	}
	w.e.mu.Lock()
	w.e.saving = true
	w.e.mu.Unlock()
	w.e.s.work.Add(1)
	go func() {
		defer w.e.s.work.Done()
		w.e.save(res)
		w.e.mu.Lock()
		w.e.saving = false
		w.e.mu.Unlock()
	}()
}

// event gives an event its number and time, with the lock held.
func (e *solve) event(ev Event) Event {
	e.seq++
	e.atUs = max(e.atUs, micros(e.s.cfg.Now())-e.next.CreatedUs)
	ev.Seq, ev.AtUs = e.seq, e.atUs
	return ev
}

// doneEvent is the last event of what next says, with the lock held.
func (e *solve) doneEvent() Event {
	ev := store.SolveEvent{Type: EventDone, Status: e.next.Status, Termination: e.next.Termination, Error: e.next.Error}
	ev.Value, _ = store.ReadAmount(e.next.Value) // made by String of an Amount
	ev.Bound, _ = store.ReadAmount(e.next.Bound)
	return e.event(ev)
}

// tell lets events become durable in time, with the lock held.
func (e *solve) tell(events ...Event) {
	ch := &change{solve: e, must: true, events: events}
	ch.settle = func(err error) {
		if err == nil {
			e.publish(events, nil)
		}
	}
	e.s.out.add(ch, false) // at its end the server does not know of more
}

// publish shows what is durable now.
func (e *solve) publish(events []Event, state *store.SolveState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if state != nil {
		e.seen = *state
	}
	for i := range events {
		e.fold(&events[i])
	}
	e.tail = append(e.tail, events...)
	if n := len(e.tail); n > 2*tailEvents {
		e.tail = append([]Event(nil), e.tail[n-tailEvents:]...)
	}
	if store.Finished(e.seen.Status) {
		e.tail = nil
	}
	e.broadcast()
}

// fold takes a durable event into what is shown of a running solve.
func (e *solve) fold(ev *Event) {
	e.durable = ev.Seq
	switch ev.Type {
	case EventStatus:
		e.live = store.SolveEvent{Status: ev.Status}
	case EventPhase:
		e.live.Phase = ev.Phase
	case EventIncumbent:
		e.live.Value = ev.Value
	case EventBound:
		e.live.Bound = ev.Bound
	}
}
