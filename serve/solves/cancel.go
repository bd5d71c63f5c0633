package solves

import (
	"context"

	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
)

// Cancel asks a solve to end with its best pair of schedule and bound, and describes the
// solve as it is at that moment; Wait waits for the end. The wish is durable when Cancel
// returns: after a restart the solve does not go on. Where the disk refuses the wish, the
// error is store.ErrStorage, and the solve ends all the same, as long as this server
// lives. Cancel does nothing to a solve that has ended.
func (ss *Solves) Cancel(_ context.Context, tenant, id string) (Info, error) {
	s, err := ss.find("", tenant, id)
	if err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	if s.cancel != nil {
		s.cancel(errCancelled)
	}
	if store.Finished(s.stored.Status) {
		s.mu.Unlock()
		return s.info()
	}
	ch := &change{solve: s}
	if !store.Finished(s.next.Status) {
		s.next.Cancelled = true
		ch.batch.Put = []store.SolveRecord{s.record()}
	} // else the end of the solve becomes durable before this change
	state := s.next
	done := make(chan error, 1)
	ch.settle = func(err error) {
		if err == nil && len(ch.batch.Put) > 0 {
			s.publish(nil, &state)
		}
		done <- err
	}
	added := ss.committer.add(ch, true)
	s.mu.Unlock()
	if !added {
		return Info{}, admission.ErrDraining
	}
	if err := <-done; err != nil {
		return Info{}, err
	}
	return s.info()
}
