package relax

import (
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

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

// nanos rounds the prices of the rows of pools to integers.
func (ps *pools) nanos(pi *prices, limits []int64) [][]int64 {
	out := make([][]int64, ps.rows)
	G := len(pi.grid) - 1
	for r := range out {
		out[r] = make([]int64, G)
	}
	sum := make([]float64, G)
	first := len(pi.at) - len(ps.functions)
	for p := range ps.list {
		x := &ps.list[p]
		for s := range 1 + len(x.sizes) {
			clear(sum)
			for f := range ps.functions {
				if fn := &ps.functions[f]; fn.pool == p {
					for g, price := range pi.at[first+f] {
						sum[g] += price * fn.share[s]
					}
				}
			}
			row := out[x.firstRow+s]
			for g, price := range sum {
				row[g] = int64(min(math.Round(price), float64(limits[x.firstRow+s])))
			}
		}
	}
	return out
}

// limits returns the greatest prices of the rows of types and sizes, and of those of pools, at
// which all of a job's prices of a second, and the patterns of a domain, add up in 64 bits.
func (pr *problem) limits() (top, inPools []int64) {
	ps := &pr.pools
	top, inPools = make([]int64, len(pr.rows)), make([]int64, ps.rows)
	for r := range top {
		top[r] = hare.MaxExact
	}
	for p := range ps.list {
		x := &ps.list[p]
		limit := int64(hare.MaxExact)
		if x.resource == hare.PoolCPUs {
			limit /= 1000
		}
		for _, d := range x.domains {
			limit = min(limit, math.MaxInt64/4/max(1, model.MostRoom(d.steps)))
		}
		for s := range 1 + len(x.sizes) {
			inPools[x.firstRow+s] = limit
		}
	}
	share := int64(1<<62) / int64(1+len(ps.list))
	lower := func(to *int64, times, tasks int64) {
		*to = min(*to, max(1, share/max(1, times)/max(1, tasks)))
	}
	for i := range pr.jobs {
		mj := &pr.specs[i]
		for _, md := range pr.jobs[i].modes {
			gpus := pr.rows[md.top].gpus
			tasks, units, _ := pr.shapeOf(i, &md)
			if mj.Sync != hare.Relaxed && !mj.Mix {
				units, tasks = units*tasks, 1
			}
			lower(&top[md.top], max(1, units/gpus), tasks)
			if len(ps.composites) > 0 {
				for _, t := range ps.composites[md.row].terms {
					lower(&inPools[t.row], t.times, tasks)
				}
			}
		}
	}
	return top, inPools
}

// oracleNanos returns the integer prices of the oracle's rows for those of a certificate.
func (pr *problem) oracleNanos(nanos [][]int64) [][]int64 {
	ps := &pr.pools
	if len(ps.composites) == 0 {
		return nanos
	}
	out := make([][]int64, len(ps.composites))
	for c := range out {
		x := &ps.composites[c]
		out[c] = make([]int64, len(nanos[x.top]))
		units := x.gpus / pr.rows[x.top].gpus
		for g, price := range nanos[x.top] {
			out[c][g] = units * price
		}
		for _, t := range x.terms {
			for g, price := range nanos[len(pr.rows)+t.row] {
				out[c][g] += t.times * price
			}
		}
	}
	return out
}

// addPoolCosts adds what the capacity of pools costs to the costs of types.
func (pr *problem) addPoolCosts(costs []*big.Int, grid []int64, nanos [][]int64) {
	var f knapsack
	for p := range pr.pools.list {
		x := &pr.pools.list[p]
		rows := nanos[len(pr.rows)+x.firstRow:]
		for g, price := range rows[0] {
			sized := f.load(price, x.sizes, rows[1:1+len(x.sizes)], g)
			for _, d := range x.domains {
				if !sized {
					costs[x.kind].Add(costs[x.kind], product(d.count, price, capacityIn(d.steps, grid[g], grid[g+1])))
					continue
				}
				for i, s := range d.steps {
					end := grid[g+1]
					if i+1 < len(d.steps) {
						end = min(end, d.steps[i+1].FromUs)
					}
					if l := end - max(s.FromUs, grid[g]); l > 0 {
						costs[x.kind].Add(costs[x.kind], product(d.count, f.best(s.Count), l))
					}
				}
			}
		}
	}
}

// certificatePools returns the pools of a certificate, without those that charge nothing.
func (pr *problem) certificatePools(nanos [][]int64) []hare.Pool {
	var out []hare.Pool
	charges := func(row []int64) bool { return slices.ContainsFunc(row, func(x int64) bool { return x > 0 }) }
	for p := range pr.pools.list {
		x := &pr.pools.list[p]
		rows := nanos[len(pr.rows)+x.firstRow:]
		doc := hare.Pool{Resource: x.resource, Type: pr.model.Types[x.kind], Per: x.per, Only: x.only}
		if x.resource == hare.PoolQuota {
			doc.Type, doc.Quota = "", x.quota
		}
		if charges(rows[0]) {
			doc.Nanos = slices.Clone(rows[0])
		}
		if x.resource == hare.PoolCPUs {
			for g := range doc.Nanos {
				doc.Nanos[g] *= 1000
			}
		}
		for s, n := range x.sizes {
			if charges(rows[1+s]) {
				doc.Sizes = append(doc.Sizes, hare.PoolSize{GPUs: n, Nanos: rows[1+s]})
			}
		}
		if doc.Nanos != nil || doc.Sizes != nil {
			out = append(out, doc)
		}
	}
	return out
}

// integerPrices rounds prices to those of a certificate: of types and sizes, then of pools.
func (pr *problem) integerPrices(ev *evaluator, pi *prices) [][]int64 {
	nanos := pr.nanoRows(ev.composeTop(pi))
	if len(pr.pools.list) > 0 {
		_, limits := pr.limits()
		inPools := pr.pools.nanos(pi, limits)
		pr.prohibit(inPools, pi.grid, limits)
		nanos = append(nanos, inPools...)
	}
	return nanos
}

// certificateOf returns the grid and the prices of a certificate.
func (pr *problem) certificateOf(grid []int64, nanos [][]int64) *hare.Certificate {
	cert := &hare.Certificate{Path: true, GridUs: grid, Pools: pr.certificatePools(nanos)}
	for k, t := range pr.model.Types {
		cert.Prices = append(cert.Prices, hare.TypePrices{Type: t, Nanos: nanos[k]})
	}
	cert.Sizes = pr.sizePrices(nanos)
	return cert
}

// certified completes a relaxation with its certificate and the bound that the
// certificate proves, in 1e-15 weight-seconds.
func (pr *problem) certified(rel *hare.Relaxation, cert *hare.Certificate, bound *big.Rat) *hare.Relaxation {
	rel.Certified = true
	rel.Bound = ratAmount(bound)
	cert.Method = rel.Method
	cert.Objective = pr.model.Instance.Objective
	cert.Bound = rel.Bound.Bound6()
	rel.Certificate = cert
	return rel
}

// pricesJobs reports whether the rows are those of addJobRows.
func (pr *problem) pricesJobs() bool { return len(pr.rows) > 0 && pr.rows[len(pr.rows)-1].job > 0 }

// costOfSets returns what the dearest sets of jobs pay for the GPUs of type k, each job at most once and from its
// release on, in 1e-15 weight-seconds.
func (pr *problem) costOfSets(k int, grid []int64, nanos [][]int64) *big.Int {
	total := new(big.Int)
	steps := pr.caps[k]
	var rows []int
	cuts := slices.Clone(grid)
	for _, s := range steps {
		cuts = append(cuts, s.FromUs)
	}
	for r, to := range pr.rows {
		if to.job > 0 && to.kind == k {
			rows = append(rows, r)
			cuts = append(cuts, int64(pr.jobs[to.job-1].a))
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	cell, step := 0, 0
	var best []int64
	for x, from := range cuts {
		if from >= grid[len(grid)-1] {
			break
		}
		for grid[cell+1] <= from {
			cell++
		}
		for step+1 < len(steps) && steps[step+1].FromUs <= from {
			step++
		}
		if steps[step].FromUs > from {
			continue
		}
		free := steps[step].Count
		best = slices.Grow(best[:0], int(free)+1)[:free+1]
		for n := range best {
			best[n] = int64(n) * nanos[k][cell] // single GPUs
		}
		for _, r := range rows {
			to, p := pr.rows[r], nanos[r][cell]
			if p == 0 || pr.jobs[to.job-1].a > float64(from) {
				continue
			}
			for n := free; n >= to.gpus; n-- {
				best[n] = max(best[n], best[n-to.gpus]+p)
			}
		}
		total.Add(total, product(1, best[free], cuts[x+1]-from))
	}
	return total
}
