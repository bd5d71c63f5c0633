package verify

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// At given prices, the cheapest way to do a relaxed or gang job by itself is bounded by a fluid: rounds are divisible,
// so that a linear program with one constraint remains, that R rounds are done. Its Lagrangian dual has the single
// multiplier μ. This file has the pieces of time of the fluid and the dual in floats, which propose multipliers;
// fluid_exact.go decides in integers. Why the dual is a bound is in docs/inside/design.md, section 2.2.

// fluid is the time of one relaxed or gang job, cut into pieces of constant prices.
// Costs count 1e-15 weight-seconds, times count µs.
type fluid struct {
	job   *hare.Job
	cs    []typeChoice
	path  int64
	ended bool    // all work ends by the start of the last piece, and the end costs nothing
	from  []int64 // the starts of the pieces; the last piece is endless
	// For piece i and type k, at index i·len(cs)+k: the least price within the trailing
	// window, and n = factor·price, the price of a round, in floats.
	price  []int64
	unit   []float64
	rate   []float64  // 1/d by type
	fast   float64    // the greatest rate
	factor []*big.Int // what a round holds, in units times µs: K·p, or K·d for a gang

	low []float64  // by last piece: a proved lower bound on its cost
	mu  []float64  // by last piece: where its dual is greatest in floats; −1 if not searched
	alt []*big.Rat // by last piece: the greatest D_L(μ) found in integers; nil without one
}

// newFluid cuts time at the release, the path, the deadline, every grid point and, for a relaxed job, every grid point
// plus a synchronisation time, or at the ends of a loose round's window. Between cuts the trailing minima of all types
// are constant. It takes O(n log n).
func newFluid(job *hare.Job, cs []typeChoice, grid []int64, path int64, ended bool) *fluid {
	f := &fluid{job: job, cs: cs, path: path, ended: ended}
	relaxed := job.Sync == hare.Relaxed
	back := make([]int64, len(cs))
	for k := range cs {
		if relaxed {
			back[k] = cmp.Or(cs[k].back, cs[k].s)
		}
	}
	cuts := append(make([]int64, 0, 2+len(grid)*(1+len(cs))), job.ReleaseUs, path)
	add := func(t int64) {
		if t > job.ReleaseUs {
			cuts = append(cuts, t)
		}
	}
	for _, t := range grid {
		add(t)
		for k := range cs {
			if back[k] > 0 && !slices.Contains(back[:k], back[k]) {
				add(t + back[k])
			}
			if cs[k].ahead > 0 {
				add(t - cs[k].ahead)
			}
		}
	}
	if job.LateWeightMicro > 0 {
		add(job.DeadlineUs)
	}
	slices.Sort(cuts)
	f.from = slices.Compact(cuts)
	if ended {
		at, _ := slices.BinarySearch(f.from, grid[len(grid)-1])
		f.from = f.from[:at+1]
	}
	n, types := len(f.from), len(cs)
	f.price = make([]int64, n*types)
	for k := range cs {
		held := cs[k].d
		if relaxed {
			held = cs[k].p
		}
		f.factor = append(f.factor, times(cs[k].units, held))
		f.rate = append(f.rate, float64(cs[k].unitsDone())/float64(cs[k].d))
		f.fast = max(f.fast, f.rate[k])
		if cs[k].curve != nil {
			f.trailingMinima(k, grid, back[k], cs[k].ahead)
		}
	}
	f.mergePieces()
	n = len(f.from)
	f.unit = make([]float64, n*types)
	for k := range cs {
		factor, _ := new(big.Float).SetInt(f.factor[k]).Float64()
		for i := range n {
			f.unit[i*types+k] = factor * float64(f.price[i*types+k]) / float64(cs[k].unitsDone())
		}
	}
	f.low, f.mu, f.alt = make([]float64, n), make([]float64, n), make([]*big.Rat, n)
	return f
}

