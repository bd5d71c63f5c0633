package room

import (
	"slices"

	"github.com/hare-sched/hare/model"
)

// Layout says where the step functions of single nodes are in a Capacity, for
// instances in which nodes matter. The capacity of a type consists of one step function for
// the GPUs of the type on each node, one for their sum, and those of the nodes' CPUs and
// memory as far as jobs compete for them. Types that share CPUs or memory of a node share one
// capacity, which is called a column. A Layout is read-only.
type Layout struct {
	M      *model.Model
	Column []int16      // by type
	sum    []int32      // by type: the index of the sum of free GPUs in the column
	Pools  [][]NodeGPUs // by type, in the order of the nodes
	PoolAt [][]int32    // by type and node; −1 where the node never has GPUs of the type
	all    [][]int32    // by type: all pools
	// allowed lists the pools by set of nodes and type.
	allowed [][][]int32
	Empty   []Capacity // by column
	Coupled bool       // whether some column has several types
	widest  int64      // the most GPUs of one type on a node
	// byClass says that nodes do not matter and classes of GPUs stand for them.
	byClass bool
	Places  int // the nodes, or the classes that stand for them
	// open is 1 while reservations let the jobs of a set use a node, by set and node, and 0
	// otherwise; nil means that they always may.
	open [][]StepFunction
	// domains has the domain of each node by level, from the finest up to the one before the coarsest.
	domains [][]int32
	Quota   []int32 // by quota: the index of its step function in its column; −1 without one
}

// NodeGPUs is the GPUs of one type on one node.
type NodeGPUs struct {
	Node, Class int32 // class is that of the node's first GPU of the type
	kind        int32 // the index in Model.Kinds
	most        int64 // the GPUs
	// Gpus, cpus and memory are indices of step functions in the column; −1 means that
	// nothing limits the resource.
	GPUs, CPUs, Memory int32
}

