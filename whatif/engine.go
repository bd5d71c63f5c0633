package whatif

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/solver"
)

// Engine runs the computations of a batch: Local, or a server with a queue.
type Engine interface {
	// Slots is how many solves may run at a time.
	Slots() int
	// Acquire waits for a slot until the deadline; the zero deadline means a limit
	// of the engine's own. Acquire also waits while a queue is full, since a batch
	// is admitted as a whole. The computation must end with the context work, and
	// release gives the slot back. Where there is no slot in time the error is
	// admission.ErrLate, or the reason why there will be none.
	Acquire(ctx context.Context, deadline time.Time) (work context.Context, release func(), err error)
	// Solve waits for a slot and solves; wait is how long the call waited.
	Solve(ctx context.Context, inst *hare.Instance, opt hare.Options,
		from Start) (res *hare.Result, wait time.Duration, err error)
}

// Start holds the conditions under which a solve of a batch begins.
type Start struct {
	// Warm has the prices of a warm start; nil means a cold start.
	Warm *hare.Certificate
	// Deadline is the time by which the solve must have a slot and end; zero means
	// the time limit of the solve's options.
	Deadline time.Time
	// WaitWhenFull makes the solve wait while the queue is full; without it the
	// solve is refused then.
	WaitWhenFull bool
}

// Local is an Engine without a queue, in this process. The zero value solves one
// scenario at a time.
type Local struct {
	Solver solver.Config
	// Parallel is how many solves run at a time; zero means one.
	Parallel int
}

var _ Engine = Local{}

// Slots implements Engine.
func (l Local) Slots() int { return max(1, l.Parallel) }

// Acquire implements Engine. A slot is always free.
func (l Local) Acquire(ctx context.Context, _ time.Time) (context.Context, func(), error) {
	return ctx, func() {}, ctx.Err()
}

// Solve implements Engine.
func (l Local) Solve(ctx context.Context, inst *hare.Instance, opt hare.Options,
	from Start) (res *hare.Result, wait time.Duration, err error) {
	// Solves of a batch run in goroutines of their own, where a panic would end the
	// process. Here a panic fails only its own scenario.
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
