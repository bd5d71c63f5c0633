package relax

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// compositeKey names what decides which prices a mode pays.
type compositeKey struct {
	top, class, level         int
	tasks, gpus, cpus, memory int64
	quotas                    string // the pools of quotas
}

// splitModes replaces each mode of a job by one for each class of nodes on which there is room
// for a task.
func (pr *problem) splitModes() {
	m, ps := pr.model, &pr.pools
	// classes[k] are the classes of type k by the pools that they are in.
	type class struct {
		kinds []int
		pools []int
	}
	classes := make([][]class, len(pr.caps))
	for k := range classes {
		at := map[string]int{}
		for n := range m.Kinds {
			if gpusOfKind(&m.Kinds[n], k) == nil {
				continue
			}
			var in []int
			for p := range ps.list {
				if x := &ps.list[p]; x.in[n] && (x.resource != hare.PoolGPUs || x.kind == k) {
					in = append(in, p)
				}
			}
			key := fmt.Sprint(in)
			c, ok := at[key]
			if !ok {
				c = len(classes[k])
				at[key] = c
				classes[k] = append(classes[k], class{pools: in})
			}
			classes[k][c].kinds = append(classes[k][c].kinds, n)
		}
	}
	cpus, memory := pr.prices(hare.PoolCPUs), pr.prices(hare.PoolMemory)
	usable := map[roomKey][]int{}
	rows := map[compositeKey]int{}
	for i := range pr.jobs {
		mj, j := &pr.specs[i], &pr.jobs[i]
		var quotas [][]int
		if len(mj.Quotas) > 0 {
			quotas = pr.quotaPools(i)
		}
		var split []mode
		for _, md := range j.modes {
			in := mj
			if mj.Shapes != nil {
				shaped := mj.InShape(int(md.shape))
				in = &shaped
			}
			times := int64(1)
			if mj.Sync != hare.Relaxed && !mj.Mix {
				times = in.Tasks
			}
			key := roomKeyOf(in, md.kind)
			where, ok := usable[key]
			if !ok {
				for c := range classes[md.kind] {
					if slices.ContainsFunc(classes[md.kind][c].kinds, func(n int) bool {
						return model.MostRoom(m.KindRoom(&m.Kinds[n], in, md.kind)) > 0
					}) {
						where = append(where, c)
					}
				}
				usable[key] = where
			}
			for _, c := range where {
				key := compositeKey{top: md.top, class: c, level: int(md.level), tasks: times, gpus: in.GPUs}
				if cpus {
					key.cpus = mj.CPUMilli
				}
				if memory {
					key.memory = mj.MemoryMiB
				}
				if quotas != nil {
					key.quotas = quotaKey(quotas[md.kind])
				}
				at, ok := rows[key]
				if !ok {
					at = len(ps.composites)
					rows[key] = at
					composite := pr.newComposite(i, &md, times, classes[md.kind][c].pools)
					if quotas != nil {
						pr.addQuotaTerms(&composite, i, &md, quotas[md.kind])
					}
					ps.composites = append(ps.composites, composite)
				}
				md.row = at
				split = append(split, md)
			}
		}
		j.modes = split
		j.setPerRate()
	}
	ps.flatten()
}

// prices reports whether some pool prices the resource.
func (pr *problem) prices(resource hare.PoolResource) bool {
	return slices.ContainsFunc(pr.pools.list, func(p pool) bool { return p.resource == resource })
}

// newComposite returns what job i pays for times tasks in a mode in the given pools.
func (pr *problem) newComposite(i int, md *mode, times int64, in []int) composite {
	c := composite{top: md.top, gpus: times * pr.need(i, md, hare.PoolGPUs)}
	for _, at := range in {
		p := &pr.pools.list[at]
		need := pr.need(i, md, p.resource)
		if p.resource == hare.PoolGPUs && len(p.sizes) > 0 {
			if unit := pr.unitIn(p, i, md); unit != need {
				s, _ := slices.BinarySearch(p.sizes, unit)
				c.terms = append(c.terms, poolTerm{p.firstRow + 1 + s, 1})
				continue
			}
		}
		if s, ok := slices.BinarySearch(p.sizes, need); ok && p.resource == hare.PoolGPUs {
			c.terms = append(c.terms, poolTerm{p.firstRow + 1 + s, times})
		} else if need > 0 {
			c.terms = append(c.terms, poolTerm{p.firstRow, times * need})
		}
	}
	return c
}

