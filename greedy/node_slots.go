package greedy

import (
	"cmp"
	"math/bits"
	"slices"
)

// nodeRoom is the room for tasks of one job on a node at a start.
type nodeRoom struct {
	room int64 // the tasks, at most those of the job
	free int64 // the least number of free GPUs over the block
	// The room is the same for later starts, up to last and before next. At next it grows.
	last, next int64
}

// nodeSlots finds places for the tasks of a round on single nodes. It owns scratch memory.
type nodeSlots struct {
	layout *nodeLayout
	// patience is how long a single task may wait for a node on which it leaves a smaller gap:
	// a share of the difference of the gaps. Jobs that end together leave whole nodes to wide
	// jobs.
	patience float64
	// lead is the part of a block's time in which it holds GPUs alone: its setup. The times from
	// which places are searched, and those found, are those from which the GPUs are held.
	lead int64
	// floors are times before which a pool has no free GPUs for a task, by type, number of
	// GPUs of the task, class of holds and pool. They hold while nothing frees GPUs: see forget.
	floors [][][]int64
	// holdClasses is the number of classes of holds, of which the last one is for all longer holds as
	// well: see classOfHold. More classes pay where nothing frees GPUs for long.
	holdClasses int
	chosen      []nodeTasks // the nodes of the last place
	// domains, by node, are set while all tasks must be in one domain, and totals is the room in
	// each domain.
	domains []int32
	totals  []int64
	rooms   []nodeRoom // by position in the list of pools
	ranked  []nodeRank
	// active are the positions with room. growths are the times at which rooms grow; a growth
	// is stale if the room at its position has another next.
	active  []int32
	growths growthHeap
	// seen counts the empty pools of each kind in the current search.
	seen   []emptyPools
	search int64
}

// emptyPools counts the pools of a kind that a search has seen and that nothing uses.
type emptyPools struct{ search, count int64 }

// nodeRank is a node with room, for the choice among nodes.
type nodeRank struct {
	pool       int32
	room, free int64
	until      int64 // until when one task can stay
	gap        int64 // see stepFunction.gapAt
}

// betterNode orders nodes with room: those on which a task can stay longest come first, among
// these, those on which it leaves the smallest gap, and then those with the fewest free GPUs
// (best fit); ties go by position.
func betterNode(a, b nodeRank) int {
	return cmp.Or(cmp.Compare(b.until, a.until), cmp.Compare(a.gap, b.gap), cmp.Compare(a.free, b.free),
		cmp.Compare(a.pool, b.pool))
}

// newNodeSlots returns nodeSlots without patience.
func newNodeSlots(nl *nodeLayout) *nodeSlots {
	ns := &nodeSlots{layout: nl, floors: make([][][]int64, len(nl.pools)),
		seen: make([]emptyPools, max(len(nl.m.Kinds), nl.places))}
	ns.classifyHolds(1)
	return ns
}

// holdsPerOctave is the number of classes of holds for each power of two. listHoldClasses is the
// number of all classes, where jobs are placed one after another, on many nodes.
const (
	holdsPerOctave  = 2
	listHoldClasses = 63 * holdsPerOctave
)

// classOfHold returns the class of a hold of at least 1 µs, and the least hold of the class: a
// power of two, or the sum of two powers in a row.
func classOfHold(hold int64) (class, least int64) {
	octave := bits.Len64(uint64(hold)) - 1
	class, least = int64(holdsPerOctave*octave), 1<<octave
	if half := least / 2; half > 0 && hold >= least+half {
		return class + 1, least + half
	}
	return class, least
}

// classifyHolds sets the number of classes of holds.
func (ns *nodeSlots) classifyHolds(classes int) {
	ns.holdClasses = classes
	for k := range ns.floors {
		ns.floors[k] = make([][]int64, (ns.layout.widest+1)*int64(classes))
	}
}

// forget must be called when GPUs of a column become free.
func (ns *nodeSlots) forget(column int16) {
	for k := range ns.floors {
		if ns.layout.column[k] == column {
			for _, floors := range ns.floors[k] {
				clear(floors)
			}
		}
	}
}

// floorsOf returns the floors for tasks of g GPUs of type k, by pool, and a time for which the
// GPUs are free from a floor on, at most hold.
func (ns *nodeSlots) floorsOf(k int16, g, hold int64) (floors []int64, free int64) {
	class := int64(0)
	if ns.holdClasses > 1 && hold > 0 {
		class, free = classOfHold(hold)
	}
	at := g*int64(ns.holdClasses) + class
	if ns.floors[k][at] == nil {
		ns.floors[k][at] = make([]int64, len(ns.layout.pools[k]))
	}
	return ns.floors[k][at], free
}

