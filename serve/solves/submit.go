// Package solves runs solves and keeps them in a store. A stored solve outlives its call
// and the server, answers a repeated request only once, and reports its progress as
// events.
//
// State is in state.go; above it are events, the committer, the maps of solves, and checkpoints and ends. Submit and
// Open are at the top.
package solves

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// Submit accepts a solve, which is durable when Submit returns. A request with the
// idempotency key and digest of an earlier one returns the earlier request's solve, with
// replayed set. The error is that of bad options, admission.ErrBusy,
// admission.ErrDraining, *KeyError, *admission.QuotaError, store.ErrStorage, or ErrGone
// for a key whose solve is removed.
func (ss *Solves) Submit(ctx context.Context, in Input) (info Info, replayed bool, err error) {
	release, started := func() {}, false
	if in.Release != nil {
		release = sync.OnceFunc(in.Release)
	}
	defer func() {
		if !started {
			release()
		}
	}()
	in.Options = solver.Defaults(in.Options)
	if err := solver.CheckOptions(in.Options); err != nil {
		return Info{}, false, err
	}
	now := ss.cfg.Now()
	if in.Began.IsZero() || in.Began.After(now) {
		in.Began = now
	}
	if in.Replan != nil {
		in.Kind, in.Run = kindReplan, runReplan(*in.Replan)
	}
	s := &solve{parent: ss, id: NewID(), tenant: in.Tenant, run: in.Run, replan: in.Replan,
		release: release, inst: in.Instance, warm: in.Warm,
		accepted: make(chan struct{}), wake: make(chan struct{})}
	s.next = store.SolveState{
		Tenant: in.Tenant, Status: StatusQueued, CreatedUs: micros(now), BeganUs: micros(in.Began),
		Hash:    wire.SHA256(in.Instance),
		Options: store.StoredOptions(in.Options), Jobs: len(in.Instance.Jobs),
		GPUs: int(admission.GPUsOf(&in.Instance.Cluster)), Attached: in.Attached, Kind: in.Kind,
		Parameters: in.Parameters, Key: in.Key, Tags: in.Tags,
	}
	if in.Key != "" {
		s.next.Digest = &in.Digest
	}
	if in.Run == nil && in.Warm == nil && in.Kind == "" {
		sum := ss.contentOf(&s.next)
		s.next.Content = &sum
	}
	old, hit, err := ss.register(ctx, s, &in)
	if err != nil {
		return Info{}, false, err
	}
	if old == nil && s.next.Content != nil {
		ss.svc.NoteCached(hit != nil)
	}
	if old != nil {
		info, err = old.info()
		return info, err == nil, err
	}
	// The solve gives its place in the quota back itself once it runs.
	if started, err = ss.accept(ctx, s, hit); err != nil {
		return Info{}, false, err
	}
	if started && in.Attached {
		s.attach(ctx)
	}
	info, err = s.info()
	return info, false, err
}

// contentOf returns the key of the cache, a hash of all that a result depends on.
func (ss *Solves) contentOf(st *store.SolveState) store.Sum {
	opt := st.Options
	opt.Degrade = false             // a result in the cache is never degraded
	options, _ := json.Marshal(opt) // cannot fail
	return store.SumOf("solve content", nil, []byte(st.Tenant), []byte(st.Hash), options, []byte(ss.svc.Version()),
		[]byte(ss.svc.EngineVersion()))
}

// keyOf returns the key of a tenant's idempotency key in Solves.keys.
func keyOf(tenant, key string) string { return fmt.Sprintf("%d:%s%s", len(tenant), tenant, key) }

// HasKey says that a solve of this tenant has the idempotency key.
func (ss *Solves) HasKey(tenant, key string) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.keys[keyOf(tenant, key)] != nil
}

