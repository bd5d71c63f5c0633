package lp

import (
	"context"
	"errors"
)

// OrSimplex solves by First, and by a Simplex of its own where First answers
// ErrUnavailable. Which of several optima is found then changes. It must not be
// used by several goroutines at once.
type OrSimplex struct {
	First Solver
	// Second counts the problems that First was not available for.
	Second int64
	own    Simplex
}

var _ Solver = (*OrSimplex)(nil)

// Solve is that of First or of a Simplex.
func (s *OrSimplex) Solve(ctx context.Context, p *Problem) (*Solution, error) {
	sol, err := s.First.Solve(ctx, p)
	if errors.Is(err, ErrUnavailable) {
		s.Second++
		return s.own.Solve(ctx, p)
	}
	return sol, err
}
