package solves

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/store"
)

// Solves are the stored solves of one server. Safe for concurrent use.
type Solves struct {
	cfg       Config
	svc       *service.Service
	committer *committer
	work      sync.WaitGroup // goroutines of solves and the janitor
	closing   chan struct{}
	cleanup   chan struct{} // wakes the janitor

	mu       sync.Mutex // locked before the mu of a solve
	closed   bool
	lastNum  int64
	lastBlob int64
	solves   map[string]*solve      // by ID, those that were accepted
	lists    map[listKey][]*solve   // by number, those that are not removed
	keys     map[string]*solve      // by tenant and idempotency key
	content  map[store.Sum][]*solve // those with a reproducible result
	blobs    map[int64]*sharedBlob
	ended    []*solve // finished ones, the first to end first; some may be removed
	gone     []*solve // tombstones, the oldest first
	bytes    int64    // approximate size of the finished solves
}

// listKey names the solves of a tenant, with kind "", or its reports of a kind.
type listKey struct{ tenant, kind string }

func (s *solve) list(kind string) listKey { return listKey{s.tenant, reportKind(kind)} }

// solve is one stored solve, or a report.
type solve struct {
	parent   *Solves
	num      int64
	id       string
	tenant   string
	accepted chan struct{} // closed when the solve is durable or refused
	refused  error         // set before accepted is closed

	// Used by the goroutine that runs the solve.
	run      service.RunFunc
	replan   *hare.ReplanRequest // nil: the solve is not a replan
	inst     *hare.Instance
	warm     *hare.Certificate
	call     admission.Call
	reporter reporter
	// release gives the solve's place in the quota back and may be called repeatedly.
	release func()

	mu       sync.Mutex
	next     store.SolveState // the state that becomes durable next
	seq      int64            // of the last event that was made
	atUs     int64            // the time of event seq
	saving   bool             // a checkpoint is being written
	durable  bool             // accepted: the events that follow may be stored
	early    []Event          // the events before that
	attached int              // calls that the solve is attached to
	ticket   *admission.Ticket
	cancel   context.CancelCauseFunc

	stored      store.SolveState // the durable state
	lastDurable int64            // the last durable event
	tail        []Event          // the last durable events of a running solve
	live        Event            // the durable events folded into one
	wake        chan struct{}    // closed and replaced when the solve has changed
	suspended   bool             // left to the next start
	damage      error            // the record or the events are damaged
}

func (ss *Solves) newBlobNum() int64 {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.lastBlob++
	return ss.lastBlob
}

// record returns the record of the next state.
func (s *solve) record() store.SolveRecord {
	data, _ := json.Marshal(&s.next) // cannot fail: strings, numbers and valid amounts
	rec := store.SolveRecord{Num: s.num, ID: s.id, Data: data}
	rec.Sum = rec.Checksum()
	return rec
}

// sharedBlob counts the records that refer to a blob.
type sharedBlob struct {
	size   int64
	refs   int
	tenant string
}

// reporter turns the progress of the solver into events and checkpoints. Only the
// goroutine that runs the solve uses it.
type reporter struct {
	solve         *solve
	phase         string
	value, bound  *hare.Amount // the best so far
	reportedValue *hare.Amount // the best value in an event
	reportedBound *hare.Amount // the best bound in an event
	reportedAt    time.Time
	nextSave      time.Time
}

// deadline returns the time at which the solve's time limit ends, or the service's limit
// where the solve has none.
func (s *solve) deadline() time.Time {
	limit := s.next.Options.TimeLimit
	if limit == 0 {
		limit = s.parent.svc.MaxTime()
	}
	return fromMicros(s.next.BeganUs).Add(limit)
}

// suspend leaves the solve to the next start.
func (s *solve) suspend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspended = true
	s.broadcast()
}

// broadcast wakes all who wait for a change of the solve. The lock must be held.
func (s *solve) broadcast() {
	close(s.wake)
	s.wake = make(chan struct{})
}
