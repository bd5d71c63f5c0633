package relax

import (
	"math"

	"github.com/hare-sched/hare"
)

// oracle evaluates φ_j at fixed prices. It holds scratch memory, so each goroutine needs
// its own.
type oracle struct {
	pi             *prices
	version        int64            // of pi
	trailing       [][]trailingStep // by mode of the current job
	ownTrailing    [][]trailingStep // scratch for those that are not shared
	sharedTrailing []sharedTrailing // by mode.trailingID
	base           segments
	best           []segment // base at the best last piece
	last           []segment
	bestL          []segment
	window         []int32
	pos            []int
	uses           []use
	progress       []progressInterval
	steps          stepRecursion
}

// solve finds the least weighted completion plus price of the job alone, as a fluid
// (relaxed, gang) or a block (rigid). ans.uses and ans.progress are set if wantUse, and
// are valid until the next call.
func (o *oracle) solve(j *job, ans *answer, wantUse bool) {
	ans.uses, ans.progress = ans.uses[:0], ans.progress[:0]
	if j.scenarios != nil {
		o.eachScenario(j, ans, wantUse)
		return
	}
	if j.shapes != nil {
		o.eachShape(j, ans, wantUse)
		return
	}
	if j.pathOnly {
		ans.phi, ans.end, ans.slope, ans.scale = j.cost(j.path), j.path, 0, 0
		return
	}
	if j.sync == hare.Rigid {
		o.rigid(j, ans, wantUse)
		return
	}
	o.fluid(j, ans, wantUse)
}

// eachShape is solve for the best of the shapes of a job that keeps its shape.
func (o *oracle) eachShape(j *job, ans *answer, wantUse bool) {
	best, at := math.Inf(1), 0
	for s := range j.shapes {
		ans.cutoff = 0 // the last answer may be for another shape
		if o.solve(j.inShape(s), ans, false); ans.phi < best {
			best, at = ans.phi, s
		}
	}
	ans.cutoff = 0
	o.solve(j.inShape(at), ans, wantUse)
	ans.cutoff = 0
}

// setPrices sets the prices; version tells them from those before.
func (o *oracle) setPrices(pi *prices, version int64) { o.pi, o.version = pi, version }

// These factors say how the cutoff follows the slope of the dearest rounds in use.
const (
	cutoffMargin = 1.1  // the cutoff is at least so much above the slope
	cutoffDecay  = 0.97 // factor after each search that uses no artificial round
	cutoffGrowth = 1.6  // factor after a search that does
)

// fluid solves the continuous knapsack over the pieces of time, for each candidate last
// piece. It takes O(pieces · (modes² + kept segments)).
//
// Prices move little from one call to the next. All rounds are therefore first offered
// as an artificial segment at the slope ans.cutoff, which cuts off dearer segments. The
// costs found are at most the true ones; if the best last piece takes nothing of the
// artificial segment, its cost is the true least. Else the search is repeated without
// the cutoff.
func (o *oracle) fluid(j *job, ans *answer, wantUse bool) {
	o.loadTrailing(j)
	if ans.cutoff > 0 && o.search(j, ans, wantUse, ans.cutoff) {
		ans.cutoff = max(cutoffMargin*ans.slope, cutoffDecay*ans.cutoff)
	} else {
		o.search(j, ans, wantUse, math.Inf(1))
		ans.cutoff = max(cutoffMargin*ans.slope, cutoffGrowth*ans.cutoff)
	}
	if wantUse {
		o.recordUse(j, ans)
	}
}

