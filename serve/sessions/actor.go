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
	if a.plans.taken != nil {
		b.planned = seq
	}
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
	a.session.forgetOutlook()
	a.session.dropFeed()
	a.session.actor = nil
	a.session.unclaim()
	return true
}