// NewLayout takes O(nodes · (types + sets)).
func NewLayout(m *model.Model) *Layout {
	nl := &Layout{M: m, Column: make([]int16, len(m.Types)), sum: make([]int32, len(m.Types)),
		Pools: make([][]NodeGPUs, len(m.Types)), PoolAt: make([][]int32, len(m.Types)),
		all: make([][]int32, len(m.Types)), Empty: make([]Capacity, len(m.Types))}
	cpus, memory := false, false
	for i := range m.Jobs {
		cpus = cpus || m.Jobs[i].CPUMilli > 0
		memory = memory || m.Jobs[i].MemoryMiB > 0
	}
	if nl.byClass, nl.Places = !m.Placed, len(m.Nodes); nl.byClass {
		nl.Places = len(m.Classes)
	}
	for k := range m.Types {
		nl.Column[k] = int16(k)
		nl.PoolAt[k] = slices.Repeat([]int32{-1}, nl.Places)
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
		nl.sum[k] = nl.add(nl.Column[k], nil)
	}
	for n := range m.Nodes {
		kind := &m.Kinds[m.Nodes[n].Kind]
		c, b := int32(-1), int32(-1)
		for _, t := range kind.GPUs {
			if model.MostRoom(t.Steps) == 0 {
				continue
			}
			k, col := t.Type, nl.Column[t.Type]
			if c < 0 && cpus && kind.CPUMilli > 0 {
				c = nl.add(col, freeBeside(kind.CPUMilli, kind.Held, func(h *model.Held) int64 { return h.CPUMilli }))
			}
			if b < 0 && memory && kind.MemoryMiB > 0 {
				b = nl.add(col, freeBeside(kind.MemoryMiB, kind.Held, func(h *model.Held) int64 { return h.MemoryMiB }))
			}
			var free StepFunction
			for _, s := range t.Steps {
				free = append(free, step{s.FromUs, s.Count})
			}
			nl.widest = max(nl.widest, model.MostRoom(t.Steps))
			nl.PoolAt[k][n] = int32(len(nl.Pools[k]))
			nl.all[k] = append(nl.all[k], int32(len(nl.Pools[k])))
			nl.Pools[k] = append(nl.Pools[k], NodeGPUs{Node: int32(n), Class: nl.classOf(n, k),
				kind: int32(m.Nodes[n].Kind),
				most: model.MostRoom(t.Steps), GPUs: nl.add(col, free), CPUs: c, Memory: b})
		}
	}
	for k := range m.Types {
		nl.Empty[nl.Column[k]][nl.sum[k]] = stepsOf(m.Capacity(k))
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
func (nl *Layout) add(column int16, fn StepFunction) int32 {
	nl.Empty[column] = append(nl.Empty[column], fn)
	return int32(len(nl.Empty[column]) - 1)
}

// classOf returns the class of the first GPU of type k on node n.
func (nl *Layout) classOf(n, k int) int32 {
	g := nl.M.Nodes[n].FirstGPU
	for nl.M.GPUs[g].Type != k {
		g++
	}
	return int32(nl.M.GPUs[g].Class)
}

// addAllowed lists the pools that the sets of nodes allow.
func (nl *Layout) addAllowed() {
	nl.allowed = make([][][]int32, len(nl.M.Sets))
	for s := range nl.M.Sets {
		nl.allowed[s] = make([][]int32, len(nl.Pools))
		for k := range nl.Pools {
			for p := range nl.Pools[k] {
				if nl.M.Sets[s].Nodes[nl.Pools[k][p].Node] {
					nl.allowed[s][k] = append(nl.allowed[s][k], int32(p))
				}
			}
		}
	}
}

// PoolsFor returns the pools of type k that a job may use.
func (nl *Layout) PoolsFor(set int, k int16) []int32 {
	if set < 0 {
		return nl.all[k]
	}
	return nl.allowed[set][k]
}

// NewCapacities returns a copy of the empty capacities, by column.
func (nl *Layout) NewCapacities() []Capacity {
	out := make([]Capacity, len(nl.Empty))
	for c := range nl.Empty {
		out[c] = NewCapacity(nl.Empty[c])
	}
	return out
}

// SummedNodes is the number of nodes up to which the sum of their free GPUs is kept. With more,
// the floors of single nodes reject starts as well, and the sum has too many steps.
const SummedNodes = 64

// earliestSum returns a time ≥ from before which need GPUs of type k are not free for hold.
func (nl *Layout) earliestSum(k int16, tc Capacity, from, hold, need int64) int64 {
	if len(nl.Pools[k]) > SummedNodes {
		return from
	}
	t, _ := tc[nl.sum[k]].earliest(from, hold, need)
	return t
}

// Reserve takes width GPUs of a pool of type k within [from, to), and the CPUs and the memory
// of as many tasks of job j. The GPUs are held for lead before, with nothing else.
func (nl *Layout) Reserve(tc Capacity, j *Job, k int16, pool int32, width, from, to, lead int64) {
	p := &nl.Pools[k][pool]
	take := func(fn int32, n int64) {
		if fn >= 0 && n != 0 {
			f := &tc[fn]
			f.Reserve(f.Index(from), from, to, n)
		}
	}
	from -= lead
	take(p.GPUs, width)
	if len(nl.Pools[k]) <= SummedNodes {
		take(nl.sum[k], width)
	}
	from += lead
	take(p.CPUs, width/j.GPUs*j.CPUs)
	take(p.Memory, width/j.GPUs*j.Memory)
	for _, q := range j.Quotas {
		if nl.M.Quotas[q].Types[k] {
			take(nl.Quota[q], width)
		}
	}
}

// ReserveBlocks takes the blocks of job j, which must fit, from the capacities by column.
func (nl *Layout) ReserveBlocks(capacities []Capacity, j *Job, blocks []Block) {
	for x := range blocks {
		b := &blocks[x]
		k := int16(nl.M.Classes[b.Class].Type)
		nl.Reserve(capacities[nl.Column[k]], j, k, nl.poolOf(k, b), int64(b.Width), b.StartUs, b.EndUs(), b.LeadUs)
	}
}

// BlockOf returns the block of a segment of a gang or rigid job.
func (nl *Layout) BlockOf(s *Segment) Block {
	p := &nl.Pools[s.Type][s.Pool]
	hold := (s.End - s.Start) / s.Rounds
	return Block{Class: p.Class, Node: p.Node, Width: int32(s.Width), Tasks: 1, Round: s.Round, Rounds: s.Rounds,
		StartUs: s.Start, PeriodUs: hold, HoldUs: hold, LeadUs: s.Lead, Stays: s.stays}
}

// AddRunningPlace fills in where a job runs at time 0, if this is on GPUs of a single type which stay in
// service.
func (nl *Layout) AddRunningPlace(j *Job, mj *model.Job) {
	if j.Setups == nil || len(mj.RunsOn) == 0 || int64(len(mj.RunsOn)) != j.Width || mj.Rounds == 0 {
		return
	}
	at := &RunningPlace{typ: int16(nl.M.GPUs[mj.RunsOn[0]].Type), until: mj.RunsUntilUs}
	for _, g := range mj.RunsOn {
		gpu := &nl.M.GPUs[g]
		place := gpu.Node
		if nl.byClass {
			place = gpu.Class
		}
		if int16(gpu.Type) != at.typ || nl.PoolAt[gpu.Type][place] < 0 {
			return
		}
		if nl.M.Levels != nil {
			at.spread = nl.M.Levels.Join(at.spread, nl.M.GPUs[mj.RunsOn[0]].Node, gpu.Node)
		}
		pool := nl.PoolAt[gpu.Type][place]
		x := slices.IndexFunc(at.chosen, func(c NodeTasks) bool { return c.Pool == pool })
		if x < 0 {
			x = len(at.chosen)
			at.chosen = append(at.chosen, NodeTasks{Pool: pool})
		}
		at.chosen[x].tasks++
	}
	for x := range at.chosen {
		at.chosen[x].tasks /= int32(j.GPUs)
	}
	j.runs = at
}

// DomainsOf returns the domain of each node at a level, and their number; nil stands for one
// domain of all nodes.
func (nl *Layout) DomainsOf(level int) (domains []int32, count int) {
	lv := nl.M.Levels
	if lv == nil || level == lv.Any() {
		return nil, 1
	}
	return nl.domains[level], lv.Domains(level)
}

// addDomains finds the domains of the nodes.
func (nl *Layout) addDomains() {
	if nl.M.Levels == nil {
		return
	}
	for level := range nl.M.Levels.Any() {
		at := make([]int32, len(nl.M.Nodes))
		for n := range at {
			at[n] = int32(nl.M.Levels.Domain(level, n))
		}
		nl.domains = append(nl.domains, at)
	}
}

// stepsOf turns the steps of a model into a step function.
func stepsOf(steps []model.Step) StepFunction {
	var fn StepFunction
	for _, s := range steps {
		fn = append(fn, step{s.FromUs, s.Count})
	}
	return fn
}

// freeBeside returns what work that runs at time 0 leaves of a resource of a node. held is
// sorted by end.
func freeBeside(limit int64, held []model.Held, of func(*model.Held) int64) StepFunction {
	free := limit
	for i := range held {
		free -= of(&held[i])
	}
	fn := StepFunction{{0, free}}
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
func (nl *Layout) couple(a, b int) {
	from, to := nl.Column[a], nl.Column[b]
	if from == to {
		return
	}
	nl.Coupled = true
	from, to = max(from, to), min(from, to)
	for k := range nl.Column {
		if nl.Column[k] == from {
			nl.Column[k] = to
		}
	}
}

// coupleByQuotas puts the types together that a quota counts and that its jobs may use.
func (nl *Layout) coupleByQuotas() {
	first := make([]int, len(nl.M.Quotas))
	for q := range first {
		first[q] = -1
	}
	for i := range nl.M.Jobs {
		j := &nl.M.Jobs[i]
		for _, q := range j.Quotas {
			for _, k := range typesOf(j) {
				if !nl.M.Quotas[q].Types[k] {
					continue
				}
				if first[q] < 0 {
					first[q] = k
				}
				nl.couple(first[q], k)
			}
		}
	}
	nl.Quota = make([]int32, len(first))
	for q := range first {
		if nl.Quota[q] = -1; first[q] >= 0 {
			nl.Quota[q] = int32(first[q])
		}
	}
}

// addQuotas adds the step functions of the quotas: what running work leaves of them, and
// nothing while running work exceeds a quota.
func (nl *Layout) addQuotas() {
	for q, k := range nl.Quota {
		if k < 0 {
			continue
		}
		quota := &nl.M.Quotas[q]
		fn := StepFunction{{0, quota.GPUs}}
		if len(quota.Running) > 0 {
			fn = fn[:0]
		}
		for _, s := range quota.Running {
			free := max(0, quota.GPUs-s.Count)
			if n := len(fn); n == 0 || fn[n-1].free != free {
				fn = append(fn, step{s.FromUs, free})
			}
		}
		nl.Quota[q] = nl.add(nl.Column[k], fn)
	}
}

// addClasses adds the classes of GPUs in place of nodes, where nodes do not matter.
func (nl *Layout) addClasses() {
	nl.widest = 1 // a task has one GPU
	for c := range nl.M.Classes {
		class := &nl.M.Classes[c]
		if len(class.Windows) == 0 {
			continue
		}
		k, free := class.Type, FullyBusy()
		for _, w := range class.Windows {
			free.Add(w.StartUs, w.EndUs, int32(len(class.GPUs)))
		}
		var fn StepFunction
		for n := range free.Steps() {
			fn = append(fn, step{free.Time(n), int64(free.Count(n))})
		}
		nl.PoolAt[k][c] = int32(len(nl.Pools[k]))
		nl.all[k] = append(nl.all[k], int32(len(nl.Pools[k])))
		nl.Pools[k] = append(nl.Pools[k], NodeGPUs{Class: int32(c), kind: int32(c), most: int64(len(class.GPUs)),
			GPUs: nl.add(nl.Column[k], fn), CPUs: -1, Memory: -1})
	}
}

// poolOf returns the pool of type k in which a block is.
func (nl *Layout) poolOf(k int16, b *Block) int32 {
	if nl.byClass {
		return nl.PoolAt[k][b.Class]
	}
	return nl.PoolAt[k][b.Node]
}

// addOpen finds when reservations let the jobs of each set use each node.
func (nl *Layout) addOpen() {
	m := nl.M
	nl.open = make([][]StepFunction, len(m.Sets))
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if j.Set < 0 || len(m.Sets[j.Set].Closed) == 0 || nl.open[j.Set] != nil {
			continue
		}
		nl.open[j.Set] = make([]StepFunction, len(m.Nodes))
		for k := range m.Kinds {
			closed := m.Closed(&m.Kinds[k], j)
			if len(closed) == 0 {
				continue
			}
			fn := StepFunction{{0, 1}}
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

// OpenTo returns when the jobs of a set may use a node; nil means always.
func (nl *Layout) OpenTo(set int, node int32) StepFunction {
	if set < 0 || nl.open[set] == nil {
		return nil
	}
	return nl.open[set][node]
}

// typesOf lists the types on which a job may run in some shape.
func typesOf(j *model.Job) (types []int) {
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
