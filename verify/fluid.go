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
	rate  []float64  // 1/d of type k
	extra []*big.Int // w·d of type k: what a round of the last piece costs more
}

// fluidPhi evaluates φ of a relaxed or gang job by its dual: for each last
// piece L the maximum over μ of w b + μR − Σ len·max(0, max_k (μ − n)/d), and
// then the least over L (DESIGN 2.2). Any μ bounds every L from below, so L is
// maximised in floats only while its bound at the μ seen so far is under the
// least maximum; each L near the least is then evaluated exactly. Floats count
// with their rounding error against them.
func fluidPhi(job *hare.Job, cs []choice, grid []int64, path int64) *big.Rat {
	f := &fluid{job: job, cs: cs}
	f.cut(grid, path)
	n := len(f.from)
	low := make([]float64, n) // proved by some μ
	best := make([]float64, n)
	known := make([]bool, n) // maximised: best is the μ
	for L := range low {
		low[L] = float64(job.WeightMicro) * 1000 * float64(f.from[L]) * (1 - 1e-12)
		if f.from[L] < path {
			low[L] = math.Inf(1)
		}
	}
	least := math.Inf(1)
	for {
		L := -1
		for i := range low {
			if !known[i] && low[i] <= least*(1+1e-9)+1 && (L < 0 || low[i] < low[L]) {
				L = i
			}
		}
		if L < 0 {
			break
		}
		mu, value, mass := f.maximise(L)
		known[L], best[L] = true, mu
		f.lower(mu, low, path)
		low[L] = max(low[L], value-1e-11*mass)
		least = min(least, value+1e-11*mass)
	}
	var phi *big.Rat
	for L := range known {
		if known[L] && low[L] <= least*(1+1e-9)+1 {
			if v := f.exact(L, best[L]); phi == nil || v.Cmp(phi) < 0 {
				phi = v
			}
		}
	}
	return phi
}

// lower raises low[L] to the dual at mu, for every L at once: the pieces before
// L are a running sum.
func (f *fluid) lower(mu float64, low []float64, path int64) {
	sum := 0.0
	for L, b := range f.from {
		fixed := float64(f.job.WeightMicro)*1000*float64(b) + mu*float64(f.job.Rounds)
		length := math.Inf(1)
		if L+1 < len(f.from) {
			length = float64(f.from[L+1] - b)
		}
		if b >= path {
			if last := f.gain(L, mu, true); last == 0 || !math.IsInf(length, 1) {
				if last > 0 {
					last *= length
				}
				low[L] = max(low[L], fixed-sum-last-1e-11*(fixed+sum+last))
			}
		}
		if !math.IsInf(length, 1) {
			sum += length * f.gain(L, mu, false)
		}
	}
}

// gain is max(0, max_k (μ − n)/d) of piece i.
func (f *fluid) gain(i int, mu float64, last bool) float64 {
	best := 0.0
	for k := range f.cs {
		x := (mu - f.unitF[k][i]) * f.rate[k]
		if last {
			x -= float64(f.job.WeightMicro) * 1000
		}
		best = max(best, x)
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
		f.rate = append(f.rate, 1/float64(c.d))
	}
	f.join(path)
}

// join makes one piece of neighbours in which every type costs the same; the
// cut at the path stays, where last pieces begin.
func (f *fluid) join(path int64) {
	n := 1
	for i := 1; i < len(f.from); i++ {
		same := f.from[i] != path
		for k := range f.cs {
			same = same && f.unit[k][i].Cmp(f.unit[k][n-1]) == 0
		}
		if same {
			continue
		}
		f.from[n] = f.from[i]
		for k := range f.cs {
			f.unit[k][n], f.unitF[k][n] = f.unit[k][i], f.unitF[k][i]
		}
		n++
	}
	f.from = f.from[:n]
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
		best, rate := 0.0, 0.0
		for k := range f.cs {
			x := (mu - f.unitF[k][i]) * f.rate[k]
			if i == L {
				x -= float64(f.job.WeightMicro) * 1000
			}
			if x > best {
				best, rate = x, f.rate[k]
			}
		}
		if best > 0 {
			value -= length * best
			slope -= length * rate
			mass += length * best
		}
	}
	return value, slope, mass
}

// maximise finds the μ that maximises the concave dual, by bisection on the
// sign of its slope.
func (f *fluid) maximise(L int) (mu, value, mass float64) {
	lo, hi := 0.0, 1.0
	for {
		if _, slope, _ := f.dual(L, hi); slope <= 0 {
			break
		}
		lo, hi = hi, hi*2
	}
	for hi-lo > 1e-15*hi {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			break
		}
		if _, slope, _ := f.dual(L, mid); slope > 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	// On the slope's last rise the dual is greatest: at lo or just after it.
	mu = lo
	value, _, mass = f.dual(L, lo)
	return mu, value, mass
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
