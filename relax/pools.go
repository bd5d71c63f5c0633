package relax

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// These constants limit the pools that are tried. A pool of CPUs or memory is tried where its
// load is at least minPoolLoad times that of the GPUs; so is one of a set of nodes.
const (
	maxNodeFunctions = 16
	maxNodeLevels    = 3
	maxSetPools      = 6
	minPoolLoad      = 0.8
	usefulPool       = 1e-5 // the least share of the bound that a pool must bring
)

// pool is a pool of prices (docs/nodes.md, "Pools"). Its rows are the price of one unit,
// which is a GPU, a thousandth of a CPU or a MiB, and the prices of its sizes.
type pool struct {
	resource hare.PoolResource
	kind     int
	per      string
	only     []hare.LabelValues
	in       []bool // by Model.Kinds
	domains  []domain
	sizes    []int64
	firstRow int // in the rows of pools
}

// domain stands for count domains with the same capacity.
type domain struct {
	steps []hare.Step
	count int64
}

// poolFunction is a row of the ascent: a unit of its price charges share for each row of its
// pool, and cost a microsecond for the capacity over time.
type poolFunction struct {
	pool  int
	share []float64
	cost  []costStep
}

type costStep struct {
	from  float64
	price float64
}

// composite is a row of the oracle's prices: what a round of a gang, or a task, pays in all
// pools of a class of nodes.
type composite struct {
	top   int // the row of Prices and Sizes
	gpus  int64
	terms []poolTerm
}

// poolTerm charges times the price of a row of a pool.
type poolTerm struct {
	row   int
	times int64
}

// pools are the pools beside the prices and sizes of types.
type pools struct {
	list       []pool
	functions  []poolFunction
	composites []composite
	rows       int
	// flat holds, for each composite, the functions that it pays, per GPU.
	flat [][]flatTerm
}

type flatTerm struct {
	function int
	perGPU   float64
}

// addPools chooses the pools that may raise the bound, and splits the modes of jobs by the
// classes of nodes that the pools make.
func (pr *problem) addPools() {
	if !pr.model.Placed {
		return
	}
	for k := range pr.caps {
		pr.addNodePool(k)
	}
	pr.addSetPools()
	for k := range pr.caps {
		pr.addResourcePool(k, hare.PoolCPUs)
		pr.addResourcePool(k, hare.PoolMemory)
	}
	if len(pr.pools.list) == 0 {
		return
	}
	for p := range pr.pools.list {
		pr.pools.list[p].firstRow = pr.pools.rows
		pr.pools.rows += 1 + len(pr.pools.list[p].sizes)
	}
	pr.splitModes()
	pr.shareTrailing()
}

// gpusOfKind returns the GPUs of type k of a kind of nodes over time; nil means none.
func gpusOfKind(nk *hare.NodeKind, k int) []hare.Step {
	at, ok := slices.BinarySearchFunc(nk.GPUs, k, func(t hare.TypeSteps, k int) int { return cmp.Compare(t.Type, k) })
	if !ok {
		return nil
	}
	return nk.GPUs[at].Steps
}

// addNodePool adds a pool per node for type k if tasks leave GPUs of some node idle.
func (pr *problem) addNodePool(k int) {
	m := pr.model
	p := pool{kind: k, per: hare.PerNode, in: make([]bool, len(m.Kinds))}
	weight := map[int64]int64{}
	seen := map[string]int{}
	for n := range m.Kinds {
		nk := &m.Kinds[n]
		steps := gpusOfKind(nk, k)
		if hare.MostRoom(steps) == 0 {
			continue
		}
		p.in[n] = true
		count := int64(len(nk.Nodes))
		weight[hare.MostRoom(steps)] += count * hare.MostRoom(steps)
		key := fmt.Sprint(steps)
		if at, ok := seen[key]; ok {
			p.domains[at].count += count
			continue
		}
		seen[key] = len(p.domains)
		p.domains = append(p.domains, domain{steps, count})
	}
	for i := range pr.jobs {
		if pr.jobs[i].runsOn(k) {
			p.sizes = append(p.sizes, m.Jobs[i].GPUs)
		}
	}
	slices.Sort(p.sizes)
	p.sizes = slices.Compact(p.sizes)
	levels := make([]int64, 0, len(weight))
	for level := range weight {
		levels = append(levels, level)
	}
	slices.SortFunc(levels, func(a, b int64) int {
		return cmp.Or(cmp.Compare(weight[b], weight[a]), cmp.Compare(b, a))
	})
	if len(levels) == 0 || slices.Max(levels)*int64(len(p.sizes)) > maxKnapsack {
		return
	}
	var shares [][]float64
	for _, level := range levels[:min(len(levels), maxNodeLevels)] {
		shares = append(shares, nodeFunctions(p.sizes, level)...)
	}
	shares = undominated(shares)
	if len(shares) == 0 {
		return
	}
	at := len(pr.pools.list)
	pr.pools.list = append(pr.pools.list, p)
	for _, share := range shares[:min(len(shares), maxNodeFunctions)] {
		pr.pools.functions = append(pr.pools.functions, poolFunction{pool: at, share: append([]float64{0}, share...),
			cost: patternCost(p.domains, p.sizes, share)})
	}
}

