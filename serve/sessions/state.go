package sessions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/changes"
	"github.com/hare-sched/hare/serve/store"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// Config sizes Sessions. Zero is a valid value of each field but Store.
type Config struct {
	Store store.SessionStore
	// MaxSessions limits the sessions that exist, of all tenants; zero means 10,000.
	MaxSessions int
	// Quotas limits the sessions of a tenant and the bytes of their logs; nil means no
	// limit.
	Quotas *admission.Quotas
	// MaxJobs limits the jobs of a session that have not ended; zero means 100,000.
	MaxJobs int
	// Memory limits the estimated bytes of the sessions in memory and of those that are being made; zero means no limit.
	// With Quotas, a tenant may have half of it. Where it is used up, sessions leave memory before Idle has passed.
	Memory int64
	// Idle is how long a session without events stays in memory; zero means 5 min.
	Idle time.Duration
	// SnapshotEvery is the number of events between snapshots, and the greatest number of
	// events that are replayed after a crash; zero means 50,000.
	SnapshotEvery int
	// Window is how many events of a session may wait to be applied, and the greatest
	// number of events that become durable together; zero means 1,024.
	Window int
	// Retry is how long a session takes no events after a failed write of the log; zero
	// means 1 s.
	Retry time.Duration
	// Planners is how many plans are made at the same time, of all sessions; zero means
	// half as many as goroutines run at the same time, and at least one.
	Planners int
	// PlanTime is the longest time that a plan may take; zero means 10 s. A planner that
	// does not end then is left alone. At most Planners of them are: while that many are
	// left alone, no plans are made.
	PlanTime time.Duration
	// PlanRetry is the time from a plan that failed to the next try, which doubles with
	// each failure in a row, up to 5 min; zero means 1 s.
	PlanRetry time.Duration
	// New and Restore make policies; nil means the functions of package sim/policies.
	New     func(policy string, cluster *hare.Cluster, parameters []byte) (online.Durable, error)
	Restore func(policy string, snapshot []byte) (online.Durable, error)
	// Now is the server's clock; nil means time.Now.
	Now func() time.Time
	// Logger gets what an operator has to act on: damage, once a session, and the beginning
	// and the end of a time in which the log cannot be written; nil means that nothing is
	// logged.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	number := func(n *int, d int) {
		if *n <= 0 {
			*n = d
		}
	}
	number(&c.MaxSessions, 10_000)
	number(&c.MaxJobs, 100_000)
	number(&c.SnapshotEvery, 50_000)
	number(&c.Window, 1024)
	number(&c.Planners, max(1, runtime.GOMAXPROCS(0)/2))
	if c.Idle <= 0 {
		c.Idle = 5 * time.Minute
	}
	if c.Retry <= 0 {
		c.Retry = time.Second
	}
	if c.PlanTime <= 0 {
		c.PlanTime = 10 * time.Second
	}
	if c.PlanRetry <= 0 {
		c.PlanRetry = time.Second
	}
	if c.New == nil {
		c.New = registry.OpenSession
	}
	if c.Restore == nil {
		c.Restore = registry.RestoreSession
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Sessions are the online sessions of one server. Safe for concurrent use.
type Sessions struct {
	cfg      Config
	commits  chan *batch
	written  chan struct{} // closed when the committer has ended
	actors   sync.WaitGroup
	failing  bool // the last append failed; used by the committer alone
	planners *planners
	hooks    atomic.Pointer[Hooks]
	memory   *memory

	mu       sync.Mutex
	sessions map[string]*Session
	reserved int            // sessions that are being created or deleted
	changes  sync.WaitGroup // sessions that are being created or deleted: Close waits for them
	closed   bool
}

// Session is one online session. A session that nobody uses takes no more memory than
// this struct: the state of the policy belongs to the actor. Safe for concurrent use.
type Session struct {
	parent *Sessions
	id     string
	meta   store.Meta
	cfg    SessionConfig
	damage error // the configuration is damaged
	last   atomic.Int64

	release func()       // gives the session's place in the tenant's quota back
	stored  atomic.Int64 // bytes of the log that count for the tenant

	kept atomic.Bool // see Keep

	followed *followed // nil: no helper keeps the session

	loading sync.Mutex   // held while room in memory is looked for
	claimed atomic.Int64 // estimated bytes of the session in memory; 0 where it is not
	extra   atomic.Int64 // those of jobs and of GPUs that joined, also while the session is not in memory
	used    atomic.Int64 // when events or views last came, in nanoseconds since 1970

	// mu is held for reading while a promise is put in the inbox of the actor. An actor
	// that locks mu for writing can therefore end without losing a promise.
	mu    sync.RWMutex
	actor *actor

	quarantine atomic.Pointer[QuarantineError] // nil: the policy never panicked

	damageLogged sync.Once // the first damage is logged once
	once         sync.Once
	ended        error         // why no more events are accepted; set before gone is closed
	gone         chan struct{} // closed when no more events are accepted

	planMu  sync.Mutex
	outlook *kept // of the last Outlook, while the session is in memory

	wakeMu sync.Mutex
	wake   chan struct{} // closed and replaced when rows were added
	// feed has what changes while the session is in memory, from when somebody follows it; nil: nobody has.
	feed      *changes.Feed
	followers int // of feed
	planned   int64
}

// countStored counts bytes by which the log has grown.
func (s *Session) countStored(bytes int64) {
	s.stored.Add(bytes)
	s.parent.cfg.Quotas.Stored(s.cfg.tenant, bytes)
}

// logDamage returns err, and logs the first damage of the session.
func (s *Session) logDamage(err error) error {
	var bad *store.CorruptError
	if errors.As(err, &bad) {
		s.damageLogged.Do(func() {
			s.parent.cfg.Logger.Error(
				"a session is damaged and takes no events; the others go on: see hare repair --help",
				"session", s.id, "event", bad.Seq, "error", err)
		})
	}
	return err
}

// extend sets the last durable event and wakes the readers of the log.
func (s *Session) extend(last int64) {
	s.last.Store(last)
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	close(s.wake)
	s.wake = make(chan struct{})
}

// rowsAdded returns a channel that is closed when rows are added after this call.
func (s *Session) rowsAdded() <-chan struct{} {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	return s.wake
}

// Promise is the answer to an event that was submitted.
type Promise struct {
	event hare.Event
	view  func(*actor) // is called in place of applying an event
	done  chan struct{}

	answer    hare.Answer
	duplicate bool
	err       error
}

// Done returns a channel that is closed when the answer is there.
func (p *Promise) Done() <-chan struct{} { return p.done }

// Wait returns the answer once the event and its decisions are durable. An error says
// that the event was not accepted and changed nothing: *SequenceError, *ConflictError,
// *admission.LimitError, *hare.InvalidError (the policy refused the event, or the event's
// time goes back), *store.CorruptError, *QuarantineError, store.ErrNoSession, or
// admission.ErrDraining. After store.ErrStorage, and where ctx ended, the event may be
// recorded or not: sending the event again shows which. The decisions are read-only.
func (p *Promise) Wait(ctx context.Context) (hare.Answer, error) {
	select {
	case <-p.done:
		return p.answer, p.err
	default:
	}
	select {
	case <-p.done:
		return p.answer, p.err
	case <-ctx.Done():
		return hare.Answer{}, ctx.Err()
	}
}

// Duplicate says, once Done is closed, that the event had been recorded before and that
// the answer is the recorded one.
func (p *Promise) Duplicate() bool { return p.duplicate }

// actor holds the state of a session in memory. One goroutine applies events to the
// policy at once, and resolves the promises of a batch once the batch is durable:
// until then the policy is ahead of the log, and no caller sees the policy's state.
// One batch is written while the next batch fills.
type actor struct {
	session *Session
	inbox   chan *Promise
	left    chan struct{} // closed when the goroutine has ended
	evict   chan struct{} // asks the actor to end; where it cannot, it answers on stays
	stays   chan struct{}

	policy   online.Durable // nil: not loaded yet
	damage   error          // why the log cannot be loaded; a second try would not help
	links    store.Chain    // the end of the log, with the batches in memory
	atUs     int64          // time of the last event
	jobs     int64          // jobs that have not ended
	jobBytes int64          // what they are estimated to take in memory
	fresh    int            // events since the last snapshot
	retryAt  time.Time      // when events are accepted again after failure
	failure  error          // the last failure to write the log
	epoch    time.Time      // a reading of the server's clock, with the monotonic clock
	epochUs  int64          // the session's time at epoch

	filling *batch
	writing *batch // nil: nothing is being written
	step    [1]hare.Event
	row     []wire.Record // the last row that was read for a duplicate
	plans   planning
	// skipPlans leaves the plans of the log out while the log is read.
	skipPlans bool
	// told is what the scheduler of a helper says of the jobs.
	told map[string]sessiondoc.HelperJob
}

// batch holds what becomes durable together, and the promises that wait for it.
type batch struct {
	row       store.Row // without Data there is nothing to write
	snapshot  *store.Snapshot
	promises  []*Promise
	decisions []hare.Decision // memory of the promises' decisions
	planned   int64           // the last event that is recorded with a plan; 0: none
	done      chan error
}

func newActor(s *Session) *actor {
	return &actor{session: s, inbox: make(chan *Promise, s.parent.cfg.Window), left: make(chan struct{}),
		evict: make(chan struct{}), stays: make(chan struct{}, 1), filling: newBatch()}
}

func newBatch() *batch { return &batch{done: make(chan error, 1)} }

// planning is the part of an actor that gets plans for a policy that follows them. At most
// one of job, ready and taken is set: a question is asked once the plan before it is in
// the log.
type planning struct {
	job     *planJob  // the question that is being answered
	ready   []byte    // the plan that the policy takes before the next event
	askedAt time.Time // when the question of ready was asked
	taken   []byte    // the policy has taken the plan, and no event is recorded with it yet
	// hung is an abandoned question. Nothing is asked while its planner runs.
	hung *planJob
	// again is when a question may be asked after failures in a row; nil: at once.
	again    <-chan time.Time
	failures int
	counts   PlanCounts
	last     error // the last failure; nil after a plan was taken
	logged   map[PlanOutcome]bool
}

// PlanCounts counts plans since the session was brought into memory.
type PlanCounts struct {
	Made, Taken, Refused, Failed, Late, Panicked int64
}

// SetHooks sets the hooks. Calls that have begun may end without calling the new hooks.
func (ss *Sessions) SetHooks(h Hooks) { ss.hooks.Store(&h) }

// currentHooks returns the hooks of SetHooks; without them, hooks that do nothing.
func (ss *Sessions) currentHooks() *Hooks {
	if h := ss.hooks.Load(); h != nil {
		return h
	}
	return &Hooks{}
}

// QuarantineError says that the policy of a session panicked. The session takes no events
// until the server starts again. The session's log can be read, and the session can be
// deleted.
type QuarantineError struct {
	Session string
	Seq     int64 // the event at which the policy panicked; 0 where the policy handled no event
}

func (e *QuarantineError) Error() string {
	at := ""
	if e.Seq > 0 {
		at = fmt.Sprintf(" at event %d", e.Seq)
	}
	return fmt.Sprintf("the policy of session %s panicked%s: the session takes no events until the server starts "+
		"again; its log can be read", e.Session, at)
}

// kept is the part of an Outlook that the next one may have, too.
type kept struct {
	seq, atUs int64
	made      time.Time
	took      time.Duration
	// Planned says that the rows go by a plan.
	Planned bool
	// Rows are the jobs, those that wait in the order in which they are expected to start, or in which the policy
	// looks at them. They must not be written to.
	Rows []online.JobRow
	// Told is what the scheduler of a helper says of the jobs.
	Told map[string]sessiondoc.HelperJob
	at   map[string]int

	mu     sync.Mutex
	policy online.Observable // a copy that nobody else has
}

// forgetOutlook frees the memory of the last outlook.
func (s *Session) forgetOutlook() {
	if s.planMu.TryLock() { // whoever has it is making another one
		s.outlook = nil
		s.planMu.Unlock()
	}
}
