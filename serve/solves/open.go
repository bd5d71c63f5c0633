package solves

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
)

// Open takes over the store: finished solves can be read again, and the others go on.
func Open(ctx context.Context, cfg Config) (*Solves, error) {
	ss := &Solves{
		cfg: cfg.withDefaults(), svc: cfg.Service, closing: make(chan struct{}), cleanup: make(chan struct{}, 1),
		solves: map[string]*solve{}, lists: map[listKey][]*solve{}, keys: map[string]*solve{},
		content: map[store.Sum][]*solve{}, blobs: map[int64]*sharedBlob{},
	}
	for more := true; more; {
		var err error
		more, err = ss.cfg.Store.SweepSolves(ctx, true)
		if errors.Is(err, store.ErrStorage) {
			break // on a full disk everything can be read; the next start sweeps again
		}
		if err != nil {
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
		s, err := ss.load(ctx, &records[i])
		if err != nil {
			return nil, err
		}
		if s.damage == nil && s.stored.GoneUs == 0 && !store.Finished(s.stored.Status) {
			unended = append(unended, s)
		}
	}
	slices.SortStableFunc(ss.ended, func(a, b *solve) int { return cmp.Compare(a.stored.EndedUs, b.stored.EndedUs) })
	slices.SortStableFunc(ss.gone, func(a, b *solve) int { return cmp.Compare(a.stored.GoneUs, b.stored.GoneUs) })
	if len(records) > 0 {
		ss.cfg.Logger.Info("solves found", "solves", len(records), "unended", len(unended))
	}
	ss.committer = newCommitter(ss.cfg.Store, ss.cfg.Retry, ss.logStoreState, ss.svc.NoteCommitted)
	for _, s := range unended {
		// The number of tasks is not known without the instance: 100 a job is assumed.
		jobs := float64(s.next.Jobs)
		s.call = admission.Call{Readmitted: true, Patient: true, Degraded: s.next.Degraded,
			Cost: ss.svc.Costs().Predict(admission.Work{Jobs: jobs, Tasks: 100 * jobs,
				Options: hare.Options(s.next.Options)})}
		ss.svc.Readmit(s.call)
		s.release = sync.OnceFunc(ss.cfg.Quotas.HasSolve(s.tenant))
		ss.work.Add(1)
		s.resume()
	}
	ss.work.Add(1)
	go ss.janitor()
	notify(ss.cleanup)
	return ss, nil
}

// logStoreState logs that the store begins to fail or works again.
func (ss *Solves) logStoreState(failing bool, err error) {
	if failing {
		ss.cfg.Logger.Error("solves are refused: make room on the disk, or see why it fails", "error", err)
	} else {
		ss.cfg.Logger.Info("solves are taken again")
	}
}

// load puts the solve of a record into the maps. An error is one of reading; the damage
// of a single solve is kept in the solve.
func (ss *Solves) load(ctx context.Context, rec *store.SolveRecord) (*solve, error) {
	s := &solve{parent: ss, num: rec.Num, id: rec.ID, accepted: make(chan struct{}), wake: make(chan struct{}),
		release: func() {}, durable: true}
	close(s.accepted)
	ss.lastNum = max(ss.lastNum, rec.Num)
	var err error
	if s.stored, err = store.DecodeSolve(rec); err != nil {
		s.damage = err
	}
	s.next, s.tenant = s.stored, s.stored.Tenant
	if s.damage == nil && s.stored.GoneUs == 0 {
		if store.Finished(s.stored.Status) {
			s.seq, s.lastDurable = s.stored.Events, s.stored.Events
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
	if s.stored.Key != "" {
		ss.keys[keyOf(s.tenant, s.stored.Key)] = s
	}
	if s.stored.Cached {
		ss.retainBlob(*s.stored.Result, s.tenant) // as register does
	}
	ss.index(s, s.stored)
	if s.stored.GoneUs != 0 {
		ss.gone = append(ss.gone, s)
	}
	return s, nil
}

// replay reads the events of a solve that has not ended.
func (s *solve) replay(ctx context.Context) error {
	for {
		events, err := s.parent.readEvents(ctx, s, s.lastDurable)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			s.seq = s.lastDurable
			return nil
		}
		for i := range events {
			s.fold(&events[i])
			s.atUs = events[i].AtUs
		}
	}
}

// resume lets a solve go on after a restart; docs/use/operate.md#what-survives describes the rules.
func (s *solve) resume() {
	ss := s.parent
	now := ss.cfg.Now()
	s.mu.Lock()
	st := &s.next
	st.Resumed, st.Status = true, StatusQueued
	left := !now.After(s.deadline())
	if st.Options.TimeLimit == 0 || st.Checkpoint == nil {
		// A solve with a work limit runs again from the start, and so does a solve without
		// a checkpoint, whose time limit begins again.
		st.BeganUs = micros(now)
		left = true
	}
	kept := st.Checkpoint != nil
	s.mu.Unlock()
	end := func(err error) {
		ss.svc.Quit(s.call)
		go func() {
			defer ss.work.Done()
			defer s.release()
			s.finish(nil, err)
		}()
	}
	switch {
	case st.Attached || st.Cancelled:
		end(nil) // the waiting calls ended with the server, or the solve was cancelled
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
	ss.committer.add(ch, false)
	s.mu.Unlock()
	ss.start(context.Background(), s)
}

// prepare finds the work and the starting prices of a solve that goes on.
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

// Close ends the running solves, or leaves them to the next start. The service must be
// drained before. Close does not close the store.
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
	ss.committer.lastTry()
	ss.work.Wait()
	ss.committer.end()
	return nil
}
