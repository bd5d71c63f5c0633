package relax

import (
	"slices"

	"github.com/hare-sched/hare"
)

// share returns M·u_m(tasks/M).
func (df dualFeasible) share(tasks, capacity int64) float64 {
	y := (df.m + 1) * tasks
	if y%capacity == 0 {
		return float64(tasks)
	}
	return float64(y/capacity) * float64(capacity) / float64(df.m)
}

// maxKnapsack limits the steps of a knapsack over one type's capacity, maxDualFeasible
// the functions of a type. minSizeGain is the factor by which a function must raise the
// charge of some size.
const (
	maxKnapsack     = 1 << 17
	maxDualFeasible = 6
	minSizeGain     = 1.01
)

// addRows gives each type its row of prices, and gives rows by size to types whose gaps
// gangs cannot always fill. If every size divides the capacity, whole patterns fill all
// of it and sizes add nothing.
func (pr *problem) addRows() {
	for k := range pr.caps {
		pr.rows = append(pr.rows, row{kind: k, gpus: 1})
	}
	if pr.syncAsCompute > 0 {
		return
	}
	sizes := make([][]int64, len(pr.caps))
	for i := range pr.jobs {
		for m := range pr.jobs[i].modes {
			md := &pr.jobs[i].modes[m]
			if n := pr.unitGPUs(i, md); n > 1 {
				sizes[md.kind] = append(sizes[md.kind], n)
			}
		}
	}
	at := map[row]int{}
	for k := range sizes {
		slices.Sort(sizes[k])
		sizes[k] = slices.Compact(sizes[k])
		packs, useful := pr.chooseDualFeasible(k, sizes[k])
		if !useful {
			continue
		}
		pr.dualFeasible = append(pr.dualFeasible, packs...)
		for _, n := range sizes[k] {
			at[row{kind: k, gpus: n}] = len(pr.rows)
			pr.rows = append(pr.rows, row{kind: k, gpus: n})
		}
	}
	if len(at) == 0 {
		return
	}
	for i := range pr.jobs {
		for m := range pr.jobs[i].modes {
			md := &pr.jobs[i].modes[m]
			if r, ok := at[row{kind: md.kind, gpus: pr.unitGPUs(i, md)}]; ok {
				md.top, md.row = r, r
			}
		}
	}
}

// chooseDualFeasible chooses the functions that charge some size more than its GPUs on
// type k. useful is also true if a size never or not always fits.
func (pr *problem) chooseDualFeasible(k int, sizes []int64) (packs []dualFeasible, useful bool) {
	var levels []int64
	for _, s := range pr.caps[k] {
		if s.Count > 0 {
			levels = append(levels, s.Count)
		}
	}
	slices.Sort(levels)
	levels = slices.Compact(levels)
	if len(levels) == 0 || len(sizes) == 0 || levels[len(levels)-1]*int64(len(sizes)) > maxKnapsack {
		return nil, false
	}
	add := func(p dualFeasible, capacity int64) {
		if p.m < 1 || len(packs) >= maxDualFeasible || slices.Contains(packs, p) {
			return
		}
		for _, n := range sizes {
			if n <= capacity && p.share(n, capacity) >= minSizeGain*float64(n) {
				packs = append(packs, p)
				return
			}
		}
	}
	for _, c := range slices.Backward(levels) {
		for _, n := range slices.Backward(sizes) {
			useful = useful || n > c
			add(dualFeasible{k, c / n}, c)
		}
		for m := range int64(3) {
			add(dualFeasible{k, m + 1}, c)
		}
	}
	return packs, useful || len(packs) > 0
}

// term adds share times the ascent's row from to the oracle's row to; share is by cell.
type term struct {
	from, to int
	share    []float64
}

// rowMap is the linear map from the ascent's rows to the oracle's on one grid.
type rowMap struct {
	grid  []float64
	terms []term
	// prohibitive[r][g] is the price of row r where its gang does not fit, else 0.
	prohibitive [][]float64
	full        *prices
}

