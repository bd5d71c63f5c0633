package sessions

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/store"
)

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

	wakeMu sync.Mutex
	wake   chan struct{} // closed and replaced when rows were added
}

// ID names the session.
func (s *Session) ID() string { return s.id }

// Info describes the session.
func (s *Session) Info() Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Info{ID: s.id, Created: s.meta.Created, Config: s.cfg, Last: s.last.Load(), Active: s.actor != nil}
}

// Keep says that the session is that of a managed cluster: what it stores and takes in memory counts for its tenant,
// and its events are never refused for that, so that jobs that were accepted go on and end.
func (s *Session) Keep() { s.kept.Store(true) }

// countStored counts bytes by which the log has grown.
func (s *Session) countStored(bytes int64) {
	s.stored.Add(bytes)
	s.parent.cfg.Quotas.Stored(s.cfg.tenant, bytes)
}

// Submit hands over one event, which is applied after the events that were submitted
// before. Submit waits while the window is full but does not wait for the answer:
// thousands of events may be on their way. A refused event does not hold up later events;
// those that depend on the refused event are refused with *SequenceError.
func (s *Session) Submit(ctx context.Context, event hare.Event) (*Promise, error) {
	p := &Promise{event: event, done: make(chan struct{})}
	if err := s.enqueue(ctx, p); err != nil {
		return nil, err
	}
	return p, nil
}

// View calls f with the policy, after the events that were submitted before, and returns
// once those events are durable. What f learned counts only if View returns nil. f runs
// between two events, must be quick and must not change the policy.
func (s *Session) View(ctx context.Context, f func(policy online.Durable)) error {
	return s.look(ctx, func(a *actor) { f(a.policy) })
}

// look is View with the whole actor.
func (s *Session) look(ctx context.Context, f func(*actor)) error {
	p := &Promise{view: f, done: make(chan struct{})}
	if err := s.enqueue(ctx, p); err != nil {
		return err
	}
	// f writes the caller's variables, so View does not return before f has run.
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		<-p.done
		return ctx.Err()
	}
}

func (s *Session) enqueue(ctx context.Context, p *Promise) error {
	if s.damage != nil {
		return s.damage
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for s.actor == nil {
		s.mu.RUnlock()
		err := s.start(ctx)
		s.mu.RLock()
		if err != nil {
			return err
		}
	}
	select {
	case <-s.gone:
		return s.ended
	default:
	}
	select {
	case s.actor.inbox <- p:
		return nil
	case <-s.gone:
		return s.ended
	case <-ctx.Done():
		return ctx.Err()
	}
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

// start makes the session's actor and starts its goroutine, if there is room in memory.
func (s *Session) start(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.mu.RLock()
	started := s.actor != nil
	s.mu.RUnlock()
	if started {
		return nil
	}
	bytes, err := s.claim(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gone:
		s.parent.memory.add(s.cfg.tenant, -bytes)
		return s.ended
	default:
	}
	s.used.Store(time.Now().UnixNano())
	s.claimed.Store(bytes)
	s.actor = newActor(s)
	s.parent.actors.Add(1)
	go s.actor.run()
	return nil
}

// finish lets the actor end after the promises that it has, and lets no actor start
// again.
func (s *Session) finish(why error) {
	s.once.Do(func() {
		s.ended = why
		close(s.gone)
	})
	s.mu.Lock() // waits for a concurrent start that did not see the end
	defer s.mu.Unlock()
}

// stop calls finish and waits until the actor has ended.
func (s *Session) stop(why error) {
	s.finish(why)
	s.mu.RLock()
	a := s.actor
	s.mu.RUnlock()
	if a != nil {
		<-a.left
	}
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
