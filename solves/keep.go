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
	s := &Solves{
		cfg: cfg.withDefaults(), svc: cfg.Service, closing: make(chan struct{}), tidy: make(chan struct{}, 1),
		solves: map[string]*solve{}, tenants: map[string][]*solve{}, keys: map[string]*solve{}, content: map[store.Sum][]*solve{}, blobs: map[int64]*heldBlob{},
	}
	for more := true; more; {
		var err error
		if more, err = s.cfg.Store.SweepSolves(ctx, true); err != nil {
			return nil, err
		}
	}
	records, err := s.cfg.Store.Solves(ctx)
	if err != nil {
		return nil, err
	}
	if s.lastBlob, err = s.cfg.Store.LastBlob(ctx); err != nil {
		return nil, err
	}
	var unended []*solve
	for i := range records {
		e, err := s.found(ctx, &records[i])
		if err != nil {
			return nil, err
		}
		if e.broken == nil && e.seen.GoneUs == 0 && !store.Finished(e.seen.Status) {
			unended = append(unended, e)
		}
	}
	slices.SortStableFunc(s.ended, func(a, b *solve) int { return cmp.Compare(a.seen.EndedUs, b.seen.EndedUs) })
	slices.SortStableFunc(s.gone, func(a, b *solve) int { return cmp.Compare(a.seen.GoneUs, b.seen.GoneUs) })
	if len(records) > 0 {
		s.cfg.Logger.Info("solves found", "solves", len(records), "unended", len(unended))
	}
	s.out = newCommitter(s.cfg.Store, s.cfg.Retry, s.tell, s.svc.NoteCommitted)
	for _, e := range unended {
		// Its tasks are not known without its instance.
		jobs := float64(e.next.Jobs)
		e.place = admission.Call{Readmitted: true, Degraded: e.next.Degraded, Cost: s.svc.Costs().Predict(admission.Work{Jobs: jobs, Tasks: 100 * jobs, Options: hare.Options(e.next.Options)})}
		s.svc.Readmit(e.place)
		e.release = sync.OnceFunc(s.cfg.Quotas.HasSolve(e.tenant))
		s.work.Add(1)
		e.resume()
	}
	s.work.Add(1)
	go s.janitor()
	notify(s.tidy)
	return s, nil
}

// tell says when the store begins to fail and when it works again.
func (s *Solves) tell(failing bool, err error) {
	if failing {
		s.cfg.Logger.Error("solves are refused: make room on the disk, or see why it fails", "error", err)
	} else {
		s.cfg.Logger.Info("solves are taken again")
	}
}

// found takes a record into the maps. The error is that of reading; damage is
// of the solve alone.
func (s *Solves) found(ctx context.Context, r *store.SolveRecord) (*solve, error) {
	e := &solve{s: s, num: r.Num, id: r.ID, accepted: make(chan struct{}), wake: make(chan struct{}), release: func() {}}
	close(e.accepted)
	s.lastNum = max(s.lastNum, r.Num)
	var err error
	if e.seen, err = store.DecodeSolve(r); err != nil {
		e.broken = err
	}
	e.next, e.tenant = e.seen, e.seen.Tenant
	if e.broken == nil && e.seen.GoneUs == 0 {
		if store.Finished(e.seen.Status) {
			e.seq, e.durable = e.seen.Events, e.seen.Events
		} else if err := e.replay(ctx); errors.As(err, new(*store.CorruptError)) {
			e.broken = err
		} else if err != nil {
			return nil, err
		}
	}
	if e.broken != nil {
		s.cfg.Logger.Error("a solve is damaged: see hare doctor", "solve", e.id, "error", e.broken)
		s.solves[e.id] = e
		return e, nil
	}
	if e.seen.Key != "" {
		s.keys[keyOf(e.tenant, e.seen.Key)] = e
	}
	if e.seen.Cached {
		s.hold(*e.seen.Result, e.tenant) // as enrol does
	}
	s.learn(e, e.seen)
	if e.seen.GoneUs != 0 {
		s.gone = append(s.gone, e)
	}
	return e, nil
}

