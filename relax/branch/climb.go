package branch

import (
	"context"
	"math"
	"slices"
)

// The bound of a node is a concave function of the prices, linear between kinks: a sum of the least costs of jobs,
// less what the dearest sets of jobs pay for the capacity. climb maximises it by supergradient steps. The direction
// is an average of supergradients, which zigzags less than the newest one alone (Camerini, Fratta and Maffioli, On
// improving relaxation methods by modified gradient techniques, 1975). The length is that of Polyak (Minimization of
// unsmooth functionals, 1969), which needs the greatest value; a target above the best value so far takes its place,
// and moves nearer where no step gains (as in Goffin and Kiwiel, Convergence of a simple subgradient level method,
// 1999). A step in a price is scaled by the price, so that the same share of overload changes each price by the same
// share.
//
// It departs from the sources where a tree needs no exact optimum: it ends at the goal, at which a node is closed,
// and where the goal is out of reach at the present speed, since a split then gains more than further steps.

// These constants were chosen on rigid-9-1 to 6 of testdata/instances, and on rigid instances of 20 and 40 jobs.
const (
	rootSteps = 3000 // at the root, which starts from the prices of a coarser bound
	nodeSteps = 20   // at other nodes, which start from the prices of the node above
	deflect   = 0.7  // the share of the newest supergradient in the direction
	patience  = 60   // steps without a better value before the target moves nearer
	nearer    = 0.8  // the factor by which the target then moves nearer
	ambition  = 0.02 // the first target lies above the first value by no more than this share
	lookback  = 100  // the steps after which an ascent that a tree follows looks at its progress
	worth     = 0.9  // such an ascent ends if more than this share of the distance to the target is left
	minDelta  = 1e-6 // an ascent ends at a target that is no farther away, as a share: its steps gain next to nothing
	floorPre  = 0.03 // the least price in the scale of a step, as a share of the greatest: prices of 0 may rise again
)

// climb raises the bound, beginning with the prices from, until the bound reaches target or so many steps
// are made, or lookback steps have brought the bound little nearer to the target. It returns the bound that the best
// prices prove, rounded, and these prices.
func (e *dual) climb(ctx context.Context, d *domain, from *Prices, target float64, steps int) (float64, *Prices) {
	best, cur, dir := from.clone(), from.clone(), e.newPrices()
	value, delta, since, fresh := math.Inf(-1), 0.0, 0, true
	before := 0.0 // the value so many steps ago
	goal := target + 2*margin*math.Abs(target)
	for n := range steps {
		if n > 0 && ctx.Err() != nil {
			break
		}
		if n%lookback == 0 {
			if n > 0 && target-value > worth*(target-before) {
				break
			}
			before = value
		}
		v := e.value(d, cur, true)
		if v > value {
			value, since = v, 0
			best.copyFrom(cur)
			if v-2*margin*e.terms >= goal {
				break
			}
			if n == 0 {
				delta = min(ambition, max(1e-4, (target-v)/math.Abs(target)))
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
