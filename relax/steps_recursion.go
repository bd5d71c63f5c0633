package relax

import (
	"math/bits"
	"slices"
)

// stepRecursion runs the dynamic programme of bounding round by round. It holds scratch
// memory, so each goroutine needs its own.
type stepRecursion struct {
	prices      *stepPrices
	sparse      [][][]int64  // a sparse table by mode and p: the least price of a task that starts in [x, x + 2^p)
	transitions []transition // of the current job
	costs       [][]int64    // by transition
	cur         []int64
	prev        []int64
	choice      []uint16 // by round and start: the transition made, 0 for waiting
	keepChoices bool     // whether to record choice for trace
	work        int      // the starts priced or tried for transitions so far
}

// transition is a way to do one round: a level, or one type alone.
type transition struct {
	length int
	level  int // −1 means one type alone
	mode   int
	cost   []int64 // by start
}

// phi returns V_R(a), the least cost of job j; guess is where the search for it begins.
// It returns false if the numbers are too large. It takes O(R · H/δ · transitions).
func (sr *stepRecursion) phi(j *stepJob, guess float64) (v int64, ok bool) {
	if sr.prices.topOf(j)*float64(j.tasks)*float64(j.rounds) > unreachable/4 {
		return 0, false
	}
	H := sr.prices.cells
	limit := j.wait(j.rounds, max(H, j.a))
	if guess < float64(limit) {
		limit = min(limit, int64(guess))
	}
	for {
		sr.prepare(j, limit)
		v = sr.run(j, limit)
		if v <= limit {
			break
		}
		// The cost v is that of a schedule, so higher costs need not be searched.
		limit = min(v, max(2*limit, j.w+j.late), j.wait(j.rounds, max(H, j.a)))
	}
	return v, true
}

// wait returns the cost of r rounds from x on after the last price.
func (sj *stepJob) wait(r, x int) int64 {
	end := max(sj.path, x+r*sj.tau)
	if sj.late > 0 && end > sj.due {
		return sj.w*int64(end) + sj.late*int64(end-sj.due)
	}
	return sj.w * int64(end)
}

// latest returns the last end that costs limit or less without prices, where ends cost
// something.
func (sj *stepJob) latest(limit int64) int64 {
	onTime := sj.w * int64(sj.due)
	if sj.late > 0 && limit >= onTime {
		return int64(sj.due) + (limit-onTime)/(sj.w+sj.late)
	}
	return limit / max(1, sj.w)
}

// prepare prices every transition at every start that may cost limit or less. It takes
// O((transitions + log of the longest round) · types · starts).
func (sr *stepRecursion) prepare(j *stepJob, limit int64) {
	H := sr.prices.cells
	_, last := sr.startRange(j, 1, limit)
	last = max(last, j.a-1)
	sr.transitions = sr.transitions[:0]
	sr.work += (last + 1 - j.a) * len(j.modes) * (len(j.levels) + 1)
	longest := j.longest
	for i, md := range j.modes {
		sr.loadSparse(i, md, j.a, min(H, last+longest), longest-md.s-md.p)
		cost := sr.addTransition(transition{length: md.f, level: -1, mode: i}, last+1)
		w := md.f - md.s - md.p
		near, far := sr.window(i, w)
		clear(cost[max(j.a, min(last+1, H-w)):]) // behind the last price
		for x := j.a; x < min(last+1, H-w); x++ {
			cost[x] = j.tasks * min(near[x], far[x])
		}
	}
	for l := range j.levels {
		sr.prepareLevel(j, l, last)
	}
}

