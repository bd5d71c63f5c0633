package solves

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/store"
	"github.com/hare-sched/hare/wire"
)

// Solves are the stored solves of one server. Safe for concurrent use.
type Solves struct {
	cfg     Config
	svc     *service.Service
	out     *committer
	work    sync.WaitGroup // goroutines of solves, and the janitor
	closing chan struct{}
	tidy    chan struct{} // asks the janitor

	mu       sync.Mutex // before that of a solve
	closed   bool
	lastNum  int64
	lastBlob int64
	solves   map[string]*solve      // by id, those that were accepted
	tenants  map[string][]*solve    // by number, those that are not gone
	keys     map[string]*solve      // by tenant and idempotency key
	content  map[store.Sum][]*solve // those that have a reproducible result
	blobs    map[int64]*heldBlob
	ended    []*solve // finished ones, the first to end first; some may be gone
	gone     []*solve // in the order in which they went
	bytes    int64    // of finished solves, about
}

// heldBlob counts the records that refer to a blob.
type heldBlob struct {
	size int64
	refs int
	of   string // tenant
}

// recordBytes is about what a solve takes beside its blobs.
const recordBytes = 2048

// solve is one of them.
type solve struct {
	s        *Solves
	num      int64
	id       string
	tenant   string
	accepted chan struct{} // closed when it is durable, or refused
	refused  error         // set before accepted is closed

	// Of the goroutine that runs it.
	run   service.RunFunc
	after *hare.ReplanRequest // nil: not of an earlier plan
	inst  *hare.Instance
	warm  *hare.Certificate
	place admission.Call
	watch watcher
	// release gives its place in the quota back, as often as it is called.
	release func()

	mu       sync.Mutex
	next     store.SolveState // as it will be durable
	seq      int64            // of the last event made
	atUs     int64            // of that
	saving   bool             // a checkpoint is on its way
	attached int              // calls that hold it
	turn     *admission.Ticket
	cancel   context.CancelCauseFunc

	seen    store.SolveState // as it is durable
	durable int64            // the last durable event
	tail    []Event          // the last durable events, while it runs
	live    Event            // what they say together
	wake    chan struct{}    // closed and replaced when there is more to see
	parked  bool             // left for the next start
	broken  error            // the record is damaged
}

// Submit takes a solve: it is durable when Submit returns. A request with the
// idempotency key and digest of an earlier one returns that one's solve, as
// replayed. The error is that of bad options, admission.ErrBusy, admission.ErrDraining, *KeyError,
// *admission.QuotaError, store.ErrStorage, or ErrGone for a key whose solve is deleted.
func (s *Solves) Submit(ctx context.Context, in Input) (info Info, replayed bool, err error) {
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
	now := s.cfg.Now()
	if in.Began.IsZero() || in.Began.After(now) {
		in.Began = now
	}
	if in.Replan != nil {
		in.Kind, in.Run = kindReplan, runReplan(*in.Replan)
	}
	e := &solve{s: s, id: strings.ToLower(rand.Text()), tenant: in.Tenant, run: in.Run, after: in.Replan, release: release, inst: in.Instance, warm: in.Warm,
		accepted: make(chan struct{}), wake: make(chan struct{})}
	e.next = store.SolveState{
		Tenant: in.Tenant, Status: StatusQueued, CreatedUs: micros(now), BeganUs: micros(in.Began), Hash: wire.SHA256(in.Instance),
		Options: store.StoredOptions(in.Options), Jobs: len(in.Instance.Jobs), Attached: in.Attached, Kind: in.Kind, Parameters: in.Parameters, Key: in.Key,
	}
	for i := range in.Instance.Cluster.Nodes {
		for _, g := range in.Instance.Cluster.Nodes[i].GPUs {
			e.next.GPUs += g.Count
		}
	}
	if in.Key != "" {
		e.next.Digest = &in.Digest
	}
	if in.Run == nil && in.Warm == nil && in.Kind == "" {
		sum := s.contentOf(&e.next)
		e.next.Content = &sum
	}
	old, hit, err := s.enrol(ctx, e, &in)
	if err != nil {
		return Info{}, false, err
	}
	if old == nil && e.next.Content != nil {
		s.svc.NoteCached(hit != nil)
	}
	if old != nil {
		info, err = old.info()
		return info, err == nil, err
	}
	if err := s.accept(e, hit); err != nil {
		return Info{}, false, err
	}
	if hit == nil {
		started = true
		s.start(ctx, e)
		if in.Attached {
			e.attach(ctx)
		}
	}
	info, err = e.info()
	return info, false, err
}

