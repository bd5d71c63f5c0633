package relax

import (
	"context"
	"math"
	"math/big"

	"github.com/hare-sched/hare"
)

// level is one grid of the multigrid ascent.
type level struct {
	cells, iters int
	delta        float64
}

var levels = []level{
	{cells: 12, iters: 70, delta: 0.1},
	{cells: 24, iters: 60, delta: 0.01},
	{cells: 48, iters: 60, delta: 0.003},
	{cells: 96, iters: 100, delta: 0.001},
	{cells: 192, iters: 80, delta: 0.0005},
	{cells: 384, iters: 60, delta: 0.0003},
	{cells: 768, iters: 50, delta: 0.0002},
}

// defaultCells is the finest grid if the configuration names none.
const defaultCells = 96

// minAveragedSteps is the number of steps from which on the averaged progress of a grid
// is used.
const minAveragedSteps = 8

// guessPrices guesses prices up to a factor: the price of each type falls to 0 at the
// end of the grid, from the weight of the work that needs one second of its GPUs.
func (pr *problem) guessPrices(grid []float64) *prices {
	pi := newPrices(grid, pr.ascentRows())
	end := grid[len(grid)-1]
	for k := range pi.at {
		weight, held := 0.0, 0.0
		for i := range pr.jobs {
			j := &pr.jobs[i]
			for _, md := range j.modes {
				if md.kind == k {
					weight += j.w + j.late
					held += md.held * md.each * j.rounds
				}
			}
		}
		if held == 0 {
			continue
		}
		top := weight / held * end
		for g := range pi.at[k] {
			x := 1 - (grid[g]+grid[g+1])/2/end
			pi.at[k][g] = top * x * x
		}
	}
	return pi
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

// warmLevels are the grids of an ascent that starts from prices near the best.
var warmLevels = []level{
	{cells: 48, iters: 30, delta: 0.002},
	{cells: 96, iters: 60, delta: 0.001},
	{cells: 192, iters: 50, delta: 0.0005},
	{cells: 384, iters: 40, delta: 0.0003},
	{cells: 768, iters: 30, delta: 0.0002},
}

// minGainCells is the grid to whose steps Config.MinGain refers.
const minGainCells = 96

// pricesFrom reads the prices of a relaxation; it returns nil if they are not for these
// types.
func (pr *problem) pricesFrom(rel *hare.Relaxation) *prices {
	if rel == nil || len(rel.GridUs) < 2 || len(rel.Prices) != len(pr.caps) {
		return nil
	}
	grid := make([]float64, len(rel.GridUs))
	for g, t := range rel.GridUs {
		grid[g] = float64(t)
	}
	pi := newPrices(grid, pr.ascentRows())
	for k, row := range rel.Prices {
		for g := range pi.at[k] {
			pi.at[k][g] = row[g] * 1e9
		}
	}
	return pi
}

// multigridAscent runs the ascent on finer and finer grids.
func multigridAscent(ctx context.Context, ev *evaluator, cfg *Config, report func(float64)) *ascent {
	pr := ev.pr
	horizon, longest := pr.horizon()
	step := float64(max(1, pr.step))
	plan, best := levels, pr.pricesFrom(cfg.WarmStart)
	if best != nil {
		plan = warmLevels
	}
	var a *ascent
	for n, l := range plan {
		if n > 0 && l.cells > cfg.Cells {
			break
		}
		var grid []float64
		var from *prices
		if best == nil {
			grid = pr.withMarks(geometric(l.cells, math.Ceil(horizon/step)*step, step), step)
			from = pr.guessPrices(grid)
		} else {
			grid = pr.withMarks(refine(best, pr.capacity(best.grid), min(l.cells, cfg.Cells), longest, step), step)
			from = transfer(best, grid)
		}
		next := &ascent{ev: ev, grid: grid, caps: pr.capacity(grid), cur: from, best: newPrices(grid, pr.ascentRows()),
			delta: l.delta}
		next.best.moved = pr.share(0) // for when the context ends before a first step
		next.minGain = cfg.MinGain * float64(l.cells) / defaultCells
		next.progress = make([][]float64, len(pr.jobs))
		flat := make([]float64, len(pr.jobs)*len(grid))
		for i := range next.progress {
			next.progress[i], flat = flat[:len(grid):len(grid)], flat[len(grid):]
		}
		if len(pr.edges) > 0 && (best == nil || len(best.moved) == 0) {
			next.startMoved(ctx, cfg.WarmStart, best == nil)
		} else if best == nil {
			next.scaleDown(ctx)
		}
		most := max(3, int(cfg.Effort*float64(l.iters)))
		next.patience = usualPatience
		steps := next.climb(ctx, most, report)
		if next.nearZero() {
			// The dual has a kink at prices of zero: jobs with time to spare may run anywhere. Only
			// few steps from there rise at once.
			next.patience, next.delta = zeroPatience, l.delta
			steps += next.climb(ctx, most, report)
		}
		next.tooShort = steps < minAveragedSteps
		if a != nil && (next.tooShort || next.minGain > 0) && next.value <= a.value {
			break
		}
		if next.tooShort {
			next.coarser = a // too few steps for an average, so the coarser grid's average is used
		}
		gain := math.Inf(1)
		if a != nil {
			gain = (next.value - a.value) / math.Abs(next.value)
		}
		a, best = next, next.best
		if ctx.Err() != nil {
			break
		}
		if cfg.Improved != nil && cfg.SyncAsCompute == 0 && n+1 < len(plan) &&
			(cfg.WantImproved == nil || cfg.WantImproved()) {
			rel := a.relaxation()
			a.certify(ctx, cfg, rel, 0)
			cfg.Improved(rel)
		}
		// Twice as many cells bring about half the gain.
		if n+1 < len(plan) && gain/2 < cfg.MinGain*lookback*float64(plan[n+1].cells)/minGainCells {
			break
		}
	}
	return a
}

// ratAmount rounds x, in 1e-15 weight-seconds, down to an Amount.
func ratAmount(x *big.Rat) hare.Amount {
	d := new(big.Int).Mul(x.Denom(), big.NewInt(1000))
	a, ok := hare.AmountFromBig(new(big.Int).Div(x.Num(), d))
	if !ok {
		return hare.Amount{}
	}
	return a
}
