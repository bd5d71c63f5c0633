package relax

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
)

// maxPolishSize limits the models that are polished by cutting planes, in jobs times
// prices. Larger models gain too little for the cost of their LPs.
const maxPolishSize = 20_000

// maxPolishLPs limits the LPs on one grid.
const maxPolishLPs = 60

// polishTolerance is the relative distance to the model's optimum at which polish stops.
const polishTolerance = 1e-7

// Relaxed jobs leave the ascent far from the optimum, where few of the schedules that matter are known. These are
// found on a grid of polishCells, with a third of the time for an LP and fewer of them. A finer grid then needs
// polishSteps of the ascent and LPs in a box of refinedBox, until stallLPs of them raise the value by less than a
// share of stallGain. On the instances of 20 relaxed and mixed jobs of the frozen set, bounds rose by 0.5 % on
// average, in as much time as 60 LPs on the finest grid took when each began without a basis.
const (
	polishCells = 48
	polishSteps = 4
	polishDelta = 5e-4 // of these steps
	usualBox    = 0.3
	refinedBox  = 0.05
	stallLPs    = 10
	stallGain   = 1e-4
)

// polish closes the gap that the ascent leaves on small instances by cutting planes, where jobs are relaxed on finer
// and finer grids. It returns the ascent with the best prices. It only proposes prices: a failing engine costs nothing
// but the gain.
func (a *ascent) polish(ctx context.Context, cfg *Config, report func(float64)) *ascent {
	pr := a.ev.pr
	n := len(pr.jobs) * len(a.caps)
	if cfg.LP == nil || cfg.MaxLPs < 0 {
		return a
	}
	last := polishCells
	for 2*last <= cfg.Cells && n*2*last <= maxPolishSize {
		last *= 2
	}
	relaxed := slices.ContainsFunc(pr.jobs, func(j job) bool { return j.sync == hare.Relaxed })
	if !relaxed || last == polishCells {
		if n*(len(a.grid)-1) <= maxPolishSize {
			a.cutPlanes(ctx, cfg.LP, cutting{most: min(cmp.Or(cfg.MaxLPs, maxPolishLPs), maxPolishLPs), box: usualBox}, report)
		}
		return a
	}
	higher := func(v float64) {
		if v > a.value && report != nil {
			report(v)
		}
	}
	left := cmp.Or(cfg.MaxLPs, 2*maxPolishLPs)
	p := a
	for cells := polishCells; cells <= last && left > 0 && ctx.Err() == nil; cells *= 2 {
		next := p.onGrid(ctx, cells, higher)
		if n*(len(next.grid)-1) > maxPolishSize {
			break // many times at which capacity changes
		}
		p = next
		most := min(maxPolishLPs, left)
		if cells < last {
			most = min(most, (left+1)/2)
		}
		left -= p.cutPlanes(ctx, cfg.LP, cutting{most: most, box: refinedBox, stall: stallGain}, higher)
	}
	if p.value > a.value {
		return p
	}
	return a
}

// onGrid takes the best prices to a grid of about cells cells and makes some steps there. The averaged progress stays
// that of a.
func (a *ascent) onGrid(ctx context.Context, cells int, report func(float64)) *ascent {
	pr := a.ev.pr
	_, longest := pr.horizon()
	step := float64(max(1, pr.step))
	grid := pr.withMarks(refine(a.best, pr.capacity(a.best.grid), cells, longest, step), step)
	next := &ascent{ev: a.ev, grid: grid, caps: pr.capacity(grid), cur: transfer(a.best, grid),
		best: newPrices(grid, len(a.best.at)), value: math.Inf(-1), delta: polishDelta, patience: usualPatience,
		tooShort: true, coarser: a}
	next.best.copyFrom(next.cur)
	next.climb(ctx, polishSteps, report)
	return next
}

// cutting says how cutting planes are used: at most most LPs in a box about the best prices, which begins with a
// share of box of the greatest, until stallLPs of them raise the value by less than a share of stall; 0 means never.
type cutting struct {
	most       int
	box, stall float64
}

