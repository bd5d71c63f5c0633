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
	parent   *Solves
	num      int64
	id       string
	tenant   string
	accepted chan struct{} // closed when it is durable, or refused
	refused  error         // set before accepted is closed

	// Of the goroutine that runs it.
	run      service.RunFunc
	after    *hare.ReplanRequest // nil: not of an earlier plan
	inst     *hare.Instance
	warm     *hare.Certificate
	place    admission.Call
	reporter watcher
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
	damage  error            // the record is damaged
}

// Submit takes a solve: it is durable when Submit returns. A request with the
// idempotency key and digest of an earlier one returns that one's solve, as
// replayed. The error is that of bad options, admission.ErrBusy, admission.ErrDraining, *KeyError,
// *admission.QuotaError, store.ErrStorage, or ErrGone for a key whose solve is deleted.
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
	s := &solve{parent: ss, id: strings.ToLower(rand.Text()), tenant: in.Tenant, run: in.Run, after: in.Replan,
		release: release, inst: in.Instance, warm: in.Warm,
		accepted: make(chan struct{}), wake: make(chan struct{})}
	s.next = store.SolveState{
		Tenant: in.Tenant, Status: StatusQueued, CreatedUs: micros(now), BeganUs: micros(in.Began),
		Hash:    wire.SHA256(in.Instance),
		Options: store.StoredOptions(in.Options), Jobs: len(in.Instance.Jobs), Attached: in.Attached, Kind: in.Kind,
		Parameters: in.Parameters, Key: in.Key,
	}
	for i := range in.Instance.Cluster.Nodes {
		for _, g := range in.Instance.Cluster.Nodes[i].GPUs {
			s.next.GPUs += g.Count
		}
	}
	if in.Key != "" {
		s.next.Digest = &in.Digest
	}
	if in.Run == nil && in.Warm == nil && in.Kind == "" {
		sum := ss.contentOf(&s.next)
		s.next.Content = &sum
	}
	old, hit, err := ss.enrol(ctx, s, &in)
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
	if err := ss.accept(s, hit); err != nil {
		return Info{}, false, err
	}
	if hit == nil {
		started = true
		ss.start(ctx, s)
		if in.Attached {
			s.attach(ctx)
		}
	}
	info, err = s.info()
	return info, false, err
}

// contentOf is the key of the cache: all that a result depends on.
func (ss *Solves) contentOf(st *store.SolveState) store.Sum {
	opt := st.Options
	opt.Degrade = false             // not made use of
	options, _ := json.Marshal(opt) // cannot fail
	return store.SumOf("solve content", nil, []byte(st.Tenant), []byte(st.Hash), options, []byte(ss.svc.Version()),
		[]byte(ss.svc.EngineVersion()))
}

// keyOf names a tenant's idempotency key.
func keyOf(tenant, key string) string { return fmt.Sprintf("%d:%s%s", len(tenant), tenant, key) }

// HasKey says that a solve of this tenant has the idempotency key.
func (ss *Solves) HasKey(tenant, key string) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.keys[keyOf(tenant, key)] != nil
}

// enrol finds the earlier solve of the same key, or gives e its number, a place
// in the queue where it needs one, and its key. A hit is the solve whose result
// answers e; its result is held.
func (ss *Solves) enrol(ctx context.Context, s *solve, in *Input) (old, hit *solve, err error) {
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
		granted, s.place, err = ss.svc.AdmitSolve(s.inst, in.Options, s.deadline())
		if s.place.Degraded {
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
		st := hit.seen
		hit.mu.Unlock()
		ss.hold(*st.Result, s.tenant)
		s.next.Status, s.next.Termination, s.next.Value, s.next.Bound = st.Status, st.Termination, st.Value, st.Bound
		s.next.Result, s.next.Cached = st.Result, true
		s.next.StartedUs, s.next.EndedUs = s.next.CreatedUs, s.next.CreatedUs
	}
	return nil, hit, nil
}