// flatten prepares the prices of composites as sums over functions.
func (ps *pools) flatten() {
	ps.flat = make([][]flatTerm, len(ps.composites))
	for c := range ps.composites {
		x := &ps.composites[c]
		for f := range ps.functions {
			fn := &ps.functions[f]
			first, sum := ps.list[fn.pool].firstRow, 0.0
			for _, t := range x.terms {
				if s := t.row - first; s >= 0 && s < len(fn.share) {
					sum += fn.share[s] * float64(t.times)
				}
			}
			if sum > 0 {
				ps.flat[c] = append(ps.flat[c], flatTerm{f, sum / float64(x.gpus)})
			}
		}
	}
}

// oracleRows returns the rows of the oracle's prices.
func (pr *problem) oracleRows() []row {
	if len(pr.pools.composites) == 0 {
		return pr.rows
	}
	rows := make([]row, len(pr.pools.composites))
	for c := range rows {
		x := &pr.pools.composites[c]
		rows[c] = row{kind: pr.rows[x.top].kind, gpus: x.gpus}
	}
	return rows
}

// composeInto writes the oracle's prices for the ascent's prices pi and those of types and
// sizes, top. prohibited is by composite.
func (ps *pools) composeInto(full, top, pi *prices, prohibited [][]float64) {
	first := len(pi.at) - len(ps.functions)
	for c := range ps.composites {
		row := full.at[c]
		copy(row, top.at[ps.composites[c].top])
		for _, t := range ps.flat[c] {
			for g, x := range pi.at[first+t.function] {
				row[g] += t.perGPU * x
			}
		}
		for g, x := range prohibited[c] {
			row[g] = max(row[g], x)
		}
	}
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

// capacity returns the cells of capacity of the pools' functions.
func (ps *pools) capacity(grid []float64) [][]float64 {
	var out [][]float64
	for f := range ps.functions {
		steps := ps.functions[f].cost
		cells := make([]float64, len(grid)-1)
		i := 0
		for g := range cells {
			for t := grid[g]; t < grid[g+1]; {
				for i+1 < len(steps) && steps[i+1].from <= t {
					i++
				}
				next := grid[g+1]
				if i+1 < len(steps) {
					next = min(next, steps[i+1].from)
				}
				if len(steps) > 0 && steps[i].from <= t {
					cells[g] += (next - t) * steps[i].price
				} else if len(steps) > 0 {
					next = min(next, steps[i].from)
				}
				t = next
			}
		}
		out = append(out, cells)
	}
	return out
}

// dropPools lowers the prices of pools to 0 that raise the value of the best prices by less
// than a share of usefulPool.
func (a *ascent) dropPools(ctx context.Context) {
	ps := &a.ev.pr.pools
	if len(ps.list) == 0 {
		return
	}
	first := len(a.caps) - len(ps.functions)
	grad := make([]float64, len(a.caps)*(len(a.grid)-1))
	for p := range ps.list {
		a.cur.copyFrom(a.best)
		priced := false
		for f := range ps.functions {
			if ps.functions[f].pool == p {
				priced = priced || slices.Max(a.cur.at[first+f]) > 0
				clear(a.cur.at[first+f])
			}
		}
		if !priced {
			continue
		}
		v, err := a.ev.dual(ctx, a.cur, a.caps, grad, nil, 0)
		if err != nil {
			return
		}
		if v >= a.value-usefulPool*math.Abs(a.value) {
			a.best.copyFrom(a.cur)
			a.value = v
		}
	}
	a.cur.copyFrom(a.best)
}
