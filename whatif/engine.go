package whatif

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/solver"
)

// Engine is what a batch computes with: Local, or the places of a server.
type Engine interface {
	// Places is how many solves may run at a time.
	Places() int
	// Place waits for a place to work in, no longer than until deadline, zero
	// meaning a limit of the engine's own. It goes on waiting while a queue is
	// full: a batch that has begun has been admitted as a whole. The work must end
	// with the context that is returned, and leave gives the place back. Without a
	// place the error is admission.ErrLate, or why there will be none.
	Place(ctx context.Context, deadline time.Time) (work context.Context, leave func(), err error)
	// Solve waits for a place and solves; wait is how long it waited.
	Solve(ctx context.Context, inst *hare.Instance, opt hare.Options, from Start) (res *hare.Result, wait time.Duration, err error)
}

// Start says how a solve of a batch begins.
type Start struct {
	// Warm has prices to start from; nil means none.
	Warm *hare.Certificate
	// Deadline is by when the solve must have a place and end; zero means the time
	// limit of its options.
	Deadline time.Time
	// Patient solves wait while the queue is full, where others are refused.
	Patient bool
}

// Local is an Engine without a queue. The zero value solves one scenario at a
// time.
type Local struct {
	Solver solver.Config
	// Parallel is how many solves run at a time; zero means one.
	Parallel int
}

var _ Engine = Local{}

// Places implements Engine.
func (l Local) Places() int { return max(1, l.Parallel) }

// Place implements Engine. There is always a place.
func (l Local) Place(ctx context.Context, _ time.Time) (context.Context, func(), error) {
	return ctx, func() {}, ctx.Err()
}

// Solve implements Engine.
func (l Local) Solve(ctx context.Context, inst *hare.Instance, opt hare.Options, from Start) (res *hare.Result, wait time.Duration, err error) {
	// Solves of a batch have goroutines of their own, where a panic would end the
	// process: a panic fails its scenario alone.
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, fmt.Errorf("whatif: a solve panicked: %v\n%s", p, debug.Stack())
		}
	}()
	if opt.TimeLimit > 0 {
		if !from.Deadline.IsZero() {
			opt.TimeLimit = min(opt.TimeLimit, time.Until(from.Deadline))
		}
		opt.TimeLimit = max(admission.LeastTime, opt.TimeLimit)
	}
	cfg := l.Solver
	cfg.WarmPrices = from.Warm
	res, err = solver.Solve(ctx, inst, opt, cfg)
	return res, 0, err
}