// earliest returns the earliest start ≥ from at which all tasks of a round of job j find room
// on GPUs of type k for hold, and leaves their nodes in ns.chosen. Where stay > hold, nodes on
// which the tasks could stay longer are preferred, up to stay. The sum of the free GPUs
// rejects most starts. It takes O(B log B) for the B steps of all nodes.
func (ns *nodeSlots) earliest(j *annealJob, k int16, tc typeCapacity, from, hold, stay int64) int64 {
	if j.tasks == 1 {
		return ns.earliestTask(j, k, tc, from, hold, stay)
	}
	if j.gpus > ns.layout.widest {
		return never
	}
	pools := ns.layout.poolsFor(j.set, k)
	if len(ns.rooms) < len(pools) {
		ns.rooms = make([]nodeRoom, len(pools))
	}
	rooms := ns.rooms[:len(pools)]
	floors, free := ns.floorsOf(k, j.gpus, hold)
	width := j.tasks * j.gpus
	t := ns.earliestTogether(j, k, tc, from, hold, width)
	if t == never {
		return never
	}
	total := int64(0)
	ns.active, ns.growths = ns.active[:0], ns.growths[:0]
	ns.search++
	for i, p := range pools {
		if ns.enoughLike(k, p, tc, j.tasks) {
			rooms[i] = nodeRoom{last: never, next: never}
			continue
		}
		if free > 0 || floors[p] <= t {
			floors[p] = tc[ns.layout.pools[k][p].gpus].firstFreeFor(floors[p], free, j.gpus)
		}
		if rooms[i] = (nodeRoom{last: never, next: floors[p]}); floors[p] <= t {
			rooms[i] = ns.roomAt(j, k, tc, p, t, hold)
		}
		if rooms[i].next != never {
			ns.growths = append(ns.growths, growth{rooms[i].next, int32(i)})
		}
		if rooms[i].room > 0 {
			ns.active = append(ns.active, int32(i))
			if ns.domains == nil {
				total += rooms[i].room
			} else {
				total += ns.addRoom(ns.layout.pools[k][p].node, rooms[i].room, j.tasks)
			}
		}
	}
	if total < j.tasks {
		ns.growths.init()
	}
	for total < j.tasks {
		for len(ns.growths) > 0 && rooms[ns.growths[0].at].next != ns.growths[0].time {
			ns.growths.pop() // the room has changed since
		}
		if len(ns.growths) == 0 {
			return never
		}
		if t = ns.earliestTogether(j, k, tc, ns.growths[0].time, hold, width); t == never {
			return never
		}
		update := func(i int32) {
			r := &rooms[i]
			before := r.room
			*r = ns.roomAt(j, k, tc, pools[i], t, hold)
			if ns.domains == nil {
				total += r.room - before
			} else {
				total += ns.addRoom(ns.layout.pools[k][pools[i]].node, r.room-before, j.tasks)
			}
			if r.next != never {
				ns.growths.push(growth{r.next, i})
			}
		}
		kept := ns.active[:0]
		for _, i := range ns.active {
			if rooms[i].last < t {
				if update(i); rooms[i].room == 0 {
					continue
				}
			}
			kept = append(kept, i)
		}
		ns.active = kept
		for len(ns.growths) > 0 && ns.growths[0].time <= t {
			i, now := ns.growths[0].at, rooms[ns.growths[0].at].next == ns.growths[0].time
			if ns.growths.pop(); !now {
				continue
			}
			before := rooms[i].room
			if update(i); before == 0 && rooms[i].room > 0 {
				ns.active = append(ns.active, i)
			} else if before > 0 && rooms[i].room == 0 {
				ns.active = slices.DeleteFunc(ns.active, func(a int32) bool { return a == i })
			}
		}
	}
	ns.choose(j, k, tc, pools, t, hold, stay)
	return t
}

// enoughLike reports whether a pool is empty and the current search has seen so many empty
// pools like it already, from which this one differs by its position only.
func (ns *nodeSlots) enoughLike(k int16, p int32, tc typeCapacity, enough int64) bool {
	pool := &ns.layout.pools[k][p]
	if len(tc[pool.gpus]) > 1 || tc[pool.gpus][0].free < pool.most || pool.cpus >= 0 && len(tc[pool.cpus]) > 1 ||
		pool.memory >= 0 && len(tc[pool.memory]) > 1 {
		return false // what holds something for some time adds a step
	}
	x := &ns.seen[pool.kind]
	if x.search != ns.search {
		*x = emptyPools{search: ns.search}
	}
	x.count++
	return x.count > enough
}

