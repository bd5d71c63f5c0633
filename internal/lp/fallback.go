package lp

import (
	"context"
	"errors"
)

// Fallback solves by Primary, and by a Simplex of its own if Primary answers
// ErrUnavailable. The two may find different optima. A Fallback must not be used by
// several goroutines at once.
type Fallback struct {
	Primary Solver
	// Fallbacks counts the problems for which Primary was not available.
	Fallbacks int64
	simplex   Simplex
}

var _ Solver = (*Fallback)(nil)

// Solve solves p by Primary or by the simplex method.
func (f *Fallback) Solve(ctx context.Context, p *Problem) (*Solution, error) {
	sol, err := f.Primary.Solve(ctx, p)
	if errors.Is(err, ErrUnavailable) {
		f.Fallbacks++
		return f.simplex.Solve(ctx, p)
	}
	return sol, err
}