// newRowMap prepares a grid. It takes O(functions · sizes · cells).
func (pr *problem) newRowMap(grid []float64) *rowMap {
	x := &rowMap{grid: grid, full: newPrices(grid, len(pr.rows))}
	G := len(grid) - 1
	tops := make([][]int64, len(pr.caps))
	for k := range tops {
		tops[k] = maxCapacity(pr.caps[k], grid)
	}
	for v, p := range pr.dualFeasible {
		for r, to := range pr.rows {
			if to.kind != p.kind {
				continue
			}
			t := term{len(pr.caps) + v, r, make([]float64, G)}
			for g, c := range tops[p.kind] {
				if c >= to.gpus {
					t.share[g] = p.share(to.gpus, c) / float64(to.gpus)
				}
			}
			x.terms = append(x.terms, t)
		}
	}
	x.prohibitive = make([][]float64, len(pr.rows))
	for r, to := range pr.rows[len(pr.caps):] {
		r += len(pr.caps)
		for g, c := range tops[to.kind] {
			if c < to.gpus {
				if x.prohibitive[r] == nil {
					x.prohibitive[r] = make([]float64, G)
				}
				x.prohibitive[r][g] = pr.prohibitivePrice(r, grid[G])
			}
		}
	}
	return x
}

// prohibitivePrice returns a price of row r at which no round there pays: a round costs
// as much as all of a job's life on any type. The row fits no pattern, so a high price
// charges nothing for capacity.
func (pr *problem) prohibitivePrice(r int, end float64) float64 {
	top := 0.0
	for i := range pr.jobs {
		j := &pr.jobs[i]
		for _, md := range j.modes {
			if md.top == r {
				top = max(top, (j.w+j.late)*(end+j.a+j.rounds*j.modes[0].each)/(md.held*md.each))
			}
		}
	}
	return top
}

// compose returns the oracle's prices for those of the ascent.
func (rm *rowMap) compose(pr *problem, pi *prices) *prices {
	types := len(pr.caps)
	for r, to := range pr.rows {
		copy(rm.full.at[r], pi.at[to.kind])
	}
	for _, t := range rm.terms {
		to, from := rm.full.at[t.to], pi.at[t.from]
		for g, s := range t.share {
			to[g] += s * from[g]
		}
	}
	for r := types; r < len(pr.rows); r++ {
		for g, c := range rm.prohibitive[r] {
			if c > 0 {
				rm.full.at[r][g] = max(rm.full.at[r][g], c)
			}
		}
	}
	return rm.full
}

// fold turns use of the oracle's rows into use of the ascent's: it adds the transpose of
// compose to grad.
func (rm *rowMap) fold(pr *problem, use, grad []float64) {
	G := len(rm.grid) - 1
	for r, to := range pr.rows {
		for g, u := range use[r*G : (r+1)*G] {
			if rm.prohibitive[r] == nil || rm.prohibitive[r][g] == 0 {
				grad[to.kind*G+g] += u
			}
		}
	}
	for _, t := range rm.terms {
		for g, s := range t.share {
			grad[t.from*G+g] += s * use[t.to*G+g]
		}
	}
}

// mean returns what a GPU of each type costs if all patterns are full.
func (pr *problem) mean(pi *prices) [][]float64 {
	out := make([][]float64, len(pr.caps))
	for k := range out {
		out[k] = slices.Clone(pi.at[k])
	}
	for v, p := range pr.dualFeasible {
		for g, x := range pi.at[len(pr.caps)+v] {
			out[p.kind][g] += x
		}
	}
	first := pr.ascentRows() - len(pr.pools.functions)
	for f := range pr.pools.functions {
		if p := &pr.pools.list[pr.pools.functions[f].pool]; p.per != "" && p.per != hare.PerAll {
			for g, x := range pi.at[first+f] {
				out[p.kind][g] += x
			}
		}
	}
	return out
}
