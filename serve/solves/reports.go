package solves

import (
	"context"
	"io"
	"time"

	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// Reports are the requests of one kind that were answered at once, with their answers. They are records of the same
// store as solves, under the same limits of age, size and quota.
type Reports struct {
	ss   *Solves
	kind string
}

// Reports returns the reports of a kind.
func (ss *Solves) Reports(kind string) Reports { return Reports{ss, kind} }

// Report is a request with its answer.
type Report struct {
	ID, Tenant      string
	Tags            wire.Tags
	Began           time.Time // when the request arrived
	Request, Answer []byte
}

// Room returns the *admission.QuotaError of a tenant that may store nothing more.
func (ss *Solves) Room(tenant string) error { return ss.cfg.Quotas.Room(tenant) }

// Keep stores a report, which is durable when Keep returns.
func (rs Reports) Keep(r *Report) (err error) {
	ss := rs.ss
	ss.mu.Lock()
	ss.lastNum++
	s := &solve{parent: ss, num: ss.lastNum, id: r.ID, tenant: r.Tenant, accepted: make(chan struct{}),
		wake: make(chan struct{}), release: func() {}, durable: true}
	ss.mu.Unlock()
	close(s.accepted)
	began := micros(r.Began)
	s.next = store.SolveState{Tenant: r.Tenant, Status: StatusSucceeded, CreatedUs: began, BeganUs: began,
		StartedUs: began, EndedUs: micros(ss.cfg.Now()), Kind: rs.kind, Tags: r.Tags}
	ch := &change{solve: s}
	for _, part := range []struct {
		ref  **store.BlobRef
		text []byte
	}{{&s.next.Request, r.Request}, {&s.next.Result, r.Answer}} {
		if *part.ref, err = s.store(ch, func(w io.Writer) error {
			_, err := w.Write(part.text)
			return err
		}); err != nil {
			return err
		}
	}
	ch.batch.Put = []store.SolveRecord{s.record()}
	state := s.next
	done := make(chan error, 1)
	ch.settle = func(err error) {
		if err == nil {
			s.publish(nil, &state)
			ss.index(s, state)
		}
		done <- err
	}
	if !ss.committer.add(ch, true) {
		return admission.ErrDraining
	}
	return <-done
}

// List is Solves.List of reports.
func (rs Reports) List(_ context.Context, tenant string, f Filter) (infos []Info, next string, err error) {
	return rs.ss.list(rs.kind, tenant, f)
}

// Get describes a report.
func (rs Reports) Get(_ context.Context, tenant, id string) (Info, error) {
	s, err := rs.ss.find(rs.kind, tenant, id)
	if err != nil {
		return Info{}, err
	}
	return s.info()
}

// Request streams the request of a report, and returns its length. Damage gives *store.CorruptError, at the end of the
// stream at the latest.
func (rs Reports) Request(ctx context.Context, tenant, id string) (io.ReadCloser, int64, error) {
	return rs.open(ctx, tenant, id, func(st *store.SolveState) *store.BlobRef { return st.Request })
}

// Answer streams the answer of a report, as Request does the request.
func (rs Reports) Answer(ctx context.Context, tenant, id string) (io.ReadCloser, int64, error) {
	return rs.open(ctx, tenant, id, func(st *store.SolveState) *store.BlobRef { return st.Result })
}

func (rs Reports) open(ctx context.Context, tenant, id string,
	of func(*store.SolveState) *store.BlobRef) (io.ReadCloser, int64, error) {
	s, err := rs.ss.find(rs.kind, tenant, id)
	if err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	ref := of(&s.stored)
	s.mu.Unlock()
	if ref == nil {
		return nil, 0, ErrGone // removed meanwhile
	}
	return store.OpenBlob(ctx, rs.ss.cfg.Store, id, *ref), ref.Size, nil
}

// Delete removes a report, as Solves.Delete does a solve.
func (rs Reports) Delete(_ context.Context, tenant, id string) error {
	return rs.ss.delete(rs.kind, tenant, id)
}
