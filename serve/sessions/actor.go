package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// batchBytes is the approximate greatest size of a row.
const batchBytes = 1 << 20

// actor holds the state of a session in memory. One goroutine applies events to the
// policy at once, and resolves the promises of a batch once the batch is durable:
// until then the policy is ahead of the log, and no caller sees the policy's state.
// One batch is written while the next batch fills.
type actor struct {
	session *Session
	inbox   chan *Promise
	left    chan struct{} // closed when the goroutine has ended
	evict   chan struct{} // asks the actor to end; where it cannot, it answers on stays
	stays   chan struct{}

	policy   online.Durable // nil: not loaded yet
	damage   error          // why the log cannot be loaded; a second try would not help
	links    store.Chain    // the end of the log, with the batches in memory
	atUs     int64          // time of the last event
	jobs     int64          // jobs that have not ended
	jobBytes int64          // what they are estimated to take in memory
	fresh    int            // events since the last snapshot
	retryAt  time.Time      // when events are accepted again after failure
	failure  error          // the last failure to write the log
	epoch    time.Time      // a reading of the server's clock, with the monotonic clock
	epochUs  int64          // the session's time at epoch

	filling *batch
	writing *batch // nil: nothing is being written
	step    [1]hare.Event
	row     []wire.Record // the last row that was read for a duplicate
	plans   planning
	// skipPlans leaves the plans of the log out while the log is read.
	skipPlans bool
}

// batch holds what becomes durable together, and the promises that wait for it.
type batch struct {
	row       store.Row // without Data there is nothing to write
	snapshot  *store.Snapshot
	promises  []*Promise
	decisions []hare.Decision // memory of the promises' decisions
	done      chan error
}

func newActor(s *Session) *actor {
	return &actor{session: s, inbox: make(chan *Promise, s.parent.cfg.Window), left: make(chan struct{}),
		evict: make(chan struct{}), stays: make(chan struct{}, 1), filling: newBatch()}
}

func newBatch() *batch { return &batch{done: make(chan error, 1)} }

func (a *actor) run() {
	defer a.session.parent.actors.Done()
	defer close(a.left)
	idle := time.NewTimer(a.session.parent.cfg.Idle)
	defer idle.Stop()
	for {
		inbox, done := a.inbox, (chan error)(nil)
		if a.writing != nil {
			done = a.writing.done
		} else {
			a.startWrite()
			if a.writing != nil {
				done = a.writing.done
			}
		}
		if a.full() {
			inbox = nil
		}
		select {
		case p := <-inbox:
			a.take(p)
			// Promises that already wait go into the same batch.
			for n := len(a.inbox); n > 0 && !a.full(); n-- {
				a.take(<-a.inbox)
			}
			a.ask()
			idle.Reset(a.session.parent.cfg.Idle)
			a.session.used.Store(time.Now().UnixNano())
		case err := <-done:
			a.finishWrite(err)
		case ans := <-a.answered():
			a.receive(ans)
			a.ask()
		case <-a.plans.again:
			a.plans.again = nil
			a.ask()
		case <-idle.C:
			if a.unload(false) {
				return
			}
			idle.Reset(a.session.parent.cfg.Idle)
		case <-a.evict:
			if len(a.inbox) == 0 && a.unload(false) {
				return
			}
			a.stays <- struct{}{}
		case <-a.session.gone:
			a.unload(true)
			return
		}
	}
}

func (a *actor) full() bool {
	most := a.session.parent.cfg.Window
	return len(a.filling.promises) >= most || len(a.filling.row.Data) >= batchBytes ||
		a.writing != nil && len(a.writing.promises) >= 2*most
}

// take applies one event, or shows the policy to a view, and adds the promise to the
// batch with which everything before the promise becomes durable.
func (a *actor) take(p *Promise) {
	p.err = a.guard(p.event.Seq, func() error {
		if p.view == nil {
			return a.apply(p)
		}
		err := a.load()
		if err == nil {
			p.view(a)
		}
		return err
	})
	switch {
	case len(a.filling.row.Data) > 0 || a.writing == nil:
		a.filling.promises = append(a.filling.promises, p)
	default:
		a.writing.promises = append(a.writing.promises, p)
	}
}