// register finds the earlier solve of the same idempotency key, or gives s its number,
// its key and, where s has to be computed, a place in the queue. A hit is the solve whose
// result answers s; register retains the blob of that result.
func (ss *Solves) register(ctx context.Context, s *solve, in *Input) (old, hit *solve, err error) {
	for {
		ss.mu.Lock()
		if ss.closed {
			ss.mu.Unlock()
			return nil, nil, admission.ErrDraining
		}
		if in.Key != "" {
			old = ss.keys[keyOf(in.Tenant, in.Key)]
		}
		if old == nil {
			break
		}
		ss.mu.Unlock()
		old.mu.Lock()
		digest := old.next.Digest
		old.mu.Unlock()
		if digest == nil || *digest != in.Digest {
			return nil, nil, &KeyError{Key: in.Key}
		}
		select {
		case <-old.accepted:
		case <-ctx.Done():
			return nil, nil, &KeyError{Key: in.Key, InFlight: true}
		}
		if old.refused == nil {
			if in.Attached {
				old.attach(ctx)
			}
			return old, nil, nil
		}
	}
	defer ss.mu.Unlock()
	if err := ss.cfg.Quotas.Room(in.Tenant); err != nil {
		return nil, nil, err
	}
	if s.next.Content != nil {
		if same := ss.content[*s.next.Content]; len(same) > 0 {
			hit = same[0]
		}
	}
	if hit == nil {
		var granted hare.Options
		granted, s.call, err = ss.svc.AdmitSolve(s.inst, in.Options,
			admission.Call{Deadline: s.deadline(), Patient: !in.Attached})
		if s.call.Degraded {
			s.next.Options, s.next.Degraded, s.next.Content = store.StoredOptions(granted), true, nil
		}
	} else if !ss.svc.Ready() {
		err = admission.ErrDraining
	}
	if err != nil {
		return nil, nil, err
	}
	if hit == nil {
		ss.work.Add(1)
	}
	ss.lastNum++
	s.num = ss.lastNum
	if in.Key != "" {
		ss.keys[keyOf(in.Tenant, in.Key)] = s
	}
	if hit != nil {
		hit.mu.Lock()
		st := hit.stored
		hit.mu.Unlock()
		ss.retainBlob(*st.Result, s.tenant)
		s.next.Status, s.next.Termination, s.next.Value, s.next.Bound = st.Status, st.Termination, st.Value, st.Bound
		s.next.Result, s.next.Cached = st.Result, true
		s.next.StartedUs, s.next.EndedUs = s.next.CreatedUs, s.next.CreatedUs
	}
	return nil, hit, nil
}

// accept makes s durable, with its instance and first event, and puts s into the maps. A
// solve that is not answered by a hit starts while it becomes durable; accept reports
// whether it has started. What a solve does before it is durable is not stored; where
// storing fails, the solve is cancelled.
func (ss *Solves) accept(ctx context.Context, s *solve, hit *solve) (started bool, err error) {
	ch := &change{solve: s}
	s.next.Instance, err = ss.blob(&ch.batch, func(w io.Writer) error { return wire.EncodeInstance(w, s.inst) })
	if err == nil && s.warm != nil {
		warm := hare.Result{Certificate: s.warm, Options: hare.Options{Detail: "jobs"}}
		s.next.Warm, err = ss.blob(&ch.batch, func(w io.Writer) error { return wire.EncodeResult(w, &warm) })
	}
	if err == nil && s.replan != nil {
		s.next.Replan, err = ss.blob(&ch.batch, func(w io.Writer) error { return encodeReplan(w, s.replan) })
	}
	if err == nil {
		deadline := s.deadline()
		if hit != nil {
			ch.events = append(ch.events, s.event(Event{Type: EventStatus, Status: s.next.Status}), s.doneEvent())
			s.next.Events = s.seq
		} else {
			ch.events = append(ch.events,
				s.event(Event{Type: EventStatus, Status: StatusQueued, QueuePosition: ss.svc.Rank(deadline)}))
		}
		done := make(chan error, 1)
		state := s.next
		ch.batch.Put = []store.SolveRecord{s.record()}
		ch.settle = func(err error) {
			if err == nil {
				ss.index(s, state)
				s.publish(ch.events, &state)
				s.logEarlyEvents()
			}
			done <- err
		}
		if err = admission.ErrDraining; ss.committer.add(ch, true) {
			if hit == nil {
				started = true
				ss.start(ctx, s)
			}
			err = <-done
		}
	}
	if err != nil {
		s.refused = err
		ss.mu.Lock()
		if s.next.Key != "" {
			delete(ss.keys, keyOf(s.tenant, s.next.Key))
		}
		// The solve of the hit may have been removed meanwhile. In that case the last
		// reference to the result is released here.
		release := &change{solve: s, must: true, settle: func(error) { notify(ss.cleanup) }}
		if hit != nil {
			ss.releaseBlob(&release.batch, *s.next.Result)
		}
		ss.mu.Unlock()
		if len(release.batch.Release) > 0 {
			ss.committer.add(release, false) // a server that ends before this write leaves the blob
		}
		switch {
		case started:
			s.mu.Lock()
			if s.cancel != nil {
				s.cancel(errCancelled)
			}
			s.mu.Unlock()
		case hit == nil:
			ss.svc.Quit(s.call)
			ss.work.Done()
		}
	}
	close(s.accepted)
	return started, err
}

// blob puts a document in a batch.
func (ss *Solves) blob(b *store.SolveBatch, write func(io.Writer) error) (*store.BlobRef, error) {
	w := store.NewBlob(ss.newBlobNum(), func(c store.SolveChunk) error {
		b.Chunks = append(b.Chunks, c)
		return nil
	})
	if err := write(w); err != nil {
		return nil, err
	}
	ref, err := w.End()
	return &ref, err
}
