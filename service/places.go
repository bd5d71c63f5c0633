package service

import (
	"context"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/solver"
)

// This file is what package solves, whose work outlives its calls, needs of a
// Service step by step: a call is admitted, queues, waits, works and leaves.

// MaxTime is the limit of work that names none.
func (s *Service) MaxTime() time.Duration { return s.cfg.MaxTime }

// Draining is closed when no new work is taken.
func (s *Service) Draining() <-chan struct{} { return s.drain }

// Enqueue lets a call that was admitted wait for its place. Await gives the place.
func (s *Service) Enqueue(call admission.Call) *admission.Ticket { return s.queue.Enqueue(call) }

// Rank says how many would be served before a call of this deadline that came
// now, and itself; 0 where there is a place.
func (s *Service) Rank(deadline time.Time) int { return s.queue.Rank(deadline) }

// RunFunc solves. It calls the hooks of cfg from one goroutine.
type RunFunc func(ctx context.Context, inst *hare.Instance, opt hare.Options, cfg solver.Config) (*hare.Result, error)

// Watch is what a solve begins with, and who is told how it goes on.
type Watch struct {
	Warm       *hare.Certificate // has prices to start from; nil means none
	Progress   func(solver.Event)
	Checkpoint func(best func() (*hare.Result, error))
}

// Run does the work of a solve that has its place: run, or where that is nil the
// service's engine. An engine of the caller's own tells nothing to w.
func (s *Service) Run(ctx context.Context, inst *hare.Instance, opt hare.Options, run RunFunc, w Watch) (*hare.Result,
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
	cfg.WarmPrices, cfg.Progress, cfg.Checkpoint = w.Warm, both(w.Progress, progressOf(ctx)), w.Checkpoint
	return run(ctx, inst, opt, cfg)
}

// Solving tells the hooks that a solve begins to run. The solve gets the context
// that is returned; ended takes its outcome, both nil after a panic.
func (s *Service) Solving(ctx context.Context, inst *hare.Instance, opt hare.Options) (_ context.Context,
	ended func(*hare.Result, error)) {
	return s.watching().solving(ctx, inst, opt)
}

// NoteCached tells the hooks that an answer was looked for among those before.
func (s *Service) NoteCached(hit bool) { s.watching().cached(hit) }

// NoteCommitted tells the hooks that what belongs to a solve has become durable
// since began, or was refused.
func (s *Service) NoteCommitted(ctx context.Context, began time.Time, bytes int, err error) {
	s.watching().committed(ctx, began, bytes, err)
}