// nodeFunctions returns dual feasible functions on nodes of level GPUs, as what a task of each
// size counts for, that count some size for more than its GPUs: u_m (Fekete and Schepers
// 2001), and those that count tasks that leave less than s GPUs as the whole node and tasks
// of less than s as nothing.
func nodeFunctions(sizes []int64, level int64) [][]float64 {
	var out [][]float64
	add := func(f func(n int64) float64) {
		share := make([]float64, len(sizes))
		useful := false
		for i, n := range sizes {
			share[i] = f(min(n, level))
			useful = useful || n <= level && share[i] >= minSizeGain*float64(n)
		}
		if useful {
			out = append(out, share)
		}
	}
	for m := int64(1); m < min(level, 32); m++ {
		add(func(n int64) float64 { return dualFeasible{m: m}.share(n, level) })
	}
	for _, s := range sizes {
		if 2*s <= level {
			add(func(n int64) float64 {
				switch {
				case n > level-s:
					return float64(level)
				case n < s:
					return 0
				}
				return float64(n)
			})
		}
	}
	return out
}

// undominated leaves out functions that nowhere count more than another.
func undominated(shares [][]float64) [][]float64 {
	var out [][]float64
	for i, a := range shares {
		dominated := slices.ContainsFunc(out, func(b []float64) bool { return below(a, b) })
		for _, b := range shares[i+1:] {
			dominated = dominated || below(a, b) && !below(b, a)
		}
		if !dominated {
			out = append(out, a)
		}
	}
	return out
}

func below(a, b []float64) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// patternCost returns what the dearest patterns of all domains cost over time, where a unit
// of each size costs its share.
func patternCost(domains []domain, sizes []int64, share []float64) []costStep {
	var value []float64
	best := func(capacity int64) float64 {
		for c := int64(len(value)); c <= capacity; c++ {
			v := 0.0
			for i, n := range sizes {
				if n <= c {
					v = max(v, share[i]+value[c-n])
				}
			}
			value = append(value, v)
		}
		return value[capacity]
	}
	changes := map[int64]float64{}
	for _, d := range domains {
		level := 0.0
		for _, s := range d.steps {
			v := best(s.Count) * float64(d.count)
			changes[s.FromUs] += v - level
			level = v
		}
	}
	return costSteps(changes)
}

func costSteps(changes map[int64]float64) []costStep {
	times := make([]int64, 0, len(changes))
	for t := range changes {
		times = append(times, t)
	}
	slices.Sort(times)
	level := 0.0
	out := make([]costStep, 0, len(times))
	for _, t := range times {
		level += changes[t]
		out = append(out, costStep{float64(t), level})
	}
	return out
}

// linearCost returns the cost of a pool of one domain, where a unit of capacity costs share.
func linearCost(steps []hare.Step, share float64) []costStep {
	out := make([]costStep, 0, len(steps))
	for _, s := range steps {
		out = append(out, costStep{float64(s.FromUs), share * float64(s.Count)})
	}
	return out
}

