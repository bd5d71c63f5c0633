package branch

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// Prices are prices by row and cell: of a second of a whole job of so many tasks on a type.
type Prices struct {
	at [][]float64
}

// row is a type and a number of tasks.
type row struct {
	kind int
	size int64
}

// dual evaluates bounds at prices.
type dual struct {
	pr     *Problem
	grid   []int64 // in µs
	gridF  []float64
	rows   []row
	rowOf  []int   // by job and type
	rowsOf [][]int // by type

	cum         [][]float64
	grad        [][]float64
	compul      []segment
	best        []float64
	choice      []int32
	pick        []int     // type by job
	start       []float64 // by job
	phi         []float64
	only        []int
	terms       float64 // the sum of the terms of the last value
	evaluations int64
}

func newDual(pr *Problem, grid []int64) *dual {
	e := &dual{pr: pr, grid: grid}
	for _, t := range grid {
		e.gridF = append(e.gridF, float64(t))
	}
	kinds := len(pr.types)
	e.rowOf = make([]int, len(pr.jobs)*kinds)
	e.rowsOf = make([][]int, kinds)
	for i := range pr.jobs {
		for k := range kinds {
			x := i*kinds + k
			e.rowOf[x] = -1
			if pr.jobs[i].length[k] == 0 {
				continue
			}
			r := slices.Index(e.rows, row{k, pr.jobs[i].tasks})
			if r < 0 {
				r = len(e.rows)
				e.rows = append(e.rows, row{k, pr.jobs[i].tasks})
				e.rowsOf[k] = append(e.rowsOf[k], r)
			}
			e.rowOf[x] = r
		}
	}
	e.cum = make([][]float64, len(e.rows))
	e.grad = make([][]float64, len(e.rows))
	for r := range e.rows {
		e.cum[r] = make([]float64, len(grid))
		e.grad[r] = make([]float64, len(grid)-1)
	}
	most := int64(0)
	for _, t := range pr.types {
		if len(t.free) > 0 {
			most = max(most, t.free[len(t.free)-1])
		}
	}
	e.best = make([]float64, most+1)
	e.choice = make([]int32, most+1)
	e.pick = make([]int, len(pr.jobs))
	e.start = make([]float64, len(pr.jobs))
	e.phi = make([]float64, len(pr.jobs))
	e.only = make([]int, len(pr.jobs))
	return e
}

func (e *dual) newPrices() *Prices {
	p := &Prices{make([][]float64, len(e.rows))}
	for r := range p.at {
		p.at[r] = make([]float64, len(e.grid)-1)
	}
	return p
}

func (p *Prices) copyFrom(q *Prices) {
	for r := range p.at {
		copy(p.at[r], q.at[r])
	}
}

func (p *Prices) clone() *Prices {
	q := &Prices{make([][]float64, len(p.at))}
	for r := range p.at {
		q.at[r] = slices.Clone(p.at[r])
	}
	return q
}

// transfer returns the prices of a certificate on the grid: their means in each cell.
func (e *dual) transfer(c *hare.Certificate) *Prices {
	p := e.newPrices()
	single, sizes := map[string][]int64{}, map[row][]int64{}
	for _, t := range c.Prices {
		single[t.Type] = t.Nanos
	}
	for _, t := range c.Sizes {
		sizes[row{slices.Index(e.pr.model.Types, t.Type), t.Tasks}] = t.Nanos
	}
	for r, to := range e.rows {
		nanos, times := sizes[to], 1.0
		if nanos == nil {
			nanos, times = single[e.pr.model.Types[to.kind]], float64(to.size)
		}
		if nanos == nil {
			continue
		}
		g := 0
		for cell := range p.at[r] {
			from, end := e.grid[cell], e.grid[cell+1]
			sum := 0.0
			for t := from; t < end && g+1 < len(c.GridUs); {
				next := min(end, c.GridUs[g+1])
				sum += float64(nanos[g]) * float64(next-t)
				if t = next; t == c.GridUs[g+1] {
					g++
				}
			}
			p.at[r][cell] = sum / float64(end-from) * times / nano
		}
	}
	return p
}

// nano is the number of units of 1e-9 in a micro-weight.
const nano = 1000

// round rounds prices to those of a certificate.
func (p *Prices) round() {
	for _, row := range p.at {
		for g, x := range row {
			row[g] = math.Round(x*nano) / nano
		}
	}
}

// least returns what prices prove: value, lowered by more than its error.
func (e *dual) least(d *domain, p *Prices) float64 {
	v := e.value(d, p, false)
	return v - margin*e.terms
}