// cutPlanes raises the value by cutting planes: the dual is modelled by one row θ_j ≤
// w_j C + Σ use·π for each schedule that the oracle has answered, maximised by the LP
// engine within a box about the best prices (Kelley's method with a trust region), and
// queried between that point and the best (Wentges). It returns the number of LPs solved.
func (a *ascent) cutPlanes(ctx context.Context, engine LP, cut cutting, report func(float64)) int {
	pr := a.ev.pr
	n, G := len(pr.jobs), len(a.grid)-1
	cells := G * len(a.caps)
	p := &lp.Problem{Maximize: true, Start: []int32{0}}
	for range n {
		p.Cost = append(p.Cost, 1)
		p.ColLower, p.ColUpper = append(p.ColLower, math.Inf(-1)), append(p.ColUpper, math.Inf(1))
	}
	scale := make([]float64, len(a.caps)) // the price of each type to which the box is relative
	for k := range a.caps {
		scale[k] = slices.Max(a.best.at[k])
		for g := range G {
			p.Cost = append(p.Cost, -a.caps[k][g]/second)
		}
	}
	p.ColLower = append(p.ColLower, make([]float64, cells)...)
	p.ColUpper = append(p.ColUpper, make([]float64, cells)...)
	rows := make([][]int, n) // by job
	chain := lp.NewChain(engine)
	defer chain.Close()
	o := a.ev.oracles[0]
	grad := make([]float64, cells)
	box, solved, before := cut.box, 0, a.value
	a.cur.copyFrom(a.best)
	constant := pr.wa - pr.setWeights(a.best.moved)
	for solved < cut.most {
		v, err := a.ev.dual(ctx, a.cur, a.caps, grad, nil, 0)
		if err != nil {
			break
		}
		switch {
		case v > a.value:
			a.value = v
			a.best.copyFrom(a.cur)
			box = min(1, 1.5*box)
			if report != nil {
				report(v)
			}
		case solved > 0:
			box = max(1e-6, 0.7*box)
		}
		o.setPrices(a.ev.compose(a.cur), a.ev.nextVersion())
		o.pi.integrate()
		for i := range pr.jobs {
			rows[i] = a.row(p, o, i, rows[i])
		}
		for k := range a.caps {
			reach := box * max(scale[k], 0.05*slices.Max(scale))
			for g, x := range a.best.at[k] {
				c := n + k*G + g
				p.ColLower[c] = max(0, x-reach) * 1e-9
				p.ColUpper[c] = (x + reach) * 1e-9
			}
		}
		sol, err := chain.Solve(ctx, p)
		if err != nil {
			break
		}
		if solved++; solved%stallLPs == 0 {
			if solved > stallLPs && a.value-before < cut.stall*math.Abs(a.value) {
				break
			}
			before = a.value
		}
		if now := (a.value + constant) * unit; sol.Objective-now <= polishTolerance*math.Abs(now) {
			if box >= 1 {
				break // this is the model's optimum, not that of the box
			}
			box = min(1, 3*box)
		}
		for k := range a.caps {
			for g := range G {
				c := n + k*G + g
				a.cur.at[k][g] = max(0, 0.3*a.best.at[k][g]+0.7*sol.X[c]*1e9)
			}
		}
	}
	a.cur.copyFrom(a.best)
	return solved
}

// row adds the schedule with which the oracle answers for job i at its prices, and returns the rows of the job. A
// schedule that has one of these rows already is not added again.
func (a *ascent) row(p *lp.Problem, o *oracle, i int, rows []int) []int {
	G := len(a.grid) - 1
	var ans answer
	a.ev.answer(i, o, &ans)
	fixed := ans.phi
	all := make([]float64, a.ev.useRows()*G)
	for _, u := range ans.uses {
		a.ev.addUse(all, u, G)
	}
	used := make([]float64, len(a.caps)*G)
	a.ev.fold(all, used)
	from := len(p.Index)
	p.Index, p.Value = append(p.Index, int32(i)), append(p.Value, 1)
	for c, u := range used {
		if u != 0 {
			p.Index = append(p.Index, int32(len(a.ev.pr.jobs)+c))
			p.Value = append(p.Value, -u/second)
			fixed -= u * a.cur.at[c/G][c%G]
		}
	}
	for _, r := range rows {
		at, end := p.Start[r], p.Start[r+1]
		if slices.Equal(p.Index[at:end], p.Index[from:]) && slices.Equal(p.Value[at:end], p.Value[from:]) {
			p.Index, p.Value = p.Index[:from], p.Value[:from]
			return rows
		}
	}
	p.Start = append(p.Start, int32(len(p.Index)))
	p.RowLower = append(p.RowLower, math.Inf(-1))
	p.RowUpper = append(p.RowUpper, fixed*unit)
	return append(rows, len(p.RowUpper)-1)
}