// load returns the GPU-time of jobs that include wants on type k over the GPUs of peak, if each
// job spreads over its types evenly.
func (pr *problem) load(k int, peak float64, include func(i int) float64) float64 {
	sum := 0.0
	for i := range pr.jobs {
		j := &pr.jobs[i]
		for m := range j.modes {
			if j.modes[m].kind == k {
				sum += include(i) * j.tasks * j.rounds * j.modes[m].d / float64(len(j.modes))
			}
		}
	}
	return sum / peak
}

// addSetPools adds pools of the sets of nodes that some jobs must use, the scarcest first.
func (pr *problem) addSetPools() {
	m := pr.model
	type choice struct {
		p    pool
		load float64
	}
	var found []choice
	for s := range m.Sets {
		job := slices.IndexFunc(m.Jobs, func(j hare.ModelJob) bool { return j.Set == s })
		only := m.Instance.Jobs[job].Only
		if len(m.Instance.Jobs[job].Exclude) > 0 {
			names := hare.LabelValues{Label: hare.LabelNode}
			for n, in := range m.Sets[s].Nodes {
				if in {
					names.Values = append(names.Values, m.Instance.Cluster.Nodes[n].Name)
				}
			}
			slices.Sort(names.Values)
			if only = []hare.LabelValues{names}; len(names.Values) > hare.MaxLabelValues {
				continue
			}
		}
		for k := range pr.caps {
			p := pool{kind: k, per: hare.PerAll, only: only, in: make([]bool, len(m.Kinds))}
			changes := map[int64]int64{}
			for n := range m.Kinds {
				steps := gpusOfKind(&m.Kinds[n], k)
				if p.in[n] = m.Kinds[n].In[s] && steps != nil; p.in[n] {
					addTimes(changes, steps, int64(len(m.Kinds[n].Nodes)))
				}
			}
			steps := stepsOf(changes)
			peak, all := hare.MostRoom(steps), hare.MostRoom(pr.caps[k])
			if peak == 0 || peak == all {
				continue
			}
			p.domains = []domain{{steps, 1}}
			gpus := func(i int) float64 { return float64(m.Jobs[i].GPUs) }
			load := pr.load(k, float64(peak), func(i int) float64 {
				if m.Jobs[i].Set != s {
					return 0
				}
				return gpus(i)
			})
			if load > minPoolLoad*pr.load(k, float64(all), gpus) {
				found = append(found, choice{p, load})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b choice) int { return cmp.Compare(b.load, a.load) })
	for _, c := range found[:min(len(found), maxSetPools)] {
		pr.pools.functions = append(pr.pools.functions, poolFunction{pool: len(pr.pools.list), share: []float64{1},
			cost: linearCost(c.p.domains[0].steps, 1)})
		pr.pools.list = append(pr.pools.list, c.p)
	}
}

// addTimes adds the changes of count times steps to those by time.
func addTimes(changes map[int64]int64, steps []hare.Step, count int64) {
	level := int64(0)
	for _, s := range steps {
		changes[s.FromUs] += (s.Count - level) * count
		level = s.Count
	}
}

// addResourcePool adds a pool of the CPUs or the memory of the nodes with GPUs of type k, if all
// of these limit the resource and jobs want it about as much as the GPUs.
func (pr *problem) addResourcePool(k int, resource hare.PoolResource) {
	m := pr.model
	p := pool{resource: resource, kind: k, in: make([]bool, len(m.Kinds))}
	changes := map[int64]int64{0: 0}
	for n := range m.Kinds {
		nk := &m.Kinds[n]
		if p.in[n] = gpusOfKind(nk, k) != nil; !p.in[n] {
			continue
		}
		has := nk.CPUMilli
		if resource == hare.PoolMemory {
			has = nk.MemoryMiB
		}
		if has == 0 {
			return
		}
		for _, node := range nk.Nodes {
			windows := m.Instance.Cluster.Nodes[node].Windows
			if windows == nil {
				changes[0] += has
			}
			for _, w := range windows {
				changes[w.StartUs] += has
				if w.EndUs != hare.Forever {
					changes[w.EndUs] -= has
				}
			}
		}
	}
	steps := stepsOf(changes)
	peak, gpus := hare.MostRoom(steps), hare.MostRoom(pr.caps[k])
	if peak == 0 || gpus == 0 {
		return
	}
	wants := pr.load(k, float64(peak), func(i int) float64 { return float64(pr.need(i, resource)) })
	if wants == 0 ||
		wants < minPoolLoad*pr.load(k, float64(gpus), func(i int) float64 { return float64(m.Jobs[i].GPUs) }) {
		return
	}
	p.domains = []domain{{steps, 1}}
	share := float64(gpus) / float64(peak) // so that a unit of price is about that of a GPU
	pr.pools.functions = append(pr.pools.functions, poolFunction{pool: len(pr.pools.list), share: []float64{share},
		cost: linearCost(steps, share)})
	pr.pools.list = append(pr.pools.list, p)
}

// need returns the units of a resource that a task of job i holds.
func (pr *problem) need(i int, resource hare.PoolResource) int64 {
	switch mj := &pr.model.Jobs[i]; resource {
	case hare.PoolCPUs:
		return mj.CPUMilli
	case hare.PoolMemory:
		return mj.MemoryMiB
	default:
		return mj.GPUs
	}
}

// compositeKey names what decides which prices a mode pays.
type compositeKey struct {
	top, class                int
	tasks, gpus, cpus, memory int64
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
		mj, j := &m.Jobs[i], &pr.jobs[i]
		times := int64(1)
		if mj.Sync != hare.Relaxed && !mj.Mix {
			times = mj.Tasks
		}
		var split []mode
		for _, md := range j.modes {
			key := roomKey{md.kind, mj.GPUs, mj.CPUMilli, mj.MemoryMiB, mj.Distinct, mj.Set}
			where, ok := usable[key]
			if !ok {
				for c := range classes[md.kind] {
					if slices.ContainsFunc(classes[md.kind][c].kinds, func(n int) bool {
						nk := &m.Kinds[n]
						return nk.Allows(mj) && nk.Room(mj, hare.MostRoom(gpusOfKind(nk, md.kind))) > 0
					}) {
						where = append(where, c)
					}
				}
				usable[key] = where
			}
			for _, c := range where {
				key := compositeKey{top: md.top, class: c, tasks: times, gpus: mj.GPUs}
				if cpus {
					key.cpus = mj.CPUMilli
				}
				if memory {
					key.memory = mj.MemoryMiB
				}
				at, ok := rows[key]
				if !ok {
					at = len(ps.composites)
					rows[key] = at
					ps.composites = append(ps.composites, pr.newComposite(i, md.top, times, classes[md.kind][c].pools))
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

// prices says whether some pool prices the resource.
func (pr *problem) prices(resource hare.PoolResource) bool {
	return slices.ContainsFunc(pr.pools.list, func(p pool) bool { return p.resource == resource })
}

// newComposite returns what job i pays for times tasks in the given pools.
func (pr *problem) newComposite(i, top int, times int64, in []int) composite {
	c := composite{top: top, gpus: times * pr.model.Jobs[i].GPUs}
	for _, at := range in {
		p := &pr.pools.list[at]
		need := pr.need(i, p.resource)
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
		rows[c] = row{pr.rows[x.top].kind, x.gpus}
	}
	return rows
}

// composeInto writes the oracle's prices for the ascent's prices pi and those of types and
// sizes, top.
func (ps *pools) composeInto(full, top, pi *prices) {
	first := len(pi.at) - len(ps.functions)
	for c := range ps.composites {
		row := full.at[c]
		copy(row, top.at[ps.composites[c].top])
		for _, t := range ps.flat[c] {
			for g, x := range pi.at[first+t.function] {
				row[g] += t.perGPU * x
			}
		}
	}
}

// poolNanos rounds the prices of the rows of pools to integers.
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
			limit = min(limit, math.MaxInt64/4/max(1, hare.MostRoom(d.steps)))
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
		mj := &pr.model.Jobs[i]
		for _, md := range pr.jobs[i].modes {
			gpus, tasks := pr.rows[md.top].gpus, mj.Tasks
			units := mj.GPUs
			if mj.Sync != hare.Relaxed && !mj.Mix {
				units, tasks = mj.GPUs*mj.Tasks, 1
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

// poolCapacity returns the cells of capacity of the pools' functions.
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
