package service

import (
	"context"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/study"
	"github.com/hare-sched/hare/solver"
)

// PhaseEvent is an event of a running solve, for callers that do not import package
// solver.
type PhaseEvent = solver.Event

// Hooks are functions that a Service calls for metrics, traces and logs, like those of
// net/http/httptrace. Nil hooks are not called. Hooks run in the goroutines of the
// calls, so they must be fast and safe for concurrent use. No answer depends on a hook.
type Hooks struct {
	// Waited is called when a call has waited for its slot since began; err is the
	// reason why the call got no slot.
	Waited func(ctx context.Context, began time.Time, err error)
	// Solving is called when a solve begins to run. The solve runs with the returned
	// context. The solve calls progress, which may be nil, with each of its events, and
	// ended with its outcome; both arguments are nil after a panic.
	Solving func(ctx context.Context, inst *hare.Instance, opt hare.Options) (_ context.Context,
		progress func(solver.Event), ended func(*hare.Result, error))
	// Predicted is called with the cost by which a call was admitted and its actual
	// cost.
	Predicted func(predicted, took time.Duration)
	// Cached is called after each look-up in the cache of answers.
	Cached func(hit bool)
	// Simulated is called when an admitted simulation has ended; ans is nil where err
	// is not.
	Simulated func(ctx context.Context, ans *study.Answer, took time.Duration, err error)
	// Committed is called when a commit of a solve to the store, begun at began, has
	// succeeded or failed; bytes is its size.
	Committed func(ctx context.Context, began time.Time, bytes int, err error)
}

func (h *Hooks) waited(ctx context.Context, began time.Time, err error) {
	if h.Waited != nil {
		h.Waited(ctx, began, err)
	}
}

// solving calls Hooks.Solving; the ended that it returns is never nil.
func (h *Hooks) solving(ctx context.Context, inst *hare.Instance, opt hare.Options) (_ context.Context,
	ended func(*hare.Result, error)) {
	if h.Solving == nil {
		return ctx, func(*hare.Result, error) {}
	}
	ctx, progress, ended := h.Solving(ctx, inst, opt)
	if progress != nil {
		ctx = WithProgress(ctx, progress)
	}
	return ctx, ended
}

func (h *Hooks) predicted(predicted, took time.Duration) {
	if h.Predicted != nil {
		h.Predicted(predicted, took)
	}
}

func (h *Hooks) cached(hit bool) {
	if h.Cached != nil {
		h.Cached(hit)
	}
}

func (h *Hooks) simulated(ctx context.Context, ans *study.Answer, took time.Duration, err error) {
	if h.Simulated != nil {
		h.Simulated(ctx, ans, took, err)
	}
}

func (h *Hooks) committed(ctx context.Context, began time.Time, bytes int, err error) {
	if h.Committed != nil {
		h.Committed(ctx, began, bytes, err)
	}
}

type (
	progressKey struct{}
	solveKey    struct{}
)

// WithProgress adds f to the functions that are called with the events of solves under
// ctx.
func WithProgress(ctx context.Context, f func(solver.Event)) context.Context {
	return context.WithValue(ctx, progressKey{}, chainProgress(progressOf(ctx), f))
}

func progressOf(ctx context.Context) func(solver.Event) {
	f, _ := ctx.Value(progressKey{}).(func(solver.Event))
	return f
}

func chainProgress(f, g func(solver.Event)) func(solver.Event) {
	if f == nil {
		return g
	}
	if g == nil {
		return f
	}
	return func(e solver.Event) {
		f(e)
		g(e)
	}
}

// WithSolveID sets the id, in traces and logs, of the solve that runs under ctx.
func WithSolveID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, solveKey{}, id)
}

// SolveID returns the id that WithSolveID set, or "".
func SolveID(ctx context.Context) string {
	id, _ := ctx.Value(solveKey{}).(string)
	return id
}
