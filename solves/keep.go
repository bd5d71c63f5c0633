package solves

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/store"
)

// A solve that was removed, and its idempotency key, are remembered so long,
// as long as there are no more than so many.
const (
	goneFor  = 24 * time.Hour
	mostGone = 100_000
)

// tidyEvery is how often solves are looked at that may be too old.
const tidyEvery = time.Minute

// Open takes over the store: finished solves are there again, and those
// that had not ended go on.
func Open(ctx context.Context, cfg Config) (*Solves, error) {
	ss := &Solves{
		cfg: cfg.withDefaults(), svc: cfg.Service, closing: make(chan struct{}), tidy: make(chan struct{}, 1),
		solves: map[string]*solve{}, tenants: map[string][]*solve{}, keys: map[string]*solve{},
		content: map[store.Sum][]*solve{}, blobs: map[int64]*heldBlob{},
	}
	for more := true; more; {
		var err error
		if more, err = ss.cfg.Store.SweepSolves(ctx, true); err != nil {
			return nil, err
		}
	}
	records, err := ss.cfg.Store.Solves(ctx)
	if err != nil {
		return nil, err
	}
	if ss.lastBlob, err = ss.cfg.Store.LastBlob(ctx); err != nil {
		return nil, err
	}
	var unended []*solve
	for i := range records {
		s, err := ss.found(ctx, &records[i])
		if err != nil {
			return nil, err
		}
		if s.damage == nil && s.seen.GoneUs == 0 && !store.Finished(s.seen.Status) {
			unended = append(unended, s)
		}
	}
	slices.SortStableFunc(ss.ended, func(a, b *solve) int { return cmp.Compare(a.seen.EndedUs, b.seen.EndedUs) })
	slices.SortStableFunc(ss.gone, func(a, b *solve) int { return cmp.Compare(a.seen.GoneUs, b.seen.GoneUs) })
	if len(records) > 0 {
		ss.cfg.Logger.Info("solves found", "solves", len(records), "unended", len(unended))
	}
	ss.out = newCommitter(ss.cfg.Store, ss.cfg.Retry, ss.tell, ss.svc.NoteCommitted)
	for _, s := range unended {
		// Its tasks are not known without its instance.
		jobs := float64(s.next.Jobs)
		s.place = admission.Call{Readmitted: true, Degraded: s.next.Degraded,
			Cost: ss.svc.Costs().Predict(admission.Work{Jobs: jobs, Tasks: 100 * jobs,
				Options: hare.Options(s.next.Options)})}
		ss.svc.Readmit(s.place)
		s.release = sync.OnceFunc(ss.cfg.Quotas.HasSolve(s.tenant))
		ss.work.Add(1)
		s.resume()
	}
	ss.work.Add(1)
	go ss.janitor()
	notify(ss.tidy)
	return ss, nil
}

// tell says when the store begins to fail and when it works again.
func (ss *Solves) tell(failing bool, err error) {
	if failing {
		ss.cfg.Logger.Error("solves are refused: make room on the disk, or see why it fails", "error", err)
	} else {
		ss.cfg.Logger.Info("solves are taken again")
	}
}

