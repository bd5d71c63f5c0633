package relax

import (
	"math"
	"slices"
)

// unreachable is more than any cost of a job bounded round by round: two such costs
// add up in 64 bits.
const unreachable = math.MaxInt64 / 4

// stepper runs the recursion; it holds scratch memory, one a goroutine.
type stepper struct {
	prices *stepPrices
	slot   []int64   // price of one task by start
	moves  []move    // of the job at hand
	costs  [][]int64 // by move
	quote  [][]int64 // of a level, by mode
	cur    []int64
	prev   []int64
	choice []uint8 // by round and start: the move made, 0 for waiting
	queue  []int32
	keep   bool // choices, for trace
}

// move is a way to do one round: a level, or a type alone.
type move struct {
	length int
	level  int // −1: a type alone
	mode   int
	cost   []int64 // by start
}

// phi is the least cost of job j, V_R(a); guess is
// where to look for it first. ok is false where the numbers are too large.
// // O(R · H/δ · moves).
func (s *stepper) phi(j *stepJob, guess float64) (v int64, ok bool) {
	if s.prices.top*float64(j.tasks)*float64(j.rounds) > unreachable/4 {
		return 0, false
	}
	s.prepare(j)
	H := s.prices.cells
	limit := j.wait(j.rounds, max(H, j.a))
	if guess < float64(limit) {
		limit = min(limit, int64(guess))
	}
	for {
		v = s.run(j, limit)
		if v <= limit {
			break
		}
		// A cost found is that of a schedule, so none above it need be seen.
		limit = min(v, max(2*limit, j.w), j.wait(j.rounds, max(H, j.a)))
	}
	return v, true
}

// wait is the cost of r rounds from x on where prices are over.
func (j *stepJob) wait(r, x int) int64 { return j.w * int64(max(j.path, x+r*j.tau)) }

// prepare quotes every move at every start.
func (s *stepper) prepare(j *stepJob) {
	H := s.prices.cells
	s.moves = s.moves[:0]
	add := func(m move) *move {
		n := len(s.moves)
		for len(s.costs) <= n {
			s.costs = append(s.costs, nil)
		}
		if cap(s.costs[n]) < H {
			s.costs[n] = make([]int64, H)
		}
		m.cost = s.costs[n][:H]
		s.moves = append(s.moves, m)
		return &s.moves[n]
	}
	for i, md := range j.modes {
		m := add(move{length: md.f, level: -1, mode: i})
		s.least(m.cost, md, j.a, md.f-md.s-md.p)
		for x := j.a; x < H; x++ {
			m.cost[x] *= j.tasks
		}
	}
	for len(s.quote) < len(j.modes) {
		s.quote = append(s.quote, nil)
	}
	for l := range len(j.levels) - 1 {
		level, next := &j.levels[l], j.levels[l+1].length
		m := add(move{length: level.length, level: l})
		var open []int
		for i, md := range j.modes {
			if level.counts[i] == 0 {
				continue
			}
			open = append(open, i)
			if cap(s.quote[i]) < H {
				s.quote[i] = make([]int64, H)
			}
			s.quote[i] = s.quote[i][:H]
			s.least(s.quote[i], md, j.a, next-1-md.s-md.p)
		}
		for x := j.a; x < H; x++ {
			// Cheapest types first: few, so kept in order by insertion.
			for n := 1; n < len(open); n++ {
				for k := n; k > 0 && s.quote[open[k]][x] < s.quote[open[k-1]][x]; k-- {
					open[k], open[k-1] = open[k-1], open[k]
				}
			}
			left, sum := j.tasks, int64(0)
			for _, i := range open {
				n := min(left, level.counts[i])
				sum += n * s.quote[i][x]
				left -= n
			}
			m.cost[x] = sum
		}
	}
}

// least fills to[x], x ≥ from, with the least price of one task of mode md that
// starts between x and x + window.
func (s *stepper) least(to []int64, md stepMode, from, window int) {
	H := s.prices.cells
	cum := s.prices.cum[md.row]
	if cap(s.slot) < H {
		s.slot = make([]int64, H)
	}
	slot := s.slot[:H]
	for v := from; v < H; v++ {
		slot[v] = cum[min(v+md.p, H)] - cum[v]
	}
	if window == 0 {
		if from < H {
			copy(to[from:], slot[from:])
		}
		return
	}
	// From the end: the queue holds starts in the window whose prices rise.
	s.queue = s.queue[:0]
	head := 0
	for x := H - 1; x >= from; x-- {
		for len(s.queue) > head && slot[s.queue[len(s.queue)-1]] >= slot[x] {
			s.queue = s.queue[:len(s.queue)-1]
		}
		s.queue = append(s.queue, int32(x))
		for int(s.queue[head]) > x+window {
			head++
		}
		if x+window >= H {
			to[x] = 0 // after the last price
		} else {
			to[x] = slot[s.queue[head]]
		}
	}
}