// apply computes the answer of p.
func (a *actor) apply(p *Promise) error {
	if err := a.load(); err != nil {
		return err
	}
	seq := a.links.Last + int64(a.pending()) + 1
	if p.event.Seq < seq && p.event.Seq > 0 {
		return a.session.logDamage(a.recorded(p))
	}
	if p.event.Seq != seq {
		return &SequenceError{Got: p.event.Seq, Expected: seq}
	}
	if !a.retryAt.IsZero() && time.Now().Before(a.retryAt) {
		return fmt.Errorf("not tried again yet: %w", a.failure)
	}
	if a.session.cfg.Clock == ClockServer {
		p.event.AtUs = a.serverUs()
	}
	if p.event.AtUs < a.atUs {
		return &hare.InvalidError{Pointer: "/at_s", Code: "time_goes_back",
			Detail: fmt.Sprintf("the event before was at %s: times never go back", hare.FormatMicros(a.atUs))}
	}
	if !a.session.kept.Load() {
		if err := a.session.parent.cfg.Quotas.Room(a.session.cfg.tenant); err != nil {
			return err
		}
	}
	if p.event.Type == hare.EventJobArrived && a.jobs >= int64(a.session.parent.cfg.MaxJobs) {
		return &admission.LimitError{What: "active jobs of the session", Limit: a.session.parent.cfg.MaxJobs}
	}
	bytes := eventBytes(&p.event, a.jobs, a.jobBytes)
	if err := a.session.grow(max(0, bytes), true); err != nil {
		return err
	}
	a.step[0] = p.event
	if !a.takePlan() {
		return a.applyWithoutPlan(p)
	}
	decisions, sound, err := a.stepAfterPlan(p.event.AtUs)
	if !sound {
		return a.applyWithoutPlan(p)
	}
	if err != nil {
		var refused *online.RefusedError
		if errors.As(err, &refused) {
			_ = a.session.grow(-max(0, bytes), false)
			return refused.Err
		}
		a.policy = nil // the state after a failed Step is unknown
		return err
	}
	b := a.filling
	from := len(b.decisions)
	b.decisions = append(b.decisions, decisions...)
	p.answer = hare.Answer{Seq: seq, Decisions: b.decisions[from:len(b.decisions):len(b.decisions)]}
	data := append(wire.AppendRecord(b.row.Data, wire.Record{Event: p.event, Plan: a.plans.taken,
		Decisions: decisions}), '\n')
	a.plans.taken = nil
	if len(b.row.Data) == 0 {
		b.row.First = seq
	}
	b.row.Last, b.row.Data = seq, data
	a.atUs = p.event.AtUs
	a.jobs += jobChange(p.event.Type)
	_ = a.session.grow(min(0, bytes), false)
	if jobChange(p.event.Type) != 0 {
		a.jobBytes += bytes
	}
	a.fresh++
	return nil
}

// applyWithoutPlan computes the answer of p after the policy failed with a plan: the policy
// is loaded from the log, which does not have the plan.
func (a *actor) applyWithoutPlan(p *Promise) error {
	a.policy = nil
	return a.apply(p)
}

func jobChange(t hare.EventType) int64 {
	switch t {
	case hare.EventJobArrived:
		return 1
	case hare.EventJobEnded, hare.EventJobCancelled:
		return -1
	}
	return 0
}

// pending is the number of events in the batch that fills.
func (a *actor) pending() int64 {
	if len(a.filling.row.Data) == 0 {
		return 0
	}
	return a.filling.row.Last - a.filling.row.First + 1
}

// serverUs reads the server's clock. The monotonic clock drives the result, which never
// goes back, also where the machine's clock is set back.
func (a *actor) serverUs() int64 {
	now := a.session.parent.cfg.Now()
	if a.epoch.IsZero() {
		a.epoch, a.epochUs = now, max(a.atUs, now.Sub(a.session.meta.Created).Microseconds())
	}
	return max(a.atUs, a.epochUs+now.Sub(a.epoch).Microseconds())
}

