package relax

import (
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// row says what a row of the oracle's prices charges for: single GPUs of a type (gpus 1),
// or so many GPUs that a task, a gang or a rigid job holds together (docs/inside/bounds.md,
// "Sizes"). Floats are prices per GPU, certificates hold prices of the whole size.
type row struct {
	kind int
	gpus int64
	job  int // of whose own price it is, counted from 1; 0 for a price of all jobs
}

// dualFeasible is the dual feasible function u_m on a type: u_m(x) = x if (m+1)x is an
// integer, else ⌊(m+1)x⌋/m (Fekete and Schepers 2001). A price q of the function charges
// q·M·u_m(K/M) for K of M GPUs, and at most q·M for all of them.
type dualFeasible struct {
	kind int
	m    int64
}

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

// dropSizes lets every job pay its type's price for each GPU.
func (pr *problem) dropSizes() {
	pr.rows, pr.dualFeasible = pr.rows[:len(pr.caps)], nil
	for i := range pr.jobs {
		for m := range pr.jobs[i].modes {
			md := &pr.jobs[i].modes[m]
			md.top, md.row = md.kind, md.kind
		}
	}
	pr.shareTrailing()
	pr.setShapes()
}

// unitGPUs returns how many GPUs of one type job i holds together in a mode: those of a task if
// its tasks are independent or may mix types, else those of all tasks.
func (pr *problem) unitGPUs(i int, md *mode) int64 {
	mj := &pr.specs[i]
	tasks, gpus, _ := pr.shapeOf(i, md)
	if mj.Sync == hare.Relaxed || mj.Mix {
		return gpus
	}
	return tasks * gpus
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

// ascentRows returns the number of rows of the ascent: prices of single GPUs, then those
// of dual feasible functions, then those of the functions of pools.
func (pr *problem) ascentRows() int {
	return len(pr.caps) + len(pr.dualFeasible) + len(pr.pools.functions)
}

// kindOf returns the type whose GPUs a row of the ascent prices.
func (pr *problem) kindOf(r int) int {
	if r < len(pr.caps) {
		return r
	}
	if r -= len(pr.caps); r < len(pr.dualFeasible) {
		return pr.dualFeasible[r].kind
	}
	return pr.pools.list[pr.pools.functions[r-len(pr.dualFeasible)].pool].kind
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

// maxCapacity returns max M over each cell.
func maxCapacity(steps []model.Step, grid []float64) []int64 {
	out := make([]int64, len(grid)-1)
	i := 0
	for g := range out {
		for i+1 < len(steps) && float64(steps[i+1].FromUs) <= grid[g] {
			i++
		}
		for n := i; n < len(steps) && (n == i || float64(steps[n].FromUs) < grid[g+1]); n++ {
			out[g] = max(out[g], steps[n].Count)
		}
	}
	return out
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

// nanoRows rounds the oracle's prices to the integers of a certificate; sizes are priced
// as a whole. Prices of a type with sizes are kept so low that the prices of a pattern
// add up in 64 bits.
func (pr *problem) nanoRows(full *prices) [][]int64 {
	nanos := make([][]int64, len(pr.rows))
	var limits []int64
	if pr.model.Placed {
		limits, _ = pr.limits()
	}
	for r, prices := range full.at[:len(pr.rows)] {
		to := pr.rows[r]
		limit := float64(hare.MaxExact)
		if limits != nil {
			limit = float64(limits[r])
		}
		if pr.sized(to.kind) {
			limit = min(limit,
				math.Floor(math.MaxInt64/4/float64(max(1, slices.Max(maxCapacity(pr.caps[to.kind], full.grid))))))
		}
		nanos[r] = make([]int64, len(prices))
		for g, x := range prices {
			nanos[r][g] = int64(min(math.Round(x*float64(to.gpus)), limit))
		}
	}
	return nanos
}

func (pr *problem) sized(kind int) bool {
	return slices.ContainsFunc(pr.rows[len(pr.caps):], func(r row) bool { return r.kind == kind })
}

// capacityCost returns ∫ F_k of each type in 1e-15 weight-seconds.
func (pr *problem) capacityCost(grid []int64, nanos [][]int64) []*big.Int {
	costs := make([]*big.Int, len(pr.caps))
	for k, steps := range pr.caps {
		sum := new(big.Int)
		costs[k] = sum
		if pr.pricesJobs() {
			costs[k] = pr.costOfSets(k, grid, nanos)
			continue
		}
		var tasks []int64
		var rows [][]int64
		for r, to := range pr.rows {
			if r >= len(pr.caps) && to.kind == k {
				tasks, rows = append(tasks, to.gpus), append(rows, nanos[r])
			}
		}
		var f knapsack
		for g, price := range nanos[k] {
			if !f.load(price, tasks, rows, g) {
				sum.Add(sum, product(1, price, capacityIn(steps, grid[g], grid[g+1])))
				continue
			}
			for i, s := range steps {
				end := grid[g+1]
				if i+1 < len(steps) {
					end = min(end, steps[i+1].FromUs)
				}
				if l := end - max(s.FromUs, grid[g]); l > 0 {
					sum.Add(sum, product(1, f.best(s.Count), l))
				}
			}
		}
	}
	pr.addPoolCosts(costs, grid, nanos)
	return costs
}

// knapsack is F of one type in one cell: the dearest pattern of each capacity.
type knapsack struct {
	single int64
	tasks  []int64 // the sizes that are dearer than their GPUs one by one
	price  []int64
	value  []int64 // by capacity
}

// load reports whether some size is dearer than its GPUs one by one. Otherwise the
// dearest pattern consists of single GPUs.
func (ks *knapsack) load(single int64, tasks []int64, rows [][]int64, g int) bool {
	ks.single, ks.tasks, ks.price, ks.value = single, ks.tasks[:0], ks.price[:0], ks.value[:0]
	for i, n := range tasks {
		if p := rows[i][g]; p/n > single || p/n == single && p%n > 0 {
			ks.tasks, ks.price = append(ks.tasks, n), append(ks.price, p)
		}
	}
	return len(ks.tasks) > 0
}

// best returns F at a capacity. It takes O(capacity · sizes) once, up to the largest
// capacity asked for.
func (ks *knapsack) best(capacity int64) int64 {
	for c := int64(len(ks.value)); c <= capacity; c++ {
		v := c * ks.single
		for i, n := range ks.tasks {
			if n <= c {
				v = max(v, ks.price[i]+ks.value[c-n])
			}
		}
		ks.value = append(ks.value, v)
	}
	return ks.value[capacity]
}

// sizePrices returns the rows by size of a certificate, without those that charge what
// their GPUs cost one by one.
func (pr *problem) sizePrices(nanos [][]int64) []hare.SizePrices {
	var out []hare.SizePrices
	for r, to := range pr.rows[len(pr.caps):] {
		row := nanos[len(pr.caps)+r]
		for g, p := range row {
			if p != to.gpus*nanos[to.kind][g] {
				out = append(out, hare.SizePrices{Type: pr.model.Types[to.kind], Tasks: to.gpus, Nanos: row})
				break
			}
		}
	}
	return out
}
