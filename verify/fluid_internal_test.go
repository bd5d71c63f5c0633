package verify

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
)

// naiveFluid is φ of a gang job by its definition: for each last piece that starts at or after
// the path, the greatest D(μ) over all kinks, each from its sum. Where a piece is endless, D is
// −∞ for μ at which a second of the piece gains. Kinks are where a mode becomes worth its price,
// and where two modes are worth the same.
func naiveFluid(job *hare.Job, cs []typeChoice, grid []int64, path int64) *big.Rat {
	type line struct{ rate, cost *big.Rat } // a second gains rate·μ − cost
	whole := func(a, b int64) *big.Rat { return big.NewRat(a, b) }
	cuts := append([]int64{job.ReleaseUs, path}, grid...)
	if job.LateWeightMicro > 0 {
		cuts = append(cuts, job.DeadlineUs)
	}
	cuts = slices.DeleteFunc(cuts, func(t int64) bool { return t < job.ReleaseUs })
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	lines := make([][]line, len(cuts))
	for i, b := range cuts {
		for _, c := range cs {
			price := int64(0)
			for g := range grid[:len(grid)-1] {
				if c.curve != nil && grid[g] <= b && b < grid[g+1] {
					price = c.curve.prices[g]
				}
			}
			cost := new(big.Rat).Mul(whole(price, 1), whole(c.units, 1))
			lines[i] = append(lines[i], line{whole(max(1, c.does), c.d), cost})
		}
	}
	slope := func(i int) *big.Rat {
		w := whole(job.WeightMicro, 1)
		if job.LateWeightMicro > 0 && cuts[i] >= job.DeadlineUs {
			w.Add(w, whole(job.LateWeightMicro, 1))
		}
		return w.Mul(w, whole(1000, 1))
	}
	gain := func(lines []line, mu, more *big.Rat) *big.Rat {
		top := new(big.Rat)
		for _, l := range lines {
			x := new(big.Rat).Mul(mu, l.rate)
			if x.Sub(x, l.cost).Sub(x, more); x.Cmp(top) > 0 {
				top = x
			}
		}
		return top
	}
	var least *big.Rat
	for last := range cuts {
		if cuts[last] < path {
			continue
		}
		more := make([]*big.Rat, last+1)
		kinks := []*big.Rat{new(big.Rat)}
		for i := range more {
			if more[i] = new(big.Rat); i == last {
				more[i] = slope(last)
			}
			for k, a := range lines[i] {
				x := new(big.Rat).Add(a.cost, more[i])
				kinks = append(kinks, x.Quo(x, a.rate))
				for _, b := range lines[i][:k] {
					if by := new(big.Rat).Sub(a.rate, b.rate); by.Sign() != 0 {
						x := new(big.Rat).Sub(a.cost, b.cost)
						kinks = append(kinks, x.Quo(x, by))
					}
				}
			}
		}
		value := func(mu *big.Rat) *big.Rat {
			v := whole(job.WeightMicro, 1)
			v.Mul(v, whole(cuts[last], 1))
			if late := cuts[last] - job.DeadlineUs; job.LateWeightMicro > 0 && late > 0 {
				v.Add(v, new(big.Rat).Mul(whole(job.LateWeightMicro, 1), whole(late, 1)))
			}
			v.Mul(v, whole(1000, 1)).Add(v, new(big.Rat).Mul(mu, whole(job.Rounds, 1)))
			for i := range more {
				x := gain(lines[i], mu, more[i])
				if i == len(cuts)-1 && x.Sign() > 0 {
					return nil
				}
				if i < len(cuts)-1 {
					v.Sub(v, x.Mul(x, whole(cuts[i+1]-cuts[i], 1)))
				}
			}
			return v
		}
		var best, far *big.Rat
		for _, mu := range kinks {
			if mu.Sign() < 0 {
				continue
			}
			if v := value(mu); v != nil && (best == nil || v.Cmp(best) > 0) {
				best = v
			}
			if far == nil || mu.Cmp(far) > 0 {
				far = mu
			}
		}
		// Beyond the last kink D still rises where the time is too short.
		if v := value(new(big.Rat).Add(far, whole(1, 1))); v != nil && v.Cmp(best) > 0 {
			continue
		}
		if least == nil || best.Cmp(least) < 0 {
			least = best
		}
	}
	return least
}

// φ is exact for any weights, prices, times and shapes, even where kinks of the dual lie closer
// together than floats can tell apart.
func TestFluidIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 61))
	number := func() int64 { // of any size up to 2^53, and often beside a power of two
		return max(1, min(hare.MaxExact, 1<<r.IntN(54)+r.Int64N(5)-2+r.Int64N(1<<r.IntN(53))*r.Int64N(2)))
	}
	for i := range 500 {
		cells, modes := 1+r.IntN(3), 1+r.IntN(3)
		job := &hare.Job{Sync: hare.Gang, Rounds: 1 + number()>>r.IntN(53), WeightMicro: number()}
		if r.IntN(3) == 0 {
			job.LateWeightMicro, job.DeadlineUs = number(), number()>>r.IntN(40)
		}
		grid := []int64{0}
		for range cells {
			grid = append(grid, grid[len(grid)-1]+1+number()>>(3+r.IntN(50)))
		}
		cs := make([]typeChoice, modes)
		near := number()
		for k := range cs {
			prices := make([]int64, cells)
			for g := range prices {
				if prices[g] = number(); r.IntN(2) == 0 {
					prices[g] = min(hare.MaxExact, near+r.Int64N(3))
				}
			}
			cs[k] = typeChoice{d: 1 + number()>>(20+r.IntN(33)), units: 1 + r.Int64N(9), does: r.Int64N(4),
				curve: newPriceCurve(grid, prices)}
		}
		if r.IntN(2) == 0 {
			cs[0].curve = nil
		}
		job.ReleaseUs = r.Int64N(2) * grid[r.IntN(cells)]
		path := job.ReleaseUs + r.Int64N(2)*number()>>r.IntN(53)
		want := naiveFluid(job, cs, grid, path)
		if got := fluidPhi(job, cs, grid, path); got.Cmp(want) != 0 {
			t.Errorf("instance %d: φ is %s, and %s by its definition, which is %s more", i, got, want,
				new(big.Rat).Sub(want, got).FloatString(3))
		}
	}
}