// replay reads the events of a solve that has not ended.
func (e *solve) replay(ctx context.Context) error {
	for {
		events, err := e.s.readEvents(ctx, e, e.durable)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			e.seq = e.durable
			return nil
		}
		for i := range events {
			e.fold(&events[i])
			e.atUs = events[i].AtUs
		}
	}
}

// resume lets a solve go on after a restart (docs/durability.md says how).
func (e *solve) resume() {
	s := e.s
	now := s.cfg.Now()
	e.mu.Lock()
	st := &e.next
	st.Resumed, st.Status = true, StatusQueued
	left := !now.After(e.deadline())
	if st.Options.TimeLimit == 0 || st.Checkpoint == nil {
		// Under a work limit it runs again as it would have; and what has
		// nothing to answer with gets its time anew.
		st.BeganUs = micros(now)
		left = true
	}
	kept := st.Checkpoint != nil
	e.mu.Unlock()
	end := func(err error) {
		s.svc.Quit(e.place)
		go func() {
			defer s.work.Done()
			defer e.release()
			e.finish(nil, err)
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
	if err := e.prepare(kept); err != nil {
		end(err)
		return
	}
	e.mu.Lock()
	ch := &change{solve: e, must: true, events: []Event{e.event(Event{Type: EventStatus, Status: StatusQueued})}}
	ch.batch.Put = []store.SolveRecord{e.record()}
	state := e.next
	ch.settle = func(err error) {
		if err == nil {
			e.publish(ch.events, &state)
		}
	}
	s.out.add(ch, false)
	e.mu.Unlock()
	s.start(context.Background(), e)
}

// prepare finds the work of a solve that goes on, and its prices.
func (e *solve) prepare(kept bool) (err error) {
	st := &e.next
	switch {
	case st.Replan != nil:
		req, err := e.s.readReplan(context.Background(), e.id, *st.Replan)
		if err != nil {
			return err
		}
		e.run = runReplan(req)
	case st.Kind != "":
		if e.s.cfg.Resume == nil {
			return fmt.Errorf("the server was restarted, and a solve of the kind %q cannot go on", st.Kind)
		}
		if e.run, err = e.s.cfg.Resume(st.Kind, st.Parameters); err != nil {
			return err
		}
	}
	var res *hare.Result
	switch {
	case kept && st.Options.TimeLimit > 0:
		res = e.saved()
	case st.Warm != nil:
		if res, err = e.s.readResult(context.Background(), e.id, *st.Warm); err != nil {
			return err
		}
	}
	if res != nil {
		e.warm = res.Certificate
	}
	return nil
}

// Delete removes a solve; ErrRunning while it has not ended. It is gone when
// Delete returns; what it took goes in the background.
func (s *Solves) Delete(_ context.Context, tenant, id string) error {
	e, err := s.find(tenant, id)
	if err != nil {
		return err
	}
	e.mu.Lock()
	over := store.Finished(e.seen.Status)
	e.mu.Unlock()
	if !over {
		return ErrRunning
	}
	return s.remove(e)
}

// remove puts a tombstone in place of a finished solve.
func (s *Solves) remove(e *solve) error {
	e.mu.Lock()
	if e.next.GoneUs != 0 {
		e.mu.Unlock()
		return ErrGone
	}
	was := e.next
	e.next = store.SolveState{Tenant: was.Tenant, Status: was.Status, CreatedUs: was.CreatedUs, EndedUs: was.EndedUs, Key: was.Key, Digest: was.Digest, GoneUs: micros(s.cfg.Now())}
	ch := &change{solve: e}
	ch.batch.Clear = []int64{e.num}
	ch.batch.Put = []store.SolveRecord{e.record()}
	state := e.next
	e.mu.Unlock()
	s.mu.Lock()
	s.unlist(&was, e)
	for _, ref := range was.Blobs() {
		s.drop(&ch.batch, ref)
	}
	s.keeps(e.tenant, -recordBytes)
	s.mu.Unlock()
	done := make(chan error, 1)
	ch.settle = func(err error) {
		if err == nil {
			e.publish(nil, &state)
			s.mu.Lock()
			s.gone = append(s.gone, e)
			s.mu.Unlock()
		}
		done <- err
	}
	err := admission.ErrDraining
	if s.out.add(ch, true) {
		err = <-done
	}
	if err != nil {
		e.mu.Lock()
		e.next = was
		e.mu.Unlock()
		if was.Cached {
			s.mu.Lock()
			s.hold(*was.Result, e.tenant)
			s.mu.Unlock()
		}
		s.learn(e, was)
		return err
	}
	notify(s.tidy)
	return nil
}

// unlist takes a solve out of what it is looked up by, but for its id and key.
func (s *Solves) unlist(was *store.SolveState, e *solve) {
	list := s.tenants[e.tenant]
	if i, ok := slices.BinarySearchFunc(list, e.num, func(o *solve, num int64) int { return cmp.Compare(o.num, num) }); ok {
		s.tenants[e.tenant] = slices.Delete(list, i, i+1)
	}
	if len(s.tenants[e.tenant]) == 0 {
		delete(s.tenants, e.tenant)
	}
	if was.Content != nil {
		same := slices.DeleteFunc(s.content[*was.Content], func(o *solve) bool { return o == e })
		if s.content[*was.Content] = same; len(same) == 0 {
			delete(s.content, *was.Content)
		}
	}
}

// janitor removes what is too old or too much.
func (s *Solves) janitor() {
	defer s.work.Done()
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.tidy:
		case <-ticker.C:
		case <-s.closing:
			return
		}
		s.expire()
		for more := true; more; {
			select {
			case <-s.closing:
				return
			default:
			}
			// What is left after a failure goes the next time.
			more, _ = s.cfg.Store.SweepSolves(context.Background(), false)
		}
	}
}