// found takes a record into the maps. The error is that of reading; damage is
// of the solve alone.
func (ss *Solves) found(ctx context.Context, r *store.SolveRecord) (*solve, error) {
	s := &solve{parent: ss, num: r.Num, id: r.ID, accepted: make(chan struct{}), wake: make(chan struct{}),
		release: func() {}}
	close(s.accepted)
	ss.lastNum = max(ss.lastNum, r.Num)
	var err error
	if s.seen, err = store.DecodeSolve(r); err != nil {
		s.damage = err
	}
	s.next, s.tenant = s.seen, s.seen.Tenant
	if s.damage == nil && s.seen.GoneUs == 0 {
		if store.Finished(s.seen.Status) {
			s.seq, s.durable = s.seen.Events, s.seen.Events
		} else if err := s.replay(ctx); errors.As(err, new(*store.CorruptError)) {
			s.damage = err
		} else if err != nil {
			return nil, err
		}
	}
	if s.damage != nil {
		ss.cfg.Logger.Error("a solve is damaged: see hare doctor", "solve", s.id, "error", s.damage)
		ss.solves[s.id] = s
		return s, nil
	}
	if s.seen.Key != "" {
		ss.keys[keyOf(s.tenant, s.seen.Key)] = s
	}
	if s.seen.Cached {
		ss.hold(*s.seen.Result, s.tenant) // as enrol does
	}
	ss.learn(s, s.seen)
	if s.seen.GoneUs != 0 {
		ss.gone = append(ss.gone, s)
	}
	return s, nil
}

// replay reads the events of a solve that has not ended.
func (s *solve) replay(ctx context.Context) error {
	for {
		events, err := s.parent.readEvents(ctx, s, s.durable)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			s.seq = s.durable
			return nil
		}
		for i := range events {
			s.fold(&events[i])
			s.atUs = events[i].AtUs
		}
	}
}

// resume lets a solve go on after a restart (docs/durability.md says how).
func (s *solve) resume() {
	ss := s.parent
	now := ss.cfg.Now()
	s.mu.Lock()
	st := &s.next
	st.Resumed, st.Status = true, StatusQueued
	left := !now.After(s.deadline())
	if st.Options.TimeLimit == 0 || st.Checkpoint == nil {
		// Under a work limit it runs again as it would have; and what has
		// nothing to answer with gets its time anew.
		st.BeganUs = micros(now)
		left = true
	}
	kept := st.Checkpoint != nil
	s.mu.Unlock()
	end := func(err error) {
		ss.svc.Quit(s.place)
		go func() {
			defer ss.work.Done()
			defer s.release()
			s.finish(nil, err)
		}()
	}
	switch {
	case st.Attached || st.Cancelled:
		end(nil) // whoever waited is gone, or wanted no more
		return
	case !left:
		end(admission.ErrLate)
		return
	}
	if err := s.prepare(kept); err != nil {
		end(err)
		return
	}
	s.mu.Lock()
	ch := &change{solve: s, must: true, events: []Event{s.event(Event{Type: EventStatus, Status: StatusQueued})}}
	ch.batch.Put = []store.SolveRecord{s.record()}
	state := s.next
	ch.settle = func(err error) {
		if err == nil {
			s.publish(ch.events, &state)
		}
	}
	ss.out.add(ch, false)
	s.mu.Unlock()
	ss.start(context.Background(), s)
}

// prepare finds the work of a solve that goes on, and its prices.
func (s *solve) prepare(kept bool) (err error) {
	st := &s.next
	switch {
	case st.Replan != nil:
		req, err := s.parent.readReplan(context.Background(), s.id, *st.Replan)
		if err != nil {
			return err
		}
		s.run = runReplan(req)
	case st.Kind != "":
		if s.parent.cfg.Resume == nil {
			return fmt.Errorf("the server was restarted, and a solve of the kind %q cannot go on", st.Kind)
		}
		if s.run, err = s.parent.cfg.Resume(st.Kind, st.Parameters); err != nil {
			return err
		}
	}
	var res *hare.Result
	switch {
	case kept && st.Options.TimeLimit > 0:
		res = s.saved()
	case st.Warm != nil:
		if res, err = s.parent.readResult(context.Background(), s.id, *st.Warm); err != nil {
			return err
		}
	}
	if res != nil {
		s.warm = res.Certificate
	}
	return nil
}

