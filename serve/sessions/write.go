package sessions

import (
	"runtime/debug"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/store"
)

// pending is the number of events in the batch that fills.
func (a *actor) pending() int64 {
	if len(a.filling.row.Data) == 0 {
		return 0
	}
	return a.filling.row.Last - a.filling.row.First + 1
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
		a.session.announce(b)
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

// guard calls f, which calls the policy. A panic quarantines the session: the policy's
// state is discarded, and the policy is not called again.
func (a *actor) guard(seq int64, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.policy = nil
			bad := &QuarantineError{Session: a.session.id, Seq: seq}
			a.session.quarantine.Store(bad)
			a.session.parent.cfg.Logger.Error(
				"the policy of a session panicked: the session is quarantined, the others go on",
				"session", a.session.id, "event", seq, "panic", p, "stack", string(debug.Stack()))
			err = bad
		}
	}()
	return f()
}
