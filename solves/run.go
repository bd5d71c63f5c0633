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
func (s *Solves) start(ctx context.Context, e *solve) {
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	e.mu.Lock()
	e.place.Deadline = e.deadline()
	e.turn = s.svc.Enqueue(e.place)
	e.cancel = cancel
	if e.next.Cancelled {
		cancel(errCancelled) // before it could begin
	}
	e.mu.Unlock()
	go func() {
		defer s.work.Done()
		e.life(life)
		cancel(nil)
		e.release()
		e.mu.Lock()
		e.cancel, e.run, e.after, e.inst, e.warm = nil, nil, nil, nil, nil
		e.mu.Unlock()
	}()
}

// attach ties an attached solve to one more call.
func (e *solve) attach(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.next.Attached || store.Finished(e.next.Status) {
		return
	}
	e.attached++
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.attached--; e.attached == 0 && e.cancel != nil {
			e.cancel(errCancelled)
		}
	})
}

// parks says that the solve waits for the next start of the server when this
// one ends, in place of ending with it.
func (e *solve) parks() bool { return e.s.cfg.Store.Durable() && !e.next.Attached }

// life is the life of a solve: it waits, runs, and ends.
func (e *solve) life(ctx context.Context) {
	var quit <-chan struct{}
	if e.parks() {
		quit = e.s.svc.Draining()
	}
	work, leave, err := e.s.svc.Await(ctx, e.turn, quit)
	if err != nil {
		e.unserved(err)
		return
	}
	e.mu.Lock()
	e.next.StartedUs = micros(e.s.cfg.Now())
	e.next.Status = StatusRunning
	e.tell(e.event(Event{Type: EventStatus, Status: StatusRunning}))
	e.mu.Unlock()
	res, err := e.compute(work)
	drained := errors.Is(context.Cause(work), admission.ErrDraining)
	leave()
	if drained && e.parks() && (res == nil || res.Termination == hare.TerminationCancelled) {
		if res != nil {
			e.save(res)
		}
		e.park()
		return
	}
	e.finish(res, err)
}

// unserved ends a solve whose wait for a place ended without one.
func (e *solve) unserved(err error) {
	switch {
	case errors.Is(err, admission.ErrDraining) && e.parks():
		e.park()
		return
	case errors.Is(err, admission.ErrLate):
		err = fmt.Errorf("%w: allow more time, or try when less is going on", admission.ErrLate)
	case errors.Is(err, admission.ErrDraining):
		err = errors.New("the server was shut down before the solve began")
	default:
		err = nil
	}
	e.finish(nil, err)
}

// park leaves the solve to the next start.
func (e *solve) park() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.parked = true
	e.broadcast()
}

// broadcast wakes all who look on, with the lock held.
func (e *solve) broadcast() {
	close(e.wake)
	e.wake = make(chan struct{})
}

// compute runs the work. A panic in it is an error of this solve alone.
func (e *solve) compute(ctx context.Context) (res *hare.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			e.s.cfg.Logger.Error("a solve panicked", "solve", e.id, "panic", p, "stack", string(debug.Stack()))
			res, err = nil, errInternal
		}
	}()
	inst, err := e.instance(ctx)
	if err != nil {
		return nil, err
	}
	opt := hare.Options(e.next.Options)
	asked, deadline := opt.TimeLimit, e.deadline()
	if asked > 0 {
		opt.TimeLimit = max(admission.LeastTime, time.Until(deadline))
	} else {
		// A work limit decides then; the clock only guards.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	ctx, ended := e.s.svc.Solving(service.WithSolveID(ctx, e.id), inst, opt)
	defer func() { ended(res, err) }()
	w := &e.watch
	w.begin(e)
	began := time.Now()
	res, err = e.s.svc.Run(ctx, inst, opt, e.run, service.Watch{Warm: e.warm, Progress: w.progress, Checkpoint: w.checkpoint})
	if e.run == nil {
		e.s.svc.Learn(inst, opt, e.place, res, time.Since(began))
	}
	if res != nil {
		res.Options.TimeLimit, res.Degraded = asked, e.next.Degraded
	}
	return res, err
}

// errInternal is what callers are told of defects, which the log describes.
var errInternal = errors.New("an internal error, logged under the id of the solve")