// recorded answers an event whose number was used before, once the recorded event is
// durable.
func (a *actor) recorded(p *Promise) error {
	if p.event.Seq > a.session.last.Load() {
		a.flush()
		return a.apply(p) // after a failed write, p may be the next event
	}
	seq := p.event.Seq
	if len(a.row) == 0 || seq < a.row[0].Event.Seq || seq > a.row[len(a.row)-1].Event.Seq {
		rows, err := a.session.parent.cfg.Store.Rows(context.Background(), a.session.id, seq, 1)
		if err != nil {
			return err
		}
		links := store.Chain{Session: a.session.id, Last: seq - 1, SumUnknown: true}
		if len(rows) == 0 {
			return &store.CorruptError{Session: a.session.id, Seq: seq, What: "the row is missing"}
		}
		if err := links.Next(&rows[0]); err != nil {
			return err
		}
		if a.row, err = store.DecodeRow(&rows[0]); err != nil {
			a.row = nil
			return err
		}
	}
	rec := &a.row[seq-a.row[0].Event.Seq]
	if a.session.cfg.Clock == ClockServer {
		p.event.AtUs = rec.Event.AtUs
	}
	if string(wire.AppendEvent(nil, p.event)) != string(wire.AppendEvent(nil, rec.Event)) {
		return &ConflictError{Seq: seq}
	}
	p.answer, p.duplicate = hare.Answer{Seq: seq, Decisions: rec.Decisions}, true
	return nil
}

// startWrite hands the filled batch to the committer, or resolves the promises of the
// batch at once where there is nothing to write.
func (a *actor) startWrite() {
	b := a.filling
	if len(b.row.Data) == 0 {
		if len(b.promises) > 0 {
			resolve(b.promises)
			b.promises = nil
		}
		return
	}
	b.row.Session, b.row.Prev = a.session.id, a.links.Sum
	b.row.Sum = b.row.Checksum()
	a.links.Last, a.links.Sum = b.row.Last, b.row.Sum
	if a.fresh >= a.session.parent.cfg.SnapshotEvery && a.atLog() {
		b.snapshot = a.snapshot()
	}
	a.writing, a.filling = b, newBatch()
	a.session.parent.commits <- b
}

// atLog reports whether the policy's state is that after the events of the log and of the
// batches in memory. A policy that failed has no state, and a policy that took a plan with
// which no event is recorded yet is ahead.
func (a *actor) atLog() bool { return a.policy != nil && a.plans.taken == nil }

// snapshot returns a snapshot of the end of the batch that is written next, or nil
// where the policy panicked.
func (a *actor) snapshot() *store.Snapshot {
	s := &store.Snapshot{Session: a.session.id, Seq: a.links.Last, AtUs: a.atUs, Jobs: a.jobs, Chain: a.links.Sum}
	if a.guard(0, func() error { s.State = a.policy.AppendSnapshot(nil); return nil }) != nil {
		return nil
	}
	s.Sum = s.Checksum()
	a.fresh = 0
	return s
}

func resolve(promises []*Promise) {
	for _, p := range promises {
		close(p.done)
	}
}

// finishWrite records the outcome of the batch that was being written.
func (a *actor) finishWrite(err error) {
	b := a.writing
	a.writing = nil
	if err == nil {
		a.retryAt = time.Time{}
		a.session.countStored(int64(len(b.row.Data)))
		a.session.extend(b.row.Last)
		resolve(b.promises)
		return
	}
	// The policy is ahead of the log, and later events were applied to that state: the
	// policy must be loaded from the log again.
	a.policy = nil
	a.dropPlans()
	a.retryAt, a.failure = time.Now().Add(a.session.parent.cfg.Retry), err
	for _, p := range append(b.promises, a.filling.promises...) {
		p.answer, p.duplicate, p.err = hare.Answer{}, false, err
		close(p.done)
	}
	a.filling = newBatch()
}

// flush waits until all applied events are durable or lost.
func (a *actor) flush() {
	for {
		if a.writing == nil {
			a.startWrite()
		}
		if a.writing == nil {
			return
		}
		a.finishWrite(<-a.writing.done)
	}
}

// unload saves a snapshot and ends the actor. With forGood unset, the actor ends only
// where no event waits in its inbox, and unload returns false where the actor goes on.
func (a *actor) unload(forGood bool) bool {
	a.flush()
	if a.atLog() && a.fresh > 0 && !(forGood && a.session.ended == store.ErrNoSession) {
		b := newBatch()
		if b.snapshot = a.snapshot(); b.snapshot != nil {
			a.session.parent.commits <- b
			<-b.done
		}
	}
	if forGood {
		a.session.mu.Lock()
	} else if !a.session.mu.TryLock() {
		return false
	}
	defer a.session.mu.Unlock()
	if !forGood && len(a.inbox) > 0 {
		return false
	}
	for len(a.inbox) > 0 {
		p := <-a.inbox
		p.err = a.session.ended
		close(p.done)
	}
	a.dropPlans()
	a.session.actor = nil
	a.session.unclaim()
	return true
}