// contentOf is the key of the cache: all that a result depends on.
func (s *Solves) contentOf(st *store.SolveState) store.Sum {
	opt := st.Options
	opt.Degrade = false             // not made use of
	options, _ := json.Marshal(opt) // cannot fail
	return store.SumOf("solve content", nil, []byte(st.Tenant), []byte(st.Hash), options, []byte(s.svc.Version()), []byte(s.svc.EngineVersion()))
}

// keyOf names a tenant's idempotency key.
func keyOf(tenant, key string) string { return fmt.Sprintf("%d:%s%s", len(tenant), tenant, key) }

// HasKey says that a solve of this tenant has the idempotency key.
func (s *Solves) HasKey(tenant, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[keyOf(tenant, key)] != nil
}

// enrol finds the earlier solve of the same key, or gives e its number, a place
// in the queue where it needs one, and its key. A hit is the solve whose result
// answers e; its result is held.
func (s *Solves) enrol(ctx context.Context, e *solve, in *Input) (old, hit *solve, err error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, nil, admission.ErrDraining
		}
		if in.Key != "" {
			old = s.keys[keyOf(in.Tenant, in.Key)]
		}
		if old == nil {
			break
		}
		s.mu.Unlock()
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
	defer s.mu.Unlock()
	if err := s.cfg.Quotas.Room(in.Tenant); err != nil {
		return nil, nil, err
	}
	if e.next.Content != nil {
		if same := s.content[*e.next.Content]; len(same) > 0 {
			hit = same[0]
		}
	}
	if hit == nil {
		var granted hare.Options
		granted, e.place, err = s.svc.AdmitSolve(e.inst, in.Options, e.deadline())
		if e.place.Degraded {
			e.next.Options, e.next.Degraded, e.next.Content = store.StoredOptions(granted), true, nil
		}
	} else if !s.svc.Ready() {
		err = admission.ErrDraining
	}
	if err != nil {
		return nil, nil, err
	}
	if hit == nil {
		s.work.Add(1)
	}
	s.lastNum++
	e.num = s.lastNum
	if in.Key != "" {
		s.keys[keyOf(in.Tenant, in.Key)] = e
	}
	if hit != nil {
		hit.mu.Lock()
		st := hit.seen
		hit.mu.Unlock()
		s.hold(*st.Result, e.tenant)
		e.next.Status, e.next.Termination, e.next.Value, e.next.Bound = st.Status, st.Termination, st.Value, st.Bound
		e.next.Result, e.next.Cached = st.Result, true
		e.next.StartedUs, e.next.EndedUs = e.next.CreatedUs, e.next.CreatedUs
	}
	return nil, hit, nil
}

