package verify

import (
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// fluidPhi returns φ of a relaxed or gang job by the dual of docs/inside/design.md, section 2.2: with n
// the price of a round in a piece and type,
//
//	cost_L ≥ D_L(μ) = w b_L + μR − Σ_{i≤L} len_i · max(0, max_k (μ − n_ik)/d_k − [i=L] w)
//
// for every μ ≥ 0, with equality at the greatest; φ = min over L of max over μ. A round of type k
// may do u_k units of the job: R counts units then, and uμ takes the place of μ in the gain.
//
// Floats choose which μ to evaluate first, and prove that the least cost is not at some L; the
// proof subtracts the rounding error of each evaluation. The other L are evaluated in
// integers at breakpoints of D_L, until its slopes prove that it is greatest. The result is
// therefore φ exactly, also where breakpoints lie closer together than floats can tell apart.
// fluidPhi takes O(n·types) for each μ, of which it tries some tens for a job.
func fluidPhi(job *hare.Job, cs []typeChoice, grid []int64, path int64) *big.Rat {
	return newFluid(job, cs, grid, path, false).least()
}

// fluidPsi is the least price of a relaxed or gang job whose work ends by the last time of the
// grid, which is no earlier than its least end. It is fluidPhi with L the piece that starts
// there, in which nothing runs.
func fluidPsi(job *hare.Job, cs []typeChoice, grid []int64) *big.Rat {
	return newFluid(job, cs, grid, job.ReleaseUs, true).least()
}

// least returns φ or ψ.
func (f *fluid) least() *big.Rat {
	first := f.candidates()
	for {
		L := first
		for i := first; i < len(f.from); i++ {
			if f.low[i] < f.low[L] {
				L = i
			}
		}
		if f.mu[L] >= 0 {
			break
		}
		f.mu[L] = f.maximise(L)
	}
	var phi *big.Rat
	done := make([]bool, len(f.from))
	bound := math.Inf(1)
	for {
		L := -1
		for i := first; i < len(f.from); i++ {
			if done[i] || f.low[i] >= bound || f.alt[i] != nil && phi != nil && f.alt[i].Cmp(phi) >= 0 {
				continue
			}
			if L < 0 || f.low[i] < f.low[L] {
				L = i
			}
		}
		if L < 0 {
			return phi
		}
		if f.mu[L] < 0 {
			f.mu[L] = f.maximise(L)
			if f.low[L] >= bound {
				continue
			}
		}
		// Besides L, all pieces that floats cannot tell from L are evaluated.
		near := min(bound, f.low[L]+f.low[L]*1e-9+1)
		f.settle(L, first, done, near)
		done[L] = true
		if phi == nil || f.alt[L].Cmp(phi) < 0 {
			phi = f.alt[L]
			bound, _ = phi.Float64()
			bound *= 1 + 0x1p-51
		}
	}
}

// dual is D_L at some μ: its value and its slopes below and above. D_L is concave. Without a value
// D_L is −∞, because μ is too large.
type dual struct {
	mu, value, left, right *big.Rat
}

// greatest reports whether D_L is nowhere greater.
func (du *dual) greatest() bool {
	return du.value != nil && (du.left.Sign() >= 0 || du.mu.Sign() == 0) && du.right.Sign() <= 0
}

// settle raises f.alt[L] to the greatest D_L. It starts from the breakpoints that floats propose,
// and ends where the slopes on both sides prove that D_L is greatest. Where no breakpoint is, the
// next μ is where the tangents beside the greatest D_L meet; each step drops a line of D_L at
// least. settle raises the other f.alt as evaluate does.
func (f *fluid) settle(L, first int, done []bool, bound float64) {
	var low, high *dual // D_L rises above low, and falls below high
	settled := func(mu *big.Rat) bool {
		d := f.evaluate(mu, L, first, done, bound)
		switch {
		case d.greatest():
			return true
		case d.value != nil && d.right.Sign() > 0:
			if low == nil || mu.Cmp(low.mu) > 0 {
				low = &d
			}
		case high == nil || mu.Cmp(high.mu) < 0:
			high = &d
		}
		return false
	}
	for _, mu := range f.breakpoints(L) {
		if settled(mu) {
			return
		}
	}
	if low == nil && settled(new(big.Rat)) {
		return
	}
	for {
		mu := new(big.Rat)
		switch {
		case high == nil:
			mu.Mul(low.mu, big.NewRat(256, 1)).Add(mu, big.NewRat(1, 1))
		case high.value == nil: // in the last piece, which is endless
			fast := &f.cs[f.fastest()]
			mu.SetFrac(f.slope(L), big.NewInt(fast.unitsDone()))
			mu.Mul(mu, big.NewRat(fast.d, 1))
		default:
			by := new(big.Rat).Sub(low.right, high.left)
			x := new(big.Rat).Mul(low.right, low.mu)
			mu.Sub(high.value, low.value).Add(mu, x).Sub(mu, x.Mul(high.left, high.mu)).Quo(mu, by)
		}
		if settled(mu) {
			return
		}
	}
}

// evaluate raises f.alt to D_L(μ), exactly, for each last piece L that is neither done
// nor proved to cost at least bound, unless D is −∞. The seconds of each type and their
// prices are running sums of integers, so only the pieces that are evaluated need big
// arithmetic. evaluate returns D_L of one of these pieces.
func (f *fluid) evaluate(mu *big.Rat, of, first int, done []bool, bound float64) dual {
	types, n := len(f.cs), len(f.from)
	approx, _ := mu.Float64()
	num, den := mu.Num(), mu.Denom()
	seconds := make([]int64, 2*types) // by type: those above μ, and then those below
	above, below := seconds[:types], seconds[types:]
	priced := make([]sum128, types)
	out := dual{mu: mu}
	for i, b := range f.from {
		slow, fast := f.best(i, approx, num, den)
		if f.ended && i == n-1 {
			slow, fast = -1, -1
		}
		if i >= first && !done[i] && f.low[i] < bound {
			last := new(big.Int) // den times the gain of a second of the last piece, times d
			if fast >= 0 {
				last = f.gain(i, fast, num, den)
				waits := f.slope(i)
				last.Sub(last, waits.Mul(waits, big.NewInt(f.cs[fast].d)).Mul(waits, den))
			}
			sign := last.Sign()
			if i < n-1 || sign <= 0 {
				// den·D = den·f(b) + num·R − Σ_k (num·seconds − den·factor·priced)/d.
				v := new(big.Int).Mul(den, endCost(f.job, b))
				v.Add(v, new(big.Int).Mul(num, big.NewInt(f.job.Rounds)))
				sum := new(big.Rat).SetInt(v)
				for m := range types {
					s := new(big.Int).Mul(num, times(above[m], f.cs[m].unitsDone()))
					c := priced[m].big()
					s.Sub(s, c.Mul(c, f.factor[m]).Mul(c, den))
					if m == fast && sign > 0 {
						s.Add(s, last.Mul(last, big.NewInt(f.from[i+1]-b)))
					}
					if s.Sign() != 0 {
						sum.Sub(sum, new(big.Rat).SetFrac(s, big.NewInt(f.cs[m].d)))
					}
				}
				if sum.Quo(sum, new(big.Rat).SetInt(den)); f.alt[i] == nil || sum.Cmp(f.alt[i]) > 0 {
					f.alt[i] = sum
				}
				if i == of {
					out.value, out.left, out.right = sum, f.slopeAt(below), f.slopeAt(above)
					switch {
					case fast < 0 || sign < 0:
					case i == n-1:
						out.right = big.NewRat(-1, 1) // −∞
					default:
						length := f.from[i+1] - b
						out.right.Sub(out.right, f.unitsIn(fast, length))
						if sign > 0 {
							out.left.Sub(out.left, f.unitsIn(slow, length))
						}
					}
				}
			}
		}
		if fast >= 0 && i < n-1 {
			length := f.from[i+1] - b
			above[fast] += length
			priced[fast].addProduct(length, f.price[i*types+fast])
			if slow >= 0 {
				below[slow] += length
			}
		}
	}
	return out
}

// slopeAt returns R less the units that are done in so many seconds of each type.
func (f *fluid) slopeAt(seconds []int64) *big.Rat {
	slope := big.NewRat(f.job.Rounds, 1)
	for k, length := range seconds {
		if length > 0 {
			slope.Sub(slope, f.unitsIn(k, length))
		}
	}
	return slope
}

// unitsIn returns the units that a type does in a time.
func (f *fluid) unitsIn(k int, length int64) *big.Rat {
	return new(big.Rat).SetFrac(times(length, f.cs[k].unitsDone()), big.NewInt(f.cs[k].d))
}

// breakpoints returns the exact μ nearest to f.mu[L] at which the slope of D_L may
// change: where a type becomes worth its price, or another type takes over.
func (f *fluid) breakpoints(L int) []*big.Rat {
	type place struct {
		distance, at float64
		i, k, m      int // m = k: where k becomes worth its price
	}
	const most = 4
	near := make([]place, 0, most+1)
	types := len(f.cs)
	consider := func(at float64, i, k, m int) {
		p := place{math.Abs(at - f.mu[L]), at, i, k, m}
		if len(near) == most && p.distance >= near[most-1].distance || at < 0 {
			return
		}
		x := len(near)
		for x > 0 && near[x-1].distance >= p.distance {
			if x--; near[x].at == at {
				return
			}
		}
		near = slices.Insert(near, x, p)
		near = near[:min(len(near), most)]
	}
	for i := 0; i <= L && !(f.ended && i == L); i++ {
		cost := func(k int) float64 {
			if i == L {
				return f.unit[i*types+k] + f.slopeF(L)*f.unitTime(k)
			}
			return f.unit[i*types+k]
		}
		for k := range types {
			consider(cost(k), i, k, k)
			for m := range k {
				if dk, dm := f.unitTime(k), f.unitTime(m); dk != dm {
					consider((cost(k)*dm-cost(m)*dk)/(dm-dk), i, k, m)
				}
			}
		}
	}
	out := make([]*big.Rat, 0, most)
	for _, p := range near {
		dk, dm := f.cs[p.k].d, f.cs[p.m].d
		uk, um := f.cs[p.k].unitsDone(), f.cs[p.m].unitsDone()
		ck := f.roundPrice(p.i, p.k, p.i == L)
		breakpoint := new(big.Rat)
		if p.m == p.k {
			breakpoint.SetFrac(ck, big.NewInt(uk))
		} else {
			cm := f.roundPrice(p.i, p.m, p.i == L)
			ck.Mul(ck, big.NewInt(dm)).Sub(ck, cm.Mul(cm, big.NewInt(dk)))
			by := times(uk, dm)
			breakpoint.SetFrac(ck, by.Sub(by, times(um, dk)))
		}
		if breakpoint.Sign() >= 0 {
			out = append(out, breakpoint)
		}
	}
	return out
}

// roundPrice returns n, the exact price of a round of type k in piece i. In the last
// piece, each second costs the slope of the end in addition.
func (f *fluid) roundPrice(i, k int, last bool) *big.Int {
	n := big.NewInt(f.price[i*len(f.cs)+k])
	n.Mul(n, f.factor[k])
	if last {
		w := f.slope(i)
		n.Add(n, w.Mul(w, big.NewInt(f.cs[k].d)))
	}
	return n
}

// best returns the types with the greatest gain at μ = num/den in piece i: the slowest of them
// and the fastest. The slowest is −1 if the gain is 0, and both are if no type gains. Floats
// decide if they can, integers otherwise.
func (f *fluid) best(i int, mu float64, num, den *big.Int) (slow, fast int) {
	types := len(f.cs)
	slow, fast = -1, -1
	top, topSlop := 0.0, 0.0
	for k, c := range f.unit[i*types : (i+1)*types] {
		x, slop := (mu-c)*f.rate[k], (mu+c)*f.rate[k]*0x1p-48
		if x+slop < top-topSlop {
			continue
		}
		more := 1
		if x <= top+slop+topSlop {
			gain := f.gain(i, k, num, den)
			if fast < 0 {
				more = gain.Sign()
			} else {
				held := f.gain(i, fast, num, den)
				more = gain.Mul(gain, big.NewInt(f.cs[fast].d)).Cmp(held.Mul(held, big.NewInt(f.cs[k].d)))
			}
		}
		switch {
		case more > 0:
			slow, fast, top, topSlop = k, k, x, slop
		case more == 0 && fast < 0:
			fast, top, topSlop = k, x, slop
		case more == 0 && f.faster(k, fast):
			fast = k
		case more == 0 && slow >= 0 && f.faster(slow, k):
			slow = k
		}
	}
	return slow, fast
}

// gain returns u·num − n·den: den times the gain of a round of type k in piece i.
func (f *fluid) gain(i, k int, num, den *big.Int) *big.Int {
	x := f.roundPrice(i, k, false)
	x.Mul(x, den)
	if u := f.cs[k].unitsDone(); u > 1 {
		return x.Sub(new(big.Int).Mul(big.NewInt(u), num), x)
	}
	return x.Sub(num, x)
}
