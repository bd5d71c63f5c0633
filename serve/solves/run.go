package solves

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/store"
)

// start puts an admitted solve into the queue and runs it. The solve's context
// has the values of ctx, for traces, but does not end with ctx.
func (ss *Solves) start(ctx context.Context, s *solve) {
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.mu.Lock()
	s.call.Deadline = s.deadline()
	s.ticket = ss.svc.Enqueue(s.call)
	s.cancel = cancel
	if s.next.Cancelled {
		cancel(errCancelled) // cancelled before it began
	}
	s.mu.Unlock()
	go func() {
		defer ss.work.Done()
		s.execute(life)
		cancel(nil)
		s.release()
		s.mu.Lock()
		s.cancel, s.run, s.replan, s.inst, s.warm = nil, nil, nil, nil, nil
		s.mu.Unlock()
	}()
}

// attach ties an attached solve to one more call: the solve is cancelled when the last of
// its calls has ended.
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

// suspendable says that the solve goes on at the next start of the server when this
// server ends. Other solves end with the server.
func (s *solve) suspendable() bool { return s.parent.cfg.Store.Durable() && !s.next.Attached }

// execute waits for a slot, runs the solve and ends it.
func (s *solve) execute(ctx context.Context) {
	var quit <-chan struct{}
	if s.suspendable() {
		quit = s.parent.svc.Draining()
	}
	queued := s.parent.cfg.Now()
	work, leave, err := s.parent.svc.Await(ctx, s.ticket, quit)
	if err != nil {
		s.finishUnstarted(err)
		return
	}
	s.mu.Lock()
	now := s.parent.cfg.Now()
	if s.call.Patient {
		s.next.BeganUs += max(0, now.Sub(queued).Microseconds()) // the time limit does not count the wait
	}
	s.next.StartedUs = micros(now)
	s.next.Status = StatusRunning
	s.logEvents(s.event(Event{Type: EventStatus, Status: StatusRunning}))
	s.mu.Unlock()
	res, err := s.compute(work)
	drained := errors.Is(context.Cause(work), admission.ErrDraining)
	leave()
	if drained && s.suspendable() && (res == nil || res.Termination == hare.TerminationCancelled) {
		if res != nil {
			s.save(res)
		}
		s.suspend()
		return
	}
	s.finish(res, err)
}

// finishUnstarted ends a solve that got no slot.
func (s *solve) finishUnstarted(err error) {
	switch {
	case errors.Is(err, admission.ErrDraining) && s.suspendable():
		s.suspend()
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

// compute runs the work. A panic of the work is an error of this solve alone.
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
	r := &s.reporter
	r.begin(s)
	return s.parent.svc.Run(service.WithSolveID(ctx, s.id), inst, hare.Options(s.next.Options),
		service.RunOptions{Call: s.call, Deadline: s.deadline(), Run: s.run, Warm: s.warm, Progress: r.progress,
			Checkpoint: r.checkpoint})
}

// errInternal is what callers see of a defect; the log has the details.
var errInternal = errors.New("an internal error, logged under the id of the solve")