// search finds the best last piece with all rounds on offer at slope most. It returns
// true if that piece takes none of them.
func (o *oracle) search(j *job, ans *answer, wantUse bool, most float64) (ok bool) {
	o.pos = append(o.pos[:0], make([]int, len(j.modes))...)
	pos := o.pos
	o.base.reset()
	if !math.IsInf(most, 1) {
		o.base.insert(segment{slope: most, cap: j.rounds, from: -1, to: artificial}, j.rounds)
	}
	best := math.Inf(1)
	t := j.a
	for {
		if j.until > 0 && t >= j.until {
			o.last = o.last[:0]
			if cost, crit, _ := o.fill(j, t); crit != nil {
				best, ok = cost, crit.to != artificial
				o.best = append(o.best[:0], o.base.list[o.base.head:]...)
				o.bestL = o.bestL[:0]
				ans.end, ans.slope, ans.scale = t, crit.slope, o.base.cost
			}
			break
		}
		end := o.pieceEnd(j, t, pos)
		if t >= j.path && j.until == 0 {
			if j.cost(t) >= best {
				break
			}
			o.last = o.hull(o.last[:0], j, pos, t, end-t, j.weightFrom(t), o.base.useful(j.rounds))
			if cost, crit, _ := o.fill(j, t); crit != nil && cost < best {
				best = cost
				if wantUse {
					o.best = append(o.best[:0], o.base.list[o.base.head:]...)
					o.bestL = append(o.bestL[:0], o.last...)
				}
				ans.end, ans.slope, ans.scale = t, crit.slope, j.cost(t)+o.base.cost
				ok = crit.to != artificial
			}
		}
		if math.IsInf(end, 1) {
			break
		}
		o.last = o.hull(o.last[:0], j, pos, t, end-t, 0, o.base.useful(j.rounds))
		for _, s := range o.last {
			o.base.insert(s, j.rounds)
		}
		t = end
		o.advance(j, t, pos)
	}
	ans.phi = best
	return ok
}

// pieceEnd returns the end of the piece that starts at t.
func (o *oracle) pieceEnd(j *job, t float64, pos []int) float64 {
	end := math.Inf(1)
	if t < j.path {
		end = j.path
	}
	if t < j.due {
		end = min(end, j.due)
	}
	if t < j.until {
		end = min(end, j.until)
	}
	for i, at := range pos {
		if tl := o.trailing[i]; at+1 < len(tl) {
			end = min(end, tl[at+1].start)
		}
	}
	return end
}

// advance moves each mode to its step of the trailing minimum at t.
func (o *oracle) advance(j *job, t float64, pos []int) {
	for i := range pos {
		for tl := o.trailing[i]; pos[i]+1 < len(tl) && tl[pos[i]+1].start <= t; {
			pos[i]++
		}
	}
}

// hull appends the lower convex hull of the piece [t, t+length) up to the slope most, by
// rising slope.
func (o *oracle) hull(to []segment, j *job, pos []int, t, length, w, most float64) []segment {
	from, c0, cell0 := int16(-1), 0.0, int32(-1)
	n := len(j.modes)
	for i0 := 0; i0 < n; {
		per := j.perRate[(int(from)+1)*n:]
		bestSlope, at := math.Inf(1), -1
		var bc float64
		for i := i0; i < n; i++ {
			c := o.trailing[i][pos[i]].price*j.modes[i].held + w
			if slope := (c - c0) * per[i]; per[i] > 0 && slope <= bestSlope {
				bestSlope, at, bc = slope, i, c
			}
		}
		if at < 0 || bestSlope >= most {
			break
		}
		cell := o.trailing[at][pos[at]].cell
		to = append(to, segment{
			slope: bestSlope, cap: length / per[at], start: t, len: length,
			from: from, to: int16(at), fcell: cell0, tcell: cell,
		})
		from, c0, cell0 = int16(at), bc, cell
		i0 = at + 1
	}
	return to
}

// roundedLeft is the share of a job's rounds that may be left by errors of rounding where its
// time is just enough.
const roundedLeft = 1e-9

