package relax

import (
	"math"

	"github.com/hare-sched/hare"
)

// prices are piecewise constant on grid, one row a type; zero from the last
// grid point on.
type prices struct {
	grid []float64 // seconds, G+1 points from 0
	at   [][]float64
	// cum[k][g] is ∫_0^grid[g] of row k.
	cum [][]float64
}

func (pi *prices) integrate() {
	if pi.cum == nil {
		pi.cum = make([][]float64, len(pi.at))
	}
	for k, row := range pi.at {
		if len(pi.cum[k]) != len(row)+1 {
			pi.cum[k] = make([]float64, len(row)+1)
		}
		c := 0.0
		for g, x := range row {
			c += x * (pi.grid[g+1] - pi.grid[g])
			pi.cum[k][g+1] = c
		}
	}
}

// use is what one job takes: GPU-seconds priced in a cell of a type.
type use struct {
	kind, cell int32
	amount     float64
}

// stretch is progress of one job at a constant rate between two times.
type stretch struct {
	from, to, rounds float64
}

// answer is the best schedule of one job on its own at given prices.
type answer struct {
	phi     float64 // w C + price, at most the least
	end     float64 // C
	uses    []use
	strides []stretch
}

// oracle evaluates φ_j at fixed prices. It holds scratch memory; one a
// goroutine.
type oracle struct {
	pi      *prices
	tails   [][]tail // by mode of the job at hand
	base    segments
	best    segments // base at the best last piece
	last    []segment
	bestL   []segment
	window  []int32
	pos     []int
	uses    []use
	strides []stretch
}

// tail is a step of a mode's cost: from start on, price per second held is
// cost, charged to cell (−1: free).
type tail struct {
	start, cost float64
	cell        int32
}

// segment is part of the lower convex hull of one piece of time: up to cap
// rounds at slope each; full use moves the piece's seconds from one mode to
// another (−1: idle).
type segment struct {
	slope, cap   float64
	start, len   float64 // of the piece
	from, to     int16
	fcell, tcell int32
}

type segments struct {
	list  []segment // by slope
	total float64
}

// insert adds s in order and drops what can never be used to do rounds.
func (b *segments) insert(s segment, rounds float64) {
	n := len(b.list)
	if b.total >= rounds && s.slope >= b.list[n-1].slope {
		return
	}
	b.list = append(b.list, s)
	i := n
	for i > 0 && b.list[i-1].slope > s.slope {
		b.list[i] = b.list[i-1]
		i--
	}
	b.list[i] = s
	b.total += s.cap
	for n := len(b.list) - 1; n > 0 && b.total-b.list[n].cap >= rounds; n-- {
		b.total -= b.list[n].cap
		b.list = b.list[:n]
	}
}

// solve returns the least weighted completion plus price of the job alone, as
// a fluid (relaxed, gang) or a block (rigid). ans.uses and strides are valid
// when wantUse, until the next call.
func (o *oracle) solve(j *job, ans *answer, wantUse bool) {
	ans.uses, ans.strides = ans.uses[:0], ans.strides[:0]
	if j.sync == hare.Rigid {
		o.rigid(j, ans, wantUse)
		return
	}
	o.fluid(j, ans, wantUse)
}

