package relax

// trailingStep is a step of a trailing minimum: price from start on, charged to cell
// (−1: no charge).
type trailingStep struct {
	start, price float64
	cell         int32
}

// sharedTrailing is a trailing minimum that several jobs share at the prices of a
// version.
type sharedTrailing struct {
	version int64
	steps   []trailingStep
}

// trailingMinimum appends the least price of a row within [max(t − s, a), t] for each t
// ≥ a (docs/inside/design.md, section 2.2). It takes O(cells).
func trailingMinimum(t []trailingStep, grid, row []float64, s, a float64, window *[]int32) []trailingStep {
	G := len(grid) - 1
	first := cellOf(grid, a)
	if first >= G {
		return append(t, trailingStep{a, 0, -1})
	}
	if s == 0 {
		for g := first; g < G; g++ {
			t = append(t, trailingStep{max(grid[g], a), row[g], int32(g)})
		}
		return append(t, trailingStep{grid[G], 0, -1})
	}
	// This is a sliding-window minimum: cell g enters at grid[g] and leaves at grid[g+1]+s.
	// The price of 0 from the last grid point on ends it.
	*window = append((*window)[:0], int32(first))
	w := *window
	t = append(t, trailingStep{a, row[first], int32(first)})
	for g := first + 1; ; {
		if leave := grid[w[0]+1] + s; len(w) > 1 && leave < grid[g] {
			w = w[1:]
			t = appendStep(t, trailingStep{leave, row[w[0]], w[0]})
			continue
		}
		if g == G {
			return appendStep(t, trailingStep{grid[G], 0, -1})
		}
		for len(w) > 0 && row[w[len(w)-1]] >= row[g] {
			w = w[:len(w)-1]
		}
		w = append(w, int32(g))
		if w[0] == int32(g) {
			t = appendStep(t, trailingStep{grid[g], row[g], w[0]})
		}
		g++
	}
}

// appendStep appends a step, or replaces the last one if that starts at the same time.
func appendStep(t []trailingStep, s trailingStep) []trailingStep {
	if n := len(t); t[n-1].start >= s.start {
		t[n-1] = s
		return t
	}
	return append(t, s)
}

// ahead lets trailing minima from a on see prices that come so much later.
func ahead(steps []trailingStep, by, a float64) []trailingStep {
	if by == 0 {
		return steps
	}
	n := 0
	for _, s := range steps {
		if s.start = max(a, s.start-by); n > 0 && steps[n-1].start == s.start {
			n--
		}
		steps[n] = s
		n++
	}
	return steps[:n]
}