// upTo returns the integral of row r to t.
func (e *dual) upTo(p *Prices, r int, t float64) float64 {
	n := len(e.gridF)
	if t >= e.gridF[n-1] {
		return e.cum[r][n-1]
	}
	lo, hi := 0, n-1
	for hi-lo > 1 {
		if m := (lo + hi) / 2; e.gridF[m] <= t {
			lo = m
		} else {
			hi = m
		}
	}
	return e.cum[r][lo] + (t-e.gridF[lo])*p.at[r][lo]
}

// value returns the bound at the prices within the domain, in micro-weight-microseconds, and
// leaves its supergradient in grad if it is wanted.
func (e *dual) value(d *domain, p *Prices, want bool) float64 {
	pr, kinds := e.pr, len(e.pr.types)
	G := len(e.grid) - 1
	for r := range e.rows {
		c := e.cum[r]
		sum := 0.0
		for g, x := range p.at[r] {
			c[g] = sum
			sum += x * (e.gridF[g+1] - e.gridF[g])
		}
		c[G] = sum
		if want {
			clear(e.grad[r])
		}
	}
	total := 0.0
	e.terms = 0
	e.evaluations++
	for i := range pr.jobs {
		j := &pr.jobs[i]
		e.only[i] = pr.only(d, i)
		w := float64(j.weight)
		best := math.Inf(1)
		for k := range kinds {
			x := i*kinds + k
			if d.lo[x] > d.hi[x] {
				continue
			}
			r := e.rowOf[x]
			l := float64(j.length[k])
			lo, hi := float64(d.lo[x]), float64(d.hi[x])
			v, s := e.cheapest(p, r, w, l, lo, hi)
			if e.only[i] == k && hi < lo+l {
				v -= e.upTo(p, r, lo+l) - e.upTo(p, r, hi)
			}
			if v < best {
				best, e.pick[i], e.start[i] = v, k, s
			}
		}
		e.phi[i] = best
		total += best - w*float64(j.release)
		e.terms += math.Abs(best) + w*float64(j.release)
		if want {
			k := e.pick[i]
			x := i*kinds + k
			g := e.grad[e.rowOf[x]]
			e.use(g, e.start[i], e.start[i]+float64(j.length[k]), 1)
			if e.only[i] == k {
				if from, to := pr.certain(d, i, k); from < to {
					e.use(g, float64(from), float64(to), -1)
				}
			}
		}
	}
	for k := range kinds {
		cost := e.capacity(d, p, k, want)
		total -= cost
		e.terms += cost
	}
	for r := range e.cum {
		e.terms += e.cum[r][G]
	}
	return total
}

// use adds share of the seconds of [from, to) to the cells.
func (e *dual) use(g []float64, from, to, share float64) {
	n := len(e.gridF) - 1
	if from >= e.gridF[n] {
		return
	}
	c, _ := slices.BinarySearch(e.gridF, from)
	if c > n || e.gridF[c] > from {
		c--
	}
	for ; c < n && e.gridF[c] < to; c++ {
		g[c] += share * (min(to, e.gridF[c+1]) - max(from, e.gridF[c]))
	}
}

// cheapest returns the least cost of a job that starts from lo to hi, and that start.
func (e *dual) cheapest(p *Prices, r int, w, l, lo, hi float64) (cost, start float64) {
	n := len(e.gridF)
	cum, at := e.cum[r], p.at[r]
	end := e.gridF[n-1]
	cellOf := func(t float64) int {
		a, b := 0, n-1
		for b-a > 1 {
			if m := (a + b) / 2; e.gridF[m] <= t {
				a = m
			} else {
				b = m
			}
		}
		return a
	}
	hi = min(hi, max(lo, end))
	// Walk over the breakpoints of both ends of the block.
	s := lo
	var a, b int
	if s < end {
		a = cellOf(s)
	} else {
		a = n - 1
	}
	if s+l < end {
		b = cellOf(s + l)
	} else {
		b = n - 1
	}
	upA := cum[a]
	if a < n-1 {
		upA += (s - e.gridF[a]) * at[a]
	}
	upB := cum[b]
	if b < n-1 {
		upB += (s + l - e.gridF[b]) * at[b]
	}
	cost, start = w*(s+l)+upB-upA, s
	for s < hi {
		next := hi
		if a < n-1 {
			next = min(next, e.gridF[a+1])
		}
		if b < n-1 {
			next = min(next, e.gridF[b+1]-l)
		}
		s = next
		if a < n-1 && s >= e.gridF[a+1] {
			a++
		}
		if b < n-1 && s+l >= e.gridF[b+1] {
			b++
		}
		upA = cum[a]
		if a < n-1 {
			upA += (s - e.gridF[a]) * at[a]
		}
		upB = cum[b]
		if b < n-1 {
			upB += (s + l - e.gridF[b]) * at[b]
		}
		if v := w*(s+l) + upB - upA; v < cost {
			cost, start = v, s
		}
	}
	return cost, start
}