// prepareLevel prices level l: the cheapest types come first.
func (sr *stepRecursion) prepareLevel(j *stepJob, l, last int) {
	H := sr.prices.cells
	level := &j.levels[l]
	cost := sr.addTransition(transition{length: level.length, level: l}, last+1)
	type offer struct {
		near, far []int64
		end       int // the price is 0 from here on
		count     int64
		price     int64
	}
	var offers [stepTypes]offer
	n := 0
	for i, md := range j.modes {
		if level.counts[i] > 0 {
			w := level.until - md.s - md.p
			near, far := sr.window(i, w)
			offers[n] = offer{near: near, far: far, end: H - w, count: level.counts[i]}
			n++
		}
	}
	open := offers[:n]
	for x := j.a; x <= last; x++ {
		for i := range open {
			// There are few types, and their order seldom changes: insertion keeps it.
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

// addTransition appends a transition and returns its costs for starts below n.
func (sr *stepRecursion) addTransition(m transition, n int) []int64 {
	i := len(sr.transitions)
	for len(sr.costs) <= i {
		sr.costs = append(sr.costs, nil)
	}
	sr.costs[i] = sized(sr.costs[i], max(0, n))
	m.cost = sr.costs[i]
	sr.transitions = append(sr.transitions, m)
	return m.cost
}

func sized(x []int64, n int) []int64 {
	if cap(x) < n {
		return make([]int64, n)
	}
	return x[:n]
}

// loadSparse fills in the sparse table of mode i from one start to another, for windows
// up to the given one.
func (sr *stepRecursion) loadSparse(i int, md stepMode, from, to, window int) {
	for len(sr.sparse) <= i {
		sr.sparse = append(sr.sparse, nil)
	}
	for p := 0; 1<<p <= window+1; p++ {
		if p == len(sr.sparse[i]) {
			sr.sparse[i] = append(sr.sparse[i], nil)
		}
		row := sized(sr.sparse[i][p], to)
		sr.sparse[i][p] = row
		if p == 0 {
			sr.priceSlots(row, md, from, to)
			continue
		}
		below, half := sr.sparse[i][p-1], 1<<(p-1)
		for x := from; x+2*half <= to; x++ {
			row[x] = min(below[x], below[x+half])
		}
	}
}

// priceSlots fills in the price of a task of a mode by start.
func (sr *stepRecursion) priceSlots(row []int64, md stepMode, from, to int) {
	H := sr.prices.cells
	for n, r := range md.rows {
		cum := sr.prices.cum[r]
		if n == 0 && md.times[0] == 1 {
			for x := from; x < min(to, H-md.p); x++ {
				row[x] = cum[x+md.p] - cum[x]
			}
			for x := max(from, H-md.p); x < to; x++ {
				row[x] = cum[H] - cum[x]
			}
			continue
		}
		for x := from; x < to; x++ {
			if price := md.times[n] * (cum[min(x+md.p, H)] - cum[x]); n == 0 || price < row[x] {
				row[x] = price
			}
		}
	}
}

// priceAt returns the price of a task of a mode that starts at x, and the row that it pays.
func (sr *stepRecursion) priceAt(md stepMode, x int) (price int64, row int) {
	H := sr.prices.cells
	for n, r := range md.rows {
		cum := sr.prices.cum[r]
		if p := md.times[n] * (cum[min(x+md.p, H)] - cum[x]); n == 0 || p < price {
			price, row = p, r
		}
	}
	return price, row
}

// window returns two rows. Their minimum at x is the least price of a task of mode i
// that starts in [x, x + w], where x + w is before H.
func (sr *stepRecursion) window(i, w int) (near, far []int64) {
	p := bits.Len(uint(w+1)) - 1
	near = sr.sparse[i][p]
	return near, near[min(len(near), w+1-1<<p):]
}

// run returns V_R(a) if it is at most limit, else a number above limit. It leaves out
// schedules that are known to cost more than limit.
func (sr *stepRecursion) run(j *stepJob, limit int64) int64 {
	H := sr.prices.cells
	if j.a >= H {
		return j.wait(j.rounds, j.a)
	}
	width := H - j.a
	if sr.keepChoices && cap(sr.choice) < j.rounds*width {
		sr.choice = make([]uint16, j.rounds*width)
	}
	if cap(sr.cur) < H {
		sr.cur, sr.prev = make([]int64, H), make([]int64, H)
	}
	cur, prev := sr.cur[:H], sr.prev[:H]
	last := -1 // of prev
	for r := 1; r <= j.rounds; r++ {
		lo, hi := sr.startRange(j, r, limit)
		if hi < lo {
			last = hi
			cur, prev = prev, cur
			continue
		}
		var choice []uint16
		if sr.keepChoices {
			choice = sr.choice[(r-1)*width : r*width]
		}
		sr.work += (hi + 1 - lo) * len(sr.transitions)
		for x := lo; x <= hi; x++ {
			cur[x] = unreachable
		}
		for n := range sr.transitions {
			m := &sr.transitions[n]
			// For starts below split, the next round starts before H.
			split := lo
			if r > 1 {
				split = max(lo, min(hi, last-m.length)+1)
				c, to := m.cost[lo:split], cur[lo:split]
				v := prev[min(lo+m.length, H):]
				if sr.keepChoices {
					mark := choice[lo-j.a:]
					for x := range to {
						if t := c[x] + v[x]; t < to[x] {
							to[x], mark[x] = t, uint16(n+1)
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
					if sr.keepChoices {
						choice[x-j.a] = uint16(n + 1)
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
			if sr.keepChoices {
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

// startRange returns the range of starts of the last r rounds that may cost limit or
// less.
func (sr *stepRecursion) startRange(j *stepJob, r int, limit int64) (lo, hi int) {
	lo, hi = j.a+(j.rounds-r)*j.tau, sr.prices.cells-1
	if j.w+j.late > 0 {
		hi = int(min(int64(hi), j.latest(limit)-int64(r)*int64(j.tau)))
	}
	return lo, hi
}

// trace reads the schedule of the last run.
func (sr *stepRecursion) trace(j *stepJob, ans *answer, grid []float64) {
	H := sr.prices.cells
	width := H - j.a
	step := float64(sr.prices.step)
	x := j.a
	for r := j.rounds; r > 0; {
		if x >= H {
			end := x + r*j.tau
			ans.progress = append(ans.progress, progressInterval{float64(x) * step, float64(end) * step, float64(r)})
			break
		}
		c := sr.choice[(r-1)*width+x-j.a]
		if c == 0 {
			x++
			continue
		}
		m := &sr.transitions[c-1]
		if m.level < 0 {
			md := j.modes[m.mode]
			sr.recordUse(j, ans, grid, md, x, md.f-md.s-md.p, j.tasks)
		} else {
			sr.recordLevel(j, ans, grid, m.level, x)
		}
		ans.progress = append(ans.progress, progressInterval{float64(x) * step, float64(x+m.length) * step, 1})
		x += m.length
		r--
	}
}

// recordLevel records the round of a level that starts at x, on the cheapest types
// first.
func (sr *stepRecursion) recordLevel(j *stepJob, ans *answer, grid []float64, l, x int) {
	until := j.levels[l].until
	var open []int
	price := make([]int64, len(j.modes))
	for i, md := range j.modes {
		if j.levels[l].counts[i] > 0 {
			open = append(open, i)
			_, price[i] = sr.cheapestStart(md, x, until-md.s-md.p)
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
			sr.recordUse(j, ans, grid, j.modes[i], x, until-j.modes[i].s-j.modes[i].p, n)
			left -= n
		}
	}
}

// cheapestStart returns the start of least price between x and x + window, the latest
// among equals.
func (sr *stepRecursion) cheapestStart(md stepMode, x, window int) (at int, price int64) {
	if H := sr.prices.cells; x+window >= H {
		return H, 0
	}
	at = x
	price, _ = sr.priceAt(md, x)
	for v := x + 1; v <= x+window; v++ {
		if p, _ := sr.priceAt(md, v); p <= price {
			at, price = v, p
		}
	}
	return at, price
}

// recordUse adds n tasks at the cheapest start between x and x + window.
func (sr *stepRecursion) recordUse(j *stepJob, ans *answer, grid []float64, md stepMode, x, window int, n int64) {
	at, _ := sr.cheapestStart(md, x, window)
	_, row := sr.priceAt(md, min(at, sr.prices.cells))
	from, to := float64(at)*float64(sr.prices.step), float64(at+md.p)*float64(sr.prices.step)
	G := len(grid) - 1
	for g := cellOf(grid, from); g < G && grid[g] < to; g++ {
		if l := min(grid[g+1], to) - max(grid[g], from); l > 0 {
			ans.uses = append(ans.uses, use{int32(row), int32(g), l * float64(n*j.gpus)})
		}
	}
}
