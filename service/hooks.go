package service

import (
	"context"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/study"
)

// PhaseEvent is a state of a solve that runs, for callers that know nothing of
// package solver.
type PhaseEvent = solver.Event

// Hooks are called at what a Service does, for metrics, traces and logs, as
// those of net/http/httptrace are; nil ones are left out. They are called from
// the goroutines of the calls, so they must be quick and safe for concurrent
// use. No answer depends on them.
type Hooks struct {
	// Waited says that a call has waited for its place since began; err says
	// why it got none.
	Waited func(ctx context.Context, began time.Time, err error)
	// Solving says that a solve begins to run. The solve gets the context that
	// is returned. progress sees its states and may be nil; ended sees its
	// outcome, both nil after a panic.
	Solving func(ctx context.Context, inst *hare.Instance, opt hare.Options) (_ context.Context,
		progress func(solver.Event), ended func(*hare.Result, error))
	// Predicted compares the cost that admission went by with what it came to.
	Predicted func(predicted, took time.Duration)
	// Cached says that an answer was looked for among those before.
	Cached func(hit bool)
	// Simulated says that a simulation that had a place has ended; the answer is
	// nil where err is not.
	Simulated func(ctx context.Context, ans *study.Answer, took time.Duration, err error)
	// Committed says that what belongs to a solve has become durable since
	// began, or was refused; bytes is its size.
	Committed func(ctx context.Context, began time.Time, bytes int, err error)
}

// Watch sets the hooks. What began before may go on without them.
func (s *Service) Watch(h Hooks) { s.hooks.Store(&h) }

// watching is what Watch set, or no hooks.
func (s *Service) watching() *Hooks {
	if h := s.hooks.Load(); h != nil {
		return h
	}
	return &Hooks{}
}

func (h *Hooks) waited(ctx context.Context, began time.Time, err error) {
	if h.Waited != nil {
		h.Waited(ctx, began, err)
	}
}

// solving is Hooks.Solving; ended is never nil.
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

// WithProgress lets f see the states of solves under ctx, beside those who see
// them already.
func WithProgress(ctx context.Context, f func(solver.Event)) context.Context {
	return context.WithValue(ctx, progressKey{}, both(progressOf(ctx), f))
}

func progressOf(ctx context.Context) func(solver.Event) {
	f, _ := ctx.Value(progressKey{}).(func(solver.Event))
	return f
}

func both(f, g func(solver.Event)) func(solver.Event) {
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

// WithSolveID names the solve that runs under ctx, for traces and logs.
func WithSolveID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, solveKey{}, id)
}

// SolveID is that of WithSolveID, or "".
func SolveID(ctx context.Context) string {
	id, _ := ctx.Value(solveKey{}).(string)
	return id
}