// accept makes e durable with its instance and first event, and known.
func (ss *Solves) accept(s *solve, hit *solve) error {
	ch := &change{solve: s}
	var err error
	s.next.Instance, err = ss.blob(&ch.batch, func(w io.Writer) error { return wire.EncodeInstance(w, s.inst) })
	if err == nil && s.warm != nil {
		warm := hare.Result{Certificate: s.warm, Options: hare.Options{Detail: "jobs"}}
		s.next.Warm, err = ss.blob(&ch.batch, func(w io.Writer) error { return wire.EncodeResult(w, &warm) })
	}
	if err == nil && s.after != nil {
		s.next.Replan, err = ss.blob(&ch.batch, func(w io.Writer) error { return encodeReplan(w, s.after) })
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
				ss.learn(s, state)
				s.publish(ch.events, &state)
			}
			done <- err
		}
		if err = admission.ErrDraining; ss.out.add(ch, true) {
			err = <-done
		}
	}
	if err != nil {
		s.refused = err
		ss.mu.Lock()
		if s.next.Key != "" {
			delete(ss.keys, keyOf(s.tenant, s.next.Key))
		}
		// The solve that the answer is from may be removed meanwhile: what was its
		// result is released here then.
		release := &change{solve: s, must: true, settle: func(error) { notify(ss.tidy) }}
		if hit != nil {
			ss.drop(&release.batch, *s.next.Result)
		}
		ss.mu.Unlock()
		if len(release.batch.Release) > 0 {
			ss.out.add(release, false) // a server that ends before this is written leaves the document
		}
		if hit == nil {
			ss.svc.Quit(s.place)
			ss.work.Done()
		}
	}
	close(s.accepted)
	return err
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

func (ss *Solves) newBlobNum() int64 {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.lastBlob++
	return ss.lastBlob
}

// record is e as it will be durable.
func (s *solve) record() store.SolveRecord {
	data, _ := json.Marshal(&s.next) // strings, numbers and checked amounts: cannot fail
	r := store.SolveRecord{Num: s.num, ID: s.id, Data: data}
	r.Sum = r.Checksum()
	return r
}

// learn takes a solve that is durable into the maps.
func (ss *Solves) learn(s *solve, st store.SolveState) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.solves[s.id] = s
	if st.GoneUs != 0 {
		return
	}
	list := append(ss.tenants[s.tenant], s)
	for i := len(list) - 1; i > 0 && list[i-1].num > s.num; i-- {
		list[i-1], list[i] = list[i], list[i-1]
	}
	ss.tenants[s.tenant] = list
	for _, ref := range st.Blobs() {
		if st.Cached && ref == *st.Result {
			continue // held since it was found
		}
		ss.hold(ref, s.tenant)
	}
	if store.Finished(st.Status) {
		ss.finished(s, &st)
	}
}

// keeps counts bytes that are kept of a tenant, less where they are negative.
func (ss *Solves) keeps(tenant string, bytes int64) {
	ss.bytes += bytes
	ss.cfg.Quotas.Stored(tenant, bytes)
}

// hold counts a reference of a tenant; drop takes it back, and releases the blob
// behind the last one. Blobs are shared by solves of one tenant alone.
func (ss *Solves) hold(ref store.BlobRef, tenant string) {
	h := ss.blobs[ref.Blob]
	if h == nil {
		h = &heldBlob{size: ref.Size, of: tenant}
		ss.blobs[ref.Blob] = h
		ss.keeps(tenant, ref.Size)
	}
	h.refs++
}

func (ss *Solves) drop(b *store.SolveBatch, ref store.BlobRef) {
	h := ss.blobs[ref.Blob]
	if h == nil {
		return
	}
	if h.refs--; h.refs == 0 {
		delete(ss.blobs, ref.Blob)
		ss.keeps(h.of, -h.size)
		b.Release = append(b.Release, ref.Blob)
	}
}

// finished files a solve that has ended under what it is looked up by.
func (ss *Solves) finished(s *solve, st *store.SolveState) {
	ss.ended = append(ss.ended, s)
	ss.keeps(s.tenant, recordBytes)
	if st.Content != nil && st.Result != nil {
		ss.content[*st.Content] = append(ss.content[*st.Content], s)
	}
	if ss.bytes > ss.cfg.MaxBytes {
		notify(ss.tidy)
	}
}
