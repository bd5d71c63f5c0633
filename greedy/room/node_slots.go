package room

import (
	"cmp"
	"math/bits"
	"slices"
)

// NodeRoom is the room for tasks of one job on a node at a start.
type NodeRoom struct {
	Room int64 // the tasks, at most those of the job
	free int64 // the least number of free GPUs over the block
	// The room is the same for later starts, up to last and before next. At next it grows.
	last, next int64
}

// NodeSlots finds places for the tasks of a round on single nodes. It owns scratch memory.
type NodeSlots struct {
	layout *Layout
	// patience is how long a single task may wait for a node on which it leaves a smaller gap:
	// a share of the difference of the gaps. Jobs that end together leave whole nodes to wide
	// jobs.
	patience float64
	// Lead is the part of a block's time in which it holds GPUs alone: its setup. The times from
	// which places are searched, and those found, are those from which the GPUs are held.
	Lead int64
	// floors are times before which a pool has no free GPUs for a task, by type, number of
	// GPUs of the task, class of holds and pool. They hold while nothing frees GPUs: see forget.
	floors [][][]int64
	// holdClasses is the number of classes of holds, of which the last one is for all longer holds as
	// well: see classOfHold. More classes pay where nothing frees GPUs for long.
	holdClasses int
	Chosen      []NodeTasks // the nodes of the last place
	// domains, by node, are set while all tasks must be in one domain, and totals is the room in
	// each domain.
	domains []int32
	totals  []int64
	rooms   []NodeRoom // by position in the list of pools
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
	gap        int64 // see StepFunction.gapAt
}

// betterNode orders nodes with room: those on which a task can stay longest come first, among
// these, those on which it leaves the smallest gap, and then those with the fewest free GPUs
// (best fit); ties go by position.
func betterNode(a, b nodeRank) int {
	return cmp.Or(cmp.Compare(b.until, a.until), cmp.Compare(a.gap, b.gap), cmp.Compare(a.free, b.free),
		cmp.Compare(a.pool, b.pool))
}

// newNodeSlots returns NodeSlots without patience.
func newNodeSlots(nl *Layout) *NodeSlots {
	ns := &NodeSlots{layout: nl, floors: make([][][]int64, len(nl.Pools)),
		seen: make([]emptyPools, max(len(nl.M.Kinds), nl.Places))}
	ns.ClassifyHolds(1)
	return ns
}

