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
	s      *Sessions
	id     string
	meta   store.Meta
	cfg    SessionConfig
	broken error // its configuration is damaged
	last   atomic.Int64

	release func()       // of its place in the tenant's quota
	stored  atomic.Int64 // bytes of its log that count for the tenant

	// mu is held for reading while something is put in the inbox of the actor,
	// so that an actor that gets hold of it for writing can leave.
	mu    sync.RWMutex
	actor *actor

	quarantine atomic.Pointer[QuarantineError] // nil: the policy never panicked

	told  sync.Once // of damage
	once  sync.Once
	ended error         // why nothing more is taken; set before gone is closed
	gone  chan struct{} // closed when nothing more is taken

	wakeMu sync.Mutex
	wake   chan struct{} // closed and replaced when rows were added
}

// ID names the session.
func (e *Session) ID() string { return e.id }

// Info describes the session.
func (e *Session) Info() Info {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return Info{ID: e.id, Created: e.meta.Created, Config: e.cfg, Last: e.last.Load(), Active: e.actor != nil}
}

// store counts bytes that its log has more than before.
func (e *Session) store(bytes int64) {
	e.stored.Add(bytes)
	e.s.cfg.Quotas.Stored(e.cfg.tenant, bytes)
}

// Submit hands over one event, to be applied behind those submitted before. It
// waits while the window is full, and does not wait for the answer: thousands
// of events may be on their way. An event that is refused does not hold up
// those behind it, which are refused with *SequenceError where they build on it.
func (e *Session) Submit(ctx context.Context, event hare.Event) (*Promise, error) {
	p := &Promise{event: event, done: make(chan struct{})}
	if err := e.enqueue(ctx, p); err != nil {
		return nil, err
	}
	return p, nil
}

// View calls f with the policy, after the events that were submitted before,
// and returns once these are durable. What f learned counts only if View
// returns nil. f runs between two events and must be quick and change nothing.
func (e *Session) View(ctx context.Context, f func(policy online.Durable)) error {
	p := &Promise{view: f, done: make(chan struct{})}
	if err := e.enqueue(ctx, p); err != nil {
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

func (e *Session) enqueue(ctx context.Context, p *Promise) error {
	if e.broken != nil {
		return e.broken
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for e.actor == nil {
		e.mu.RUnlock()
		err := e.start()
		e.mu.RLock()
		if err != nil {
			return err
		}
	}
	select {
	case <-e.gone:
		return e.ended
	default:
	}
	select {
	case e.actor.inbox <- p:
		return nil
	case <-e.gone:
		return e.ended
	case <-ctx.Done():
		return ctx.Err()
	}
}

// noted passes an error on, and tells the operator of the first damage.
func (e *Session) noted(err error) error {
	var bad *store.CorruptError
	if errors.As(err, &bad) {
		e.told.Do(func() {
			e.s.cfg.Logger.Error("a session is damaged and takes no events; the others go on: see hare repair --help",
				"session", e.id, "event", bad.Seq, "error", err)
		})
	}
	return err
}

// start brings the session into memory.
func (e *Session) start() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.gone:
		return e.ended
	default:
	}
	if e.actor == nil {
		e.actor = newActor(e)
		e.s.actors.Add(1)
		go e.actor.run()
	}
	return nil
}

// finish lets the actor end after what it has in hand, and none start again.
func (e *Session) finish(why error) {
	e.once.Do(func() {
		e.ended = why
		close(e.gone)
	})
	e.mu.Lock() // a start that did not see it is over then
	defer e.mu.Unlock()
}

// stop is finish, and waits until the actor has ended.
func (e *Session) stop(why error) {
	e.finish(why)
	e.mu.RLock()
	a := e.actor
	e.mu.RUnlock()
	if a != nil {
		<-a.left
	}
}

// added wakes those who wait for rows behind the ones that they have read.
func (e *Session) added(last int64) {
	e.last.Store(last)
	e.wakeMu.Lock()
	defer e.wakeMu.Unlock()
	close(e.wake)
	e.wake = make(chan struct{})
}

// more is closed when rows are added after this call.
func (e *Session) more() <-chan struct{} {
	e.wakeMu.Lock()
	defer e.wakeMu.Unlock()
	return e.wake
}
