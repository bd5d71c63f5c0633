package sessions

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/store"
)

// Session is one online session. What it needs of memory while nobody uses it
// is this struct; an actor holds its state. Safe for concurrent use.
type Session struct {
	parent *Sessions
	id     string
	meta   store.Meta
	cfg    SessionConfig
	damage error // its configuration is damaged
	last   atomic.Int64

	release func()       // of its place in the tenant's quota
	stored  atomic.Int64 // bytes of its log that count for the tenant

	// mu is held for reading while something is put in the inbox of the actor,
	// so that an actor that gets hold of it for writing can leave.
	mu    sync.RWMutex
	actor *actor

	quarantine atomic.Pointer[QuarantineError] // nil: the policy never panicked

	damageLogged sync.Once // of damage
	once         sync.Once
	ended        error         // why nothing more is taken; set before gone is closed
	gone         chan struct{} // closed when nothing more is taken

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

// store counts bytes that its log has more than before.
func (s *Session) store(bytes int64) {
	s.stored.Add(bytes)
	s.parent.cfg.Quotas.Stored(s.cfg.tenant, bytes)
}

// Submit hands over one event, to be applied behind those submitted before. It
// waits while the window is full, and does not wait for the answer: thousands
// of events may be on their way. An event that is refused does not hold up
// those behind it, which are refused with *SequenceError where they build on it.
func (s *Session) Submit(ctx context.Context, event hare.Event) (*Promise, error) {
	p := &Promise{event: event, done: make(chan struct{})}
	if err := s.enqueue(ctx, p); err != nil {
		return nil, err
	}
	return p, nil
}

// View calls f with the policy, after the events that were submitted before,
// and returns once these are durable. What f learned counts only if View
// returns nil. f runs between two events and must be quick and change nothing.
func (s *Session) View(ctx context.Context, f func(policy online.Durable)) error {
	p := &Promise{view: f, done: make(chan struct{})}
	if err := s.enqueue(ctx, p); err != nil {
		return err
	}
	// f writes the caller's variables: no leaving before it has run.
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
		err := s.start()
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

// noted passes an error on, and tells the operator of the first damage.
func (s *Session) noted(err error) error {
	var bad *store.CorruptError
	if errors.As(err, &bad) {
		s.damageLogged.Do(func() {
			s.parent.cfg.Logger.Error("a session is damaged and takes no events; the others go on: see hare repair --help",
				"session", s.id, "event", bad.Seq, "error", err)
		})
	}
	return err
}

// start brings the session into memory.
func (s *Session) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gone:
		return s.ended
	default:
	}
	if s.actor == nil {
		s.actor = newActor(s)
		s.parent.actors.Add(1)
		go s.actor.run()
	}
	return nil
}

// finish lets the actor end after what it has in hand, and none start again.
func (s *Session) finish(why error) {
	s.once.Do(func() {
		s.ended = why
		close(s.gone)
	})
	s.mu.Lock() // a start that did not see it is over then
	defer s.mu.Unlock()
}

// stop is finish, and waits until the actor has ended.
func (s *Session) stop(why error) {
	s.finish(why)
	s.mu.RLock()
	a := s.actor
	s.mu.RUnlock()
	if a != nil {
		<-a.left
	}
}

// added wakes those who wait for rows behind the ones that they have read.
func (s *Session) added(last int64) {
	s.last.Store(last)
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	close(s.wake)
	s.wake = make(chan struct{})
}

// more is closed when rows are added after this call.
func (s *Session) more() <-chan struct{} {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	return s.wake
}
