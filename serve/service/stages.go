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

// RunOptions holds the prices that a solve starts from and the functions that it calls
// as it runs.
type RunOptions struct {
	Warm       *hare.Certificate // starting prices; nil means none
	Progress   func(solver.Event)
	Checkpoint func(best func() (*hare.Result, error))
}

// Run runs a solve that has its slot, by run or, where run is nil, by the service's
// engine. An engine other than package solver ignores opts.
func (s *Service) Run(ctx context.Context, inst *hare.Instance, opt hare.Options, run RunFunc,
	opts RunOptions) (*hare.Result,
	error) {
	engine, ok := s.cfg.Engine.(solverEngine)
	if !ok && run == nil {
		return s.cfg.Engine.Solve(ctx, inst, opt)
	}
	cfg := engine.cfg
	if !ok {
		cfg = s.cfg.Solver
	}
	if run == nil {
		run = solver.Solve
	}
	cfg.WarmPrices, cfg.Progress, cfg.Checkpoint = opts.Warm, chainProgress(opts.Progress, progressOf(ctx)),
		opts.Checkpoint
	if cfg.Workers = s.workers(); cfg.Workers > 1 {
		return run(ctx, inst, opt, cfg)
	}
	return compute(func() (*hare.Result, error) { return run(ctx, inst, opt, cfg) })
}

// Solving calls Hooks.Solving: a solve begins to run. The solve runs with the returned
// context and calls ended with its outcome; both arguments are nil after a panic.
func (s *Service) Solving(ctx context.Context, inst *hare.Instance, opt hare.Options) (_ context.Context,
	ended func(*hare.Result, error)) {
	return s.currentHooks().solving(ctx, inst, opt)
}

// NoteCached calls Hooks.Cached after a look-up in the cache of answers.
func (s *Service) NoteCached(hit bool) { s.currentHooks().cached(hit) }

// NoteCommitted calls Hooks.Committed after a commit of a solve to the store, begun at
// began.
func (s *Service) NoteCommitted(ctx context.Context, began time.Time, bytes int, err error) {
	s.currentHooks().committed(ctx, began, bytes, err)
}