// choose picks the nodes of a start at which the rooms suffice.
func (ns *nodeSlots) choose(j *annealJob, k int16, tc typeCapacity, pools []int32, t, hold, stay int64) {
	ns.ranked = ns.ranked[:0]
	domain := int32(-1)
	if ns.domains != nil {
		domain = ns.fullestDomain(j.tasks)
	}
	for _, i := range ns.active {
		p, r := pools[i], &ns.rooms[i]
		if domain >= 0 && ns.domains[ns.layout.pools[k][p].node] != domain {
			continue
		}
		until := t + hold
		if stay > hold {
			until = min(t+stay, ns.freeUntil(j, k, tc, p, 1, t))
		}
		gap := tc[ns.layout.pools[k][p].gpus].gapAfter(t + hold)
		ns.ranked = append(ns.ranked, nodeRank{p, r.room, r.free, until, gap})
	}
	slices.SortFunc(ns.ranked, betterNode)
	ns.chosen = ns.chosen[:0]
	left := j.tasks
	for i := range ns.ranked {
		r := &ns.ranked[i]
		n := min(left, r.room)
		ns.chosen = append(ns.chosen, nodeTasks{r.pool, int32(n)})
		if left -= n; left == 0 {
			return
		}
	}
}

// earliestTask is earliest for a single task. With patience, a later start is better if the
// task leaves a smaller gap there.
func (ns *nodeSlots) earliestTask(j *annealJob, k int16, tc typeCapacity, from, hold, stay int64) int64 {
	t := ns.earliestTogether(j, k, tc, from, hold, j.gpus)
	if t == never || j.gpus > ns.layout.widest {
		return never
	}
	patience := ns.patience
	if stay > hold {
		patience = 0 // the end of the stay is open
	}
	best, limit := never, never // limit is the last start that may be the best
	var rank nodeRank
	var leastCost int64
	floors, floorHold := ns.floorsOf(k, j.gpus, hold)
	ns.search++
	for _, p := range ns.layout.poolsFor(j.set, k) {
		if floors[p] > limit || ns.enoughLike(k, p, tc, 1) {
			continue
		}
		pool := &ns.layout.pools[k][p]
		fn := tc[pool.gpus]
		if floorHold > 0 || floors[p] <= t {
			if floors[p] = fn.firstFreeFor(floors[p], floorHold, j.gpus); floors[p] > limit {
				continue
			}
		}
		s, free, gap := fn.earliestBefore(max(t, floors[p]), hold, j.gpus, limit)
		if s > limit || s == never {
			continue
		}
		if pool.cpus >= 0 && j.cpus > 0 || pool.memory >= 0 && j.memory > 0 || len(j.quotas) > 0 ||
			ns.layout.openTo(j.set, pool.node) != nil {
			for again := true; again && s <= limit && s != never; {
				s = ns.earliestTasks(j, pool, tc, s, hold, 1)
				again = false
				if len(j.quotas) > 0 && s != never {
					u := ns.earliestTogether(j, k, tc, s, hold, j.gpus)
					again, s = u != s, u
				}
			}
			if s > limit || s == never {
				continue
			}
			free, gap = fn.minFree(s, s+hold), fn.gapAfter(s+hold)
		}
		r := nodeRank{pool: p, free: free, gap: gap}
		if stay > hold {
			r.until = min(s+stay, ns.freeUntil(j, k, tc, p, 1, s))
		}
		cost := s - t + int64(patience*float64(gap))
		if best == never || cost < leastCost || cost == leastCost && (s < best || s == best && betterNode(r, rank) < 0) {
			best, rank, leastCost = s, r, cost
			limit = t + cost
		}
	}
	if best != never {
		ns.chosen = append(ns.chosen[:0], nodeTasks{rank.pool, 1})
	}
	return best
}

// earliestTasks returns the earliest start ≥ from at which n tasks find room on a node for
// hold.
func (ns *nodeSlots) earliestTasks(j *annealJob, pool *nodeGPUs, tc typeCapacity, from, hold, n int64) int64 {
	if n*j.gpus > pool.most {
		return never
	}
	for {
		s, _ := tc[pool.gpus].earliest(from, hold, n*j.gpus)
		for _, r := range [...]struct {
			fn   int32
			each int64
		}{{pool.cpus, j.cpus}, {pool.memory, j.memory}} {
			if s != never && r.fn >= 0 && r.each > 0 {
				if s, _ = tc[r.fn].earliest(s+ns.lead, hold-ns.lead, n*r.each); s != never {
					s -= ns.lead
				}
			}
		}
		open := ns.layout.openTo(j.set, pool.node)
		if s != never && open != nil {
			s, _ = open.earliest(s, hold, 1)
		}
		if s == from || s == never {
			return s
		}
		if pool.cpus < 0 && pool.memory < 0 && open == nil {
			return s
		}
		from = s
	}
}

