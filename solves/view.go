package solves

import (
	"context"
	"io"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/store"
	"github.com/hare-sched/hare/wire"
)

// find returns a solve of the tenant.
func (s *Solves) find(tenant, id string) (*solve, error) {
	s.mu.Lock()
	e := s.solves[id]
	s.mu.Unlock()
	if e == nil || e.tenant != tenant {
		return nil, ErrNoSolve
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.broken != nil:
		return nil, e.broken
	case e.seen.GoneUs != 0:
		return nil, ErrGone
	}
	return e, nil
}

// Get describes a solve.
func (s *Solves) Get(_ context.Context, tenant, id string) (Info, error) {
	e, err := s.find(tenant, id)
	if err != nil {
		return Info{}, err
	}
	return e.info()
}

// info describes e as it is durable.
func (e *solve) info() (Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken != nil {
		return Info{}, e.broken
	}
	st := &e.seen
	if st.GoneUs != 0 {
		return Info{}, ErrGone
	}
	i := Info{
		ID: e.id, Tenant: e.tenant, Status: st.Status, Termination: st.Termination, Created: fromMicros(st.CreatedUs), Started: fromMicros(st.StartedUs),
		Ended: fromMicros(st.EndedUs), Deadline: e.deadline(), InstanceSHA256: st.Hash, Options: hare.Options(st.Options), Jobs: st.Jobs, GPUs: st.GPUs,
		Revision: e.durable, Events: e.durable, Error: st.Error, Cached: st.Cached, Resumed: st.Resumed, Degraded: st.Degraded, Kind: st.Kind,
	}
	// What was written was made by String of an Amount.
	i.Value, _ = store.ReadAmount(st.Value)
	i.Bound, _ = store.ReadAmount(st.Bound)
	if st.Result != nil {
		i.ResultBytes = st.Result.Size
	}
	if !store.Finished(st.Status) {
		if e.live.Status != "" {
			i.Status = e.live.Status
		}
		i.Phase, i.Value, i.Bound = e.live.Phase, e.live.Value, e.live.Bound
		if i.Status == StatusQueued && e.turn != nil {
			i.QueuePosition = e.turn.Position()
		}
		if c := st.Checkpoint; c != nil {
			i.CheckpointValue, _ = store.ReadAmount(c.Value)
			i.CheckpointBound, _ = store.ReadAmount(c.Bound)
			i.Value, i.Bound = better(i.Value, i.CheckpointValue, -1), better(i.Bound, i.CheckpointBound, 1)
		}
	}
	return i, nil
}

// better is the greater of two amounts, or with sign −1 the lesser; one that is
// missing is none.
func better(a, b *hare.Amount, sign int) *hare.Amount {
	if a == nil || b != nil && b.Cmp(*a)*sign > 0 {
		return b
	}
	return a
}

// deadline is by when the time limit ends, or what the service allows.
func (e *solve) deadline() time.Time {
	limit := e.next.Options.TimeLimit
	if limit == 0 {
		limit = e.s.svc.MaxTime()
	}
	return fromMicros(e.next.BeganUs).Add(limit)
}

// Wait waits until the solve has ended, or ctx, and describes it as it is then.
func (s *Solves) Wait(ctx context.Context, tenant, id string) (Info, error) {
	e, err := s.find(tenant, id)
	if err != nil {
		return Info{}, err
	}
	for {
		e.mu.Lock()
		wake, over := e.wake, store.Finished(e.seen.Status) || e.parked || e.seen.GoneUs != 0
		e.mu.Unlock()
		if over {
			return e.info()
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return e.info()
		}
	}
}

// Result is that of a finished solve, or the best pair that is saved of one
// that runs; ErrNoResult without one.
func (s *Solves) Result(ctx context.Context, tenant, id string) (*hare.Result, error) {
	e, err := s.find(tenant, id)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	ref, detail := e.seen.Result, e.seen.Options.Detail
	if ref == nil && e.seen.Checkpoint != nil {
		ref = &e.seen.Checkpoint.BlobRef
	}
	e.mu.Unlock()
	if ref == nil {
		return nil, ErrNoResult
	}
	res, err := s.readResult(ctx, e.id, *ref)
	if err == nil {
		res.Options.Detail = detail
	}
	return res, err
}

func (s *Solves) readResult(ctx context.Context, id string, ref store.BlobRef) (*hare.Result, error) {
	r := store.OpenBlob(ctx, s.cfg.Store, id, ref)
	res, err := wire.DecodeResult(r, wire.Limits{MaxBytes: ref.Size + 1})
	return res, r.Fault(err)
}

// ResultBytes streams the result of a finished solve as it is stored, and says
// how long it is. What is damaged gives *store.CorruptError at the end at the latest.
func (s *Solves) ResultBytes(ctx context.Context, tenant, id string) (io.ReadCloser, int64, error) {
	e, err := s.find(tenant, id)
	if err != nil {
		return nil, 0, err
	}
	e.mu.Lock()
	ref, over := e.seen.Result, store.Finished(e.seen.Status)
	e.mu.Unlock()
	switch {
	case !over:
		return nil, 0, ErrRunning
	case ref == nil:
		return nil, 0, ErrNoResult
	}
	return store.OpenBlob(ctx, s.cfg.Store, e.id, *ref), ref.Size, nil
}

// Instance is the instance of a solve.
func (s *Solves) Instance(ctx context.Context, tenant, id string) (*hare.Instance, error) {
	e, err := s.find(tenant, id)
	if err != nil {
		return nil, err
	}
	return e.instance(ctx)
}

func (e *solve) instance(ctx context.Context) (*hare.Instance, error) {
	e.mu.Lock()
	ref := e.seen.Instance
	inst := e.inst
	e.mu.Unlock()
	if inst != nil {
		return inst, nil
	}
	if ref == nil {
		return nil, ErrGone
	}
	r := store.OpenBlob(ctx, e.s.cfg.Store, e.id, *ref)
	inst, err := wire.DecodeInstance(r, wire.Limits{MaxBytes: ref.Size + 1})
	return inst, r.Fault(err)
}
