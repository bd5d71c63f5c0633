package relax

import (
	"github.com/hare-sched/hare"
)

// tail is a step of a row's price: price from start on, charged to cell (−1:
// free).
type tail struct {
	start, price float64
	cell         int32
}

// sharedTail holds for the prices of a version.
type sharedTail struct {
	version int64
	steps   []tail
}

// trail fills o.tails[i] with the price of mode i from the release on.
func (o *oracle) trail(j *job) {
	if len(o.own) < len(j.modes) {
		o.own = make([][]tail, len(j.modes))
	}
	o.tails = o.tails[:0]
	for i := range j.modes {
		md := &j.modes[i]
		s := 0.0
		if j.sync == hare.Relaxed {
			s = md.s
		}
		if md.trail < 0 {
			o.own[i] = trailing(o.own[i][:0], o.pi.grid, o.pi.at[md.row], s, j.a, &o.window)
			o.tails = append(o.tails, o.own[i])
			continue
		}
		for len(o.shared) <= md.trail {
			o.shared = append(o.shared, sharedTail{version: -1})
		}
		t := &o.shared[md.trail]
		if t.version != o.version {
			t.steps = trailing(t.steps[:0], o.pi.grid, o.pi.at[md.row], s, j.a, &o.window)
			t.version = o.version
		}
		o.tails = append(o.tails, t.steps)
	}
}

// trailing appends the least price of a row within [max(t − s, a), t] for each
// t ≥ a (docs/design.md, section 2.2). O(cells).
func trailing(t []tail, grid, row []float64, s, a float64, window *[]int32) []tail {
	G := len(grid) - 1
	first := cellOf(grid, a)
	if first >= G {
		return append(t, tail{a, 0, -1})
	}
	if s == 0 {
		for g := first; g < G; g++ {
			t = append(t, tail{max(grid[g], a), row[g], int32(g)})
		}
		return append(t, tail{grid[G], 0, -1})
	}
	// Sliding-window minimum: cell g enters at grid[g] and leaves at
	// grid[g+1]+s; the price of 0 from the last grid point on ends it.
	*window = append((*window)[:0], int32(first))
	w := *window
	t = append(t, tail{a, row[first], int32(first)})
	for g := first + 1; ; {
		if leave := grid[w[0]+1] + s; len(w) > 1 && leave < grid[g] {
			w = w[1:]
			t = push(t, tail{leave, row[w[0]], w[0]})
			continue
		}
		if g == G {
			return push(t, tail{grid[G], 0, -1})
		}
		for len(w) > 0 && row[w[len(w)-1]] >= row[g] {
			w = w[:len(w)-1]
		}
		w = append(w, int32(g))
		if w[0] == int32(g) {
			t = push(t, tail{grid[g], row[g], w[0]})
		}
		g++
	}
}

// push appends a step, over the last one where that starts at the same time.
func push(t []tail, s tail) []tail {
	if n := len(t); t[n-1].start >= s.start {
		t[n-1] = s
		return t
	}
	return append(t, s)
}
