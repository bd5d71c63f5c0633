package solves

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/store"
)

// start lets a solve that is durable and admitted line up and run. It has the
// values of ctx, for traces, and not its end.
func (ss *Solves) start(ctx context.Context, s *solve) {
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.mu.Lock()
	s.place.Deadline = s.deadline()
	s.turn = ss.svc.Enqueue(s.place)
	s.cancel = cancel
	if s.next.Cancelled {
		cancel(errCancelled) // before it could begin
	}
	s.mu.Unlock()
	go func() {
		defer ss.work.Done()
		s.life(life)
		cancel(nil)
		s.release()
		s.mu.Lock()
		s.cancel, s.run, s.after, s.inst, s.warm = nil, nil, nil, nil, nil
		s.mu.Unlock()
	}()
}

// attach ties an attached solve to one more call.
func (s *solve) attach(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.next.Attached || store.Finished(s.next.Status) {
		return
	}
	s.attached++
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.attached--; s.attached == 0 && s.cancel != nil {
			s.cancel(errCancelled)
		}
	})
}

// parks says that the solve waits for the next start of the server when this
// one ends, in place of ending with it.
func (s *solve) parks() bool { return s.parent.cfg.Store.Durable() && !s.next.Attached }

// life is the life of a solve: it waits, runs, and ends.
func (s *solve) life(ctx context.Context) {
	var quit <-chan struct{}
	if s.parks() {
		quit = s.parent.svc.Draining()
	}
	work, leave, err := s.parent.svc.Await(ctx, s.turn, quit)
	if err != nil {
		s.unserved(err)
		return
	}
	s.mu.Lock()
	s.next.StartedUs = micros(s.parent.cfg.Now())
	s.next.Status = StatusRunning
	s.tell(s.event(Event{Type: EventStatus, Status: StatusRunning}))
	s.mu.Unlock()
	res, err := s.compute(work)
	drained := errors.Is(context.Cause(work), admission.ErrDraining)
	leave()
	if drained && s.parks() && (res == nil || res.Termination == hare.TerminationCancelled) {
		if res != nil {
			s.save(res)
		}
		s.park()
		return
	}
	s.finish(res, err)
}

// unserved ends a solve whose wait for a place ended without one.
func (s *solve) unserved(err error) {
	switch {
	case errors.Is(err, admission.ErrDraining) && s.parks():
		s.park()
		return
	case errors.Is(err, admission.ErrLate):
		err = fmt.Errorf("%w: allow more time, or try when less is going on", admission.ErrLate)
	case errors.Is(err, admission.ErrDraining):
		err = errors.New("the server was shut down before the solve began")
	default:
		err = nil
	}
	s.finish(nil, err)
}

// park leaves the solve to the next start.
func (s *solve) park() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parked = true
	s.broadcast()
}

// broadcast wakes all who look on, with the lock held.
func (s *solve) broadcast() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// compute runs the work. A panic in it is an error of this solve alone.
func (s *solve) compute(ctx context.Context) (res *hare.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.parent.cfg.Logger.Error("a solve panicked", "solve", s.id, "panic", p, "stack", string(debug.Stack()))
			res, err = nil, errInternal
		}
	}()
	inst, err := s.instance(ctx)
	if err != nil {
		return nil, err
	}
	opt := hare.Options(s.next.Options)
	asked, deadline := opt.TimeLimit, s.deadline()
	if asked > 0 {
		opt.TimeLimit = max(admission.LeastTime, time.Until(deadline))
	} else {
		// A work limit decides then; the clock only guards.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	ctx, ended := s.parent.svc.Solving(service.WithSolveID(ctx, s.id), inst, opt)
	defer func() { ended(res, err) }()
	w := &s.reporter
	w.begin(s)
	began := time.Now()
	res, err = s.parent.svc.Run(ctx, inst, opt, s.run,
		service.RunOptions{Warm: s.warm, Progress: w.progress, Checkpoint: w.checkpoint})
	if s.run == nil {
		s.parent.svc.Learn(inst, opt, s.place, res, time.Since(began))
	}
	if res != nil {
		res.Options.TimeLimit, res.Degraded = asked, s.next.Degraded
	}
	return res, err
}

// errInternal is what callers are told of defects, which the log describes.
var errInternal = errors.New("an internal error, logged under the id of the solve")