// expire removes solves by age and size, the first to end first, and forgets
// those that went long ago.
func (s *Solves) expire() {
	now := s.cfg.Now()
	for {
		s.mu.Lock()
		if len(s.ended) == 0 {
			s.mu.Unlock()
			break
		}
		e, over := s.ended[0], s.bytes > s.cfg.MaxBytes
		e.mu.Lock()
		gone, age := e.next.GoneUs != 0, now.Sub(fromMicros(e.seen.EndedUs))
		e.mu.Unlock()
		if !gone && !over && age <= s.cfg.MaxAge {
			s.mu.Unlock()
			break
		}
		s.ended = s.ended[1:]
		s.mu.Unlock()
		if !gone && s.remove(e) != nil {
			break // the disk refuses: the next time
		}
	}
	ch := &change{settle: func(error) {}}
	s.mu.Lock()
	for len(s.gone) > 0 {
		e := s.gone[0]
		if len(s.gone) <= mostGone && now.Sub(fromMicros(e.seen.GoneUs)) <= goneFor {
			break
		}
		s.gone = s.gone[1:]
		delete(s.solves, e.id)
		if k := keyOf(e.tenant, e.seen.Key); s.keys[k] == e {
			delete(s.keys, k)
		}
		ch.batch.Drop = append(ch.batch.Drop, e.num)
	}
	s.mu.Unlock()
	if len(ch.batch.Drop) > 0 {
		s.out.add(ch, false) // what is refused goes after the next start
	}
}

// Close ends the solves that still run, or leaves them to the next start; drain
// the service first. It does not close the store.
func (s *Solves) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	close(s.closing)
	s.mu.Lock()
	for _, e := range s.solves {
		e.mu.Lock()
		if e.cancel != nil {
			e.cancel(admission.ErrDraining)
		}
		e.mu.Unlock()
	}
	s.mu.Unlock()
	s.out.lastTry()
	s.work.Wait()
	s.out.end()
	return nil
}