// trailingMinima computes, for each piece, the least price of type k over [max(t − back, a), t + ahead] with t in the
// piece, by a queue of cells of rising prices. It takes O(pieces + cells).
func (f *fluid) trailingMinima(k int, grid []int64, back, ahead int64) {
	prices := f.cs[k].curve.prices
	queue := make([]int, 0, len(grid))
	oldest, next := 0, 0 // the cells before next have been queued
	for i, b := range f.from {
		if b+ahead >= grid[len(grid)-1] {
			break // free from the horizon on
		}
		for next < len(prices) && grid[next] <= b+ahead {
			for len(queue) > 0 && prices[queue[len(queue)-1]] >= prices[next] {
				queue = queue[:len(queue)-1]
			}
			queue = append(queue, next)
			next++
		}
		start := max(b-back, f.job.ReleaseUs)
		for oldest+1 < len(grid) && grid[oldest+1] <= start {
			oldest++
		}
		for queue[0] < oldest {
			queue = queue[1:]
		}
		f.price[i*len(f.cs)+k] = prices[queue[0]]
	}
}

// mergePieces merges neighbouring pieces in which every type costs the same. It keeps
// the cut at the path, where last pieces begin, the cut at the deadline, and the end of the work.
func (f *fluid) mergePieces() {
	types := len(f.cs)
	n := 1
	for i := 1; i < len(f.from); i++ {
		keep := f.from[i] == f.path || f.job.LateWeightMicro > 0 && f.from[i] == f.job.DeadlineUs ||
			f.ended && i == len(f.from)-1
		if !keep && slices.Equal(f.price[i*types:(i+1)*types], f.price[(n-1)*types:n*types]) {
			continue
		}
		f.from[n] = f.from[i]
		copy(f.price[n*types:(n+1)*types], f.price[i*types:(i+1)*types])
		n++
	}
	f.from = f.from[:n]
	f.price = f.price[:n*types]
}

// slope returns how much a µs of the end costs in piece i, in 1e-15 weight-seconds: w, and w + v
// from the deadline on.
func (f *fluid) slope(i int) *big.Int {
	w := big.NewInt(f.job.WeightMicro)
	if f.job.LateWeightMicro > 0 && f.from[i] >= f.job.DeadlineUs {
		w.Add(w, big.NewInt(f.job.LateWeightMicro))
	}
	return w.Mul(w, big.NewInt(1000))
}

// slopeF is slope in floats.
func (f *fluid) slopeF(i int) float64 {
	w := f.job.WeightMicro
	if f.job.LateWeightMicro > 0 && f.from[i] >= f.job.DeadlineUs {
		w += f.job.LateWeightMicro
	}
	return float64(w) * 1000
}

// candidates returns the first possible last piece: it starts at or after the path and
// ends late enough for all rounds on the fastest type. The dual of earlier pieces is
// unbounded. candidates also sets f.low to w·b.
func (f *fluid) candidates() int {
	fast := &f.cs[f.fastest()]
	first := len(f.from) - 1
	for i := first - 1; i >= 0 && !f.ended; i-- {
		if f.from[i] < f.path || lessProduct(f.from[i+1]-f.from[0], fast.unitsDone(), f.job.Rounds, fast.d) {
			break
		}
		first = i
	}
	for i, b := range f.from {
		f.low[i] = endCostF(f.job, b) * (1 - 0x1p-49)
		f.mu[i] = -1
	}
	return first
}

// unitTime returns how long a type takes for one unit of the job, in floats.
func (f *fluid) unitTime(k int) float64 { return float64(f.cs[k].d) / float64(f.cs[k].unitsDone()) }

