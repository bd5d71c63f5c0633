package sessions

import (
	"context"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// ID names the session.
func (s *Session) ID() string { return s.id }

// Info describes the session.
func (s *Session) Info() Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Info{ID: s.id, Created: s.meta.Created, Config: s.cfg, Last: s.last.Load(),
		Active: s.actor != nil || s.followed != nil, Followed: s.followed.description(s.parent.cfg.Now())}
}

// Keep says that the session is that of a managed cluster: what it stores and takes in memory counts for its tenant,
// and its events are never refused for that, so that jobs that were accepted go on and end.
func (s *Session) Keep() { s.kept.Store(true) }

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
	if s.followed != nil {
		return s.followed.view(f)
	}
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
	if s.followed != nil {
		return &FollowedError{s.followed.helper}
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
