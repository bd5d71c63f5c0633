package service

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/whatif"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// CheckWhatIf is whatif.Check with a slot of the queue for the verifier.
func (s *Service) CheckWhatIf(ctx context.Context, req *whatifdoc.Request) error {
	return whatif.Check(req, func(inst *hare.Instance, res *hare.Result) (*verify.Report, error) {
		return s.Verify(ctx, inst, res, nil, nil)
	})
}

// WhatIf is whatif.Run, whose scenarios queue like other calls.
func (s *Service) WhatIf(ctx context.Context, req *whatifdoc.Request, emit func(*whatif.Line) error) error {
	return whatif.Run(ctx, req, batchEngine{s}, emit)
}

// batchEngine solves the scenarios of a what-if in the slots of a Service.
type batchEngine struct{ s *Service }

var _ whatif.Engine = batchEngine{}

// Slots implements whatif.Engine.
func (be batchEngine) Slots() int { return be.s.cfg.Running }

// Acquire implements whatif.Engine.
func (be batchEngine) Acquire(ctx context.Context, deadline time.Time) (
	work context.Context, leave func(), err error) {
	work, leave, _, err = be.s.acquireBy(ctx, deadline, true)
	return work, leave, err
}

// queueRetry is how long a scenario waits to queue again when the queue is full.
const queueRetry = 20 * time.Millisecond

// acquireBy waits for a slot until the deadline, or for Config.MaxTime where deadline
// is zero. With waitWhenFull the call waits also while the queue is full, since a batch
// that has begun has been admitted as a whole.
func (s *Service) acquireBy(ctx context.Context, deadline time.Time,
	waitWhenFull bool) (work context.Context, release func(), wait time.Duration, err error) {
	began := time.Now()
	if deadline.IsZero() {
		deadline = began.Add(s.cfg.MaxTime)
	}
	for {
		work, release, err = s.acquire(ctx, deadline)
		wait = time.Since(began)
		if !waitWhenFull || !errors.Is(err, admission.ErrBusy) {
			return work, release, wait, err
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

// Solve waits for a slot and solves. A time limit of opt includes the time in the
// queue.
func (be batchEngine) Solve(ctx context.Context, inst *hare.Instance, opt hare.Options,
	from whatif.Start) (res *hare.Result, wait time.Duration, err error) {
	s, deadline := be.s, from.Deadline
	if opt.TimeLimit > 0 && deadline.IsZero() {
		deadline = time.Now().Add(opt.TimeLimit)
	}
	work, leave, wait, err := s.acquireBy(ctx, deadline, from.WaitWhenFull)
	if err != nil {
		return nil, wait, err
	}
	defer leave()
	claim, bytes := admission.ClaimOf(ctx), admission.Footprint(inst)
	if err := claim.Grow(bytes); err != nil {
		return nil, wait, err
	}
	defer func() { _ = claim.Grow(-bytes) }()
	if opt.TimeLimit == 0 {
		deadline = time.Now().Add(s.cfg.MaxTime)
	}
	// Each solve of a batch has its own goroutine, where a panic would end the process.
	// The panic is turned into the failure of the scenario.
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, fmt.Errorf("service: a solve panicked: %v\n%s", p, debug.Stack())
		}
	}()
	res, err = s.Run(work, inst, opt, RunOptions{Deadline: deadline, Warm: from.Warm})
	return res, wait, err
}
