package solves

import (
	"context"

	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/store"
)

// Cancel asks a solve to end with its best pair, and describes it as it is
// then: Wait waits for the end. The wish is durable when Cancel returns: after a
// restart the solve does not go on. Where the disk refuses, which is store.ErrStorage,
// the solve ends all the same, as long as this server lives. Cancel does nothing
// to a solve that has ended.
func (s *Solves) Cancel(_ context.Context, tenant, id string) (Info, error) {
	e, err := s.find(tenant, id)
	if err != nil {
		return Info{}, err
	}
	e.mu.Lock()
	if e.cancel != nil {
		e.cancel(errCancelled)
	}
	if store.Finished(e.seen.Status) {
		e.mu.Unlock()
		return e.info()
	}
	ch := &change{solve: e}
	if !store.Finished(e.next.Status) {
		e.next.Cancelled = true
		ch.batch.Put = []store.SolveRecord{e.record()}
	} // else its end is on the way, and durable before this change
	state := e.next
	done := make(chan error, 1)
	ch.settle = func(err error) {
		if err == nil && len(ch.batch.Put) > 0 {
			e.publish(nil, &state)
		}
		done <- err
	}
	added := s.out.add(ch, true)
	e.mu.Unlock()
	if !added {
		return Info{}, admission.ErrDraining
	}
	if err := <-done; err != nil {
		return Info{}, err
	}
	return e.info()
}
