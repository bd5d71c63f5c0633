package lp

import (
	"fmt"
	"math"
)

// check returns an error if the problem is malformed. A problem that passes cannot make
// an engine read outside its arrays. It takes O(size of the problem).
func (prob *Problem) check() error {
	n, m := len(prob.Cost), len(prob.RowLower)
	if len(prob.ColLower) != n || len(prob.ColUpper) != n {
		return fmt.Errorf("lp: %d costs, %d lower and %d upper bounds of columns", n, len(prob.ColLower), len(prob.ColUpper))
	}
	if len(prob.RowUpper) != m {
		return fmt.Errorf("lp: %d lower and %d upper bounds of rows", m, len(prob.RowUpper))
	}
	if len(prob.Index) != len(prob.Value) {
		return fmt.Errorf("lp: %d indices and %d values", len(prob.Index), len(prob.Value))
	}
	if err := prob.checkStart(); err != nil {
		return err
	}
	for i, c := range prob.Index {
		if c < 0 || int(c) >= n {
			return fmt.Errorf("lp: entry %d is in column %d of %d", i, c, n)
		}
	}
	if i := firstNotFinite(prob.Cost); i >= 0 {
		return fmt.Errorf("lp: cost of column %d is %v", i, prob.Cost[i])
	}
	if i := firstNotFinite(prob.Value); i >= 0 {
		return fmt.Errorf("lp: entry %d is %v", i, prob.Value[i])
	}
	if err := checkBounds("column", prob.ColLower, prob.ColUpper); err != nil {
		return err
	}
	return checkBounds("row", prob.RowLower, prob.RowUpper)
}

func (prob *Problem) checkStart() error {
	m := len(prob.RowLower)
	if m == 0 && len(prob.Start) == 0 && len(prob.Index) == 0 {
		return nil
	}
	if len(prob.Start) != m+1 || prob.Start[0] != 0 || int(prob.Start[m]) != len(prob.Index) {
		return fmt.Errorf("lp: row starts do not span %d rows and %d entries", m, len(prob.Index))
	}
	for i := range m {
		if prob.Start[i] > prob.Start[i+1] {
			return fmt.Errorf("lp: row %d ends before it starts", i)
		}
	}
	return nil
}

func checkBounds(what string, lower, upper []float64) error {
	for i, l := range lower {
		u := upper[i]
		if math.IsNaN(l) || math.IsNaN(u) || math.IsInf(l, 1) || math.IsInf(u, -1) {
			return fmt.Errorf("lp: bounds of %s %d are %v and %v", what, i, l, u)
		}
		if l > u {
			return fmt.Errorf("%w: %s %d must be at least %v and at most %v", ErrInfeasible, what, i, l, u)
		}
	}
	return nil
}

// check returns an error if sol cannot be a solution of p.
func (sol *Solution) check(p *Problem) error {
	if len(sol.X) != len(p.Cost) || len(sol.RowDual) != len(p.RowLower) {
		return fmt.Errorf("%d columns and %d duals for %d columns and %d rows",
			len(sol.X), len(sol.RowDual), len(p.Cost), len(p.RowLower))
	}
	if firstNotFinite([]float64{sol.Objective}) >= 0 {
		return fmt.Errorf("objective is %v", sol.Objective)
	}
	if i := firstNotFinite(sol.X); i >= 0 {
		return fmt.Errorf("column %d is %v", i, sol.X[i])
	}
	if i := firstNotFinite(sol.RowDual); i >= 0 {
		return fmt.Errorf("dual of row %d is %v", i, sol.RowDual[i])
	}
	if sol.Iterations < 0 {
		return fmt.Errorf("%d iterations", sol.Iterations)
	}
	return nil
}

func firstNotFinite(v []float64) int {
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return i
		}
	}
	return -1
}

// solveSeparable solves a problem without entries: each column goes to the bound that
// its cost prefers. Engines then need not handle empty models.
func (prob *Problem) solveSeparable() (*Solution, error) {
	for i, l := range prob.RowLower {
		if l > 0 || prob.RowUpper[i] < 0 {
			return nil, fmt.Errorf("%w: row %d is empty and may not be 0", ErrInfeasible, i)
		}
	}
	s := &Solution{X: make([]float64, len(prob.Cost)), RowDual: make([]float64, len(prob.RowLower))}
	for j, c := range prob.Cost {
		if prob.Maximize {
			c = -c
		}
		var x float64
		switch l, u := prob.ColLower[j], prob.ColUpper[j]; {
		case c > 0:
			x = l
		case c < 0:
			x = u
		case !math.IsInf(l, 0):
			x = l
		case !math.IsInf(u, 0):
			x = u
		}
		if math.IsInf(x, 0) {
			return nil, fmt.Errorf("%w: column %d", ErrUnbounded, j)
		}
		s.X[j] = x
		s.Objective += prob.Cost[j] * x
	}
	return s, nil
}