// capacity returns what the capacity of type k that is not certainly taken costs.
func (e *dual) capacity(d *domain, p *Prices, k int, want bool) float64 {
	rows := e.rowsOf[k]
	if len(rows) == 0 {
		return 0
	}
	e.compul = e.pr.profile(e.compul, d, e.only, k, -1)
	total := 0.0
	seg := e.compul
	s := 0
	G := len(e.grid) - 1
	for g := range G {
		t, end := e.grid[g], e.grid[g+1]
		filled := int64(-1)
		for t < end {
			for s+1 < len(seg) && seg[s+1].from <= t {
				s++
			}
			next := end
			if s+1 < len(seg) {
				next = min(next, seg[s+1].from)
			}
			if free := seg[s].free; free > 0 {
				if free > filled {
					for c := filled + 1; c <= free; c++ {
						if c == 0 {
							e.best[0] = 0
							continue
						}
						e.best[c], e.choice[c] = e.best[c-1], -1
						for _, r := range rows {
							if z := e.rows[r].size; z <= c {
								if v := e.best[c-z] + p.at[r][g]; v > e.best[c] {
									e.best[c], e.choice[c] = v, int32(r)
								}
							}
						}
					}
					filled = free
				}
				length := float64(next - t)
				total += e.best[free] * length
				if want {
					for c := free; c > 0; {
						r := e.choice[c]
						if r < 0 {
							c--
							continue
						}
						e.grad[r][g] -= length
						c -= e.rows[r].size
					}
				}
			}
			t = next
		}
	}
	return total
}

// climb raises the bound from the prices from until it reaches target or so many steps are made. It
// returns what the best prices prove, rounded, and these prices.
func (e *dual) climb(d *domain, from *Prices, target float64, steps int) (bound float64, best *Prices) {
	best, cur, dir := from.clone(), from.clone(), e.newPrices()
	value, delta, since, fresh := math.Inf(-1), 0.0, 0, true
	goal := target + 2*margin*math.Abs(target)
	for n := range steps {
		v := e.value(d, cur, true)
		if v > value {
			value, since = v, 0
			best.copyFrom(cur)
			if v-2*margin*e.terms >= goal {
				break
			}
			if n == 0 {
				delta = min(0.1, max(1e-4, (target-v)/math.Abs(target)))
			}
		} else if since++; since >= patience {
			if delta *= nearer; delta < minDelta {
				break
			}
			since, fresh = 0, true
			cur.copyFrom(best)
			continue
		}
		for r := range dir.at {
			for g, x := range e.grad[r] {
				if fresh {
					dir.at[r][g] = x
				} else {
					dir.at[r][g] += deflect * (x - dir.at[r][g])
				}
			}
		}
		fresh = false
		if !e.step(cur, dir, value+delta*math.Abs(value)-v+1) {
			break
		}
	}
	best.round()
	return e.least(d, best), best
}

// step moves prices along dir so far that the value would rise by gain if it were linear. It returns
// false if the prices are the best ones.
func (e *dual) step(cur, dir *Prices, gain float64) bool {
	dearest := 0.0 // of one GPU
	for r := range cur.at {
		dearest = max(dearest, slices.Max(cur.at[r])/float64(e.rows[r].size))
	}
	rate := func(r, g int) float64 {
		if cur.at[r][g] <= 0 && dir.at[r][g] <= 0 {
			return 0
		}
		size := float64(e.rows[r].size)
		return (cur.at[r][g] + floorPre*dearest*size + 1e-3) * size / (e.gridF[g+1] - e.gridF[g])
	}
	norm := 0.0
	for r := range cur.at {
		for g, x := range dir.at[r] {
			norm += rate(r, g) * x * x
		}
	}
	if norm <= 0 {
		return false
	}
	length := gain / norm
	for r := range cur.at {
		for g, x := range dir.at[r] {
			cur.at[r][g] = max(0, cur.at[r][g]+length*rate(r, g)*x)
		}
	}
	return true
}
