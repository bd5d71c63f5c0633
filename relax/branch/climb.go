package branch

import (
	"context"
	"math"
	"slices"
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
