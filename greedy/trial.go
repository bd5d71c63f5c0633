package greedy

import (
	"math"
	"slices"
)

// trial is one change of the state and what comes of it.
type trial struct {
	jobs   []int
	keys   [][]float64 // of these jobs
	lambda []float64
	placer
	own  *Plan // buffers
	plan *Plan // nil where there is none
	// raw is the value as decoded, value that after one justification, and final
	// that of plan.
	raw, value, final float64
}

// placer places the rounds of a state on a board of its own.
type placer struct {
	board  *board
	items  []Item
	fresh  []Item      // scratch
	rows   [][]float64 // keys by job
	prices []float64   // what they weigh, by job
	work   int64
}

func (t *trial) prepare(s *keySearch) {
	if t.board == nil {
		t.board = s.empty.fresh()
	}
	t.work, t.plan = 0, nil
}

// evaluate places the state with the changes of t, and justifies what is better
// than limit.
func (t *trial) evaluate(s *keySearch, limit float64) {
	t.prepare(s)
	t.rows = append(t.rows[:0], s.keys...)
	if s.lambda != nil {
		t.prices = append(t.prices[:0], s.lambda...)
	}
	for at, i := range t.jobs {
		t.rows[i], t.prices[i] = t.keys[at], t.lambda[at]
	}
	if t.decode(s); t.plan != nil && t.value < limit {
		t.settle(s, 1)
		if t.value = t.final; t.value < s.once {
			t.settle(s, polish)
		}
	}
}

// decode places all rounds in the order of their keys.
func (t *trial) decode(s *keySearch) {
	// Only the items of the jobs that change are sorted anew.
	t.fresh = t.fresh[:0]
	for _, i := range t.jobs {
		t.fresh = s.itemsOf(i, t.rows[i], t.fresh)
	}
	sortItems(t.fresh)
	t.items = t.items[:0]
	fresh := t.fresh
	for _, it := range s.items {
		if slices.Contains(t.jobs, int(it.Job)) {
			continue
		}
		for len(fresh) > 0 && compareItems(fresh[0], it) < 0 {
			t.items, fresh = append(t.items, fresh[0]), fresh[1:]
		}
		t.items = append(t.items, it)
	}
	t.items = append(t.items, fresh...)
	t.board.reset(s.empty)
	if t.own == nil {
		t.own = &Plan{Jobs: make([][]Block, len(s.m.Jobs)), EndUs: make([]int64, len(s.m.Jobs))}
	}
	p := t.own
	for i := range s.m.Jobs {
		p.Jobs[i], p.EndUs[i] = p.Jobs[i][:0], s.m.Jobs[i].ReleaseUs
	}
	t.work += int64(len(s.m.Jobs))
	for n, it := range t.items {
		if n%checkEvery == 0 && s.bud.ctx.Err() != nil {
			return
		}
		i := int(it.Job)
		ok := false
		if lambda := t.prices[i]; lambda > 0 && it.Round != Whole {
			p.EndUs[i], ok = t.board.guidedRound(s.guide, lambda, i, it.Round, p.EndUs[i], &p.Jobs[i])
		} else {
			ok = t.board.item(it, p)
		}
		if !ok {
			return
		}
	}
	t.plan, t.value = p, weighted(s.m, p.EndUs)
	t.raw, t.final = t.value, t.value
}

// settle justifies the plan, which is on the board, while that helps, up to so
// many times.
func (t *trial) settle(s *keySearch, passes int) {
	for ; passes > 0 && s.bud.ctx.Err() == nil; passes-- {
		t.work += 2 * int64(len(s.m.Jobs))
		t.board.justify(s.bud.ctx, t.plan)
		before := t.final
		t.final = weighted(s.m, t.plan.EndUs)
		if t.final >= before*(1-worthAPass) {
			return
		}
	}
}

// change draws new keys for one to four jobs, or what prices weigh for them.
func (s *keySearch) change(t *trial) {
	t.jobs, t.keys, t.lambda = t.jobs[:0], t.keys[:0], t.lambda[:0]
	kinds := 4
	if s.guide != nil {
		kinds = 5
	}
	span := 0.0
	for _, row := range s.keys {
		span = max(span, row[len(row)-1])
	}
	for range 1 + s.r.IntN(4) {
		i := s.r.IntN(len(s.keys))
		if slices.Contains(t.jobs, i) {
			continue
		}
		row, lambda := slices.Clone(s.keys[i]), s.lambda[i]
		switch s.r.IntN(kinds) {
		case 0: // scale
			f := math.Exp(0.25 * s.r.NormFloat64())
			for r := range row {
				row[r] *= f
			}
		case 1: // shift
			d := 0.04 * span * s.r.NormFloat64()
			for r := range row {
				row[r] += d
			}
		case 2: // stretch about the middle
			mid, f := row[len(row)/2], math.Exp(0.4*s.r.NormFloat64())
			for r := range row {
				row[r] = mid + (row[r]-mid)*f
			}
		case 3: // end where another job ends
			o := s.keys[s.r.IntN(len(s.keys))]
			if last := row[len(row)-1]; last > 0 {
				f := o[len(o)-1] / last
				for r := range row {
					row[r] *= f
				}
			}
		case 4:
			if lambda = 0; s.r.Float64() < useful {
				lambda = mostPrice * s.r.Float64()
			}
		}
		t.jobs, t.keys, t.lambda = append(t.jobs, i), append(t.keys, row), append(t.lambda, lambda)
	}
}
