package greedy

import (
	"slices"

	"github.com/hare-sched/hare"
)

// nodeLayout says where the step functions of single nodes are in a typeCapacity, for
// instances in which nodes matter. The capacity of a type consists of one step function for
// the GPUs of the type on each node, one for their sum, and those of the nodes' CPUs and
// memory as far as jobs compete for them. Types that share CPUs or memory of a node share one
// capacity, which is called a column. A nodeLayout is read-only.
type nodeLayout struct {
	m      *hare.Model
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
func newNodeLayout(m *hare.Model) *nodeLayout {
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
	limits := func(kind *hare.NodeKind) bool { return cpus && kind.CPUMilli > 0 || memory && kind.MemoryMiB > 0 }
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
			if hare.MostRoom(t.Steps) == 0 {
				continue
			}
			k, col := t.Type, nl.column[t.Type]
			if c < 0 && cpus && kind.CPUMilli > 0 {
				c = nl.add(col, freeBeside(kind.CPUMilli, kind.Held, func(h *hare.Held) int64 { return h.CPUMilli }))
			}
			if b < 0 && memory && kind.MemoryMiB > 0 {
				b = nl.add(col, freeBeside(kind.MemoryMiB, kind.Held, func(h *hare.Held) int64 { return h.MemoryMiB }))
			}
			var free stepFunction
			for _, s := range t.Steps {
				free = append(free, step{s.FromUs, s.Count})
			}
			nl.widest = max(nl.widest, hare.MostRoom(t.Steps))
			nl.poolAt[k][n] = int32(len(nl.pools[k]))
			nl.all[k] = append(nl.all[k], int32(len(nl.pools[k])))
			nl.pools[k] = append(nl.pools[k], nodeGPUs{node: int32(n), class: nl.classOf(n, k), kind: int32(m.Nodes[n].Kind),
				most: hare.MostRoom(t.Steps), gpus: nl.add(col, free), cpus: c, memory: b})
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

// reserveBlocks takes the blocks of job j, which must fit, from the capacities by column.
func (nl *nodeLayout) reserveBlocks(capacities []typeCapacity, j *annealJob, blocks []Block) {
	for x := range blocks {
		b := &blocks[x]
		k := int16(nl.m.Classes[b.Class].Type)
		nl.reserve(capacities[nl.column[k]], j, k, nl.poolOf(k, b), int64(b.Width), b.StartUs, b.endUs(), b.LeadUs)
	}
}

// blockOf returns the block of a segment of a gang or rigid job.
func (nl *nodeLayout) blockOf(s *segment) Block {
	p := &nl.pools[s.typ][s.pool]
	hold := (s.end - s.start) / s.rounds
	return Block{Class: p.class, Node: p.node, Width: int32(s.width), Tasks: 1, Round: s.round, Rounds: s.rounds,
		StartUs: s.start, PeriodUs: hold, HoldUs: hold, LeadUs: s.lead, Stays: s.stays}
}

// addRunningPlace fills in where a job runs at time 0, if this is on GPUs of a single type which stay in
// service.
func (nl *nodeLayout) addRunningPlace(j *annealJob, mj *hare.ModelJob) {
	if j.setups == nil || len(mj.RunsOn) == 0 || int64(len(mj.RunsOn)) != j.width || mj.Rounds == 0 {
		return
	}
	at := &runningPlace{typ: int16(nl.m.GPUs[mj.RunsOn[0]].Type), until: mj.RunsUntilUs}
	for _, g := range mj.RunsOn {
		gpu := &nl.m.GPUs[g]
		place := gpu.Node
		if nl.byClass {
			place = gpu.Class
		}
		if int16(gpu.Type) != at.typ || nl.poolAt[gpu.Type][place] < 0 {
			return
		}
		if nl.m.Levels != nil {
			at.spread = nl.m.Levels.Join(at.spread, nl.m.GPUs[mj.RunsOn[0]].Node, gpu.Node)
		}
		pool := nl.poolAt[gpu.Type][place]
		x := slices.IndexFunc(at.chosen, func(c nodeTasks) bool { return c.pool == pool })
		if x < 0 {
			x = len(at.chosen)
			at.chosen = append(at.chosen, nodeTasks{pool: pool})
		}
		at.chosen[x].tasks++
	}
	for x := range at.chosen {
		at.chosen[x].tasks /= int32(j.gpus)
	}
	j.runs = at
}

// domainsOf returns the domain of each node at a level, and their number; nil stands for one
// domain of all nodes.
func (nl *nodeLayout) domainsOf(level int) (domains []int32, count int) {
	lv := nl.m.Levels
	if lv == nil || level == lv.Any() {
		return nil, 1
	}
	return nl.domains[level], lv.Domains(level)
}

// addDomains finds the domains of the nodes.
func (nl *nodeLayout) addDomains() {
	if nl.m.Levels == nil {
		return
	}
	for level := range nl.m.Levels.Any() {
		at := make([]int32, len(nl.m.Nodes))
		for n := range at {
			at[n] = int32(nl.m.Levels.Domain(level, n))
		}
		nl.domains = append(nl.domains, at)
	}
}

// stepsOf turns the steps of a model into a step function.
func stepsOf(steps []hare.Step) stepFunction {
	var fn stepFunction
	for _, s := range steps {
		fn = append(fn, step{s.FromUs, s.Count})
	}
	return fn
}

// freeBeside returns what work that runs at time 0 leaves of a resource of a node. held is
// sorted by end.
func freeBeside(limit int64, held []hare.Held, of func(*hare.Held) int64) stepFunction {
	free := limit
	for i := range held {
		free -= of(&held[i])
	}
	fn := stepFunction{{0, free}}
	for i := range held {
		if free += of(&held[i]); of(&held[i]) == 0 {
			continue
		}
		if last := &fn[len(fn)-1]; last.from == held[i].UntilUs {
			last.free = free
			continue
		}
		fn = append(fn, step{held[i].UntilUs, free})
	}
	return fn
}

// couple puts the columns of two types together.
func (nl *nodeLayout) couple(a, b int) {
	from, to := nl.column[a], nl.column[b]
	if from == to {
		return
	}
	nl.coupled = true
	from, to = max(from, to), min(from, to)
	for k := range nl.column {
		if nl.column[k] == from {
			nl.column[k] = to
		}
	}
}

// coupleByQuotas puts the types together that a quota counts and that its jobs may use.
func (nl *nodeLayout) coupleByQuotas() {
	first := make([]int, len(nl.m.Quotas))
	for q := range first {
		first[q] = -1
	}
	for i := range nl.m.Jobs {
		j := &nl.m.Jobs[i]
		for _, q := range j.Quotas {
			for _, k := range typesOf(j) {
				if !nl.m.Quotas[q].Types[k] {
					continue
				}
				if first[q] < 0 {
					first[q] = k
				}
				nl.couple(first[q], k)
			}
		}
	}
	nl.quota = make([]int32, len(first))
	for q := range first {
		if nl.quota[q] = -1; first[q] >= 0 {
			nl.quota[q] = int32(first[q])
		}
	}
}

// addQuotas adds the step functions of the quotas: what running work leaves of them, and
// nothing while running work exceeds a quota.
func (nl *nodeLayout) addQuotas() {
	for q, k := range nl.quota {
		if k < 0 {
			continue
		}
		quota := &nl.m.Quotas[q]
		fn := stepFunction{{0, quota.GPUs}}
		if len(quota.Running) > 0 {
			fn = fn[:0]
		}
		for _, s := range quota.Running {
			free := max(0, quota.GPUs-s.Count)
			if n := len(fn); n == 0 || fn[n-1].free != free {
				fn = append(fn, step{s.FromUs, free})
			}
		}
		nl.quota[q] = nl.add(nl.column[k], fn)
	}
}

// addClasses adds the classes of GPUs in place of nodes, where nodes do not matter.
func (nl *nodeLayout) addClasses() {
	nl.widest = 1 // a task has one GPU
	for c := range nl.m.Classes {
		class := &nl.m.Classes[c]
		if len(class.Windows) == 0 {
			continue
		}
		k, free := class.Type, fullyBusy()
		for _, w := range class.Windows {
			free.add(w.StartUs, w.EndUs, int32(len(class.GPUs)))
		}
		var fn stepFunction
		for n := range free.steps() {
			fn = append(fn, step{free.time(n), int64(free.count(n))})
		}
		nl.poolAt[k][c] = int32(len(nl.pools[k]))
		nl.all[k] = append(nl.all[k], int32(len(nl.pools[k])))
		nl.pools[k] = append(nl.pools[k], nodeGPUs{class: int32(c), kind: int32(c), most: int64(len(class.GPUs)),
			gpus: nl.add(nl.column[k], fn), cpus: -1, memory: -1})
	}
}

// poolOf returns the pool of type k in which a block is.
func (nl *nodeLayout) poolOf(k int16, b *Block) int32 {
	if nl.byClass {
		return nl.poolAt[k][b.Class]
	}
	return nl.poolAt[k][b.Node]
}

// addOpen finds when reservations let the jobs of each set use each node.
func (nl *nodeLayout) addOpen() {
	m := nl.m
	nl.open = make([][]stepFunction, len(m.Sets))
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if j.Set < 0 || len(m.Sets[j.Set].Closed) == 0 || nl.open[j.Set] != nil {
			continue
		}
		nl.open[j.Set] = make([]stepFunction, len(m.Nodes))
		for k := range m.Kinds {
			closed := m.Closed(&m.Kinds[k], j)
			if len(closed) == 0 {
				continue
			}
			fn := stepFunction{{0, 1}}
			for _, w := range closed {
				if w.StartUs == 0 {
					fn = fn[:0]
				}
				fn = append(fn, step{w.StartUs, 0}, step{w.EndUs, 1})
			}
			for _, n := range m.Kinds[k].Nodes {
				nl.open[j.Set][n] = fn
			}
		}
	}
}

// openTo returns when the jobs of a set may use a node; nil means always.
func (nl *nodeLayout) openTo(set int, node int32) stepFunction {
	if set < 0 || nl.open[set] == nil {
		return nil
	}
	return nl.open[set][node]
}

// typesOf lists the types on which a job may run in some shape.
func typesOf(j *hare.ModelJob) (types []int) {
	for _, md := range j.Modes {
		types = append(types, md.Type)
	}
	for s := range j.Shapes {
		for _, md := range j.Shapes[s].Modes {
			types = append(types, md.Type)
		}
	}
	return types
}
