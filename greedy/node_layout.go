package greedy

import (
	"slices"

	"github.com/hare-sched/hare/model"
)

// nodeLayout says where the step functions of single nodes are in a typeCapacity, for
// instances in which nodes matter. The capacity of a type consists of one step function for
// the GPUs of the type on each node, one for their sum, and those of the nodes' CPUs and
// memory as far as jobs compete for them. Types that share CPUs or memory of a node share one
// capacity, which is called a column. A nodeLayout is read-only.
type nodeLayout struct {
	m      *model.Model
	column []int16      // by type
	sum    []int32      // by type: the index of the sum of free GPUs in the column
	pools  [][]nodeGPUs // by type, in the order of the nodes
	poolAt [][]int32    // by type and node; −1 where the node never has GPUs of the type
	all    [][]int32    // by type: all pools
	// allowed lists the pools by set of nodes and type.
	allowed [][][]int32
	empty   []typeCapacity // by column
	coupled bool           // whether some column has several types
	widest  int64          // the most GPUs of one type on a node
	// byClass says that nodes do not matter and classes of GPUs stand for them.
	byClass bool
	places  int // the nodes, or the classes that stand for them
	// open is 1 while reservations let the jobs of a set use a node, by set and node, and 0
	// otherwise; nil means that they always may.
	open [][]stepFunction
	// domains has the domain of each node by level, from the finest up to the one before the coarsest.
	domains [][]int32
	quota   []int32 // by quota: the index of its step function in its column; −1 without one
}

// nodeGPUs is the GPUs of one type on one node.
type nodeGPUs struct {
	node, class int32 // class is that of the node's first GPU of the type
	kind        int32 // the index in Model.Kinds
	most        int64 // the GPUs
	// gpus, cpus and memory are indices of step functions in the column; −1 means that
	// nothing limits the resource.
	gpus, cpus, memory int32
}

// newNodeLayout takes O(nodes · (types + sets)).
func newNodeLayout(m *model.Model) *nodeLayout {
	nl := &nodeLayout{m: m, column: make([]int16, len(m.Types)), sum: make([]int32, len(m.Types)),
		pools: make([][]nodeGPUs, len(m.Types)), poolAt: make([][]int32, len(m.Types)),
		all: make([][]int32, len(m.Types)), empty: make([]typeCapacity, len(m.Types))}
	cpus, memory := false, false
	for i := range m.Jobs {
		cpus = cpus || m.Jobs[i].CPUMilli > 0
		memory = memory || m.Jobs[i].MemoryMiB > 0
	}
	if nl.byClass, nl.places = !m.Placed, len(m.Nodes); nl.byClass {
		nl.places = len(m.Classes)
	}
	for k := range m.Types {
		nl.column[k] = int16(k)
		nl.poolAt[k] = slices.Repeat([]int32{-1}, nl.places)
	}
	limits := func(kind *model.NodeKind) bool { return cpus && kind.CPUMilli > 0 || memory && kind.MemoryMiB > 0 }
	// Types that meet on a node with limits get the column of the least of them.
	for i := range m.Kinds {
		kind := &m.Kinds[i]
		if !limits(kind) {
			continue
		}
		for _, t := range kind.GPUs[1:] {
			nl.couple(t.Type, kind.GPUs[0].Type)
		}
	}
	nl.coupleByQuotas()
	for k := range m.Types {
		nl.sum[k] = nl.add(nl.column[k], nil)
	}
	for n := range m.Nodes {
		kind := &m.Kinds[m.Nodes[n].Kind]
		c, b := int32(-1), int32(-1)
		for _, t := range kind.GPUs {
			if model.MostRoom(t.Steps) == 0 {
				continue
			}
			k, col := t.Type, nl.column[t.Type]
			if c < 0 && cpus && kind.CPUMilli > 0 {
				c = nl.add(col, freeBeside(kind.CPUMilli, kind.Held, func(h *model.Held) int64 { return h.CPUMilli }))
			}
			if b < 0 && memory && kind.MemoryMiB > 0 {
				b = nl.add(col, freeBeside(kind.MemoryMiB, kind.Held, func(h *model.Held) int64 { return h.MemoryMiB }))
			}
			var free stepFunction
			for _, s := range t.Steps {
				free = append(free, step{s.FromUs, s.Count})
			}
			nl.widest = max(nl.widest, model.MostRoom(t.Steps))
			nl.poolAt[k][n] = int32(len(nl.pools[k]))
			nl.all[k] = append(nl.all[k], int32(len(nl.pools[k])))
			nl.pools[k] = append(nl.pools[k], nodeGPUs{node: int32(n), class: nl.classOf(n, k), kind: int32(m.Nodes[n].Kind),
				most: model.MostRoom(t.Steps), gpus: nl.add(col, free), cpus: c, memory: b})
		}
	}
	for k := range m.Types {
		nl.empty[nl.column[k]][nl.sum[k]] = stepsOf(m.Capacity(k))
	}
	if nl.byClass {
		nl.addClasses()
	}
	nl.addQuotas()
	nl.addDomains()
	nl.addAllowed()
	nl.addOpen()
	return nl
}