// sweep evaluates D at μ in floats for every last piece in one pass, with a running sum of
// the pieces before, and raises f.low. It returns D − w·b and the left slope of D for last
// piece L.
//
// The rounding error is bounded as follows, with u = 2^-53. The error of each gain
// max(0, (μ−n)/d) is at most 5u·μ/d (if n > μ, the gain is 0 in floats, too), and the relative
// error of its length is at most u. A sum of n terms is at most μ·T/min d, where T is the
// time up to the piece, and its error is at most n·u times that limit. slop is four times
// as large as this bound.
func (f *fluid) sweep(mu float64, L int) (value, slope float64) {
	types, n := len(f.cs), len(f.from)
	slop := float64(n+16) * 0x1p-51
	rounds := mu * float64(f.job.Rounds)
	sum, rates := 0.0, 0.0
	for i, b := range f.from {
		gain, rate := 0.0, 0.0
		for k, c := range f.unit[i*types : (i+1)*types] {
			if x := (mu - c) * f.rate[k]; x > gain {
				gain, rate = x, f.rate[k]
			}
		}
		w := f.slopeF(i)
		if i == n-1 {
			// The piece is endless and free: D is −∞ if a round is worth more than w·d. Nothing
			// runs there if all work has ended.
			if f.ended || gain <= w*(1-0x1p-40) {
				v := endCostF(f.job, b) + rounds
				f.low[i] = max(f.low[i], v-sum-slop*(v+mu*f.fast*float64(b-f.from[0])))
			}
			if i == L {
				value, slope = rounds-sum, float64(f.job.Rounds)-rates
			}
			break
		}
		length := float64(f.from[i+1] - b)
		last := max(0, gain-w)
		v := endCostF(f.job, b) + rounds
		f.low[i] = max(f.low[i], v-sum-length*last-slop*(v+w*length+mu*f.fast*float64(f.from[i+1]-f.from[0])))
		if i == L {
			value, slope = rounds-sum-length*last, float64(f.job.Rounds)-rates
			if last > 0 {
				slope -= length * rate
			}
		}
		sum += length * gain
		rates += length * rate
	}
	return value, slope
}

// maximise searches the μ at which D_L is greatest. D_L is concave and piecewise linear. The
// next μ is where the tangents at the ends of the bracket meet; if D_L reaches the tangents
// there, this μ is the breakpoint at which D_L is greatest.
func (f *fluid) maximise(L int) float64 {
	lo, vlo, slo := 0.0, 0.0, float64(f.job.Rounds)
	hi, vhi, shi := math.Inf(1), 0.0, 0.0
	guess := 1.0
	for k := range f.cs {
		guess = max(guess, f.unit[L*len(f.cs)+k]+f.slopeF(L)*f.unitTime(k))
	}
	if L == len(f.from)-1 && !f.ended {
		for k := range f.cs {
			guess = min(guess, f.slopeF(L)*f.unitTime(k))
		}
		hi = guess
		if vhi, shi = f.sweep(hi, L); shi >= 0 {
			f.sweep(hi*(1-0x1p-39), L) // below the end of the bracket, where f.low[L] is raised
			return hi
		}
	}
	// A slope within its rounding error of 0 counts as 0.
	flat := float64(len(f.from)+16) * 0x1p-51 * (float64(f.job.Rounds) +
		f.fast*float64(f.from[min(L+1, len(f.from)-1)]-f.from[0]))
	const steps = 300 // tens suffice, and any μ gives a bound
	for step := range steps {
		mu, top := guess, math.Inf(1)
		if !math.IsInf(hi, 1) {
			mu = (vhi - vlo + slo*lo - shi*hi) / (slo - shi)
			if mu <= lo {
				return lo
			}
			if mu >= hi {
				return hi
			}
			top = vlo + slo*(mu-lo)
			if step%8 == 7 {
				mu, top = lo+(hi-lo)/2, math.Inf(1)
			}
		}
		v, s := f.sweep(mu, L)
		if math.Abs(s) <= flat || v >= top-1e-14*math.Abs(top) {
			return mu
		}
		if s > 0 {
			lo, vlo, slo = mu, v, s
			guess = 8 * mu
		} else {
			hi, vhi, shi = mu, v, s
		}
	}
	return lo
}

// faster reports whether type a does more units in a time than type b.
func (f *fluid) faster(a, b int) bool {
	return lessProduct(f.cs[a].d, f.cs[b].unitsDone(), f.cs[b].d, f.cs[a].unitsDone())
}

// fastest returns the type that does most units in a time.
func (f *fluid) fastest() int {
	fast := 0
	for k := range f.cs {
		if f.faster(k, fast) {
			fast = k
		}
	}
	return fast
}
