package relax

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
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

// unitIn returns the GPUs of a unit of job i in a mode in a pool of GPUs without selector: its
// whole gang where one domain of the pool holds it, else a task.
func (pr *problem) unitIn(p *pool, i int, md *mode) int64 {
	if int(md.level) > p.level {
		_, gpus, _ := pr.shapeOf(i, md)
		return gpus
	}
	return pr.unitGPUs(i, md)
}

// gpusOfKind returns the GPUs of type k of a kind of nodes over time; nil means none.
func gpusOfKind(nk *model.NodeKind, k int) []model.Step {
	at, ok := slices.BinarySearchFunc(nk.GPUs, k, func(t model.TypeSteps, k int) int { return cmp.Compare(t.Type, k) })
	if !ok {
		return nil
	}
	return nk.GPUs[at].Steps
}

// poolLevels returns the levels by which pools of type k are split: nodes, and the levels of modes
// between nodes and all.
func (pr *problem) poolLevels(k int) []int {
	levels := []int{0}
	if lv := pr.model.Levels; lv != nil {
		for i := range pr.jobs {
			for _, md := range pr.jobs[i].modes {
				if level := int(md.level); md.kind == k && level < lv.Any() && !slices.Contains(levels, level) {
					levels = append(levels, level)
				}
			}
		}
	}
	slices.Sort(levels)
	return levels
}

// addDomainPool adds a pool per node or per domain of a coarser level for type k if tasks, or
// gangs that the level holds, leave GPUs of some domain idle.
func (pr *problem) addDomainPool(k, level int) {
	m := pr.model
	p := pool{kind: k, per: hare.PerNode, level: level, in: make([]bool, len(m.Kinds))}
	if level > 0 {
		p.per = m.Levels.Names[level]
	}
	inDomain := map[int]map[int64]int64{} // the changes of the GPUs of each domain of a coarser level
	weight := map[int64]int64{}
	seen := map[string]int{}
	add := func(steps []model.Step, count int64) {
		weight[model.MostRoom(steps)] += count * model.MostRoom(steps)
		key := fmt.Sprint(steps)
		if at, ok := seen[key]; ok {
			p.domains[at].count += count
			return
		}
		seen[key] = len(p.domains)
		p.domains = append(p.domains, domain{steps, count})
	}
	var order []int
	for n := range m.Kinds {
		nk := &m.Kinds[n]
		steps := gpusOfKind(nk, k)
		if model.MostRoom(steps) == 0 {
			continue
		}
		p.in[n] = true
		count := int64(len(nk.Nodes))
		if level == 0 {
			add(steps, count)
			continue
		}
		at := m.Levels.Domain(level, int(nk.Nodes[0]))
		if inDomain[at] == nil {
			inDomain[at] = map[int64]int64{}
			order = append(order, at)
		}
		addTimes(inDomain[at], steps, count)
	}
	for _, at := range order {
		add(stepsOf(inDomain[at]), 1)
	}
	for i := range pr.jobs {
		for _, md := range pr.jobs[i].modes {
			if md.kind == k {
				p.sizes = append(p.sizes, pr.unitIn(&p, i, &md))
			}
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

// load returns the GPU-time of jobs that include wants on type k over the GPUs of peak, if each
// job spreads over its types evenly.
func (pr *problem) load(k int, peak float64, include func(i int, md *mode) float64) float64 {
	sum := 0.0
	for i := range pr.jobs {
		j := &pr.jobs[i]
		for m := range j.modes {
			if j.modes[m].kind == k {
				tasks, _, _ := pr.shapeOf(i, &j.modes[m])
				sum += include(i, &j.modes[m]) * float64(tasks) * j.rounds * j.modes[m].each / float64(len(j.modes))
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
		job := slices.IndexFunc(m.Jobs, func(j model.Job) bool { return j.Set == s })
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
			peak, all := model.MostRoom(steps), model.MostRoom(pr.caps[k])
			if peak == 0 || peak == all {
				continue
			}
			p.domains = []domain{{steps, 1}}
			gpus := pr.gpusIn
			load := pr.load(k, float64(peak), func(i int, md *mode) float64 {
				if pr.specs[i].Set != s {
					return 0
				}
				return gpus(i, md)
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
func addTimes(changes map[int64]int64, steps []model.Step, count int64) {
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
		for _, h := range nk.Held {
			held := h.CPUMilli
			if resource == hare.PoolMemory {
				held = h.MemoryMiB
			}
			changes[0] -= held * int64(len(nk.Nodes))
			changes[h.UntilUs] += held * int64(len(nk.Nodes))
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
	peak, gpus := model.MostRoom(steps), model.MostRoom(pr.caps[k])
	if peak == 0 || gpus == 0 {
		return
	}
	wants := pr.load(k, float64(peak), func(i int, md *mode) float64 { return float64(pr.need(i, md, resource)) })
	if wants == 0 ||
		wants < minPoolLoad*pr.load(k, float64(gpus), pr.gpusIn) {
		return
	}
	p.domains = []domain{{steps, 1}}
	share := float64(gpus) / float64(peak) // so that a unit of price is about that of a GPU
	pr.pools.functions = append(pr.pools.functions, poolFunction{pool: len(pr.pools.list), share: []float64{share},
		cost: linearCost(steps, share)})
	pr.pools.list = append(pr.pools.list, p)
}

// gpusIn returns the GPUs of a task of job i in a mode.
func (pr *problem) gpusIn(i int, md *mode) float64 {
	_, gpus, _ := pr.shapeOf(i, md)
	return float64(gpus)
}

// need returns the units of a resource that a task of job i holds in a mode.
func (pr *problem) need(i int, md *mode, resource hare.PoolResource) int64 {
	switch mj := &pr.specs[i]; resource {
	case hare.PoolCPUs:
		return mj.CPUMilli
	case hare.PoolMemory:
		return mj.MemoryMiB
	default:
		_, gpus, _ := pr.shapeOf(i, md)
		return gpus
	}
}
