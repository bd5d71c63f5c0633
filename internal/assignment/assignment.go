// Package assignment solves the linear assignment problem: it assigns a different
// column to each row so that the sum of the costs is minimal.
package assignment

import "math"

// Solver uses shortest augmenting paths. It adds the rows one after another, each by a
// search like Dijkstra's on reduced costs (Jonker, Volgenant 1987, without column
// reduction as in Crouse, IEEE TAES 2016, which SciPy uses too). Each search begins
// with the columns from last to first; among columns at equal distance a free column is
// preferred. Solving takes O(rows² × columns) time at worst. The zero value is ready
// for use, and Begin reuses the memory of the previous problem.
type Solver struct {
	// Stop ends the search early when it returns true; nil means that the search always
	// completes.
	Stop          func() bool
	rows, columns int
	cost          []float64 // rows × columns
	u, v          []float64 // dual variables of rows and columns
	distance      []float64 // distance of each column in the current search
	previous      []int     // the row before each column on the shortest path
	rowOf         []int     // the row assigned to each column, or −1
	columnOf      []int
	open          []int // columns that the search has not reached
	inRow         []bool
	inColumn      []bool
}

// Begin sets the size of the next problem.
func (s *Solver) Begin(rows, columns int) {
	s.rows, s.columns = rows, columns
	s.cost = grow(s.cost, rows*columns)
	s.u, s.v, s.distance = grow(s.u, rows), grow(s.v, columns), grow(s.distance, columns)
	s.previous, s.rowOf, s.columnOf = grow(s.previous, columns), grow(s.rowOf, columns), grow(s.columnOf, rows)
	s.inRow, s.inColumn = grow(s.inRow, rows), grow(s.inColumn, columns)
	for c := range s.rowOf {
		s.rowOf[c] = -1
	}
	for r := range s.columnOf {
		s.columnOf[r] = -1
	}
}

// grow returns n zeros, in the memory of v where v is long enough.
func grow[T any](v []T, n int) []T {
	if cap(v) < n {
		return make([]T, n)
	}
	v = v[:n]
	clear(v)
	return v
}

// Solve calls fill for the costs of each row and returns the column assigned to each
// row, or nil where Stop ended the search. There must be at least as many columns as
// rows, and all costs must be finite.
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

// augment assigns a column to a row, and moves other rows to other columns where that
// is cheaper.
func (s *Solver) augment(start int) {
	s.open = s.open[:0]
	for c := s.columns - 1; c >= 0; c-- {
		s.open = append(s.open, c)
		s.distance[c] = math.Inf(1)
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
			if d < s.distance[c] {
				s.distance[c], s.previous[c] = d, row
			}
			if s.distance[c] < lowest || s.distance[c] == lowest && s.rowOf[c] < 0 {
				lowest, at = s.distance[c], i
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
			s.u[r] += least - s.distance[s.columnOf[r]]
		}
	}
	for c, in := range s.inColumn {
		if in {
			s.v[c] -= least - s.distance[c]
		}
	}
	for c := sink; ; {
		row := s.previous[c]
		s.rowOf[c] = row
		c, s.columnOf[row] = s.columnOf[row], c
		if row == start {
			return
		}
	}
}
