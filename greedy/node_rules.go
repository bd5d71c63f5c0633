package greedy

import (
	"github.com/hare-sched/hare/model"
)

// stepsOf turns the steps of a model into a step function.
func stepsOf(steps []model.Step) stepFunction {
	var fn stepFunction
	for _, s := range steps {
		fn = append(fn, step{s.FromUs, s.Count})
	}
	return fn
}

// freeBeside returns what work that runs at time 0 leaves of a resource of a node. held is
// sorted by end.
func freeBeside(limit int64, held []model.Held, of func(*model.Held) int64) stepFunction {
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

// earliestTogether returns the earliest start ≥ from at which width GPUs of type k are free
// for hold in sum, and in the quotas of job j.
func (ns *nodeSlots) earliestTogether(j *annealJob, k int16, tc typeCapacity, from, hold, width int64) int64 {
	for {
		t := ns.layout.earliestSum(k, tc, from, hold, width)
		if len(j.quotas) == 0 {
			return t
		}
		for _, q := range j.quotas {
			if t != never && ns.layout.m.Quotas[q].Types[k] {
				if t, _ = tc[ns.layout.quota[q]].earliest(t+ns.lead, hold-ns.lead, width); t != never {
					t -= ns.lead
				}
			}
		}
		if t == from || t == never {
			return t
		}
		from = t
	}
}

// quotaUntil returns the time until which the quotas of job j have width GPUs from t on.
func (ns *nodeSlots) quotaUntil(j *annealJob, k int16, tc typeCapacity, width, t int64) int64 {
	until := never
	for _, q := range j.quotas {
		if ns.layout.m.Quotas[q].Types[k] {
			fn := tc[ns.layout.quota[q]]
			until = min(until, fn.freeUntil(fn.index(t), width))
		}
	}
	return until
}

// quotaRoom returns how many tasks of job j fit into its quotas on type k over a block.
func (ns *nodeSlots) quotaRoom(j *annealJob, k int16, tc typeCapacity, t, hold int64) int64 {
	room := j.tasks
	for _, q := range j.quotas {
		if ns.layout.m.Quotas[q].Types[k] {
			room = min(room, tc[ns.layout.quota[q]].minFree(t+ns.lead, t+hold)/j.gpus)
		}
	}
	return room
}

// quotaLimits is what the quotas of a job leave for a round on several types.
type quotaLimits struct {
	layout *nodeLayout
	tc     []typeCapacity // by quota of the job: the column in which the quota is
	quotas []int32
	free   []int64
	taken  []int64
	t      int64
	next   int64 // when a quota next has more
}

// newQuotaLimits is for a round that holds GPUs of types within [t, t + hold).
func (nb *nodeBoard) newQuotaLimits(j *annealJob, types []int16, t, hold int64) quotaLimits {
	ql := quotaLimits{layout: nb.layout, t: t, next: never}
	for _, q := range j.quotas {
		for _, k := range types {
			if !nb.m.Quotas[q].Types[k] {
				continue
			}
			tc := nb.capacities[nb.layout.column[k]]
			fn := tc[nb.layout.quota[q]]
			ql.quotas, ql.tc = append(ql.quotas, q), append(ql.tc, tc)
			ql.free, ql.taken = append(ql.free, fn.minFree(t, t+hold)), append(ql.taken, 0)
			ql.next = min(ql.next, fn.nextIncrease(t))
			break
		}
	}
	return ql
}

// room returns how many GPUs of type k the quotas still leave.
func (ql *quotaLimits) room(k int16) int64 {
	room := never
	for x, q := range ql.quotas {
		if ql.layout.m.Quotas[q].Types[k] {
			room = min(room, ql.free[x]-ql.taken[x])
		}
	}
	return room
}

// take counts n GPUs of type k.
func (ql *quotaLimits) take(k int16, n int64) {
	for x, q := range ql.quotas {
		if ql.layout.m.Quotas[q].Types[k] {
			ql.taken[x] += n
		}
	}
}

// until returns the time until which what was taken fits into the quotas.
func (ql *quotaLimits) until() int64 {
	until := never
	for x, q := range ql.quotas {
		if ql.taken[x] > 0 {
			fn := ql.tc[x][ql.layout.quota[q]]
			until = min(until, fn.freeUntil(fn.index(ql.t), ql.taken[x]))
		}
	}
	return until
}