// fill returns the cost of the rounds done before and within the last piece, which
// starts at t. crit is the dearest segment in use, and final says whether it lies in the
// last piece; crit is nil if the rounds do not fit. It takes O(segments of the last
// piece and those that they replace).
func (o *oracle) fill(j *job, t float64) (cost float64, crit *segment, final bool) {
	list, x := o.base.list, o.base.head
	cost = j.cost(t) + o.base.cost
	left := j.rounds - o.base.total // the rounds to be done in the last piece
	rest := 0.0                     // the part of list[x] in use
	if x < len(list) {
		rest = list[x].cap
	}
	if left < 0 {
		// The dearest segment is only used in part.
		cost += left * list[x].slope
		rest += left
		left = 0
	}
	for y := range o.last {
		s := &o.last[y]
		if left == 0 && (x == len(list) || list[x].slope <= s.slope) {
			break
		}
		crit, final = s, true
		n := min(left, s.cap)
		cost += n * s.slope
		left -= n
		// The room that the segment has left replaces dearer segments.
		for room := s.cap - n; left == 0; {
			if x == len(list) || list[x].slope <= s.slope || room <= 0 {
				if room > 0 {
					return cost, crit, true
				}
				break
			}
			n := min(rest, room)
			cost -= n * (list[x].slope - s.slope)
			room -= n
			if rest -= n; rest <= 0 {
				if x++; x < len(list) {
					rest = list[x].cap
				}
			}
		}
	}
	if left > 0 {
		if j.until == 0 || left > roundedLeft*j.rounds || x == len(list) {
			return 0, nil, false
		}
		return cost, &list[x], false
	}
	if x < len(list) && (crit == nil || list[x].slope >= crit.slope) {
		crit, final = &list[x], false
	}
	return cost, crit, final
}

// recordUse turns the best filling into uses and progress.
func (o *oracle) recordUse(j *job, ans *answer) {
	left := j.rounds
	a, b := o.best, o.bestL
	x, y := len(a), 0
	for left > 0 && (x > 0 || y < len(b)) {
		var s *segment
		final := false
		if x > 0 && (y >= len(b) || a[x-1].slope <= b[y].slope) {
			x--
			s = &a[x]
		} else {
			s = &b[y]
			y++
			final = true
		}
		if s.to == artificial {
			break // only rounding errors are left
		}
		done := min(left, s.cap)
		left -= done
		to := &j.modes[s.to]
		seconds := done * j.perRate[(int(s.from)+1)*len(j.modes)+int(s.to)]
		if s.tcell >= 0 {
			ans.uses = append(ans.uses, use{int32(to.row), s.tcell, seconds * to.held})
		}
		if s.from >= 0 && s.fcell >= 0 {
			fm := &j.modes[s.from]
			ans.uses = append(ans.uses, use{int32(fm.row), s.fcell, -seconds * fm.held})
		}
		length := s.len
		if final {
			// Within the last piece the job ends when its seconds are used up.
			if s.from < 0 {
				ans.end = s.start + seconds
			}
			length = ans.end - s.start
		}
		ans.progress = append(ans.progress, progressInterval{s.start, s.start + length, done})
	}
}

// rigid tries each mode at each start where the slope of the cost may change. It takes
// O(modes · cells).
func (o *oracle) rigid(j *job, ans *answer, wantUse bool) {
	grid := o.pi.grid
	G := len(grid) - 1
	best := math.Inf(1)
	bestMode, bestStart := 0, j.a
	first := cellOf(grid, j.a)
	for i := range j.modes {
		o.starts(j, i, first, best, func(start, ending, cost float64) bool {
			if cost < best {
				best, bestMode, bestStart = cost, i, start
			}
			return ending < best
		})
	}
	md := &j.modes[bestMode]
	length := j.rounds * md.d
	ans.phi, ans.end = best, bestStart+length
	if !wantUse {
		return
	}
	end := bestStart + length
	for g := cellFrom(grid, first, bestStart); g < G && grid[g] < end; g++ {
		l := min(grid[g+1], end) - max(grid[g], bestStart)
		if l > 0 {
			ans.uses = append(ans.uses, use{int32(md.row), int32(g), l * md.held})
		}
	}
	ans.progress = append(ans.progress, progressInterval{bestStart, end, j.rounds})
}

