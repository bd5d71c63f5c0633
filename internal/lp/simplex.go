package lp

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Simplex solves small problems in this process by the primal simplex method with bounds
// on a dense table. An iteration takes O(rows × columns). Simplex is for problems of up
// to some hundred rows that are solved thousands of times, and for use without workers.
// The zero value is ready for use. A Simplex must not be used by several goroutines at
// once, and it keeps its memory for the next problem. RowDual is nil.
//
// The variable of the largest reduced cost enters. After stallLimit iterations without
// progress, the first possible variable enters (Bland's rule), so that the method
// terminates. Among the rows that block at the same step, the one with the largest pivot
// leaves.
type Simplex struct {
	rows, cols int
	table      []float64 // rows × cols: the derivatives of basic variables by nonbasic ones
	value      []float64 // of the basic variables
	at         []float64 // of the nonbasic variables
	basic      []int     // the variable of each row; structural ones first, then row activities
	nonbasic   []int     // the variable of each column
	lower      []float64 // of all variables
	upper      []float64
	cost       []float64 // of all variables, to minimise
	reduced    []float64
	filled     []int // the columns of the pivot row that are not 0
}

var _ Solver = (*Simplex)(nil)

const (
	feasibleBy = 1e-9  // tolerance of a bound, relative to 1 + |bound|
	optimalBy  = 1e-9  // tolerance of a reduced cost, with costs scaled to at most 1
	pivotFrom  = 1e-9  // the least pivot, relative to the largest of the column
	stallLimit = 200   // iterations without progress
	maxPivots  = 50000 // iterations after which the method gives up
)

// Solve finds an optimal basic solution. Its error wraps ErrInfeasible or ErrUnbounded,
// or says that the method gave up.
func (s *Simplex) Solve(ctx context.Context, p *Problem) (*Solution, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	s.load(p)
	var iterations int64
	for {
		feasible := s.price()
		column, up := s.entering(iterations%(2*stallLimit) >= stallLimit)
		if column < 0 {
			if !feasible {
				return nil, fmt.Errorf("%w: by %.3g", ErrInfeasible, s.miss())
			}
			break
		}
		if !s.step(column, up, feasible) {
			return nil, ErrUnbounded
		}
		if iterations++; iterations%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if iterations == maxPivots {
			return nil, errors.New("lp: simplex: too many iterations")
		}
	}
	sol := &Solution{X: make([]float64, len(p.Cost)), Iterations: iterations}
	for c, v := range s.nonbasic {
		if v < len(sol.X) {
			sol.X[v] = s.at[c]
		}
	}
	for r, v := range s.basic {
		if v < len(sol.X) {
			sol.X[v] = min(max(s.value[r], s.lower[v]), s.upper[v])
		}
	}
	for i, c := range p.Cost {
		sol.Objective += c * sol.X[i]
	}
	return sol, nil
}

// load starts from the basis of the row activities, with every variable as near to 0 as
// its bounds allow.
func (s *Simplex) load(p *Problem) {
	s.rows, s.cols = len(p.RowLower), len(p.Cost)
	s.table = resized(s.table, s.rows*s.cols)
	s.value, s.at, s.reduced = resized(s.value, s.rows), resized(s.at, s.cols), resized(s.reduced, s.cols)
	s.lower = append(append(s.lower[:0], p.ColLower...), p.RowLower...)
	s.upper = append(append(s.upper[:0], p.ColUpper...), p.RowUpper...)
	s.cost = append(resized(s.cost[:0], 0), p.Cost...)
	most := 0.0
	for _, c := range p.Cost {
		most = max(most, math.Abs(c))
	}
	for i := range s.cost {
		if most > 0 {
			s.cost[i] /= most
		}
		if p.Maximize {
			s.cost[i] = -s.cost[i]
		}
	}
	s.cost = append(s.cost, make([]float64, s.rows)...)
	s.basic, s.nonbasic = s.basic[:0], s.nonbasic[:0]
	for c := range s.cols {
		s.nonbasic = append(s.nonbasic, c)
		s.at[c] = min(max(0, s.lower[c]), s.upper[c])
	}
	for r := range s.rows {
		s.basic = append(s.basic, s.cols+r)
		for e := p.Start[r]; e < p.Start[r+1]; e++ {
			s.table[r*s.cols+int(p.Index[e])] += p.Value[e]
			s.value[r] += p.Value[e] * s.at[p.Index[e]]
		}
	}
}

func resized(v []float64, n int) []float64 {
	if cap(v) < n {
		return make([]float64, n)
	}
	v = v[:n]
	clear(v)
	return v
}

