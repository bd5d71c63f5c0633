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

// usual is the finest grid where the configuration names none.
const usual = 96

// settled is how many steps make the averaged progress of a grid worth using.
const settled = 8

// start guesses prices up to a factor: each type's falls to 0 at the end of the
// grid, from the weight that waits for a second of its GPUs.
func (pr *problem) start(grid []float64) *prices {
	pi := newPrices(grid, pr.width())
	end := grid[len(grid)-1]
	for k := range pi.at {
		weight, held := 0.0, 0.0
		for i := range pr.jobs {
			j := &pr.jobs[i]
			for _, md := range j.modes {
				if md.kind == k {
					weight += j.w
					held += md.held * md.d * j.rounds
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

// scaled halves the prices of pi until the dual stops growing.
func (a *ascent) scaled(ctx context.Context) {
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

// warm are the grids of an ascent that starts from prices near the best.
var warm = []level{
	{cells: 48, iters: 30, delta: 0.002},
	{cells: 96, iters: 60, delta: 0.001},
	{cells: 192, iters: 50, delta: 0.0005},
	{cells: 384, iters: 40, delta: 0.0003},
	{cells: 768, iters: 30, delta: 0.0002},
}

// worthCells is the grid whose steps Config.Worth speaks of.
const worthCells = 96

// given reads the prices of a relaxation, where it has some for these types.
func (pr *problem) given(rel *hare.Relaxation) *prices {
	if rel == nil || len(rel.GridUs) < 2 || len(rel.Prices) != len(pr.caps) {
		return nil
	}
	grid := make([]float64, len(rel.GridUs))
	for g, t := range rel.GridUs {
		grid[g] = float64(t)
	}
	pi := newPrices(grid, pr.width())
	for k, row := range rel.Prices {
		for g := range pi.at[k] {
			pi.at[k][g] = row[g] * 1e9
		}
	}
	return pi
}

// climbAll runs the multigrid ascent.
func climbAll(ctx context.Context, ev *evaluator, cfg *Config, report func(float64)) *ascent {
	pr := ev.pr
	horizon, longest := pr.horizon()
	step := float64(max(1, pr.step))
	plan, best := levels, pr.given(cfg.From)
	if best != nil {
		plan = warm
	}
	var a *ascent
	for n, l := range plan {
		if n > 0 && l.cells > cfg.Cells {
			break
		}
		var grid []float64
		var from *prices
		if best == nil {
			grid = geometric(l.cells, math.Ceil(horizon/step)*step, step)
			from = pr.start(grid)
		} else {
			grid = refine(best, pr.capacity(best.grid), min(l.cells, cfg.Cells), longest, step)
			from = transfer(best, grid)
		}
		next := &ascent{ev: ev, grid: grid, caps: pr.capacity(grid), cur: from, best: newPrices(grid, pr.width()), delta: l.delta}
		next.worth = cfg.Worth * float64(l.cells) / usual
		next.progress = make([][]float64, len(pr.jobs))
		flat := make([]float64, len(pr.jobs)*len(grid))
		for i := range next.progress {
			next.progress[i], flat = flat[:len(grid):len(grid)], flat[len(grid):]
		}
		if best == nil {
			next.scaled(ctx)
		}
		most := max(3, int(cfg.Effort*float64(l.iters)))
		next.patience = hasty
		steps := next.climb(ctx, most, report)
		if next.free() {
			// Prices of zero are a kink: jobs with time to spare may as well run
			// anywhere. Few steps from there rise at once.
			next.patience, next.delta = patient, l.delta
			steps += next.climb(ctx, most, report)
		}
		next.short = steps < settled
		if a != nil && next.short {
			if next.value <= a.value {
				break
			}
			next.before = a // too few steps for an average: the coarser grid's is better
		}
		gain := math.Inf(1)
		if a != nil {
			gain = (next.value - a.value) / math.Abs(next.value)
		}
		a, best = next, next.best
		if ctx.Err() != nil {
			break
		}
		if cfg.Improved != nil && cfg.Plan == 0 && n+1 < len(plan) && (cfg.Due == nil || cfg.Due()) {
			rel := a.relaxation()
			a.certify(ctx, cfg, rel, 0)
			cfg.Improved(rel)
		}
		// Twice as many cells bring about half as much again.
		if n+1 < len(plan) && gain/2 < cfg.Worth*lookback*float64(plan[n+1].cells)/worthCells {
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
