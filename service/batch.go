package service

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/whatif"
)

// CheckWhatIf is whatif.Check, with a place for the verifier.
func (s *Service) CheckWhatIf(ctx context.Context, req *whatif.Request) error {
	return whatif.Check(req, func(inst *hare.Instance, res *hare.Result) (*verify.Report, error) {
		return s.Verify(ctx, inst, res, nil, nil)
	})
}

// WhatIf is whatif.Run, whose scenarios queue as other calls do.
func (s *Service) WhatIf(ctx context.Context, req *whatif.Request, emit func(*whatif.Line) error) error {
	return whatif.Run(ctx, req, batchEngine{s}, emit)
}

// batchEngine is what a what-if computes with.
type batchEngine struct{ s *Service }

var _ whatif.Engine = batchEngine{}

// Slots implements Engine.
func (e batchEngine) Slots() int { return e.s.cfg.Running }

// Acquire implements Engine.
func (e batchEngine) Acquire(ctx context.Context, deadline time.Time) (work context.Context, leave func(), err error) {
	work, leave, _, err = e.s.place(ctx, deadline, true)
	return work, leave, err
}

// warmEngine is an Engine that can start from the prices of another solve.
type warmEngine interface {
	SolveWarm(ctx context.Context, inst *hare.Instance, opt hare.Options, warm *hare.Certificate) (*hare.Result, error)
}

var _ warmEngine = solverEngine{}

func (e solverEngine) SolveWarm(ctx context.Context, inst *hare.Instance, opt hare.Options,
	warm *hare.Certificate) (*hare.Result, error) {
	cfg := e.cfg
	cfg.Progress, cfg.WarmPrices = both(cfg.Progress, progressOf(ctx)), warm
	return solver.Solve(ctx, inst, opt, cfg)
}

// queueRetry is how long a scenario waits to queue again when the queue is full.
const queueRetry = 20 * time.Millisecond

// place waits for a slot of the queue until the deadline, or for Config.MaxTime
// where deadline is zero. With waitWhenFull the call waits also while the queue is
// full: a batch that has begun has been admitted as a whole.
func (s *Service) place(ctx context.Context, deadline time.Time,
	waitWhenFull bool) (work context.Context, leave func(), wait time.Duration, err error) {
	began := time.Now()
	if deadline.IsZero() {
		deadline = began.Add(s.cfg.MaxTime)
	}
	for {
		work, leave, err = s.enter(ctx, deadline)
		wait = time.Since(began)
		if !waitWhenFull || !errors.Is(err, admission.ErrBusy) {
			return work, leave, wait, err
		}
		if time.Until(deadline) < queueRetry {
			return nil, nil, wait, admission.ErrLate
		}
		select {
		case <-ctx.Done():
			return nil, nil, wait, ctx.Err()
		case <-time.After(queueRetry):
		}
	}
}

// Solve queues and solves. A time limit of opt covers the queue too.
func (e batchEngine) Solve(ctx context.Context, inst *hare.Instance, opt hare.Options,
	from whatif.Start) (res *hare.Result, wait time.Duration, err error) {
	s, deadline := e.s, from.Deadline
	if opt.TimeLimit > 0 && deadline.IsZero() {
		deadline = time.Now().Add(opt.TimeLimit)
	}
	work, leave, wait, err := s.place(ctx, deadline, from.WaitWhenFull)
	if err != nil {
		return nil, wait, err
	}
	defer leave()
	if opt.TimeLimit > 0 {
		opt.TimeLimit = max(admission.LeastTime, min(opt.TimeLimit, time.Until(deadline)))
	} else {
		var cancel context.CancelFunc
		work, cancel = context.WithTimeout(work, s.cfg.MaxTime)
		defer cancel()
	}
	work, ended := s.watching().solving(work, inst, opt)
	defer func() { ended(res, err) }()
	// Solves of a batch have goroutines of their own, where a panic would end the
	// process: it fails its scenario.
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, fmt.Errorf("service: a solve panicked: %v\n%s", p, debug.Stack())
		}
	}()
	if e, ok := s.cfg.Engine.(warmEngine); ok && from.Warm != nil {
		res, err = e.SolveWarm(work, inst, opt, from.Warm)
	} else {
		res, err = s.cfg.Engine.Solve(work, inst, opt)
	}
	return res, wait, err
}