// outside returns by how much a basic variable is below (negative) or above its bounds.
func (s *Simplex) outside(r int) float64 {
	v := s.basic[r]
	if l := s.lower[v]; s.value[r] < l-feasibleBy*(1+math.Abs(l)) {
		return s.value[r] - l
	}
	if u := s.upper[v]; s.value[r] > u+feasibleBy*(1+math.Abs(u)) {
		return s.value[r] - u
	}
	return 0
}

func (s *Simplex) miss() (sum float64) {
	for r := range s.rows {
		sum += math.Abs(s.outside(r))
	}
	return sum
}

// price computes reduced costs: those of the distance to feasibility while there is any,
// else those of the objective.
func (s *Simplex) price() (feasible bool) {
	feasible = true
	clear(s.reduced)
	for r := range s.rows {
		if d := s.outside(r); d != 0 {
			feasible = false
			s.addRow(r, math.Copysign(1, d))
		}
	}
	if !feasible {
		return false
	}
	for c, v := range s.nonbasic {
		s.reduced[c] = s.cost[v]
	}
	for r, v := range s.basic {
		if s.cost[v] != 0 {
			s.addRow(r, s.cost[v])
		}
	}
	return true
}

func (s *Simplex) addRow(r int, factor float64) {
	for c, x := range s.table[r*s.cols : (r+1)*s.cols] {
		s.reduced[c] += factor * x
	}
}

// entering selects the column to move and its direction; −1 at an optimum.
func (s *Simplex) entering(first bool) (column int, up bool) {
	column = -1
	best := optimalBy
	for c, v := range s.nonbasic {
		d := s.reduced[c]
		if d > 0 && s.at[c] <= s.lower[v] || d < 0 && s.at[c] >= s.upper[v] {
			continue
		}
		if gain := math.Abs(d); gain > best && (!first || column < 0 || v < s.nonbasic[column]) {
			column, up = c, d < 0
			if !first {
				best = gain
			}
		}
	}
	return column, up
}

// step moves a column as far as the basic variables allow. It returns false if the
// column is unbounded.
func (s *Simplex) step(column int, up, feasible bool) bool {
	sign := 1.0
	if !up {
		sign = -1
	}
	largest := 0.0
	for r := range s.rows {
		largest = max(largest, math.Abs(s.table[r*s.cols+column]))
	}
	v := s.nonbasic[column]
	limit := s.upper[v] - s.at[column] // the distance to its own bound
	if !up {
		limit = s.at[column] - s.lower[v]
	}
	leaves, target := -1, 0.0
	for r := range s.rows {
		slope := sign * s.table[r*s.cols+column]
		if math.Abs(slope) <= pivotFrom*largest {
			continue
		}
		b := s.basic[r]
		bound := s.upper[b]
		if slope < 0 {
			bound = s.lower[b]
		}
		// While infeasible, a variable outside its bounds may move to the bound that it
		// violates, where its part of the distance ends. Moving away from that bound, it does
		// not block.
		if d := s.outside(r); !feasible && d != 0 {
			if d > 0 == (slope > 0) {
				continue
			}
			if bound = s.lower[b]; d > 0 {
				bound = s.upper[b]
			}
		}
		if math.IsInf(bound, 0) {
			continue
		}
		ratio := max(0, (bound-s.value[r])/slope)
		if ratio < limit || leaves >= 0 && ratio == limit && math.Abs(slope) > math.Abs(s.table[leaves*s.cols+column]) {
			limit, leaves, target = ratio, r, bound
		}
	}
	if math.IsInf(limit, 0) {
		return false
	}
	move := sign * limit
	for r := range s.rows {
		s.value[r] += move * s.table[r*s.cols+column]
	}
	if leaves < 0 {
		s.at[column] = s.upper[v]
		if !up {
			s.at[column] = s.lower[v]
		}
		return true
	}
	s.pivot(leaves, column, s.at[column]+move, target)
	return true
}

// pivot exchanges the variables of a row and a column.
func (s *Simplex) pivot(row, column int, entered, left float64) {
	pr := s.table[row*s.cols : (row+1)*s.cols]
	inverse := 1 / pr[column]
	s.filled = s.filled[:0]
	for c, x := range pr {
		if x != 0 {
			pr[c] = -inverse * x
			s.filled = append(s.filled, c)
		}
	}
	pr[column] = inverse
	for r := range s.rows {
		if r == row {
			continue
		}
		tr := s.table[r*s.cols : (r+1)*s.cols]
		f := tr[column]
		if f == 0 {
			continue
		}
		tr[column] = 0
		for _, c := range s.filled {
			tr[c] += f * pr[c]
		}
	}
	s.basic[row], s.nonbasic[column] = s.nonbasic[column], s.basic[row]
	s.value[row], s.at[column] = entered, left
}
