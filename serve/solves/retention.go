package solves

import (
	"context"
	"time"

	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
)

// The tombstone of a removed solve keeps its ID and idempotency key for tombstoneAge,
// unless there are more than maxTombstones.
const (
	tombstoneAge  = 24 * time.Hour
	maxTombstones = 100_000
)

// cleanupInterval is how often the ages of solves are checked.
const cleanupInterval = time.Minute

// Delete removes a solve; ErrRunning while it has not ended. The solve cannot be read any
// more when Delete returns; its documents are removed in the background.
func (ss *Solves) Delete(_ context.Context, tenant, id string) error {
	return ss.delete("", tenant, id)
}

func (ss *Solves) delete(kind, tenant, id string) error {
	s, err := ss.find(kind, tenant, id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	over := store.Finished(s.stored.Status)
	s.mu.Unlock()
	if !over {
		return ErrRunning
	}
	return ss.remove(s)
}

// remove puts a tombstone in place of a finished solve.
func (ss *Solves) remove(s *solve) error {
	s.mu.Lock()
	if s.next.GoneUs != 0 {
		s.mu.Unlock()
		return ErrGone
	}
	was := s.next
	s.next = store.SolveState{Tenant: was.Tenant, Status: was.Status, CreatedUs: was.CreatedUs, EndedUs: was.EndedUs,
		Kind: reportKind(was.Kind), Key: was.Key, Digest: was.Digest, GoneUs: micros(ss.cfg.Now())}
	ch := &change{solve: s}
	ch.batch.Clear = []int64{s.num}
	ch.batch.Put = []store.SolveRecord{s.record()}
	state := s.next
	s.mu.Unlock()
	ss.mu.Lock()
	ss.unindex(&was, s)
	for _, ref := range was.Blobs() {
		ss.releaseBlob(&ch.batch, ref)
	}
	ss.countBytes(s.tenant, -recordBytes)
	ss.mu.Unlock()
	done := make(chan error, 1)
	ch.settle = func(err error) {
		if err == nil {
			s.publish(nil, &state)
			ss.mu.Lock()
			ss.gone = append(ss.gone, s)
			ss.mu.Unlock()
		}
		done <- err
	}
	err := admission.ErrDraining
	if ss.committer.add(ch, true) {
		err = <-done
	}
	if err != nil {
		s.mu.Lock()
		s.next = was
		s.mu.Unlock()
		if was.Cached {
			ss.mu.Lock()
			ss.retainBlob(*was.Result, s.tenant)
			ss.mu.Unlock()
		}
		ss.index(s, was)
		return err
	}
	notify(ss.cleanup)
	return nil
}

// janitor removes solves that are too old or take too much space.
func (ss *Solves) janitor() {
	defer ss.work.Done()
	ticker := time.NewTicker(cleanupInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ss.cleanup:
		case <-ticker.C:
		case <-ss.closing:
			return
		}
		ss.expire()
		for more := true; more; {
			select {
			case <-ss.closing:
				return
			default:
			}
			// The next sweep removes what is left after a failure.
			more, _ = ss.cfg.Store.SweepSolves(context.Background(), false)
		}
	}
}

// expire removes finished solves by age and size, the first to end first, and drops old
// tombstones.
func (ss *Solves) expire() {
	now := ss.cfg.Now()
	for {
		ss.mu.Lock()
		if len(ss.ended) == 0 {
			ss.mu.Unlock()
			break
		}
		s, over := ss.ended[0], ss.bytes > ss.cfg.MaxBytes
		s.mu.Lock()
		gone, age := s.next.GoneUs != 0, now.Sub(fromMicros(s.stored.EndedUs))
		s.mu.Unlock()
		if !gone && !over && age <= ss.cfg.MaxAge {
			ss.mu.Unlock()
			break
		}
		ss.ended = ss.ended[1:]
		ss.mu.Unlock()
		if !gone && ss.remove(s) != nil {
			break // the disk refuses: the next run tries again
		}
	}
	ch := &change{settle: func(error) {}}
	ss.mu.Lock()
	for len(ss.gone) > 0 {
		s := ss.gone[0]
		if len(ss.gone) <= maxTombstones && now.Sub(fromMicros(s.stored.GoneUs)) <= tombstoneAge {
			break
		}
		ss.gone = ss.gone[1:]
		delete(ss.solves, s.id)
		if k := keyOf(s.tenant, s.stored.Key); ss.keys[k] == s {
			delete(ss.keys, k)
		}
		ch.batch.Drop = append(ch.batch.Drop, s.num)
	}
	ss.mu.Unlock()
	if len(ch.batch.Drop) > 0 {
		ss.committer.add(ch, false) // a refused tombstone is dropped after the next start
	}
}