// holdsPerOctave is the number of classes of holds for each power of two. ListHoldClasses is the
// number of all classes, where jobs are placed one after another, on many nodes.
const (
	holdsPerOctave  = 2
	ListHoldClasses = 63 * holdsPerOctave
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

// ClassifyHolds sets the number of classes of holds.
func (ns *NodeSlots) ClassifyHolds(classes int) {
	ns.holdClasses = classes
	for k := range ns.floors {
		ns.floors[k] = make([][]int64, (ns.layout.widest+1)*int64(classes))
	}
}

// forget must be called when GPUs of a column become free.
func (ns *NodeSlots) forget(column int16) {
	for k := range ns.floors {
		if ns.layout.Column[k] == column {
			for _, floors := range ns.floors[k] {
				clear(floors)
			}
		}
	}
}

// floorsOf returns the floors for tasks of g GPUs of type k, by pool, and a time for which the
// GPUs are free from a floor on, at most hold.
func (ns *NodeSlots) floorsOf(k int16, g, hold int64) (floors []int64, free int64) {
	class := int64(0)
	if ns.holdClasses > 1 && hold > 0 {
		class, free = classOfHold(hold)
	}
	at := g*int64(ns.holdClasses) + class
	if ns.floors[k][at] == nil {
		ns.floors[k][at] = make([]int64, len(ns.layout.Pools[k]))
	}
	return ns.floors[k][at], free
}

// Earliest returns the earliest start ≥ from at which all tasks of a round of job j find room
// on GPUs of type k for hold, and leaves their nodes in ns.chosen. Where stay > hold, nodes on
// which the tasks could stay longer are preferred, up to stay. The sum of the free GPUs
// rejects most starts. It takes O(B log B) for the B steps of all nodes.
func (ns *NodeSlots) Earliest(j *Job, k int16, tc Capacity, from, hold, stay int64) int64 {
	if j.Tasks == 1 {
		return ns.EarliestTask(j, k, tc, from, hold, stay)
	}
	if j.GPUs > ns.layout.widest {
		return Never
	}
	pools := ns.layout.PoolsFor(j.Set, k)
	if len(ns.rooms) < len(pools) {
		ns.rooms = make([]NodeRoom, len(pools))
	}
	rooms := ns.rooms[:len(pools)]
	floors, free := ns.floorsOf(k, j.GPUs, hold)
	width := j.Tasks * j.GPUs
	t := ns.earliestTogether(j, k, tc, from, hold, width)
	if t == Never {
		return Never
	}
	total := int64(0)
	ns.active, ns.growths = ns.active[:0], ns.growths[:0]
	ns.search++
	for i, p := range pools {
		if ns.enoughLike(k, p, tc, j.Tasks) {
			rooms[i] = NodeRoom{last: Never, next: Never}
			continue
		}
		if free > 0 || floors[p] <= t {
			floors[p] = tc[ns.layout.Pools[k][p].GPUs].firstFreeFor(floors[p], free, j.GPUs)
		}
		if rooms[i] = (NodeRoom{last: Never, next: floors[p]}); floors[p] <= t {
			rooms[i] = ns.RoomAt(j, k, tc, p, t, hold)
		}
		if rooms[i].next != Never {
			ns.growths = append(ns.growths, growth{rooms[i].next, int32(i)})
		}
		if rooms[i].Room > 0 {
			ns.active = append(ns.active, int32(i))
			if ns.domains == nil {
				total += rooms[i].Room
			} else {
				total += ns.addRoom(ns.layout.Pools[k][p].Node, rooms[i].Room, j.Tasks)
			}
		}
	}
	if total < j.Tasks {
		ns.growths.init()
	}
	for total < j.Tasks {
		for len(ns.growths) > 0 && rooms[ns.growths[0].at].next != ns.growths[0].time {
			ns.growths.pop() // the room has changed since
		}
		if len(ns.growths) == 0 {
			return Never
		}
		if t = ns.earliestTogether(j, k, tc, ns.growths[0].time, hold, width); t == Never {
			return Never
		}
		update := func(i int32) {
			r := &rooms[i]
			before := r.Room
			*r = ns.RoomAt(j, k, tc, pools[i], t, hold)
			if ns.domains == nil {
				total += r.Room - before
			} else {
				total += ns.addRoom(ns.layout.Pools[k][pools[i]].Node, r.Room-before, j.Tasks)
			}
			if r.next != Never {
				ns.growths.push(growth{r.next, i})
			}
		}
		kept := ns.active[:0]
		for _, i := range ns.active {
			if rooms[i].last < t {
				if update(i); rooms[i].Room == 0 {
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
			before := rooms[i].Room
			if update(i); before == 0 && rooms[i].Room > 0 {
				ns.active = append(ns.active, i)
			} else if before > 0 && rooms[i].Room == 0 {
				ns.active = slices.DeleteFunc(ns.active, func(a int32) bool { return a == i })
			}
		}
	}
	ns.choose(j, k, tc, pools, t, hold, stay)
	return t
}

// enoughLike reports whether a pool is empty and the current search has seen so many empty
// pools like it already, from which this one differs by its position only.
func (ns *NodeSlots) enoughLike(k int16, p int32, tc Capacity, enough int64) bool {
	pool := &ns.layout.Pools[k][p]
	if len(tc[pool.GPUs]) > 1 || tc[pool.GPUs][0].free < pool.most || pool.CPUs >= 0 && len(tc[pool.CPUs]) > 1 ||
		pool.Memory >= 0 && len(tc[pool.Memory]) > 1 {
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
func (ns *NodeSlots) choose(j *Job, k int16, tc Capacity, pools []int32, t, hold, stay int64) {
	ns.ranked = ns.ranked[:0]
	domain := int32(-1)
	if ns.domains != nil {
		domain = ns.fullestDomain(j.Tasks)
	}
	for _, i := range ns.active {
		p, r := pools[i], &ns.rooms[i]
		if domain >= 0 && ns.domains[ns.layout.Pools[k][p].Node] != domain {
			continue
		}
		until := t + hold
		if stay > hold {
			until = min(t+stay, ns.FreeUntil(j, k, tc, p, 1, t))
		}
		gap := tc[ns.layout.Pools[k][p].GPUs].gapAfter(t + hold)
		ns.ranked = append(ns.ranked, nodeRank{p, r.Room, r.free, until, gap})
	}
	slices.SortFunc(ns.ranked, betterNode)
	ns.Chosen = ns.Chosen[:0]
	left := j.Tasks
	for i := range ns.ranked {
		r := &ns.ranked[i]
		n := min(left, r.room)
		ns.Chosen = append(ns.Chosen, NodeTasks{r.pool, int32(n)})
		if left -= n; left == 0 {
			return
		}
	}
}

// EarliestTask is earliest for a single task. With patience, a later start is better if the
// task leaves a smaller gap there.
func (ns *NodeSlots) EarliestTask(j *Job, k int16, tc Capacity, from, hold, stay int64) int64 {
	t := ns.earliestTogether(j, k, tc, from, hold, j.GPUs)
	if t == Never || j.GPUs > ns.layout.widest {
		return Never
	}
	patience := ns.patience
	if stay > hold {
		patience = 0 // the end of the stay is open
	}
	best, limit := Never, Never // limit is the last start that may be the best
	var rank nodeRank
	var leastCost int64
	floors, floorHold := ns.floorsOf(k, j.GPUs, hold)
	ns.search++
	for _, p := range ns.layout.PoolsFor(j.Set, k) {
		if floors[p] > limit || ns.enoughLike(k, p, tc, 1) {
			continue
		}
		pool := &ns.layout.Pools[k][p]
		fn := tc[pool.GPUs]
		if floorHold > 0 || floors[p] <= t {
			if floors[p] = fn.firstFreeFor(floors[p], floorHold, j.GPUs); floors[p] > limit {
				continue
			}
		}
		s, free, gap := fn.earliestBefore(max(t, floors[p]), hold, j.GPUs, limit)
		if s > limit || s == Never {
			continue
		}
		if pool.CPUs >= 0 && j.CPUs > 0 || pool.Memory >= 0 && j.Memory > 0 || len(j.Quotas) > 0 ||
			ns.layout.OpenTo(j.Set, pool.Node) != nil {
			for again := true; again && s <= limit && s != Never; {
				s = ns.earliestTasks(j, pool, tc, s, hold, 1)
				again = false
				if len(j.Quotas) > 0 && s != Never {
					u := ns.earliestTogether(j, k, tc, s, hold, j.GPUs)
					again, s = u != s, u
				}
			}
			if s > limit || s == Never {
				continue
			}
			free, gap = fn.MinFree(s, s+hold), fn.gapAfter(s+hold)
		}
		r := nodeRank{pool: p, free: free, gap: gap}
		if stay > hold {
			r.until = min(s+stay, ns.FreeUntil(j, k, tc, p, 1, s))
		}
		cost := s - t + int64(patience*float64(gap))
		if best == Never || cost < leastCost || cost == leastCost && (s < best || s == best && betterNode(r, rank) < 0) {
			best, rank, leastCost = s, r, cost
			limit = t + cost
		}
	}
	if best != Never {
		ns.Chosen = append(ns.Chosen[:0], NodeTasks{rank.pool, 1})
	}
	return best
}

// earliestTasks returns the earliest start ≥ from at which n tasks find room on a node for
// hold.
func (ns *NodeSlots) earliestTasks(j *Job, pool *NodeGPUs, tc Capacity, from, hold, n int64) int64 {
	if n*j.GPUs > pool.most {
		return Never
	}
	for {
		s, _ := tc[pool.GPUs].earliest(from, hold, n*j.GPUs)
		for _, r := range [...]struct {
			fn   int32
			each int64
		}{{pool.CPUs, j.CPUs}, {pool.Memory, j.Memory}} {
			if s != Never && r.fn >= 0 && r.each > 0 {
				if s, _ = tc[r.fn].earliest(s+ns.Lead, hold-ns.Lead, n*r.each); s != Never {
					s -= ns.Lead
				}
			}
		}
		open := ns.layout.OpenTo(j.Set, pool.Node)
		if s != Never && open != nil {
			s, _ = open.earliest(s, hold, 1)
		}
		if s == from || s == Never {
			return s
		}
		if pool.CPUs < 0 && pool.Memory < 0 && open == nil {
			return s
		}
		from = s
	}
}

// RoomAt returns the room on a node at start t.
func (ns *NodeSlots) RoomAt(j *Job, k int16, tc Capacity, p int32, t, hold int64) NodeRoom {
	pool := &ns.layout.Pools[k][p]
	r := NodeRoom{free: tc[pool.GPUs].MinFree(t, t+hold), last: Never, next: Never}
	r.Room = min(j.Tasks, r.free/j.GPUs)
	if j.Distinct {
		r.Room = min(1, r.Room)
	}
	if pool.CPUs >= 0 && j.CPUs > 0 {
		r.Room = min(r.Room, tc[pool.CPUs].MinFree(t+ns.Lead, t+hold)/j.CPUs)
	}
	if pool.Memory >= 0 && j.Memory > 0 {
		r.Room = min(r.Room, tc[pool.Memory].MinFree(t+ns.Lead, t+hold)/j.Memory)
	}
	if open := ns.layout.OpenTo(j.Set, pool.Node); open != nil && open.MinFree(t, t+hold) == 0 {
		r.Room = 0
	}
	if r.Room > 0 {
		if until := ns.FreeUntil(j, k, tc, p, r.Room, t); until != Never {
			r.last = until - hold
		}
	}
	if r.Room < j.Tasks && !(j.Distinct && r.Room == 1) {
		r.next = ns.earliestTasks(j, pool, tc, t, hold, r.Room+1)
	}
	return r
}

// FreeUntil returns the time until which n tasks find room on a node from t on.
func (ns *NodeSlots) FreeUntil(j *Job, k int16, tc Capacity, p int32, n, t int64) int64 {
	pool := &ns.layout.Pools[k][p]
	fn := tc[pool.GPUs]
	until := fn.FreeUntil(fn.Index(t), n*j.GPUs)
	if pool.CPUs >= 0 && j.CPUs > 0 {
		fn := tc[pool.CPUs]
		until = min(until, fn.FreeUntil(fn.Index(t+ns.Lead), n*j.CPUs))
	}
	if pool.Memory >= 0 && j.Memory > 0 {
		fn := tc[pool.Memory]
		until = min(until, fn.FreeUntil(fn.Index(t+ns.Lead), n*j.Memory))
	}
	if open := ns.layout.OpenTo(j.Set, pool.Node); open != nil {
		until = min(until, open.FreeUntil(open.Index(t), 1))
	}
	return until
}

// earliestTogether returns the earliest start ≥ from at which width GPUs of type k are free
// for hold in sum, and in the quotas of job j.
func (ns *NodeSlots) earliestTogether(j *Job, k int16, tc Capacity, from, hold, width int64) int64 {
	for {
		t := ns.layout.earliestSum(k, tc, from, hold, width)
		if len(j.Quotas) == 0 {
			return t
		}
		for _, q := range j.Quotas {
			if t != Never && ns.layout.M.Quotas[q].Types[k] {
				if t, _ = tc[ns.layout.Quota[q]].earliest(t+ns.Lead, hold-ns.Lead, width); t != Never {
					t -= ns.Lead
				}
			}
		}
		if t == from || t == Never {
			return t
		}
		from = t
	}
}

// quotaUntil returns the time until which the quotas of job j have width GPUs from t on.
func (ns *NodeSlots) quotaUntil(j *Job, k int16, tc Capacity, width, t int64) int64 {
	until := Never
	for _, q := range j.Quotas {
		if ns.layout.M.Quotas[q].Types[k] {
			fn := tc[ns.layout.Quota[q]]
			until = min(until, fn.FreeUntil(fn.Index(t), width))
		}
	}
	return until
}

// QuotaRoom returns how many tasks of job j fit into its quotas on type k over a block.
func (ns *NodeSlots) QuotaRoom(j *Job, k int16, tc Capacity, t, hold int64) int64 {
	room := j.Tasks
	for _, q := range j.Quotas {
		if ns.layout.M.Quotas[q].Types[k] {
			room = min(room, tc[ns.layout.Quota[q]].MinFree(t+ns.Lead, t+hold)/j.GPUs)
		}
	}
	return room
}

// earliestWithin is earliest for tasks that are in one domain of a level.
func (ns *NodeSlots) earliestWithin(j *Job, k int16, level int, tc Capacity, from, hold, stay int64) int64 {
	var count int
	if ns.domains, count = ns.layout.DomainsOf(level); ns.domains != nil {
		if len(ns.totals) < count {
			ns.totals = make([]int64, count)
		}
		clear(ns.totals)
	}
	t := ns.Earliest(j, k, tc, from, hold, stay)
	ns.domains = nil
	return t
}

// addRoom adds room to the domain of a node. It returns the change of the tasks that find room in
// full domains, those with room for all tasks, where each counts for just these.
func (ns *NodeSlots) addRoom(node int32, room, tasks int64) int64 {
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
func (ns *NodeSlots) fullestDomain(tasks int64) int32 {
	best := int32(-1)
	for d, room := range ns.totals {
		if room >= tasks && (best < 0 || room < ns.totals[best]) {
			best = int32(d)
		}
	}
	return best
}

// spread returns the finest level that holds the chosen nodes of a type in one domain.
func (ns *NodeSlots) spread(jl *JobLevels, k int16) int {
	level, pools := 0, ns.layout.Pools[k]
	for _, c := range ns.Chosen[1:] {
		level = jl.Levels.Join(level, int(pools[ns.Chosen[0].Pool].Node), int(pools[c.Pool].Node))
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
