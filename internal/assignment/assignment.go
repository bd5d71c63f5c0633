// Package assignment solves the linear assignment problem: a column of its own
// for each row, at the least sum of costs.
package assignment

import "math"

// Solver uses shortest augmenting paths: it takes the rows one after another, each
// by a search after Dijkstra on reduced costs (Jonker, Volgenant 1987; the form without column
// reduction of Crouse, IEEE TAES 2016, which SciPy runs too). Columns are
// scanned from the last to the first at the start of each search; among equally
// near ones a free one is preferred. Time is O(rows² × columns) at worst. The zero
// value is ready, and Begin reuses the memory of the problem before.
type Solver struct {
	// Stop says that the search shall end early; nil never does.
	Stop          func() bool
	rows, columns int
	cost          []float64 // rows × columns
	u, v          []float64 // prices of rows and columns
	near          []float64 // distance of a column in this search
	via           []int     // the row before a column
	rowOf         []int     // of a column, or −1
	columnOf      []int
	open          []int // columns not yet reached
	inRow         []bool
	inColumn      []bool
}

// Begin states the size of the next problem.
func (s *Solver) Begin(rows, columns int) {
	s.rows, s.columns = rows, columns
	s.cost = grow(s.cost, rows*columns)
	s.u, s.v, s.near = grow(s.u, rows), grow(s.v, columns), grow(s.near, columns)
	s.via, s.rowOf, s.columnOf = grow(s.via, columns), grow(s.rowOf, columns), grow(s.columnOf, rows)
	s.inRow, s.inColumn = grow(s.inRow, rows), grow(s.inColumn, columns)
	for c := range s.rowOf {
		s.rowOf[c] = -1
	}
	for r := range s.columnOf {
		s.columnOf[r] = -1
	}
}

// grow gives n zeros, in the memory of v where that is enough.
func grow[T any](v []T, n int) []T {
	if cap(v) < n {
		return make([]T, n)
	}
	v = v[:n]
	clear(v)
	return v
}

// Solve asks fill for the costs of each row and gives the column of each row.
// There must be at least as many columns as rows, and costs must be finite. Nil
// says that Stop ended it.
func (s *Solver) Solve(fill func(row int, cost []float64)) []int {
	for r := range s.rows {
		fill(r, s.cost[r*s.columns:(r+1)*s.columns])
	}
	for r := range s.rows {
		if s.Stop != nil && s.Stop() {
			return nil
		}
		s.augment(r)
	}
	return s.columnOf
}

// augment matches a row, and moves others where that is cheaper.
func (s *Solver) augment(start int) {
	s.open = s.open[:0]
	for c := s.columns - 1; c >= 0; c-- {
		s.open = append(s.open, c)
		s.near[c] = math.Inf(1)
	}
	clear(s.inRow)
	clear(s.inColumn)
	least, sink := 0.0, -1
	for row := start; sink < 0; {
		s.inRow[row] = true
		cost, price := s.cost[row*s.columns:(row+1)*s.columns], s.u[row]
		at, lowest := -1, math.Inf(1)
		for i, c := range s.open {
			d := least + cost[c] - price - s.v[c]
			if d < s.near[c] {
				s.near[c], s.via[c] = d, row
			}
			if s.near[c] < lowest || s.near[c] == lowest && s.rowOf[c] < 0 {
				lowest, at = s.near[c], i
			}
		}
		least = lowest
		c := s.open[at]
		if s.rowOf[c] < 0 {
			sink = c
		} else {
			row = s.rowOf[c]
		}
		s.inColumn[c] = true
		s.open[at] = s.open[len(s.open)-1]
		s.open = s.open[:len(s.open)-1]
	}
	s.u[start] += least
	for r := range s.rows {
		if s.inRow[r] && r != start {
			s.u[r] += least - s.near[s.columnOf[r]]
		}
	}
	for c, in := range s.inColumn {
		if in {
			s.v[c] -= least - s.near[c]
		}
	}
	for c := sink; ; {
		row := s.via[c]
		s.rowOf[c] = row
		c, s.columnOf[row] = s.columnOf[row], c
		if row == start {
			return
		}
	}
}
