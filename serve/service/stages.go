package service

import (
	"context"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/solver"
)

// Package solves, whose work outlives the request that started it, takes the steps of a
// call one by one with the methods of this file: admit, enqueue, await a slot, run,
// release.

// MaxTime is the time limit of work that has no limit of its own.
func (s *Service) MaxTime() time.Duration { return s.cfg.MaxTime }

// Draining is closed when the service refuses new work.
func (s *Service) Draining() <-chan struct{} { return s.drain }

// Enqueue puts an admitted call into the queue. Await then waits for its slot.
func (s *Service) Enqueue(call admission.Call) *admission.Ticket { return s.queue.Enqueue(call) }

// Rank returns the position in the queue, counted from 1, that a call with this
// deadline would have now; 0 where a slot is free.
func (s *Service) Rank(deadline time.Time) int { return s.queue.Rank(deadline) }

// RunFunc solves an instance. It calls the hooks of cfg from one goroutine.
type RunFunc func(ctx context.Context, inst *hare.Instance, opt hare.Options, cfg solver.Config) (*hare.Result, error)

// RunOptions says how a solve runs that has its slot.
type RunOptions struct {
	// Call is the call as which the solve was admitted; a call without a cost was not admitted by its cost.
	Call admission.Call
	// Deadline ends the solve, which may end earlier by the time limit of its options.
	Deadline   time.Time
	Run        RunFunc           // the work; nil means the service's engine
	Warm       *hare.Certificate // starting prices; nil means none
	Progress   func(solver.Event)
	Checkpoint func(best func() (*hare.Result, error))
}

// Run runs a solve that has its slot. The result has the time limit that was asked for. The costs of later solves are
// predicted from the time of this one, unless its work is RunOptions.Run. An engine other than package solver takes
// neither prices nor functions.
func (s *Service) Run(ctx context.Context, inst *hare.Instance, opt hare.Options, run RunOptions) (res *hare.Result,
	err error) {
	asked := opt.TimeLimit
	if asked > 0 {
		opt.TimeLimit = max(admission.LeastTime, min(asked, time.Until(run.Deadline)))
	} else {
		// The work limit ends such a solve; the clock is only a safeguard.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, run.Deadline)
		defer cancel()
	}
	ctx, ended := s.currentHooks().solving(ctx, inst, opt)
	defer func() { ended(res, err) }() // nil and nil after a panic
	began := time.Now()
	res, err = s.compute(ctx, inst, opt, &run)
	if run.Run == nil && run.Call.Cost > 0 {
		s.learn(inst, opt, run.Call, res, time.Since(began))
	}
	if res != nil {
		res.Options.TimeLimit, res.Degraded = asked, run.Call.Degraded
	}
	return res, err
}

// compute does the work of Run.
func (s *Service) compute(ctx context.Context, inst *hare.Instance, opt hare.Options, run *RunOptions) (*hare.Result,
	error) {
	work := run.Run
	if work == nil {
		if s.cfg.Engine != nil {
			return s.cfg.Engine.Solve(ctx, inst, opt)
		}
		work = solver.Solve
	}
	cfg := s.cfg.Solver
	cfg.WarmPrices, cfg.Progress, cfg.Checkpoint = run.Warm, chainProgress(run.Progress, progressOf(ctx)), run.Checkpoint
	if cfg.Workers = s.workers(); cfg.Workers > 1 {
		return work(ctx, inst, opt, cfg)
	}
	return onThread(func() (*hare.Result, error) { return work(ctx, inst, opt, cfg) })
}

// NoteCached calls Hooks.Cached after a look-up in the cache of answers.
func (s *Service) NoteCached(hit bool) { s.currentHooks().cached(hit) }

// NoteCommitted calls Hooks.Committed after a commit of a solve to the store, begun at
// began.
func (s *Service) NoteCommitted(ctx context.Context, began time.Time, bytes int, err error) {
	s.currentHooks().committed(ctx, began, bytes, err)
}
