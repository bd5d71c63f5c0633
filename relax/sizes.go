package relax

import (
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// row says what a row of the oracle's prices is for: single GPUs of a type
// (tasks 1), or so many held together by a gang or rigid job
// (docs/bounds.md, "Sizes"). Floats price it per GPU, certificates as a whole.
type row struct {
	kind  int
	tasks int64
}

// pack is the dual feasible function u_m on a type: u_m(x) = x where (m+1)x is
// whole, else ⌊(m+1)x⌋/m (Fekete and Schepers 2001). A price q of it charges
// q·M·u_m(K/M) for K of M GPUs, and q·M at most for all of them.
type pack struct {
	kind int
	m    int64
}

// share is M·u_m(tasks/M).
func (p pack) share(tasks, capacity int64) float64 {
	y := (p.m + 1) * tasks
	if y%capacity == 0 {
		return float64(tasks)
	}
	return float64(y/capacity) * float64(capacity) / float64(p.m)
}

// Limits of the sizes: knapSteps of a knapsack over one type's capacity, and
// packs a type. gains is what a pack must add to a size to be worth its price.
const (
	knapSteps = 1 << 17
	maxPacks  = 6
	gains     = 1.01
)

// addRows gives each type its row of prices, and rows by size to types whose
// gaps gangs cannot always fill: where every size divides the capacity, whole
// patterns fill all of it and sizes add nothing.
func (pr *problem) addRows() {
	for k := range pr.caps {
		pr.rows = append(pr.rows, row{k, 1})
	}
	if pr.planned > 0 {
		return
	}
	sizes := make([][]int64, len(pr.caps))
	for i := range pr.jobs {
		for _, md := range pr.jobs[i].modes {
			if n := pr.together(i); n > 1 {
				sizes[md.kind] = append(sizes[md.kind], n)
			}
		}
	}
	at := map[row]int{}
	for k := range sizes {
		slices.Sort(sizes[k])
		sizes[k] = slices.Compact(sizes[k])
		packs, useful := pr.packsOf(k, sizes[k])
		if !useful {
			continue
		}
		pr.packs = append(pr.packs, packs...)
		for _, n := range sizes[k] {
			at[row{k, n}] = len(pr.rows)
			pr.rows = append(pr.rows, row{k, n})
		}
	}
	if len(at) == 0 {
		return
	}
	for i := range pr.jobs {
		n := pr.together(i)
		for m := range pr.jobs[i].modes {
			md := &pr.jobs[i].modes[m]
			if r, ok := at[row{md.kind, n}]; ok {
				md.row = r
			}
		}
	}
}

// dropSizes lets every job pay its type's price for each GPU.
func (pr *problem) dropSizes() {
	pr.rows, pr.packs = pr.rows[:len(pr.caps)], nil
	for i := range pr.jobs {
		for m := range pr.jobs[i].modes {
			md := &pr.jobs[i].modes[m]
			md.row = md.kind
		}
	}
	pr.share()
}

// together is how many GPUs of one type job i holds at once, 1 where its tasks
// are free of each other or may mix types.
func (pr *problem) together(i int) int64 {
	mj := &pr.model.Jobs[i]
	if mj.Sync == hare.Relaxed || mj.Mix {
		return 1
	}
	return mj.Tasks
}

// packsOf chooses the functions that charge some size more than its GPUs on
// type k. useful is also true where a size never or not always fits.
func (pr *problem) packsOf(k int, sizes []int64) (packs []pack, useful bool) {
	var levels []int64
	for _, s := range pr.caps[k] {
		if s.Count > 0 {
			levels = append(levels, s.Count)
		}
	}
	slices.Sort(levels)
	levels = slices.Compact(levels)
	if len(levels) == 0 || len(sizes) == 0 || levels[len(levels)-1]*int64(len(sizes)) > knapSteps {
		return nil, false
	}
	add := func(p pack, capacity int64) {
		if p.m < 1 || len(packs) >= maxPacks || slices.Contains(packs, p) {
			return
		}
		for _, n := range sizes {
			if n <= capacity && p.share(n, capacity) >= gains*float64(n) {
				packs = append(packs, p)
				return
			}
		}
	}
	for _, c := range slices.Backward(levels) {
		for _, n := range slices.Backward(sizes) {
			useful = useful || n > c
			add(pack{k, c / n}, c)
		}
		for m := range int64(3) {
			add(pack{k, m + 1}, c)
		}
	}
	return packs, useful || len(packs) > 0
}

// width is the number of rows that the ascent works on: prices of single GPUs,
// then those of packs.
func (pr *problem) width() int { return len(pr.caps) + len(pr.packs) }

// term adds share times the ascent's row from to the oracle's row to, a cell.
type term struct {
	from, to int
	share    []float64
}

// mixer turns the ascent's rows into the oracle's on one grid.
type mixer struct {
	grid  []float64
	terms []term
	// never[r][g] is what row r costs where its gang does not fit, else 0.
	never [][]float64
	full  *prices
}

// mix prepares a grid. O(packs · sizes · cells).
func (pr *problem) mix(grid []float64) *mixer {
	x := &mixer{grid: grid, full: newPrices(grid, len(pr.rows))}
	G := len(grid) - 1
	tops := make([][]int64, len(pr.caps))
	for k := range tops {
		tops[k] = tallest(pr.caps[k], grid)
	}
	for v, p := range pr.packs {
		for r, to := range pr.rows {
			if to.kind != p.kind {
				continue
			}
			t := term{len(pr.caps) + v, r, make([]float64, G)}
			for g, c := range tops[p.kind] {
				if c >= to.tasks {
					t.share[g] = p.share(to.tasks, c) / float64(to.tasks)
				}
			}
			x.terms = append(x.terms, t)
		}
	}
	x.never = make([][]float64, len(pr.rows))
	for r, to := range pr.rows[len(pr.caps):] {
		r += len(pr.caps)
		for g, c := range tops[to.kind] {
			if c < to.tasks {
				if x.never[r] == nil {
					x.never[r] = make([]float64, G)
				}
				x.never[r][g] = pr.prohibitive(r, grid[G])
			}
		}
	}
	return x
}

// prohibitive is a price of row r at which no round there pays: a round costs
// as much as all of a job's life on any type. It fits no pattern, so that it is
// free to be high.
func (pr *problem) prohibitive(r int, end float64) float64 {
	top := 0.0
	for i := range pr.jobs {
		j := &pr.jobs[i]
		for _, md := range j.modes {
			if md.row == r {
				top = max(top, j.w*(end+j.a+j.rounds*j.modes[0].d)/(md.held*md.d))
			}
		}
	}
	return top
}

// tallest is max M over each cell.
func tallest(steps []hare.Step, grid []float64) []int64 {
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

// compose is the oracle's prices for those of the ascent.
func (x *mixer) compose(pr *problem, pi *prices) *prices {
	types := len(pr.caps)
	for r, to := range pr.rows {
		copy(x.full.at[r], pi.at[to.kind])
	}
	for _, t := range x.terms {
		to, from := x.full.at[t.to], pi.at[t.from]
		for g, s := range t.share {
			to[g] += s * from[g]
		}
	}
	for r := types; r < len(pr.rows); r++ {
		for g, c := range x.never[r] {
			if c > 0 {
				x.full.at[r][g] = max(x.full.at[r][g], c)
			}
		}
	}
	return x.full
}

// fold turns use of the oracle's rows into that of the ascent's: it adds the
// transpose of compose to grad.
func (x *mixer) fold(pr *problem, use, grad []float64) {
	G := len(x.grid) - 1
	for r, to := range pr.rows {
		for g, u := range use[r*G : (r+1)*G] {
			if x.never[r] == nil || x.never[r][g] == 0 {
				grad[to.kind*G+g] += u
			}
		}
	}
	for _, t := range x.terms {
		for g, s := range t.share {
			grad[t.from*G+g] += s * use[t.to*G+g]
		}
	}
}

// fold is use of the oracle's rows as use of the ascent's.
func (e *evaluator) fold(use []float64) []float64 {
	if e.mixer == nil {
		return use
	}
	out := make([]float64, e.pr.width()*(len(e.mixer.grid)-1))
	e.mixer.fold(e.pr, use, out)
	return out
}

// mean is what a GPU of each type costs where all patterns are full.
func (pr *problem) mean(pi *prices) [][]float64 {
	out := make([][]float64, len(pr.caps))
	for k := range out {
		out[k] = slices.Clone(pi.at[k])
	}
	for v, p := range pr.packs {
		for g, x := range pi.at[len(pr.caps)+v] {
			out[p.kind][g] += x
		}
	}
	return out
}

// nanoRows rounds the oracle's prices to the integers of a certificate, sizes
// as a whole. Prices of a type with sizes are kept so low that those of a
// pattern add up in 64 bits.
func (pr *problem) nanoRows(full *prices) [][]int64 {
	nanos := make([][]int64, len(full.at))
	for r, prices := range full.at {
		to := pr.rows[r]
		limit := float64(hare.MaxExact)
		if pr.sized(to.kind) {
			limit = min(limit, math.Floor(math.MaxInt64/4/float64(max(1, slices.Max(tallest(pr.caps[to.kind], full.grid))))))
		}
		nanos[r] = make([]int64, len(prices))
		for g, x := range prices {
			nanos[r][g] = int64(min(math.Round(x*float64(to.tasks)), limit))
		}
	}
	return nanos
}

func (pr *problem) sized(kind int) bool {
	return slices.ContainsFunc(pr.rows[len(pr.caps):], func(r row) bool { return r.kind == kind })
}

// capacityCost is ∫ F_k of each type in 1e-15 weight-seconds.
func (pr *problem) capacityCost(grid []int64, nanos [][]int64) []*big.Int {
	costs := make([]*big.Int, len(pr.caps))
	for k, steps := range pr.caps {
		sum := new(big.Int)
		costs[k] = sum
		var tasks []int64
		var rows [][]int64
		for r, to := range pr.rows {
			if r >= len(pr.caps) && to.kind == k {
				tasks, rows = append(tasks, to.tasks), append(rows, nanos[r])
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
	return costs
}

// knapsack is F of one type in one cell: the dearest pattern of each capacity.
type knapsack struct {
	single int64
	tasks  []int64 // of sizes dearer than their GPUs one by one
	price  []int64
	value  []int64 // by capacity
}

// load says whether some size is dearer than its GPUs one by one: else the
// dearest pattern is of single GPUs.
func (f *knapsack) load(single int64, tasks []int64, rows [][]int64, g int) bool {
	f.single, f.tasks, f.price, f.value = single, f.tasks[:0], f.price[:0], f.value[:0]
	for i, n := range tasks {
		if p := rows[i][g]; p/n > single || p/n == single && p%n > 0 {
			f.tasks, f.price = append(f.tasks, n), append(f.price, p)
		}
	}
	return len(f.tasks) > 0
}

// best is F at a capacity. O(capacity · sizes), once up to the largest asked.
func (f *knapsack) best(capacity int64) int64 {
	for c := int64(len(f.value)); c <= capacity; c++ {
		v := c * f.single
		for i, n := range f.tasks {
			if n <= c {
				v = max(v, f.price[i]+f.value[c-n])
			}
		}
		f.value = append(f.value, v)
	}
	return f.value[capacity]
}

// sizePrices are the rows by size of a certificate, but for those that charge
// what their GPUs cost one by one.
func (pr *problem) sizePrices(nanos [][]int64) []hare.SizePrices {
	var out []hare.SizePrices
	for r, to := range pr.rows[len(pr.caps):] {
		row := nanos[len(pr.caps)+r]
		for g, p := range row {
			if p != to.tasks*nanos[to.kind][g] {
				out = append(out, hare.SizePrices{Type: pr.model.Types[to.kind], Tasks: to.tasks, Nanos: row})
				break
			}
		}
	}
	return out
}
