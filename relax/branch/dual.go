package branch

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// margin is how far a bound in floats is lowered, as a share of its terms. Rounding makes it wrong
// by at most 1e-12 of them.
const margin = 1e-10

// Prices are prices by row and cell, of a second of a whole job on a type.
type Prices struct {
	at [][]float64
}

// row says of which job and type a row of prices is; size is the number of tasks.
type row struct {
	kind int
	size int64
	job  int
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
	segments    []segment // of capacity
	best        []float64
	pick        []int     // type by job
	start       []float64 // by job
	phi         []float64
	only        []int
	terms       float64 // the sum of the terms of the last value
	evaluations int64
	take        []bool  // by place in in and GPUs: the job is in the dearest set
	cuts        []int64 // times at which the sets of capacity change
	in          []int   // the rows that may be in the dearest set
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
			r := len(e.rows)
			e.rows = append(e.rows, row{k, pr.jobs[i].tasks, i})
			e.rowsOf[k] = append(e.rowsOf[k], r)
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
	e.take = make([]bool, len(pr.jobs)*int(most+1))
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
		sizes[row{slices.Index(e.pr.model.Types, t.Type), t.Tasks, 0}] = t.Nanos
	}
	for r, to := range e.rows {
		nanos, times := sizes[row{to.kind, to.size, 0}], 1.0
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

// capacity returns what the capacity of type k costs that is not certainly taken: at each time the
// dearest set of jobs that may run then and fit.
func (e *dual) capacity(d *domain, p *Prices, k int, want bool) float64 {
	pr, kinds, most := e.pr, len(e.pr.types), len(e.best)
	seg := e.pr.profile(e.segments, d, e.only, k, -1)
	e.segments = seg
	// The times at which jobs may begin to run, or no longer run, and their cores.
	cuts := e.cuts[:0]
	for _, s := range seg {
		cuts = append(cuts, s.from)
	}
	for _, r := range e.rowsOf[k] {
		i := e.rows[r].job
		if x := i*kinds + k; d.lo[x] <= d.hi[x] {
			cuts = append(cuts, d.lo[x], d.hi[x]+pr.jobs[i].length[k])
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	e.cuts = cuts
	total := 0.0
	s, c := 0, 0
	for g := range len(e.grid) - 1 {
		t, end := e.grid[g], e.grid[g+1]
		for t < end {
			for s+1 < len(seg) && seg[s+1].from <= t {
				s++
			}
			for c < len(cuts) && cuts[c] <= t {
				c++
			}
			next := end
			if c < len(cuts) {
				next = min(next, cuts[c])
			}
			free := seg[s].free
			length := float64(next - t)
			from := t
			t = next
			if free <= 0 {
				continue
			}
			in := e.in[:0]
			clear(e.best[:free+1])
			held := int64(0)
			sum := 0.0
			for _, r := range e.rowsOf[k] {
				price, z, i := p.at[r][g], e.rows[r].size, e.rows[r].job
				x := i*kinds + k
				length := pr.jobs[i].length[k]
				away := price <= 0 || z > free || d.lo[x] > d.hi[x] || d.lo[x] > from || d.hi[x]+length <= from
				if away || e.only[i] == k && d.hi[x] <= from && from < d.lo[x]+length {
					continue
				}
				in = append(in, r)
				held += z
				sum += price
			}
			e.in = in
			if held <= free {
				total += sum * length
				if want {
					for _, r := range in {
						e.grad[r][g] -= length
					}
				}
				continue
			}
			for y, r := range in {
				price, z := p.at[r][g], e.rows[r].size
				take := e.take[y*most : (y+1)*most]
				for c := free; c >= z; c-- {
					if v := e.best[c-z] + price; v > e.best[c] {
						e.best[c], take[c] = v, true
					} else {
						take[c] = false
					}
				}
			}
			total += e.best[free] * length
			if want {
				c := free
				for y := len(in) - 1; y >= 0; y-- {
					if z := e.rows[in[y]].size; c >= z && e.take[y*most+int(c)] {
						e.grad[in[y]][g] -= length
						c -= z
					}
				}
			}
		}
	}
	return total
}
