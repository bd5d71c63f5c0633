package verify

import (
	"math"
	"math/big"

	"github.com/hare-sched/hare"
)

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
	var all []block // those that may have the least cost
	least, margin := math.Inf(1), 0.0
	for k := range cs {
		c := &cs[k]
		length, ok := mul(job.Rounds, c.d)
		if !ok {
			return nil, errLong(job)
		}
		t, units := c.curve, float64(c.units)
		first := max(job.ReleaseUs, path-length)
		end := max(first+length, job.DeadlineUs) // the last of a block
		if t != nil {
			end = max(end, t.grid[len(t.grid)-1]+length)
		}
		end = min(end, last)
		// Each cost is exact within a few units of 2^-53 of its terms.
		margin = max(margin, 0x1p-48*(endCostF(job, end)+units*t.upToF(end)))
		try := func(start int64) {
			if start < first || start+length > last {
				return
			}
			cost, spent := endCostF(job, start+length), t.upToF(start+length)
			v := cost + units*(spent-t.upToF(start))
			if v > least+margin {
				return
			}
			least = min(least, v)
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