// starts calls f with each start of a rigid job on mode i where its cost may have its
// minimum, with what the end alone costs and with the cost, until the end alone costs more than
// limit or f returns false. The job arrives in the cell first.
func (o *oracle) starts(j *job, i, first int, limit float64, f func(start, ending, cost float64) bool) {
	md := &j.modes[i]
	grid := o.pi.grid
	G := len(grid) - 1
	cum, row := o.pi.cum[md.row], o.pi.at[md.row]
	length := j.rounds * md.d
	start, due, until := max(j.a, j.path-length), math.Inf(1), math.Inf(1)
	if j.late > 0 {
		due = j.due
	}
	if j.until > 0 {
		// The rule of certificates for work that ends by a time does not know the path.
		start, until = j.a, j.until
	}
	ends := min(due, until) - length // the next start at which the slope of the cost changes
	gs := cellFrom(grid, first, start)
	ge := cellFrom(grid, gs, start+length)
	for {
		end := start + length
		ending := j.w * end
		if end > due {
			ending = j.cost(end)
		}
		if ending > limit || end > until {
			return
		}
		cost := ending + md.held*(integralTo(grid, cum, row, ge, end)-integralTo(grid, cum, row, gs, start))
		if !f(start, ending, cost) || gs >= G && ge >= G {
			return
		}
		// The slope of the cost changes where the start or the end reaches a grid point, or the
		// end the deadline.
		next := math.Inf(1)
		if gs < G {
			next = grid[gs+1]
		}
		if ge < G {
			if at := grid[ge+1] - length; at < next {
				next = at
			}
		}
		if start >= ends {
			if ends = until - length; start >= ends {
				ends = math.Inf(1)
			}
		}
		if ends < next {
			next = ends
		}
		if next > start {
			start = next
		}
		gs, ge = cellFrom(grid, gs, start), cellFrom(grid, ge, start+length)
	}
}

// loadTrailing sets o.trailing[i] to the trailing minimum of mode i from the release on.
func (o *oracle) loadTrailing(j *job) {
	if len(o.ownTrailing) < len(j.modes) {
		o.ownTrailing = make([][]trailingStep, len(j.modes))
	}
	o.trailing = o.trailing[:0]
	for i := range j.modes {
		md := &j.modes[i]
		s := 0.0
		if j.sync == hare.Relaxed {
			s = md.s
		}
		if md.trailingID < 0 {
			o.ownTrailing[i] = trailingMinimum(o.ownTrailing[i][:0], o.pi.grid, o.pi.at[md.row], s+md.ahead, j.a, &o.window)
			o.ownTrailing[i] = ahead(o.ownTrailing[i], md.ahead, j.a)
			o.trailing = append(o.trailing, o.ownTrailing[i])
			continue
		}
		for len(o.sharedTrailing) <= md.trailingID {
			o.sharedTrailing = append(o.sharedTrailing, sharedTrailing{version: -1})
		}
		t := &o.sharedTrailing[md.trailingID]
		if t.version != o.version {
			t.steps = trailingMinimum(t.steps[:0], o.pi.grid, o.pi.at[md.row], s+md.ahead, j.a, &o.window)
			t.steps = ahead(t.steps, md.ahead, j.a)
			t.version = o.version
		}
		o.trailing = append(o.trailing, t.steps)
	}
}

// eachScenario is solve for a job of uncertain duration: the mean of the answers.
func (o *oracle) eachScenario(j *job, ans *answer, wantUse bool) {
	var uses []use
	var progress []progressInterval
	phi, end := 0.0, 0.0
	for s := range j.scenarios {
		one := &j.scenarios[s]
		one.w = j.w
		share := float64(one.micro) * 1e-6
		ans.cutoff = 0
		o.solve(one, ans, wantUse)
		phi += share * ans.phi
		end += share * ans.end
		for _, u := range ans.uses {
			u.amount *= share
			uses = append(uses, u)
		}
		for _, p := range ans.progress {
			p.rounds *= share
			progress = append(progress, p)
		}
	}
	ans.phi, ans.end, ans.slope, ans.cutoff = phi, end, 0, 0
	ans.uses, ans.progress = append(ans.uses[:0], uses...), append(ans.progress[:0], progress...)
}
