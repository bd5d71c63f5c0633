package policy

import "math"

// matcher finds, for each row, a column of its own at the least sum of costs, by
// shortest augmenting paths: rows one after another, each by a search after
// Dijkstra on reduced costs (Jonker, Volgenant 1987; the form without column
// reduction of Crouse, IEEE TAES 2016, which SciPy runs too). Columns are
// scanned from the last to the first at the start of each search; among equally
// near ones a free one is preferred. It is O(rows² × columns) at worst.
type matcher struct {
	// stop ends a search early where it says so; nil never does.
	stop          func() bool
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

func (m *matcher) begin(rows, columns int) {
	m.rows, m.columns = rows, columns
	m.cost = grow(m.cost, rows*columns)
	m.u, m.v, m.near = grow(m.u, rows), grow(m.v, columns), grow(m.near, columns)
	m.via, m.rowOf, m.columnOf = grow(m.via, columns), grow(m.rowOf, columns), grow(m.columnOf, rows)
	m.inRow, m.inColumn = grow(m.inRow, rows), grow(m.inColumn, columns)
	for c := range m.rowOf {
		m.rowOf[c] = -1
	}
	for r := range m.columnOf {
		m.columnOf[r] = -1
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

// solve asks fill for the costs of each row and gives the column of each row.
// There must be at least as many columns as rows, and costs must be finite. Nil
// says that stop ended it.
func (m *matcher) solve(fill func(row int, cost []float64)) []int {
	for r := range m.rows {
		fill(r, m.cost[r*m.columns:(r+1)*m.columns])
	}
	for r := range m.rows {
		if m.stop != nil && m.stop() {
			return nil
		}
		m.augment(r)
	}
	return m.columnOf
}

// augment matches a row, and moves others where that is cheaper.
func (m *matcher) augment(start int) {
	m.open = m.open[:0]
	for c := m.columns - 1; c >= 0; c-- {
		m.open = append(m.open, c)
		m.near[c] = math.Inf(1)
	}
	clear(m.inRow)
	clear(m.inColumn)
	least, sink := 0.0, -1
	for row := start; sink < 0; {
		m.inRow[row] = true
		cost, price := m.cost[row*m.columns:(row+1)*m.columns], m.u[row]
		at, lowest := -1, math.Inf(1)
		for i, c := range m.open {
			d := least + cost[c] - price - m.v[c]
			if d < m.near[c] {
				m.near[c], m.via[c] = d, row
			}
			if m.near[c] < lowest || m.near[c] == lowest && m.rowOf[c] < 0 {
				lowest, at = m.near[c], i
			}
		}
		least = lowest
		c := m.open[at]
		if m.rowOf[c] < 0 {
			sink = c
		} else {
			row = m.rowOf[c]
		}
		m.inColumn[c] = true
		m.open[at] = m.open[len(m.open)-1]
		m.open = m.open[:len(m.open)-1]
	}
	m.u[start] += least
	for r := range m.rows {
		if m.inRow[r] && r != start {
			m.u[r] += least - m.near[m.columnOf[r]]
		}
	}
	for c, in := range m.inColumn {
		if in {
			m.v[c] -= least - m.near[c]
		}
	}
	for c := sink; ; {
		row := m.via[c]
		m.rowOf[c] = row
		c, m.columnOf[row] = m.columnOf[row], c
		if row == start {
			return
		}
	}
}
