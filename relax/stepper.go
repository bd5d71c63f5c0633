package relax

import (
	"math"
	"math/bits"
	"slices"
)

// unreachable is more than any cost of a job bounded round by round: two such costs
// add up in 64 bits.
const unreachable = math.MaxInt64 / 4

// stepper runs the recursion; it holds scratch memory, one a goroutine.
type stepper struct {
	prices *stepPrices
	slots  [][][]int64 // by mode and p: the least price of a task that starts in [x, x + 2^p)
	moves  []move      // of the job at hand
	costs  [][]int64   // by move
	cur    []int64
	prev   []int64
	choice []uint8 // by round and start: the move made, 0 for waiting
	keep   bool    // choices, for trace
	work   int     // starts quoted or tried for moves, so far
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
	H := s.prices.cells
	limit := j.wait(j.rounds, max(H, j.a))
	if guess < float64(limit) {
		limit = min(limit, int64(guess))
	}
	for {
		s.prepare(j, limit)
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

// prepare quotes every move at every start that may cost limit or less.
// O((moves + log of the longest round) · types · starts).
func (s *stepper) prepare(j *stepJob, limit int64) {
	H := s.prices.cells
	_, last := s.span(j, 1, limit)
	last = max(last, j.a-1)
	s.moves = s.moves[:0]
	s.work += (last + 1 - j.a) * len(j.modes) * len(j.levels)
	longest := j.levels[len(j.levels)-1].length
	for i, md := range j.modes {
		s.load(i, md, j.a, min(H, last+longest), longest-md.s-md.p)
		cost := s.add(move{length: md.f, level: -1, mode: i}, last+1)
		w := md.f - md.s - md.p
		near, far := s.window(i, w)
		clear(cost[max(j.a, min(last+1, H-w)):]) // after the last price
		for x := j.a; x < min(last+1, H-w); x++ {
			cost[x] = j.tasks * min(near[x], far[x])
		}
	}
	for l := range len(j.levels) - 1 {
		if j.levels[l].partly(j.tasks) {
			s.prepareLevel(j, l, last)
		}
	}
}

// prepareLevel quotes level l: cheapest types first.
func (s *stepper) prepareLevel(j *stepJob, l, last int) {
	H := s.prices.cells
	level, next := &j.levels[l], j.levels[l+1].length
	cost := s.add(move{length: level.length, level: l}, last+1)
	type offer struct {
		near, far []int64
		end       int // from here on it is free
		count     int64
		price     int64
	}
	var offers [stepChoices]offer
	n := 0
	for i, md := range j.modes {
		if level.counts[i] > 0 {
			w := next - 1 - md.s - md.p
			near, far := s.window(i, w)
			offers[n] = offer{near: near, far: far, end: H - w, count: level.counts[i]}
			n++
		}
	}
	open := offers[:n]
	for x := j.a; x <= last; x++ {
		for i := range open {
			// Few types, whose order seldom changes: kept by insertion.
			o := &open[i]
			o.price = 0
			if x < o.end {
				o.price = min(o.near[x], o.far[x])
			}
			for k := i; k > 0 && open[k].price < open[k-1].price; k-- {
				open[k], open[k-1] = open[k-1], open[k]
			}
		}
		left, sum := j.tasks, int64(0)
		for i := 0; left > 0; i++ {
			c := min(left, open[i].count)
			sum += c * open[i].price
			left -= c
		}
		cost[x] = sum
	}
}

// add lists a move and returns its costs for starts below n.
func (s *stepper) add(m move, n int) []int64 {
	i := len(s.moves)
	for len(s.costs) <= i {
		s.costs = append(s.costs, nil)
	}
	s.costs[i] = sized(s.costs[i], max(0, n))
	m.cost = s.costs[i]
	s.moves = append(s.moves, m)
	return m.cost
}

func sized(x []int64, n int) []int64 {
	if cap(x) < n {
		return make([]int64, n)
	}
	return x[:n]
}

// load fills in slots of mode i from one start to another, for windows up to
// the one given.
func (s *stepper) load(i int, md stepMode, from, to, window int) {
	H := s.prices.cells
	for len(s.slots) <= i {
		s.slots = append(s.slots, nil)
	}
	cum := s.prices.cum[md.row]
	for p := 0; 1<<p <= window+1; p++ {
		if p == len(s.slots[i]) {
			s.slots[i] = append(s.slots[i], nil)
		}
		row := sized(s.slots[i][p], to)
		s.slots[i][p] = row
		if p == 0 {
			for x := from; x < min(to, H-md.p); x++ {
				row[x] = cum[x+md.p] - cum[x]
			}
			for x := max(from, H-md.p); x < to; x++ {
				row[x] = cum[H] - cum[x]
			}
			continue
		}
		below, half := s.slots[i][p-1], 1<<(p-1)
		for x := from; x+2*half <= to; x++ {
			row[x] = min(below[x], below[x+half])
		}
	}
}

// window returns two rows, the less of which is at x the least price of a task
// of mode i that starts in [x, x + w], x + w being before H.
func (s *stepper) window(i, w int) (near, far []int64) {
	p := bits.Len(uint(w+1)) - 1
	near = s.slots[i][p]
	return near, near[min(len(near), w+1-1<<p):]
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
		s.work += (hi + 1 - lo) * len(s.moves)
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