// add appends a step function to a column and returns its index.
func (nl *nodeLayout) add(column int16, fn stepFunction) int32 {
	nl.empty[column] = append(nl.empty[column], fn)
	return int32(len(nl.empty[column]) - 1)
}

// classOf returns the class of the first GPU of type k on node n.
func (nl *nodeLayout) classOf(n, k int) int32 {
	g := nl.m.Nodes[n].FirstGPU
	for nl.m.GPUs[g].Type != k {
		g++
	}
	return int32(nl.m.GPUs[g].Class)
}

// addAllowed lists the pools that the sets of nodes allow.
func (nl *nodeLayout) addAllowed() {
	nl.allowed = make([][][]int32, len(nl.m.Sets))
	for s := range nl.m.Sets {
		nl.allowed[s] = make([][]int32, len(nl.pools))
		for k := range nl.pools {
			for p := range nl.pools[k] {
				if nl.m.Sets[s].Nodes[nl.pools[k][p].node] {
					nl.allowed[s][k] = append(nl.allowed[s][k], int32(p))
				}
			}
		}
	}
}

// poolsFor returns the pools of type k that a job may use.
func (nl *nodeLayout) poolsFor(set int, k int16) []int32 {
	if set < 0 {
		return nl.all[k]
	}
	return nl.allowed[set][k]
}

// newCapacities returns a copy of the empty capacities, by column.
func (nl *nodeLayout) newCapacities() []typeCapacity {
	out := make([]typeCapacity, len(nl.empty))
	for c := range nl.empty {
		out[c] = newTypeCapacity(nl.empty[c])
	}
	return out
}

// summedNodes is the number of nodes up to which the sum of their free GPUs is kept. With more,
// the floors of single nodes reject starts as well, and the sum has too many steps.
const summedNodes = 64

// earliestSum returns a time ≥ from before which need GPUs of type k are not free for hold.
func (nl *nodeLayout) earliestSum(k int16, tc typeCapacity, from, hold, need int64) int64 {
	if len(nl.pools[k]) > summedNodes {
		return from
	}
	t, _ := tc[nl.sum[k]].earliest(from, hold, need)
	return t
}

// reserve takes width GPUs of a pool of type k within [from, to), and the CPUs and the memory
// of as many tasks of job j. The GPUs are held for lead before, with nothing else.
func (nl *nodeLayout) reserve(tc typeCapacity, j *annealJob, k int16, pool int32, width, from, to, lead int64) {
	p := &nl.pools[k][pool]
	take := func(fn int32, n int64) {
		if fn >= 0 && n != 0 {
			f := &tc[fn]
			f.reserve(f.index(from), from, to, n)
		}
	}
	from -= lead
	take(p.gpus, width)
	if len(nl.pools[k]) <= summedNodes {
		take(nl.sum[k], width)
	}
	from += lead
	take(p.cpus, width/j.gpus*j.cpus)
	take(p.memory, width/j.gpus*j.memory)
	for _, q := range j.quotas {
		if nl.m.Quotas[q].Types[k] {
			take(nl.quota[q], width)
		}
	}
}
