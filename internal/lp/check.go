package lp

import (
	"fmt"
	"math"
)

// check tells what makes p malformed, in O(size of p). Nothing in it may make
// an engine read outside its arrays.
func (p *Problem) check() error {
	n, m := len(p.Cost), len(p.RowLower)
	if len(p.ColLower) != n || len(p.ColUpper) != n {
		return fmt.Errorf("lp: %d costs, %d lower and %d upper bounds of columns", n, len(p.ColLower), len(p.ColUpper))
	}
	if len(p.RowUpper) != m {
		return fmt.Errorf("lp: %d lower and %d upper bounds of rows", m, len(p.RowUpper))
	}
	if len(p.Index) != len(p.Value) {
		return fmt.Errorf("lp: %d indices and %d values", len(p.Index), len(p.Value))
	}
	if err := p.checkStart(); err != nil {
		return err
	}
	for i, c := range p.Index {
		if c < 0 || int(c) >= n {
			return fmt.Errorf("lp: entry %d is in column %d of %d", i, c, n)
		}
	}
	if i := firstNotFinite(p.Cost); i >= 0 {
		return fmt.Errorf("lp: cost of column %d is %v", i, p.Cost[i])
	}
	if i := firstNotFinite(p.Value); i >= 0 {
		return fmt.Errorf("lp: entry %d is %v", i, p.Value[i])
	}
	if err := checkBounds("column", p.ColLower, p.ColUpper); err != nil {
		return err
	}
	return checkBounds("row", p.RowLower, p.RowUpper)
}

func (p *Problem) checkStart() error {
	m := len(p.RowLower)
	if m == 0 && len(p.Start) == 0 && len(p.Index) == 0 {
		return nil
	}
	if len(p.Start) != m+1 || p.Start[0] != 0 || int(p.Start[m]) != len(p.Index) {
		return fmt.Errorf("lp: row starts do not span %d rows and %d entries", m, len(p.Index))
	}
	for i := range m {
		if p.Start[i] > p.Start[i+1] {
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

// check tells why s cannot be a solution of p.
func (s *Solution) check(p *Problem) error {
	if len(s.X) != len(p.Cost) || len(s.RowDual) != len(p.RowLower) {
		return fmt.Errorf("%d columns and %d duals for %d columns and %d rows",
			len(s.X), len(s.RowDual), len(p.Cost), len(p.RowLower))
	}
	if firstNotFinite([]float64{s.Objective}) >= 0 {
		return fmt.Errorf("objective is %v", s.Objective)
	}
	if i := firstNotFinite(s.X); i >= 0 {
		return fmt.Errorf("column %d is %v", i, s.X[i])
	}
	if i := firstNotFinite(s.RowDual); i >= 0 {
		return fmt.Errorf("dual of row %d is %v", i, s.RowDual[i])
	}
	if s.Iterations < 0 {
		return fmt.Errorf("%d iterations", s.Iterations)
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

// solveSeparable solves p when it has no entries: each column goes to the
// bound that its cost prefers. Engines need not know empty models.
func (p *Problem) solveSeparable() (*Solution, error) {
	for i, l := range p.RowLower {
		if l > 0 || p.RowUpper[i] < 0 {
			return nil, fmt.Errorf("%w: row %d is empty and may not be 0", ErrInfeasible, i)
		}
	}
	s := &Solution{X: make([]float64, len(p.Cost)), RowDual: make([]float64, len(p.RowLower))}
	for j, c := range p.Cost {
		if p.Maximize {
			c = -c
		}
		var x float64
		switch l, u := p.ColLower[j], p.ColUpper[j]; {
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
		s.Objective += p.Cost[j] * x
	}
	return s, nil
}
