package greedy

import (
	"math"
	"slices"
)

// trial is one change of the state and its evaluation.
type trial struct {
	jobs   []int
	keys   [][]float64 // of the changed jobs
	lambda []float64
	placer
	buffer *Plan // the memory of plan
	plan   *Plan // nil if the state has no plan
	// raw is the value as decoded, value the one after one justification, and final the
	// value of plan.
	raw, value, final float64
}

// placer places the rounds of a state on a residual capacity of its own.
type placer struct {
	residual *residual
	items    []Item
	fresh    []Item      // scratch
	rows     [][]float64 // the keys by job
	prices   []float64   // the weights of the prices by job
	work     int64
}

func (t *trial) prepare(ks *keySearch) {
	if t.residual == nil {
		t.residual = ks.empty.newLike()
	}
	t.work, t.plan = 0, nil
}

// evaluate places the state with the changes of t, and justifies it if its value is
// below limit.
func (t *trial) evaluate(ks *keySearch, limit float64) {
	t.prepare(ks)
	t.rows = append(t.rows[:0], ks.keys...)
	if ks.lambda != nil {
		t.prices = append(t.prices[:0], ks.lambda...)
	}
	for at, i := range t.jobs {
		t.rows[i], t.prices[i] = t.keys[at], t.lambda[at]
	}
	if t.decode(ks); t.plan != nil && t.value < limit {
		t.justifyWhileBetter(ks, 1)
		if t.value = t.final; t.value < ks.bestJustified {
			t.justifyWhileBetter(ks, maxJustifyPasses)
		}
	}
}

// decode places all rounds in the order of their keys.
func (t *trial) decode(ks *keySearch) {
	// Only the items of the changed jobs are sorted again.
	t.fresh = t.fresh[:0]
	for _, i := range t.jobs {
		t.fresh = ks.itemsOf(i, t.rows[i], t.fresh)
	}
	sortItems(t.fresh)
	t.items = t.items[:0]
	fresh := t.fresh
	for _, it := range ks.items {
		if slices.Contains(t.jobs, int(it.Job)) {
			continue
		}
		for len(fresh) > 0 && compareItems(fresh[0], it) < 0 {
			t.items, fresh = append(t.items, fresh[0]), fresh[1:]
		}
		t.items = append(t.items, it)
	}
	t.items = append(t.items, fresh...)
	t.residual.reset(ks.empty)
	if t.buffer == nil {
		t.buffer = &Plan{Jobs: make([][]Block, len(ks.m.Jobs)), EndUs: make([]int64, len(ks.m.Jobs))}
	}
	p := t.buffer
	for i := range ks.m.Jobs {
		p.Jobs[i], p.EndUs[i] = p.Jobs[i][:0], ks.m.Jobs[i].ReleaseUs
	}
	t.work += int64(len(ks.m.Jobs))
	for n, it := range t.items {
		if n%checkEvery == 0 && ks.budget.ctx.Err() != nil {
			return
		}
		i := int(it.Job)
		ok := false
		if lambda := t.prices[i]; lambda > 0 && it.Round != Whole {
			p.EndUs[i], ok = t.residual.placePriceGuidedRound(ks.guide, lambda, i, it.Round, p.EndUs[i], &p.Jobs[i])
		} else {
			ok = t.residual.placeItem(it, p)
		}
		if !ok {
			return
		}
	}
	t.plan, t.value = p, weighted(ks.m, p.EndUs)
	t.raw, t.final = t.value, t.value
}

// justifyWhileBetter justifies the plan, which the residual capacity holds, while that
// helps, at most passes times.
func (t *trial) justifyWhileBetter(ks *keySearch, passes int) {
	for ; passes > 0 && ks.budget.ctx.Err() == nil; passes-- {
		t.work += 2 * int64(len(ks.m.Jobs))
		t.residual.justify(ks.budget.ctx, t.plan)
		before := t.final
		t.final = weighted(ks.m, t.plan.EndUs)
		if t.final >= before*(1-minJustifyGain) {
			return
		}
	}
}

// drawMove draws new keys, or a new weight of the prices, for one to four jobs.
func (ks *keySearch) drawMove(t *trial) {
	t.jobs, t.keys, t.lambda = t.jobs[:0], t.keys[:0], t.lambda[:0]
	kinds := 4
	if ks.guide != nil {
		kinds = 5
	}
	span := ks.span()
	for range 1 + ks.r.IntN(4) {
		i := ks.r.IntN(len(ks.keys))
		if slices.Contains(t.jobs, i) {
			continue
		}
		row, lambda := slices.Clone(ks.keys[i]), ks.lambda[i]
		switch ks.r.IntN(kinds) {
		case 0: // scale all keys
			f := math.Exp(0.25 * ks.r.NormFloat64())
			for r := range row {
				row[r] *= f
			}
		case 1: // shift all keys
			d := 0.04 * span * ks.r.NormFloat64()
			for r := range row {
				row[r] += d
			}
		case 2: // stretch the keys about the middle one
			mid, f := row[len(row)/2], math.Exp(0.4*ks.r.NormFloat64())
			for r := range row {
				row[r] = mid + (row[r]-mid)*f
			}
		case 3: // end where another job ends
			o := ks.keys[ks.r.IntN(len(ks.keys))]
			if last := row[len(row)-1]; last > 0 {
				f := o[len(o)-1] / last
				for r := range row {
					row[r] *= f
				}
			}
		case 4:
			if lambda = 0; ks.r.Float64() < pricedShare {
				lambda = maxPriceWeight * ks.r.Float64()
			}
		}
		t.jobs, t.keys, t.lambda = append(t.jobs, i), append(t.keys, row), append(t.lambda, lambda)
	}
}
