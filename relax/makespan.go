package relax

import (
	"context"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// These constants tune the search for the makespan's bound. Prices are scaled so that a GPU
// costs usualPrice on average.
const (
	usualPrice      = 1e9
	makespanSteps   = 40   // of the ascent at one T
	firstSteps      = 200  // of the ascent on one cell, at one T
	makespanTurns   = 4    // at which T moves on one grid
	makespanClose   = 1e-4 // the distance of the ratio from 1 that ends a grid
	makespanBisects = 30
	farRatio        = 0.8
	longShare       = 0.25 // of the end that the longest job takes at least, if its place in time matters
	makespanMargin  = 1e-9 // of the price of all capacity, by which a proof in floats must exceed it
	// latestEnd ends the search. Where the cluster leaves service before the work can be done, each T
	// can be proved.
	latestEnd = float64(hare.MaxExact - 1)
)

// makespanLevels are the grids of the search. One cell finds the prices of types, which steps on
// many cells would not see for the ties between times.
var makespanLevels = []level{{cells: 1, delta: 0.1}, {cells: 12, delta: 0.03}, {cells: 24, delta: 0.01},
	{cells: 48, delta: 0.005}, {cells: 96, delta: 0.003}}

// boundMakespan finds a time T by which no schedule ends, as late as it can: work that ends by T pays
// more than all capacity up to T is worth (docs/reference/model.md, "Makespan"). Both sides grow
// with the prices alike, so that the ascent raises their ratio at a fixed T; T is multiplied by
// the ratio until that is 1.
func boundMakespan(ctx context.Context, pr *problem, cfg *Config) *hare.Relaxation {
	longest := float64(longestPath(pr))
	if len(pr.jobs) == 0 || longest < 2 {
		return pr.withFixed(boundByPath(pr))
	}
	if w := cfg.WarmStart; cfg.SyncAsCompute > 0 && w != nil && len(w.Progress) == len(pr.model.Jobs) {
		// The ends of jobs have no weight here, so that other prices would guide no better.
		return &hare.Relaxation{Method: w.Method, GridUs: w.GridUs, Prices: w.Prices, Progress: w.Progress}
	}
	a := &makespanAscent{ev: newEvaluator(pr, cfg.Workers)}
	a.setEnd(min(latestEnd, max(longest, areaTime(pr))))
	evenly, falling := timeless(pr), true
	for n, l := range makespanLevels {
		if n > 0 && evenly || n > 1 && l.cells > cfg.Cells {
			break
		}
		before := a.latest.end * min(1, a.latest.ratio)
		gained := func() float64 { return a.latest.end*min(1, a.latest.ratio)/before - 1 }
		if n == 0 {
			a.start(l.delta)
			a.turns(ctx, cfg, l, firstSteps, longest)
			falling = longest > longShare*a.latest.end
			continue
		}
		for range 2 {
			a.refine(l, falling)
			a.turns(ctx, cfg, l, makespanSteps, longest)
			if !falling || gained() >= makespanClose {
				break
			}
			falling = false
		}
		if ctx.Err() != nil || n > 1 && gained() < makespanClose {
			break
		}
	}
	rel := a.relaxation()
	a.best, a.end, a.ratio = a.latest.prices, a.latest.end, a.latest.ratio
	if cfg.SyncAsCompute == 0 {
		a.certify(ctx, cfg, rel, int64(longest))
	}
	return pr.withFixed(rel)
}

// timeless says that prices that do not change over time prove the latest T: each rate at which
// jobs run on types may then go on for all of the time. Only rigid jobs cannot be spread.
func timeless(pr *problem) bool {
	changes := slices.ContainsFunc(pr.jobs, func(j job) bool { return j.sync == hare.Rigid || j.a > 0 })
	for _, steps := range pr.caps {
		changes = changes || len(steps) > 1
	}
	for f := range pr.pools.functions {
		changes = changes || len(pr.pools.functions[f].cost) > 1
	}
	return !changes
}

// longestPath returns max P, over all jobs of the model.
func longestPath(pr *problem) int64 {
	last := int64(0)
	for i := range pr.model.Jobs {
		last = max(last, pr.model.Jobs[i].RunsUntilUs)
	}
	for _, p := range pr.pathUs {
		last = max(last, p)
	}
	return last
}

// makespanAscent searches for prices on [0, end).
type makespanAscent struct {
	ascent

	ev    *evaluator
	end   float64
	ratio float64 // Σ ψ over the price of all capacity, at best
	// latest are the prices that prove the latest T so far, which is about end times a ratio
	// of less than 1, and at least end with a greater one.
	latest struct {
		prices     *prices
		end, ratio float64
	}
}

// keepLatest keeps the best prices if they prove a later T than those kept.
func (ma *makespanAscent) keepLatest() {
	if l := &ma.latest; l.prices == nil || ma.end*min(1, ma.ratio) > l.end*min(1, l.ratio) {
		l.prices = newPrices(ma.best.grid, len(ma.best.at))
		l.prices.copyFrom(ma.best)
		l.end, l.ratio = ma.end, ma.ratio
	}
}

// setEnd makes all work end by T.
func (ma *makespanAscent) setEnd(end float64) {
	ma.end = end
	jobs := ma.ev.pr.jobs
	for i := range jobs {
		jobs[i].until = end // inShape passes it on
	}
}

// start begins on one cell with guessed prices.
func (ma *makespanAscent) start(delta float64) {
	pr := ma.ev.pr
	from := newPrices(pr.withMarks(even(1, ma.end, 1), 1), pr.ascentRows())
	for k := range pr.caps {
		for g := range from.at[k] {
			from.at[k][g] = gpuSpeed(pr, k)
		}
	}
	ma.use(from, delta)
}

// refine goes on to a finer grid from the latest prices. Where these do not change over time, all
// starts of a job cost the same, which hides how the price of a time should move; falling prices
// then show more.
func (ma *makespanAscent) refine(l level, falling bool) {
	pr, latest := ma.ev.pr, ma.latest.prices
	ma.setEnd(ma.latest.end)
	grid := refine(latest, pr.capacity(latest.grid), l.cells, ma.end, 1)
	if falling {
		ma.use(transfer(latest, grid), l.delta)
		return
	}
	from := newPrices(grid, len(latest.at))
	for k, row := range from.at {
		for g := range row {
			at := cellOf(latest.grid, (grid[g]+grid[g+1])/2)
			row[g] = latest.at[k][min(at, len(latest.grid)-2)]
		}
	}
	ma.use(from, l.delta)
}

// turns climbs on one grid while T moves with the ratio.
func (ma *makespanAscent) turns(ctx context.Context, cfg *Config, l level, steps int, longest float64) {
	for turn := range makespanTurns {
		if turn > 0 {
			ma.rescale(min(latestEnd, max(longest, math.Floor(ma.end*ma.ratio))), l.delta)
		}
		ma.climb(ctx, max(3, int(cfg.Effort*float64(steps))))
		ma.keepLatest()
		if ctx.Err() != nil || math.Abs(ma.ratio-1) < makespanClose || ma.ratio < 1 && ma.end <= longest {
			break
		}
	}
}

// use begins an ascent at the given prices.
func (ma *makespanAscent) use(from *prices, delta float64) {
	pr := ma.ev.pr
	ma.ascent = ascent{ev: ma.ev, grid: from.grid, caps: pr.capacity(from.grid), cur: from,
		best: newPrices(from.grid, len(from.at)), delta: delta, progress: make([][]float64, len(pr.jobs))}
	for i := range ma.progress {
		ma.progress[i] = make([]float64, len(from.grid))
	}
	ma.ratio = 0
}

// gpuSpeed returns how fast type k is for the jobs that use it, as a share of the fastest type.
func gpuSpeed(pr *problem, k int) float64 {
	sum, n := 0.0, 0
	for i := range pr.jobs {
		least, here := math.Inf(1), math.Inf(1)
		for _, md := range pr.jobs[i].modes {
			least = min(least, md.held*md.each)
			if md.kind == k {
				here = min(here, md.held*md.each)
			}
		}
		if !math.IsInf(here, 1) {
			sum += least / here
			n++
		}
	}
	return sum / float64(max(1, n))
}

// areaTime returns the time that all GPUs need for all work at the guessed prices.
func areaTime(pr *problem) float64 {
	speeds, room, work := make([]float64, len(pr.caps)), 0.0, 0.0
	for k := range speeds {
		speeds[k] = gpuSpeed(pr, k)
		room += speeds[k] * float64(model.MostRoom(pr.caps[k]))
	}
	for i := range pr.jobs {
		least := math.Inf(1)
		for _, md := range pr.jobs[i].modes {
			least = min(least, md.held*md.each*speeds[md.kind])
		}
		work += least * pr.jobs[i].rounds
	}
	return math.Floor(work / room)
}

// rescale moves the end and the best prices with it.
func (ma *makespanAscent) rescale(end, delta float64) {
	to := ma.scaled(end)
	ma.setEnd(end)
	ma.use(to, delta)
}

// scaled returns the best prices on a grid that ends elsewhere.
func (ma *makespanAscent) scaled(end float64) *prices {
	G := len(ma.best.grid) - 1
	to := &prices{grid: []float64{0}, at: make([][]float64, len(ma.best.at))}
	for g := range G {
		next := math.Round(ma.best.grid[g+1] / ma.best.grid[G] * end)
		if next <= to.grid[len(to.grid)-1] {
			continue
		}
		to.grid = append(to.grid, next)
		for k := range to.at {
			to.at[k] = append(to.at[k], ma.best.at[k][g])
		}
	}
	return to
}

// worth returns what all capacity costs at prices, and scales these to usualPrice on average.
func (ma *makespanAscent) worth(pi *prices) float64 {
	cost, all := 0.0, 0.0
	for k, row := range pi.at {
		for g, x := range row {
			cost += ma.caps[k][g] * x
			if k < len(ma.ev.pr.caps) {
				all += ma.caps[k][g]
			}
		}
	}
	if cost <= 0 || all <= 0 {
		return 0
	}
	scale := usualPrice * all / cost
	for _, row := range pi.at {
		for g := range row {
			row[g] *= scale
		}
	}
	return usualPrice * all
}

// climb raises the ratio by up to iters steps, and leaves the best prices in best and cur.
func (ma *makespanAscent) climb(ctx context.Context, iters int) {
	n := (len(ma.grid) - 1) * len(ma.caps)
	grad, dir, pre := make([]float64, n), make([]float64, n), make([]float64, n)
	fresh, since := true, 0
	ma.best.copyFrom(ma.cur)
	for range iters {
		for _, row := range ma.progress {
			for g := range row {
				row[g] *= 1 - deflect
			}
		}
		all := ma.worth(ma.cur)
		v, err := ma.ev.dual(ctx, ma.cur, ma.caps, grad, ma.progress, deflect)
		if err != nil || all == 0 {
			break
		}
		ratio := v/all + 1
		if ratio > ma.ratio {
			ma.ratio, since = ratio, 0
			ma.best.copyFrom(ma.cur)
		} else if since++; since >= usualPatience {
			if ma.delta *= deltaFactor; ma.delta < minDelta {
				break
			}
			since, fresh = 0, true
			ma.cur.copyFrom(ma.best)
			continue
		}
		// This is a supergradient of Σ ψ less the best ratio times the price of capacity.
		for k, row := range ma.caps {
			for g, c := range row {
				grad[k*len(row)+g] += (1 - ma.ratio) * c
			}
		}
		for i := range dir {
			if fresh {
				dir[i] = grad[i]
			} else {
				dir[i] += deflect * (grad[i] - dir[i])
			}
		}
		fresh = false
		goal := ma.ratio * (1 + ma.delta)
		if ma.ratio < farRatio {
			goal = max(goal, (1+ma.ratio)/2) // these prices are for quite another T
		}
		ma.value = goal * all / (1 + ma.delta)
		ma.step(ratio*all, dir, pre, nil)
	}
	ma.cur.copyFrom(ma.best)
}

// proves reports whether the best prices prove in floats that no schedule ends by T.
func (ma *makespanAscent) proves(ctx context.Context, end float64) bool {
	pr, was := ma.ev.pr, ma.end
	defer ma.setEnd(was)
	pi := ma.scaled(end)
	ma.setEnd(end)
	caps := pr.capacity(pi.grid)
	v, err := ma.ev.dual(ctx, pi, caps, make([]float64, len(pi.at)*(len(pi.grid)-1)), nil, 0)
	cost := 0.0
	for k, row := range pi.at {
		for g, x := range row {
			cost += caps[k][g] * x
		}
	}
	return err == nil && v > makespanMargin*cost
}

// certify completes rel with the latest T that the best prices prove, or with the longest path
// where they prove no more than that.
func (ma *makespanAscent) certify(ctx context.Context, cfg *Config, rel *hare.Relaxation, longest int64) {
	ctx, cancel := evaluation(ctx, cfg)
	defer cancel()
	if ctx.Err() != nil {
		return
	}
	pr := ma.ev.pr
	low, high := longest-1, int64(min(latestEnd, max(float64(longest), ma.end*ma.ratio*1.01)))+1
	if near := int64(min(latestEnd, ma.end*ma.ratio) * (1 - 1e-6)); near > low && ma.proves(ctx, float64(near)) {
		low = near
	}
	for n := 0; ma.ratio > 0 && n < makespanBisects && high-low > 1+low/1e7; n++ {
		if mid := low + (high-low)/2; ma.proves(ctx, float64(mid)) {
			low = mid
		} else {
			high = mid
		}
	}
	for back := int64(1); low >= longest; back *= 4 {
		pi := ma.scaled(float64(low))
		ma.setEnd(float64(low))
		grid := make([]int64, len(pi.grid))
		for g, t := range pi.grid {
			grid[g] = int64(t)
		}
		nanos := pr.integerPrices(ma.ev, pi)
		excess, err := ma.ev.exactBound(ctx, grid, nanos, 0)
		if err != nil {
			return
		}
		if excess.Sign() > 0 {
			cert := pr.certificateOf(grid, nanos)
			for _, c := range ma.ev.capacity {
				rel.Capacity = append(rel.Capacity, c*unit)
			}
			pr.certified(rel, cert, makespanBound(low+1))
			return
		}
		low -= 1 + int64(float64(low)*1e-7)*back
	}
	pr.certified(rel, &hare.Certificate{Path: true, GridUs: []int64{0, longest - 1}}, makespanBound(longest))
}

// makespanBound returns a makespan in 1e-15 weight-seconds of weight 1.
func makespanBound(us int64) *big.Rat {
	return new(big.Rat).SetInt(product(1_000_000, nano, us))
}