// trail fills o.tails[i] with the running cost of mode i from the release on:
// the least price within the trailing window of s seconds (DESIGN 2.2).
func (o *oracle) trail(j *job) {
	for len(o.tails) < len(j.modes) {
		o.tails = append(o.tails, nil)
	}
	grid := o.pi.grid
	G := len(grid) - 1
	first := cellOf(grid, j.a)
	for i := range j.modes {
		md := &j.modes[i]
		row := o.pi.at[md.kind]
		t := o.tails[i][:0]
		s := 0.0
		if j.sync == hare.Relaxed {
			s = md.s
		}
		if first >= G {
			t = append(t, tail{j.a, 0, -1})
			o.tails[i] = t
			continue
		}
		if s == 0 {
			for g := first; g < G; g++ {
				t = append(t, tail{max(grid[g], j.a), row[g] * md.held, int32(g)})
			}
			o.tails[i] = append(t, tail{grid[G], 0, -1})
			continue
		}
		// Sliding-window minimum: cell g enters at grid[g] and leaves at
		// grid[g+1]+s; the price of 0 from the last grid point on ends it.
		o.window = append(o.window[:0], int32(first))
		w := o.window
		t = append(t, tail{j.a, row[first] * md.held, int32(first)})
		for g := first + 1; ; {
			if leave := grid[w[0]+1] + s; len(w) > 1 && leave < grid[g] {
				w = w[1:]
				t = push(t, tail{leave, row[w[0]] * md.held, w[0]})
				continue
			}
			if g == G {
				t = push(t, tail{grid[G], 0, -1})
				break
			}
			for len(w) > 0 && row[w[len(w)-1]] >= row[g] {
				w = w[:len(w)-1]
			}
			w = append(w, int32(g))
			if w[0] == int32(g) {
				t = push(t, tail{grid[g], row[g] * md.held, w[0]})
			}
			g++
		}
		o.tails[i] = t
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

func cellOf(grid []float64, t float64) int {
	lo, hi := 0, len(grid) // the cell g with grid[g] ≤ t < grid[g+1]
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if grid[mid] <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// fluid is the continuous knapsack over the pieces of time, for each candidate
// last piece. O(pieces · (modes² + kept segments)).
func (o *oracle) fluid(j *job, ans *answer, wantUse bool) {
	o.trail(j)
	o.pos = append(o.pos[:0], make([]int, len(j.modes))...)
	pos := o.pos
	o.base.list, o.base.total = o.base.list[:0], 0
	best := math.Inf(1)
	t := j.a
	for {
		end := o.next(j, t, pos)
		if t >= j.path {
			if j.w*t >= best {
				break
			}
			o.last = o.hull(o.last[:0], j, pos, t, end-t, j.w)
			if cost, crit, _ := o.fill(j, t, best); crit != nil && cost < best {
				best = cost
				if wantUse {
					o.best.list = append(o.best.list[:0], o.base.list...)
					o.bestL = append(o.bestL[:0], o.last...)
				}
				ans.end = t
			}
		}
		if math.IsInf(end, 1) {
			break
		}
		o.last = o.hull(o.last[:0], j, pos, t, end-t, 0)
		for _, s := range o.last {
			o.base.insert(s, j.rounds)
		}
		t = end
		o.advance(j, t, pos)
	}
	ans.phi = best
	if wantUse {
		o.spend(j, ans)
	}
}

// next is the end of the piece that starts at t.
func (o *oracle) next(j *job, t float64, pos []int) float64 {
	end := math.Inf(1)
	if t < j.path {
		end = j.path
	}
	for i, at := range pos {
		if tl := o.tails[i]; at+1 < len(tl) {
			end = min(end, tl[at+1].start)
		}
	}
	return end
}

// advance moves each mode to its step at t.
func (o *oracle) advance(j *job, t float64, pos []int) {
	for i := range pos {
		for tl := o.tails[i]; pos[i]+1 < len(tl) && tl[pos[i]+1].start <= t; {
			pos[i]++
		}
	}
}

// hull appends the lower convex hull of the piece [t, t+length): slopes rise.
func (o *oracle) hull(to []segment, j *job, pos []int, t, length, w float64) []segment {
	from, r0, c0, cell0 := int16(-1), 0.0, 0.0, int32(-1)
	n := len(j.modes)
	i0 := 0
	for i0 < n {
		bestSlope, at := math.Inf(1), -1
		var bc float64
		for i := i0; i < n; i++ {
			c := o.tails[i][pos[i]].cost + w
			if slope := (c - c0) / (j.modes[i].rate - r0); slope <= bestSlope && j.modes[i].rate > r0 {
				bestSlope, at, bc = slope, i, c
			}
		}
		if at < 0 {
			break
		}
		cell := o.tails[at][pos[at]].cell
		to = append(to, segment{
			slope: bestSlope, cap: length * (j.modes[at].rate - r0), start: t, len: length,
			from: from, to: int16(at), fcell: cell0, tcell: cell,
		})
		from, r0, c0, cell0 = int16(at), j.modes[at].rate, bc, cell
		i0 = at + 1
	}
	return to
}

// fill costs the rounds done before and within the last piece, which starts at
// t. crit is the segment used last, and final says that it lies in the last
// piece; crit is nil when the rounds do not fit or the cost passes limit.
func (o *oracle) fill(j *job, t, limit float64) (cost float64, crit *segment, final bool) {
	left := j.rounds
	cost = j.w * t
	a, b := o.base.list, o.last
	x, y := 0, 0
	for {
		var s *segment
		switch {
		case x < len(a) && (y >= len(b) || a[x].slope <= b[y].slope):
			s, final = &a[x], false
			x++
		case y < len(b):
			s, final = &b[y], true
			y++
		default:
			return 0, nil, false
		}
		if s.cap >= left {
			return cost + left*s.slope, s, final
		}
		left -= s.cap
		cost += s.cap * s.slope
		if cost > limit {
			return 0, nil, false
		}
	}
}

// spend turns the best filling into uses and progress.
func (o *oracle) spend(j *job, ans *answer) {
	left := j.rounds
	a, b := o.best.list, o.bestL
	x, y := 0, 0
	for left > 0 && (x < len(a) || y < len(b)) {
		var s *segment
		final := false
		if x < len(a) && (y >= len(b) || a[x].slope <= b[y].slope) {
			s = &a[x]
			x++
		} else {
			s = &b[y]
			y++
			final = true
		}
		done := min(left, s.cap)
		left -= done
		// done rounds are done/(rate_to − rate_from) seconds of the piece.
		r0 := 0.0
		if s.from >= 0 {
			r0 = j.modes[s.from].rate
		}
		to := &j.modes[s.to]
		seconds := done / (to.rate - r0)
		if s.tcell >= 0 {
			ans.uses = append(ans.uses, use{int32(to.kind), s.tcell, seconds * to.held})
		}
		if s.from >= 0 && s.fcell >= 0 {
			fm := &j.modes[s.from]
			ans.uses = append(ans.uses, use{int32(fm.kind), s.fcell, -seconds * fm.held})
		}
		length := s.len
		if final {
			// Within the last piece the job ends when its seconds are over.
			if s.from < 0 {
				ans.end = s.start + seconds
			}
			length = ans.end - s.start
		}
		ans.strides = append(ans.strides, stretch{s.start, s.start + length, done})
	}
}

// rigid tries each mode at each start where the cost may turn.
// O(modes · cells).
func (o *oracle) rigid(j *job, ans *answer, wantUse bool) {
	grid := o.pi.grid
	G := len(grid) - 1
	best := math.Inf(1)
	bestMode, bestStart := 0, j.a
	for i := range j.modes {
		o.starts(j, i, best, func(start, cost float64) bool {
			if cost < best {
				best, bestMode, bestStart = cost, i, start
			}
			return j.w*(start+j.rounds*j.modes[i].d) < best
		})
	}
	md := &j.modes[bestMode]
	length := j.rounds * md.d
	ans.phi, ans.end = best, bestStart+length
	if !wantUse {
		return
	}
	end := bestStart + length
	for g := cellOf(grid, bestStart); g < G && grid[g] < end; g++ {
		l := min(grid[g+1], end) - max(grid[g], bestStart)
		if l > 0 {
			ans.uses = append(ans.uses, use{int32(md.kind), int32(g), l * md.held})
		}
	}
	ans.strides = append(ans.strides, stretch{bestStart, end, j.rounds})
}

// starts calls f with each start of a rigid job on mode i where its cost may
// have its least, and the cost, until w·C passes limit or f returns false.
func (o *oracle) starts(j *job, i int, limit float64, f func(start, cost float64) bool) {
	md := &j.modes[i]
	grid := o.pi.grid
	G := len(grid) - 1
	cum, row := o.pi.cum[md.kind], o.pi.at[md.kind]
	length := j.rounds * md.d
	start := max(j.a, j.path-length)
	gs, ge := cellOf(grid, start), cellOf(grid, start+length)
	for j.w*(start+length) <= limit {
		cost := j.w*(start+length) + md.held*(at(grid, cum, row, ge, start+length)-at(grid, cum, row, gs, start))
		if !f(start, cost) || gs >= G && ge >= G {
			return
		}
		// The cost turns where start or end reaches a grid point.
		next := math.Inf(1)
		if gs < G {
			next = grid[gs+1]
		}
		if ge < G {
			next = min(next, grid[ge+1]-length)
		}
		start = max(start, next)
		for gs < G && grid[gs+1] <= start {
			gs++
		}
		for ge < G && grid[ge+1] <= start+length {
			ge++
		}
	}
}

// at is ∫_0^t of the row, t lying in cell g.
func at(grid, cum, row []float64, g int, t float64) float64 {
	if g >= len(row) {
		return cum[len(row)]
	}
	return cum[g] + (t-grid[g])*row[g]
}
