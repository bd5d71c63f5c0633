package verify

import (
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// priceCurve is the price of a resource from time 0 on.
type priceCurve struct {
	grid   []int64
	prices []int64
	spent  []sum128 // ∫ π up to each grid point, in 1e-15 weight-seconds
	spentF []float64
}

func newPriceCurve(grid, prices []int64) *priceCurve {
	t := &priceCurve{grid: grid, prices: prices, spent: make([]sum128, len(grid)), spentF: make([]float64, len(grid))}
	var sum sum128
	for g, x := range prices {
		sum.addProduct(grid[g+1]-grid[g], x)
		t.spent[g+1] = sum
		t.spentF[g+1] = float64(sum.hi)*0x1p64 + float64(sum.lo)
	}
	return t
}

// cell returns the cell of time t, or the last grid point from the horizon on.
func (cu *priceCurve) cell(at int64) int {
	g, found := slices.BinarySearch(cu.grid, at)
	if !found {
		g--
	}
	return g
}

// upTo returns ∫_0^at π; a nil price curve is free.
func (cu *priceCurve) upTo(at int64) *big.Int {
	if cu == nil {
		return new(big.Int)
	}
	g := cu.cell(at)
	sum := cu.spent[g]
	if g < len(cu.prices) {
		sum.addProduct(at-cu.grid[g], cu.prices[g])
	}
	return sum.big()
}

func (cu *priceCurve) upToF(at int64) float64 {
	if cu == nil {
		return 0
	}
	g := cu.cell(at)
	if g == len(cu.prices) {
		return cu.spentF[g]
	}
	return cu.spentF[g] + float64(at-cu.grid[g])*float64(cu.prices[g])
}

// rigidPhi returns φ of a rigid job: the least cost w (S + Rd) + K ∫ π over the block, for all
// types and all starts S with S ≥ a and S + Rd ≥ path. If the job's size has a price ρ of its
// own, ∫ ρ takes the place of K ∫ π. The cost is piecewise linear in S, with breakpoints only
// where the start or the end of the block is at a grid point, and rises after the horizon.
// These S and the least S therefore suffice. Floats drop the S whose cost is not near the
// least cost. A deadline is a breakpoint at the end of the block. Blocks end by the time last.
// rigidPhi takes O(cells log cells) for each type.
func rigidPhi(job *hare.Job, cs []typeChoice, path, last int64) (*big.Rat, error) {
	type block struct {
		start, length int64
		by            *typeChoice
		cost          float64
	}
	var all []block
	least, size := 0.0, 0.0
	for k := range cs {
		c := &cs[k]
		length, ok := mul(job.Rounds, c.d)
		if !ok {
			return nil, errLong(job)
		}
		t, units := c.curve, float64(c.units)
		first := max(job.ReleaseUs, path-length)
		try := func(start int64) {
			if start < first || start+length > last {
				return
			}
			cost, spent := endCostF(job, start+length), t.upToF(start+length)
			v := cost + units*(spent-t.upToF(start))
			size = max(size, cost+units*spent)
			if len(all) == 0 || v < least {
				least = v
			}
			all = append(all, block{start, length, c, v})
		}
		try(first)
		try(job.DeadlineUs - length)
		if t != nil {
			for _, g := range t.grid {
				try(g)
				try(g - length)
			}
		}
	}
	// Each cost is exact within a few units of 2^-53 of size.
	margin := size * 0x1p-48
	var best *big.Int
	for _, b := range all {
		if b.cost > least+margin {
			continue
		}
		v := b.by.curve.upTo(b.start + b.length)
		v.Sub(v, b.by.curve.upTo(b.start)).Mul(v, big.NewInt(b.by.units))
		v.Add(v, endCost(job, b.start+b.length))
		if best == nil || v.Cmp(best) < 0 {
			best = v
		}
	}
	return new(big.Rat).SetInt(best), nil
}

// endCost returns f(end) = w end + v max(0, end − d) of a job, in 1e-15 weight-seconds.
func endCost(job *hare.Job, end int64) *big.Int {
	cost := times(job.WeightMicro, 1000, end)
	if job.LateWeightMicro > 0 && end > job.DeadlineUs {
		cost.Add(cost, times(job.LateWeightMicro, 1000, end-job.DeadlineUs))
	}
	return cost
}

// endCostF is endCost in floats, with a relative error of at most 2^-50.
func endCostF(job *hare.Job, end int64) float64 {
	cost := float64(job.WeightMicro) * 1000 * float64(end)
	if job.LateWeightMicro > 0 && end > job.DeadlineUs {
		cost += float64(job.LateWeightMicro) * 1000 * float64(end-job.DeadlineUs)
	}
	return cost
}