// accept makes e durable with its instance and first event, and known.
func (s *Solves) accept(e *solve, hit *solve) error {
	ch := &change{solve: e}
	var err error
	e.next.Instance, err = s.blob(&ch.batch, func(w io.Writer) error { return wire.EncodeInstance(w, e.inst) })
	if err == nil && e.warm != nil {
		warm := hare.Result{Certificate: e.warm, Options: hare.Options{Detail: "jobs"}}
		e.next.Warm, err = s.blob(&ch.batch, func(w io.Writer) error { return wire.EncodeResult(w, &warm) })
	}
	if err == nil && e.after != nil {
		e.next.Replan, err = s.blob(&ch.batch, func(w io.Writer) error { return encodeReplan(w, e.after) })
	}
	if err == nil {
		deadline := e.deadline()
		if hit != nil {
			ch.events = append(ch.events, e.event(Event{Type: EventStatus, Status: e.next.Status}), e.doneEvent())
			e.next.Events = e.seq
		} else {
			ch.events = append(ch.events, e.event(Event{Type: EventStatus, Status: StatusQueued, QueuePosition: s.svc.Rank(deadline)}))
		}
		done := make(chan error, 1)
		state := e.next
		ch.batch.Put = []store.SolveRecord{e.record()}
		ch.settle = func(err error) {
			if err == nil {
				s.learn(e, state)
				e.publish(ch.events, &state)
			}
			done <- err
		}
		if err = admission.ErrDraining; s.out.add(ch, true) {
			err = <-done
		}
	}
	if err != nil {
		e.refused = err
		s.mu.Lock()
		if e.next.Key != "" {
			delete(s.keys, keyOf(e.tenant, e.next.Key))
		}
		// The solve that the answer is from may be removed meanwhile: what was its
		// result is released here then.
		release := &change{solve: e, must: true, settle: func(error) { notify(s.tidy) }}
		if hit != nil {
			s.drop(&release.batch, *e.next.Result)
		}
		s.mu.Unlock()
		if len(release.batch.Release) > 0 {
			s.out.add(release, false) // a server that ends before this is written leaves the document
		}
		if hit == nil {
			s.svc.Quit(e.place)
			s.work.Done()
		}
	}
	close(e.accepted)
	return err
}

// blob puts a document in a batch.
func (s *Solves) blob(b *store.SolveBatch, write func(io.Writer) error) (*store.BlobRef, error) {
	w := store.NewBlob(s.newBlobNum(), func(c store.SolveChunk) error {
		b.Chunks = append(b.Chunks, c)
		return nil
	})
	if err := write(w); err != nil {
		return nil, err
	}
	ref, err := w.End()
	return &ref, err
}

func (s *Solves) newBlobNum() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastBlob++
	return s.lastBlob
}

// record is e as it will be durable.
func (e *solve) record() store.SolveRecord {
	data, _ := json.Marshal(&e.next) // strings, numbers and checked amounts: cannot fail
	r := store.SolveRecord{Num: e.num, ID: e.id, Data: data}
	r.Sum = r.Checksum()
	return r
}

// learn takes a solve that is durable into the maps.
func (s *Solves) learn(e *solve, st store.SolveState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.solves[e.id] = e
	if st.GoneUs != 0 {
		return
	}
	list := append(s.tenants[e.tenant], e)
	for i := len(list) - 1; i > 0 && list[i-1].num > e.num; i-- {
		list[i-1], list[i] = list[i], list[i-1]
	}
	s.tenants[e.tenant] = list
	for _, ref := range st.Blobs() {
		if st.Cached && ref == *st.Result {
			continue // held since it was found
		}
		s.hold(ref, e.tenant)
	}
	if store.Finished(st.Status) {
		s.finished(e, &st)
	}
}

// keeps counts bytes that are kept of a tenant, less where they are negative.
func (s *Solves) keeps(tenant string, bytes int64) {
	s.bytes += bytes
	s.cfg.Quotas.Stored(tenant, bytes)
}

// hold counts a reference of a tenant; drop takes it back, and releases the blob
// behind the last one. Blobs are shared by solves of one tenant alone.
func (s *Solves) hold(ref store.BlobRef, tenant string) {
	h := s.blobs[ref.Blob]
	if h == nil {
		h = &heldBlob{size: ref.Size, of: tenant}
		s.blobs[ref.Blob] = h
		s.keeps(tenant, ref.Size)
	}
	h.refs++
}

func (s *Solves) drop(b *store.SolveBatch, ref store.BlobRef) {
	h := s.blobs[ref.Blob]
	if h == nil {
		return
	}
	if h.refs--; h.refs == 0 {
		delete(s.blobs, ref.Blob)
		s.keeps(h.of, -h.size)
		b.Release = append(b.Release, ref.Blob)
	}
}

// finished files a solve that has ended under what it is looked up by.
func (s *Solves) finished(e *solve, st *store.SolveState) {
	s.ended = append(s.ended, e)
	s.keeps(e.tenant, recordBytes)
	if st.Content != nil && st.Result != nil {
		s.content[*st.Content] = append(s.content[*st.Content], e)
	}
	if s.bytes > s.cfg.MaxBytes {
		notify(s.tidy)
	}
}