// Delete removes a solve; ErrRunning while it has not ended. It is gone when
// Delete returns; what it took goes in the background.
func (ss *Solves) Delete(_ context.Context, tenant, id string) error {
	s, err := ss.find(tenant, id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	over := store.Finished(s.seen.Status)
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
		Key: was.Key, Digest: was.Digest, GoneUs: micros(ss.cfg.Now())}
	ch := &change{solve: s}
	ch.batch.Clear = []int64{s.num}
	ch.batch.Put = []store.SolveRecord{s.record()}
	state := s.next
	s.mu.Unlock()
	ss.mu.Lock()
	ss.unlist(&was, s)
	for _, ref := range was.Blobs() {
		ss.drop(&ch.batch, ref)
	}
	ss.keeps(s.tenant, -recordBytes)
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
	if ss.out.add(ch, true) {
		err = <-done
	}
	if err != nil {
		s.mu.Lock()
		s.next = was
		s.mu.Unlock()
		if was.Cached {
			ss.mu.Lock()
			ss.hold(*was.Result, s.tenant)
			ss.mu.Unlock()
		}
		ss.learn(s, was)
		return err
	}
	notify(ss.tidy)
	return nil
}

// unlist takes a solve out of what it is looked up by, but for its id and key.
func (ss *Solves) unlist(was *store.SolveState, s *solve) {
	list := ss.tenants[s.tenant]
	if i, ok := slices.BinarySearchFunc(list, s.num,
		func(o *solve, num int64) int { return cmp.Compare(o.num, num) }); ok {
		ss.tenants[s.tenant] = slices.Delete(list, i, i+1)
	}
	if len(ss.tenants[s.tenant]) == 0 {
		delete(ss.tenants, s.tenant)
	}
	if was.Content != nil {
		same := slices.DeleteFunc(ss.content[*was.Content], func(o *solve) bool { return o == s })
		if ss.content[*was.Content] = same; len(same) == 0 {
			delete(ss.content, *was.Content)
		}
	}
}

// janitor removes what is too old or too much.
func (ss *Solves) janitor() {
	defer ss.work.Done()
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ss.tidy:
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
			// What is left after a failure goes the next time.
			more, _ = ss.cfg.Store.SweepSolves(context.Background(), false)
		}
	}
}

// expire removes solves by age and size, the first to end first, and forgets
// those that went long ago.
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
		gone, age := s.next.GoneUs != 0, now.Sub(fromMicros(s.seen.EndedUs))
		s.mu.Unlock()
		if !gone && !over && age <= ss.cfg.MaxAge {
			ss.mu.Unlock()
			break
		}
		ss.ended = ss.ended[1:]
		ss.mu.Unlock()
		if !gone && ss.remove(s) != nil {
			break // the disk refuses: the next time
		}
	}
	ch := &change{settle: func(error) {}}
	ss.mu.Lock()
	for len(ss.gone) > 0 {
		s := ss.gone[0]
		if len(ss.gone) <= mostGone && now.Sub(fromMicros(s.seen.GoneUs)) <= goneFor {
			break
		}
		ss.gone = ss.gone[1:]
		delete(ss.solves, s.id)
		if k := keyOf(s.tenant, s.seen.Key); ss.keys[k] == s {
			delete(ss.keys, k)
		}
		ch.batch.Drop = append(ch.batch.Drop, s.num)
	}
	ss.mu.Unlock()
	if len(ch.batch.Drop) > 0 {
		ss.out.add(ch, false) // what is refused goes after the next start
	}
}

// Close ends the solves that still run, or leaves them to the next start; drain
// the service first. It does not close the store.
func (ss *Solves) Close() error {
	ss.mu.Lock()
	closed := ss.closed
	ss.closed = true
	ss.mu.Unlock()
	if closed {
		return nil
	}
	close(ss.closing)
	ss.mu.Lock()
	for _, s := range ss.solves {
		s.mu.Lock()
		if s.cancel != nil {
			s.cancel(admission.ErrDraining)
		}
		s.mu.Unlock()
	}
	ss.mu.Unlock()
	ss.out.lastTry()
	ss.work.Wait()
	ss.out.end()
	return nil
}
