package relax

import (
	"context"
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// The dual of the configuration LP is a concave function of the prices of GPU-time in the cells of a grid: each job
// answers with its least cost, and the capacity is paid for (docs/inside/design.md, section 2). An evaluation yields
// a supergradient, the load of each cell less its capacity, and no more, so that an ascent makes supergradient
// steps. The direction is an average of supergradients (Camerini, Fratta and Maffioli, On improving relaxation
// methods by modified gradient techniques, 1975), and the length that of Polyak (Minimization of unsmooth
// functionals, 1969) towards a target a little above the best value, which moves nearer where no step gains (as in
// Goffin and Kiwiel, Convergence of a simple subgradient level method, 1999). A step along a cell's price is scaled
// by price over capacity, so that overload by the same share moves a price by the same share. The average of what
// jobs do in the steps, with the weights of the direction, approximates a solution of the LP (Barahona and Anbil, The
// volume algorithm, 2000): it orders the jobs.

// ascent climbs the dual on one grid.
type ascent struct {
	ev    *evaluator
	grid  []float64
	caps  [][]float64
	cur   *prices
	best  *prices
	value float64 // of best
	// delta is how far the target lies above the best value, as a share.
	delta float64
	// minGain ends the climb when a step gains less, as a share of the value, on average
	// over the last lookback steps. Zero means no such end.
	minGain float64
	// patience is the number of steps without a gain after which the target moves nearer.
	patience int
	// tooShort says that progress is the average of too few steps. coarser is then the
	// ascent on a coarser grid, if there was one.
	tooShort bool
	coarser  *ascent
	progress [][]float64 // the averaged rounds in each cell by job; nil until wanted
}

// The constants were chosen on standard-200, its gang and rigid variants and
// arrivals-200.
const (
	deflect       = 0.5   // share of the newest supergradient in the direction
	usualPatience = 6     // steps without a better value before the target moves nearer
	zeroPatience  = 25    // the same if prices of zero seem best
	deltaFactor   = 0.6   // factor by which the target moves nearer
	floorPre      = 0.03  // least price in the preconditioner, as a share of the type's greatest price
	floorAny      = 0.003 // the same, as a share of the greatest price of all types
	floorMoved    = 0.05  // least moved weight in the preconditioner, as a share of what could move
	minDelta      = 1e-6  // delta at which climbing stops
	lookback      = 16    // steps

	// leastScale is where the scale of the averaged progress is folded in, long before a float has no smaller ones.
	leastScale = 0x1p-500
)

// This does not compile unless deflect is a half, as climb takes it to be.
const _ = uint(2*deflect-1) + uint(1-2*deflect)

// climb makes up to iters steps from cur, leaves the best prices in best and cur, and
// returns the number of steps. The end of the context stops it without an error.
func (a *ascent) climb(ctx context.Context, iters int, report func(value float64)) (steps int) {
	G := len(a.grid) - 1
	n := G * len(a.caps)
	grad, dir, pre := make([]float64, n), make([]float64, n), make([]float64, n)
	slope := make([]float64, len(a.ev.pr.edges)) // the direction of moved weights
	first := true
	since := 0
	fresh := true // whether dir starts from the gradient at cur
	// Each step halves the share of the steps before in the averaged progress. It counts twice as much as the one
	// before instead, and all are scaled at the end, which rounds the same, since deflect is a half.
	scale := 1.0
	fold := func() {
		for _, row := range a.progress {
			for g := range row {
				row[g] *= scale
			}
		}
		scale = 1
	}
	var past [lookback]float64
	for range iters {
		if i := steps % lookback; a.minGain > 0 {
			if steps >= lookback && a.value-past[i] < a.minGain*lookback*math.Abs(a.value) {
				break
			}
			past[i] = a.value
		}
		if scale < leastScale {
			fold()
		}
		scale *= 1 - deflect
		weight := deflect / scale
		if fresh {
			scale, weight = 1, 1
			for _, row := range a.progress {
				clear(row)
			}
		}
		v, err := a.ev.dual(ctx, a.cur, a.caps, grad, a.progress, weight)
		if err != nil {
			break
		}
		steps++
		if first || v > a.value {
			a.value = v
			a.best.copyFrom(a.cur)
			first = false
			since = 0
			if report != nil {
				report(v)
			}
		} else if since++; since >= a.patience {
			a.delta *= deltaFactor
			if a.delta < minDelta {
				break
			}
			since = 0
			a.cur.copyFrom(a.best)
			fresh = true
			continue
		}
		if fresh {
			copy(dir, grad)
			for x := range slope {
				slope[x] = a.ev.slope(x)
			}
			fresh = false
		} else {
			for i := range dir {
				dir[i] += deflect * (grad[i] - dir[i])
			}
			for x := range slope {
				slope[x] += deflect * (a.ev.slope(x) - slope[x])
			}
		}
		a.step(v, dir, pre, slope)
	}
	if scale < 1 {
		fold()
	}
	a.cur.copyFrom(a.best)
	return steps
}

// nearZero reports whether the best prices charge next to nothing.
func (a *ascent) nearZero() bool {
	sum := 0.0
	for k, row := range a.best.at {
		for g, x := range row {
			sum += x * a.caps[k][g]
		}
	}
	return sum <= minDelta*math.Abs(a.value)
}

// step moves cur along dir, and moved weights along slope; v is the value at cur.
func (a *ascent) step(v float64, dir, pre, slope []float64) {
	G := len(a.grid) - 1
	norm, dearest := 0.0, 0.0
	for _, row := range a.cur.at {
		dearest = max(dearest, slices.Max(row))
	}
	for k, row := range a.cur.at {
		// A type whose price is 0 may still become dear.
		top := slices.Max(row)
		if pr := a.ev.pr; k >= len(pr.caps) {
			top = max(top, slices.Max(a.cur.at[pr.kindOf(k)]))
		}
		floor := max(floorPre*top, floorAny*dearest) + 1
		for g, price := range row {
			i := k*G + g
			pre[i] = 0
			if a.caps[k][g] > 0 && (price > 0 || dir[i] > 0) {
				pre[i] = (price + floor) / a.caps[k][g]
				norm += pre[i] * dir[i] * dir[i]
			}
		}
	}
	edges := a.ev.pr.edges
	if a.ev.withSteps {
		edges = nil // the recursions are prepared for the weights
	}
	rate := func(x int) float64 {
		e := &edges[x]
		moved := a.cur.moved[x]
		if moved <= 0 && slope[x] <= 0 {
			return 0
		}
		return (moved + floorMoved*(moved+a.ev.pr.jobs[e.job].w) + 1) / e.scale
	}
	for x := range edges {
		norm += rate(x) * slope[x] * slope[x]
	}
	if norm <= 0 {
		return
	}
	length := (a.value - v + a.delta*math.Abs(a.value) + 1) / norm
	for k, row := range a.cur.at {
		for g := range row {
			i := k*G + g
			row[g] = max(0, row[g]+length*pre[i]*dir[i])
		}
	}
	for x := range edges {
		a.cur.moved[x] = max(0, a.cur.moved[x]+length*rate(x)*slope[x])
	}
}

// These shares of their weight are what jobs may pass on at the start of an ascent.
var startShares = []float64{0.5, 0, 0.8, 0.95, 0.2}

// startMoved sets the moved weights of cur to those of an earlier certificate, or to those of
// the best of the start shares; scale also scales the prices down for each.
func (a *ascent) startMoved(ctx context.Context, warm *hare.Relaxation, scale bool) {
	pr := a.ev.pr
	first, grad := newPrices(a.grid, len(a.cur.at)), make([]float64, len(a.cur.at)*(len(a.grid)-1))
	first.copyFrom(a.cur)
	chosen, best := newPrices(a.grid, len(a.cur.at)), math.Inf(-1)
	try := func(moved []float64) {
		a.cur.copyFrom(first)
		if a.cur.moved = moved; scale {
			a.scaleDown(ctx)
		}
		if v, err := a.ev.dual(ctx, a.cur, a.caps, grad, nil, 0); err == nil && v > best {
			best = v
			chosen.copyFrom(a.cur)
		}
	}
	if moved := pr.movedOf(warm); moved != nil {
		try(moved)
	} else {
		for _, share := range startShares {
			try(pr.share(share))
		}
	}
	if a.cur.copyFrom(chosen); len(a.cur.moved) == 0 {
		a.cur.copyFrom(first)
		a.cur.moved = pr.share(0) // the context has ended
	}
}

// keepWeights rounds the best moved weights, so that jobs have the same weights in floats and
// in whole numbers.
func (a *ascent) keepWeights() {
	if len(a.ev.pr.edges) == 0 {
		return
	}
	micro, _ := a.ev.pr.setExactWeights(a.best.moved)
	for x, m := range micro {
		a.best.moved[x] = float64(m) * nano
	}
	a.ev.stepJobs = nil
}

// scaleDown halves the prices of pi until the dual stops growing.
func (a *ascent) scaleDown(ctx context.Context) {
	grad := make([]float64, (len(a.grid)-1)*len(a.caps))
	for best := math.Inf(-1); ; {
		v, err := a.ev.dual(ctx, a.cur, a.caps, grad, nil, 0)
		if err != nil || v <= best {
			break
		}
		best = v
		a.best.copyFrom(a.cur)
		for _, row := range a.cur.at {
			for g := range row {
				row[g] /= 2
			}
		}
	}
	a.cur.copyFrom(a.best)
}
