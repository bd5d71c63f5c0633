package verify

import (
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// fluid is the time of one job cut into pieces of constant prices, and the
// least price of each type within each piece's trailing windows.
type fluid struct {
	job  *hare.Job
	cs   []choice
	from []int64 // starts of pieces; the last is endless
	// unit[k][i] is n = d·c, the price of a round on type k in piece i
	// (1e-15), and unitF the same in floats.
	unit  [][]*big.Int
	unitF [][]float64
	extra []*big.Int // w·d of type k: what a round of the last piece costs more
}

// fluidPhi evaluates φ of a relaxed or gang job by its dual: for each last
// piece L the maximum over μ of w b + μR − Σ len·max(0, max_k (μ − n)/d), and
// then the least over L (DESIGN 2.2). Floats find μ and discard last pieces
// whose dual is far above the least at that μ; the value at each kept μ is
// exact, and valid whatever μ is.
func fluidPhi(job *hare.Job, cs []choice, grid []int64, path int64) *big.Rat {
	f := &fluid{job: job, cs: cs}
	f.cut(grid, path)
	type guess struct {
		at        int // last piece
		mu, value float64
	}
	var guesses []guess
	least := math.Inf(1)
	for L := range f.from {
		if f.from[L] < path {
			continue
		}
		if float64(job.WeightMicro)*1000*float64(f.from[L]) > least*(1+1e-9) {
			break
		}
		mu, v, mass := f.maximise(L)
		guesses = append(guesses, guess{at: L, mu: mu, value: v - 1e-11*mass})
		least = min(least, v+1e-11*mass)
	}
	var best *big.Rat
	for _, g := range guesses {
		// value is already lowered by more than its rounding errors.
		if g.value > least*(1+1e-9)+1 {
			continue
		}
		if v := f.exact(g.at, g.mu); best == nil || v.Cmp(best) < 0 {
			best = v
		}
	}
	return best
}

// cut makes the pieces: the release, the path, every grid point and every grid
// point plus a synchronisation time.
func (f *fluid) cut(grid []int64, path int64) {
	a := f.job.ReleaseUs
	cuts := []int64{a, path}
	for _, t := range grid {
		cuts = append(cuts, t)
		if f.job.Sync == hare.Relaxed {
			for _, c := range f.cs {
				cuts = append(cuts, t+c.s)
			}
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	at, _ := slices.BinarySearch(cuts, a)
	f.from = cuts[at:]
	n := len(f.from)
	for _, c := range f.cs {
		row := make([]*big.Int, n)
		rowF := make([]float64, n)
		amount := c.p
		back := c.s
		if f.job.Sync != hare.Relaxed {
			amount, back = c.d, 0
		}
		lo, hi := 0, 0 // cells of the trailing window
		for i, b := range f.from {
			start := max(b-back, a)
			for lo+1 < len(grid) && grid[lo+1] <= start {
				lo++
			}
			for hi+1 < len(grid) && grid[hi+1] <= b {
				hi++
			}
			var price int64
			if hi < len(grid)-1 {
				price = slices.Min(c.prices[lo : hi+1])
			}
			row[i] = times(f.job.Tasks, amount, price)
			rowF[i], _ = new(big.Float).SetInt(row[i]).Float64()
		}
		f.unit, f.unitF = append(f.unit, row), append(f.unitF, rowF)
		f.extra = append(f.extra, times(f.job.WeightMicro, 1000, c.d))
	}
}

// dual is the right side for last piece L at μ, in floats, its slope, and the
// sum of the sizes of its terms, which bounds its rounding error.
func (f *fluid) dual(L int, mu float64) (value, slope, mass float64) {
	value = float64(f.job.WeightMicro)*1000*float64(f.from[L]) + mu*float64(f.job.Rounds)
	slope, mass = float64(f.job.Rounds), value
	for i := 0; i <= L; i++ {
		length := math.Inf(1)
		if i+1 < len(f.from) {
			length = float64(f.from[i+1] - f.from[i])
		}
		best, bestD := 0.0, 0.0
		for k := range f.cs {
			n := f.unitF[k][i]
			if i == L {
				n += float64(f.job.WeightMicro) * 1000 * float64(f.cs[k].d)
			}
			if x := (mu - n) / float64(f.cs[k].d); x > best {
				best, bestD = x, float64(f.cs[k].d)
			}
		}
		if best > 0 {
			value -= length * best
			slope -= length / bestD
			mass += length * best
		}
	}
	return value, slope, mass
}

// maximise finds the μ that maximises the concave dual, by bisection on the
// breakpoints at which its slope may turn.
func (f *fluid) maximise(L int) (mu, value, mass float64) {
	var turns []float64
	for i := 0; i <= L; i++ {
		for k := range f.cs {
			dk := float64(f.cs[k].d)
			nk := f.unitF[k][i]
			if i == L {
				nk += float64(f.job.WeightMicro) * 1000 * dk
			}
			turns = append(turns, nk)
			for m := range k {
				dm := float64(f.cs[m].d)
				nm := f.unitF[m][i]
				if i == L {
					nm += float64(f.job.WeightMicro) * 1000 * dm
				}
				if dk != dm {
					// (μ − nk)/dk = (μ − nm)/dm
					if x := (nk*dm - nm*dk) / (dm - dk); x > 0 {
						turns = append(turns, x)
					}
				}
			}
		}
	}
	slices.Sort(turns)
	lo, hi := 0, len(turns)-1
	for lo < hi {
		mid := (lo + hi) / 2
		// The slope right of turns[mid] is taken just after it.
		after := turns[mid]
		if mid+1 < len(turns) {
			after = (turns[mid] + turns[mid+1]) / 2
		}
		if _, s, _ := f.dual(L, after); s > 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	value, _, mass = f.dual(L, turns[lo])
	return turns[lo], value, mass
}

// exact is the dual at the exact turn nearest to mu, in rationals.
func (f *fluid) exact(L int, mu float64) *big.Rat {
	turn := f.turnNear(L, mu)
	num, den := turn.Num(), turn.Denom()
	sums := make([]*big.Int, len(f.cs))
	for k := range sums {
		sums[k] = new(big.Int)
	}
	if L == len(f.from)-1 {
		// The endless piece allows no μ over its cheapest round.
		for k := range f.cs {
			limit := new(big.Int).Add(f.unit[k][L], f.extra[k])
			if cap := new(big.Rat).SetInt(limit); turn.Cmp(cap) > 0 {
				turn = cap
				num, den = turn.Num(), turn.Denom()
			}
		}
	}
	for i := 0; i <= L; i++ {
		if i+1 == len(f.from) {
			break // endless: contributes 0 at an allowed μ
		}
		at := -1
		var best *big.Int
		for k := range f.cs {
			n := f.unit[k][i]
			if i == L {
				n = new(big.Int).Add(n, f.extra[k])
			}
			// (μ − n)/d, as num − n·den over d·den.
			x := new(big.Int).Mul(n, den)
			x.Sub(num, x)
			if x.Sign() <= 0 {
				continue
			}
			if at < 0 || new(big.Int).Mul(x, big.NewInt(f.cs[at].d)).Cmp(new(big.Int).Mul(best, big.NewInt(f.cs[k].d))) > 0 {
				at, best = k, x
			}
		}
		if at >= 0 {
			sums[at].Add(sums[at], best.Mul(best, big.NewInt(f.from[i+1]-f.from[i])))
		}
	}
	v := new(big.Rat).SetInt(times(f.job.WeightMicro, 1000, f.from[L]))
	v.Add(v, new(big.Rat).SetFrac(new(big.Int).Mul(num, big.NewInt(f.job.Rounds)), den))
	for k, s := range sums {
		v.Sub(v, new(big.Rat).SetFrac(s, new(big.Int).Mul(den, big.NewInt(f.cs[k].d))))
	}
	return v
}

// turnNear is the exact form of the turn that the float search ended at.
func (f *fluid) turnNear(L int, mu float64) *big.Rat {
	best, distance := new(big.Rat), math.Inf(1)
	consider := func(i int, make func() *big.Rat, approx float64) {
		if d := math.Abs(approx - mu); d < distance {
			distance, best = d, make()
		}
	}
	for i := 0; i <= L; i++ {
		at := func(k int) *big.Int {
			if i == L {
				return new(big.Int).Add(f.unit[k][i], f.extra[k])
			}
			return f.unit[k][i]
		}
		atF := func(k int) float64 {
			if i == L {
				return f.unitF[k][i] + float64(f.job.WeightMicro)*1000*float64(f.cs[k].d)
			}
			return f.unitF[k][i]
		}
		for k := range f.cs {
			consider(i, func() *big.Rat { return new(big.Rat).SetInt(at(k)) }, atF(k))
			for m := range k {
				dk, dm := f.cs[k].d, f.cs[m].d
				if dk == dm {
					continue
				}
				approx := (atF(k)*float64(dm) - atF(m)*float64(dk)) / (float64(dm) - float64(dk))
				consider(i, func() *big.Rat {
					x := new(big.Int).Mul(at(k), big.NewInt(dm))
					x.Sub(x, new(big.Int).Mul(at(m), big.NewInt(dk)))
					return new(big.Rat).SetFrac(x, big.NewInt(dm-dk))
				}, approx)
			}
		}
	}
	if best.Sign() < 0 {
		return new(big.Rat)
	}
	return best
}
