package solves

import (
	"context"
	"io"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// find returns a solve of the tenant, or a report of a kind.
func (ss *Solves) find(kind, tenant, id string) (*solve, error) {
	ss.mu.Lock()
	s := ss.solves[id]
	ss.mu.Unlock()
	if s == nil || s.tenant != tenant {
		return nil, ErrNoSolve
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.damage != nil:
		return nil, s.damage
	case reportKind(s.stored.Kind) != kind:
		return nil, ErrNoSolve
	case s.stored.GoneUs != 0:
		return nil, ErrGone
	}
	return s, nil
}

// Get describes a solve.
func (ss *Solves) Get(_ context.Context, tenant, id string) (Info, error) {
	s, err := ss.find("", tenant, id)
	if err != nil {
		return Info{}, err
	}
	return s.info()
}

// info describes the durable state of s.
func (s *solve) info() (Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.damage != nil {
		return Info{}, s.damage
	}
	st := &s.stored
	if st.GoneUs != 0 {
		return Info{}, ErrGone
	}
	i := Info{
		ID: s.id, Tenant: s.tenant, Status: st.Status, Termination: st.Termination, Created: fromMicros(st.CreatedUs),
		Started: fromMicros(st.StartedUs),
		Ended:   fromMicros(st.EndedUs), Deadline: s.deadline(), InstanceSHA256: st.Hash,
		Options: hare.Options(st.Options), Jobs: st.Jobs, GPUs: st.GPUs,
		Revision: s.lastDurable, Events: s.lastDurable, Error: st.Error, Cached: st.Cached, Resumed: st.Resumed,
		Degraded: st.Degraded, Kind: st.Kind, Tags: st.Tags,
	}
	// Amounts in the store were written by Amount.String and can be read.
	i.Value, _ = store.ReadAmount(st.Value)
	i.Bound, _ = store.ReadAmount(st.Bound)
	if st.Result != nil {
		i.ResultBytes = st.Result.Size
	}
	if !store.Finished(st.Status) {
		if s.live.Status != "" {
			i.Status = s.live.Status
		}
		i.Phase, i.Value, i.Bound = s.live.Phase, s.live.Value, s.live.Bound
		if i.Status == StatusQueued && s.ticket != nil {
			i.QueuePosition = s.ticket.Position()
		}
		if c := st.Checkpoint; c != nil {
			i.CheckpointValue, _ = store.ReadAmount(c.Value)
			i.CheckpointBound, _ = store.ReadAmount(c.Bound)
			i.Value, i.Bound = better(i.Value, i.CheckpointValue, -1), better(i.Bound, i.CheckpointBound, 1)
		}
	}
	return i, nil
}

// better returns the greater of two amounts, or the lesser one with sign −1. A nil amount
// is worse than any other.
func better(a, b *hare.Amount, sign int) *hare.Amount {
	if a == nil || b != nil && b.Cmp(*a)*sign > 0 {
		return b
	}
	return a
}

// Wait waits until the solve or ctx has ended, and describes the solve as it is then.
func (ss *Solves) Wait(ctx context.Context, tenant, id string) (Info, error) {
	s, err := ss.find("", tenant, id)
	if err != nil {
		return Info{}, err
	}
	for {
		s.mu.Lock()
		wake, over := s.wake, store.Finished(s.stored.Status) || s.suspended || s.stored.GoneUs != 0
		s.mu.Unlock()
		if over {
			return s.info()
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return s.info()
		}
	}
}

// Result returns the result of a finished solve, or the last checkpoint of a running one;
// ErrNoResult without either.
func (ss *Solves) Result(ctx context.Context, tenant, id string) (*hare.Result, error) {
	s, err := ss.find("", tenant, id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	ref, detail := s.stored.Result, s.stored.Options.Detail
	if ref == nil && s.stored.Checkpoint != nil {
		ref = &s.stored.Checkpoint.BlobRef
	}
	s.mu.Unlock()
	if ref == nil {
		return nil, ErrNoResult
	}
	res, err := ss.readResult(ctx, s.id, *ref)
	if err == nil {
		res.Options.Detail = detail
	}
	return res, err
}

func (ss *Solves) readResult(ctx context.Context, id string, ref store.BlobRef) (*hare.Result, error) {
	if err := admission.ClaimOf(ctx).Grow(admission.DecodeFactor * ref.Size); err != nil {
		return nil, err
	}
	r := store.OpenBlob(ctx, ss.cfg.Store, id, ref)
	res, err := wire.DecodeResult(r, wire.Limits{MaxBytes: ref.Size + 1})
	return res, r.Fault(err)
}

// ResultBytes streams the stored result of a finished solve, and returns its length.
// Damage gives *store.CorruptError, at the end of the stream at the latest.
func (ss *Solves) ResultBytes(ctx context.Context, tenant, id string) (io.ReadCloser, int64, error) {
	s, err := ss.find("", tenant, id)
	if err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	ref, over := s.stored.Result, store.Finished(s.stored.Status)
	s.mu.Unlock()
	switch {
	case !over:
		return nil, 0, ErrRunning
	case ref == nil:
		return nil, 0, ErrNoResult
	}
	return store.OpenBlob(ctx, ss.cfg.Store, s.id, *ref), ref.Size, nil
}

// Instance returns the instance of a solve.
func (ss *Solves) Instance(ctx context.Context, tenant, id string) (*hare.Instance, error) {
	s, err := ss.find("", tenant, id)
	if err != nil {
		return nil, err
	}
	return s.instance(ctx)
}

func (s *solve) instance(ctx context.Context) (*hare.Instance, error) {
	s.mu.Lock()
	ref := s.stored.Instance
	inst := s.inst
	s.mu.Unlock()
	if inst != nil {
		return inst, nil
	}
	if ref == nil {
		return nil, ErrGone
	}
	claim := admission.ClaimOf(ctx)
	if err := claim.Grow(admission.DecodeFactor * ref.Size); err != nil {
		return nil, err
	}
	r := store.OpenBlob(ctx, s.parent.cfg.Store, s.id, *ref)
	inst, err := wire.DecodeInstance(r, wire.Limits{MaxBytes: ref.Size + 1, Claim: claim.Grow})
	return inst, r.Fault(err)
}
