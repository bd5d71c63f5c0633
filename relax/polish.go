package relax

import (
	"context"
	"math"
	"slices"

	"github.com/hare-sched/hare/internal/lp"
)

// maxPolishSize limits the models that are polished by cutting planes, in jobs times
// prices. Larger models gain too little for the cost of their LPs.
const maxPolishSize = 16_000

// maxPolishLPs limits the LPs of one polish.
const maxPolishLPs = 60

// polishTolerance is the relative distance to the model's optimum at which polish stops.
const polishTolerance = 1e-7

// polish closes the gap that the ascent leaves on small instances: the dual is
// modelled by one row θ_j ≤ w_j C + Σ use·π for each schedule that the oracle
// has answered, maximised by the LP engine within a box about the best prices
// (Kelley's method with a trust region), and queried between that point and
// the best (Wentges). It only proposes prices: a failing engine costs nothing
// but the gain. It returns the number of LPs solved.
func (a *ascent) polish(ctx context.Context, cfg *Config, report func(float64)) int {
	most := maxPolishLPs
	if cfg.MaxLPs != 0 {
		most = min(most, cfg.MaxLPs)
	}
	pr := a.ev.pr
	n, G := len(pr.jobs), len(a.grid)-1
	cells := G * len(a.caps)
	if cfg.LP == nil || most < 0 || n*cells > maxPolishSize {
		return 0
	}
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
	chain := lp.NewChain(cfg.LP)
	defer chain.Close()
	o := a.ev.oracles[0]
	grad := make([]float64, cells)
	box, solved := 0.3, 0
	a.cur.copyFrom(a.best)
	constant := pr.wa - pr.setWeights(a.best.moved)
	for solved < most {
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
		solved++
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