// roomAt returns the room on a node at start t.
func (ns *nodeSlots) roomAt(j *annealJob, k int16, tc typeCapacity, p int32, t, hold int64) nodeRoom {
	pool := &ns.layout.pools[k][p]
	r := nodeRoom{free: tc[pool.gpus].minFree(t, t+hold), last: never, next: never}
	r.room = min(j.tasks, r.free/j.gpus)
	if j.distinct {
		r.room = min(1, r.room)
	}
	if pool.cpus >= 0 && j.cpus > 0 {
		r.room = min(r.room, tc[pool.cpus].minFree(t+ns.lead, t+hold)/j.cpus)
	}
	if pool.memory >= 0 && j.memory > 0 {
		r.room = min(r.room, tc[pool.memory].minFree(t+ns.lead, t+hold)/j.memory)
	}
	if open := ns.layout.openTo(j.set, pool.node); open != nil && open.minFree(t, t+hold) == 0 {
		r.room = 0
	}
	if r.room > 0 {
		if until := ns.freeUntil(j, k, tc, p, r.room, t); until != never {
			r.last = until - hold
		}
	}
	if r.room < j.tasks && !(j.distinct && r.room == 1) {
		r.next = ns.earliestTasks(j, pool, tc, t, hold, r.room+1)
	}
	return r
}

// freeUntil returns the time until which n tasks find room on a node from t on.
func (ns *nodeSlots) freeUntil(j *annealJob, k int16, tc typeCapacity, p int32, n, t int64) int64 {
	pool := &ns.layout.pools[k][p]
	fn := tc[pool.gpus]
	until := fn.freeUntil(fn.index(t), n*j.gpus)
	if pool.cpus >= 0 && j.cpus > 0 {
		fn := tc[pool.cpus]
		until = min(until, fn.freeUntil(fn.index(t+ns.lead), n*j.cpus))
	}
	if pool.memory >= 0 && j.memory > 0 {
		fn := tc[pool.memory]
		until = min(until, fn.freeUntil(fn.index(t+ns.lead), n*j.memory))
	}
	if open := ns.layout.openTo(j.set, pool.node); open != nil {
		until = min(until, open.freeUntil(open.index(t), 1))
	}
	return until
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

// earliestWithin is earliest for tasks that are in one domain of a level.
func (ns *nodeSlots) earliestWithin(j *annealJob, k int16, level int, tc typeCapacity, from, hold, stay int64) int64 {
	var count int
	if ns.domains, count = ns.layout.domainsOf(level); ns.domains != nil {
		if len(ns.totals) < count {
			ns.totals = make([]int64, count)
		}
		clear(ns.totals)
	}
	t := ns.earliest(j, k, tc, from, hold, stay)
	ns.domains = nil
	return t
}

// addRoom adds room to the domain of a node. It returns the change of the tasks that find room in
// full domains, those with room for all tasks, where each counts for just these.
func (ns *nodeSlots) addRoom(node int32, room, tasks int64) int64 {
	d := ns.domains[node]
	before := ns.totals[d]
	ns.totals[d] += room
	switch after := ns.totals[d]; {
	case before < tasks && after >= tasks:
		return tasks
	case before >= tasks && after < tasks:
		return -tasks
	}
	return 0
}

// fullestDomain returns the domain with the least room among those with room for all tasks.
func (ns *nodeSlots) fullestDomain(tasks int64) int32 {
	best := int32(-1)
	for d, room := range ns.totals {
		if room >= tasks && (best < 0 || room < ns.totals[best]) {
			best = int32(d)
		}
	}
	return best
}

// spread returns the finest level that holds the chosen nodes of a type in one domain.
func (ns *nodeSlots) spread(jl *jobLevels, k int16) int {
	level, pools := 0, ns.layout.pools[k]
	for _, c := range ns.chosen[1:] {
		level = jl.levels.Join(level, int(pools[ns.chosen[0].pool].node), int(pools[c.pool].node))
	}
	return level
}

// growth says that the room at a position in the list of pools may grow at a time.
type growth struct {
	time int64
	at   int32
}

// growthHeap is a binary heap of growths by time.
type growthHeap []growth

func (gh growthHeap) init() {
	for i := len(gh)/2 - 1; i >= 0; i-- {
		gh.down(i)
	}
}

func (gh growthHeap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(gh) {
			return
		}
		if c+1 < len(gh) && gh[c+1].time < gh[c].time {
			c++
		}
		if gh[i].time <= gh[c].time {
			return
		}
		gh[i], gh[c] = gh[c], gh[i]
		i = c
	}
}

func (gh *growthHeap) push(g growth) {
	*gh = append(*gh, g)
	h := *gh
	for i := len(h) - 1; i > 0 && h[i].time < h[(i-1)/2].time; i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

func (gh *growthHeap) pop() {
	h := *gh
	last := len(h) - 1
	h[0] = h[last]
	*gh = h[:last]
	gh.down(0)
}