// run is V_R(a) among schedules that cannot be known to cost over limit, or
// more than limit.
func (s *stepper) run(j *stepJob, limit int64) int64 {
	H := s.prices.cells
	if j.a >= H {
		return j.wait(j.rounds, j.a)
	}
	width := H - j.a
	if s.keep && cap(s.choice) < j.rounds*width {
		s.choice = make([]uint8, j.rounds*width)
	}
	if cap(s.cur) < H {
		s.cur, s.prev = make([]int64, H), make([]int64, H)
	}
	cur, prev := s.cur[:H], s.prev[:H]
	last := -1 // of prev
	for r := 1; r <= j.rounds; r++ {
		lo, hi := s.span(j, r, limit)
		if hi < lo {
			last = hi
			cur, prev = prev, cur
			continue
		}
		var choice []uint8
		if s.keep {
			choice = s.choice[(r-1)*width : r*width]
		}
		for x := lo; x <= hi; x++ {
			cur[x] = unreachable
		}
		for n := range s.moves {
			m := &s.moves[n]
			// Up to split the next round starts before H.
			split := lo
			if r > 1 {
				split = max(lo, min(hi, last-m.length)+1)
				c, to := m.cost[lo:split], cur[lo:split]
				v := prev[min(lo+m.length, H):]
				if s.keep {
					mark := choice[lo-j.a:]
					for x := range to {
						if t := c[x] + v[x]; t < to[x] {
							to[x], mark[x] = t, uint8(n+1)
						}
					}
				} else {
					for x := range to {
						if t := c[x] + v[x]; t < to[x] {
							to[x] = t
						}
					}
				}
				split = max(split, H-m.length)
			}
			for x := split; x <= hi; x++ {
				if t := m.cost[x] + j.wait(r-1, x+m.length); t < cur[x] {
					cur[x] = t
					if s.keep {
						choice[x-j.a] = uint8(n + 1)
					}
				}
			}
		}
		best := int64(unreachable)
		if hi == H-1 {
			best = j.wait(r, H)
		}
		for x := hi; x >= lo; x-- {
			if cur[x] <= best {
				best = cur[x]
				continue
			}
			cur[x] = best
			if s.keep {
				choice[x-j.a] = 0
			}
		}
		last = hi
		cur, prev = prev, cur
	}
	if last < j.a {
		// Nothing starts before H at a cost within limit.
		return j.wait(j.rounds, H)
	}
	return prev[j.a]
}

// span is the range of starts of the last r rounds that may cost limit or less.
func (s *stepper) span(j *stepJob, r int, limit int64) (lo, hi int) {
	lo, hi = j.a+(j.rounds-r)*j.tau, s.prices.cells-1
	if j.w > 0 {
		hi = int(min(int64(hi), limit/j.w-int64(r)*int64(j.tau)))
	}
	return lo, hi
}

// trace reads the schedule of the last run.
func (s *stepper) trace(j *stepJob, ans *answer, grid []float64) {
	H := s.prices.cells
	width := H - j.a
	step := float64(s.prices.step)
	x := j.a
	for r := j.rounds; r > 0; {
		if x >= H {
			end := x + r*j.tau
			ans.strides = append(ans.strides, stretch{float64(x) * step, float64(end) * step, float64(r)})
			break
		}
		c := s.choice[(r-1)*width+x-j.a]
		if c == 0 {
			x++
			continue
		}
		m := &s.moves[c-1]
		if m.level < 0 {
			md := j.modes[m.mode]
			s.spend(ans, grid, md, x, md.f-md.s-md.p, j.tasks)
		} else {
			s.spendLevel(j, ans, grid, m.level, x)
		}
		ans.strides = append(ans.strides, stretch{float64(x) * step, float64(x+m.length) * step, 1})
		x += m.length
		r--
	}
}

// spendLevel is the round of a level that starts at x, cheapest types first.
func (s *stepper) spendLevel(j *stepJob, ans *answer, grid []float64, l, x int) {
	next := j.levels[l+1].length
	var open []int
	price := make([]int64, len(j.modes))
	for i, md := range j.modes {
		if j.levels[l].counts[i] > 0 {
			open = append(open, i)
			_, price[i] = s.cheapest(md, x, next-1-md.s-md.p)
		}
	}
	slices.SortStableFunc(open, func(a, b int) int {
		switch {
		case price[a] < price[b]:
			return -1
		case price[a] > price[b]:
			return 1
		}
		return 0
	})
	left := j.tasks
	for _, i := range open {
		if n := min(left, j.levels[l].counts[i]); n > 0 {
			s.spend(ans, grid, j.modes[i], x, next-1-j.modes[i].s-j.modes[i].p, n)
			left -= n
		}
	}
}

// cheapest is the slot that least found between x and x + window, the latest
// of equals.
func (s *stepper) cheapest(md stepMode, x, window int) (at int, price int64) {
	H := s.prices.cells
	cum := s.prices.cum[md.row]
	if x+window >= H {
		return H, 0
	}
	at, price = x, cum[min(x+md.p, H)]-cum[x]
	for v := x + 1; v <= x+window; v++ {
		if p := cum[min(v+md.p, H)] - cum[v]; p <= price {
			at, price = v, p
		}
	}
	return at, price
}

// spend adds n tasks in the cheapest slot between x and x + window.
func (s *stepper) spend(ans *answer, grid []float64, md stepMode, x, window int, n int64) {
	at, _ := s.cheapest(md, x, window)
	from, to := float64(at)*float64(s.prices.step), float64(at+md.p)*float64(s.prices.step)
	G := len(grid) - 1
	for g := cellOf(grid, from); g < G && grid[g] < to; g++ {
		if l := min(grid[g+1], to) - max(grid[g], from); l > 0 {
			ans.uses = append(ans.uses, use{int32(md.row), int32(g), l * float64(n)})
		}
	}
}
