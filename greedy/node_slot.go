package greedy

import (
	"cmp"
	"slices"
)

// nodeTasks are tasks of a round on one node.
type nodeTasks struct {
	pool  int32 // the index in nodeLayout.pools
	tasks int32
}

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
	chosen []nodeTasks // the nodes of the last place
	rooms  []nodeRoom  // by position in the list of pools
	ranked []nodeRank
}

// nodeRank is a node with room, for the choice among nodes.
type nodeRank struct {
	pool       int32
	room, free int64
	until      int64 // until when one task can stay
}

// betterNode orders nodes with room: those on which a task can stay longest come first, and
// among these, those with the fewest free GPUs (best fit); ties go by position.
func betterNode(a, b nodeRank) int {
	return cmp.Or(cmp.Compare(b.until, a.until), cmp.Compare(a.free, b.free), cmp.Compare(a.pool, b.pool))
}

// earliest returns the earliest start ≥ from at which all tasks of a round of job j find room
// on GPUs of type k for hold, and leaves their nodes in ns.chosen. Where stay > hold, nodes on
// which the tasks could stay longer are preferred, up to stay. The sum of the free GPUs
// rejects most starts. It takes O(B log B) for the B steps of all nodes.
func (ns *nodeSlots) earliest(j *annealJob, k int16, tc typeCapacity, from, hold, stay int64) int64 {
	if j.tasks == 1 {
		return ns.earliestTask(j, k, tc, from, hold, stay)
	}
	pools := ns.layout.poolsFor(j.set, k)
	if len(ns.rooms) < len(pools) {
		ns.rooms = make([]nodeRoom, len(pools))
	}
	rooms := ns.rooms[:len(pools)]
	sum := tc[ns.layout.sum[k]]
	width := j.tasks * j.gpus
	t, _ := sum.earliest(from, hold, width)
	if t == never {
		return never
	}
	total := int64(0)
	for i, p := range pools {
		rooms[i] = ns.roomAt(j, k, tc, p, t, hold)
		total += rooms[i].room
	}
	for total < j.tasks {
		next := never
		for i := range rooms {
			next = min(next, rooms[i].next)
		}
		if next == never {
			return never
		}
		if t, _ = sum.earliest(next, hold, width); t == never {
			return never
		}
		for i, p := range pools {
			if r := &rooms[i]; r.next <= t || r.last < t {
				total -= r.room
				*r = ns.roomAt(j, k, tc, p, t, hold)
				total += r.room
			}
		}
	}
	ns.choose(j, k, tc, pools, t, hold, stay)
	return t
}

// choose picks the nodes of a start at which the rooms suffice.
func (ns *nodeSlots) choose(j *annealJob, k int16, tc typeCapacity, pools []int32, t, hold, stay int64) {
	ns.ranked = ns.ranked[:0]
	for i, p := range pools {
		if r := &ns.rooms[i]; r.room > 0 {
			until := t + hold
			if stay > hold {
				until = min(t+stay, ns.freeUntil(j, k, tc, p, 1, t))
			}
			ns.ranked = append(ns.ranked, nodeRank{p, r.room, r.free, until})
		}
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

// earliestTask is earliest for a single task.
func (ns *nodeSlots) earliestTask(j *annealJob, k int16, tc typeCapacity, from, hold, stay int64) int64 {
	t, _ := tc[ns.layout.sum[k]].earliest(from, hold, j.gpus)
	if t == never {
		return never
	}
	best := never
	var rank nodeRank
	for _, p := range ns.layout.poolsFor(j.set, k) {
		pool := &ns.layout.pools[k][p]
		if pool.most < j.gpus {
			continue
		}
		s, free := tc[pool.gpus].earliestBefore(t, hold, j.gpus, best)
		if s > best || s == never {
			continue
		}
		if pool.cpus >= 0 && j.cpus > 0 || pool.memory >= 0 && j.memory > 0 {
			if s = ns.earliestTasks(j, pool, tc, s, hold, 1); s > best || s == never {
				continue
			}
			free = tc[pool.gpus].minFree(s, s+hold)
		}
		r := nodeRank{pool: p, free: free}
		if stay > hold {
			r.until = min(s+stay, ns.freeUntil(j, k, tc, p, 1, s))
		}
		if s < best || betterNode(r, rank) < 0 {
			best, rank = s, r
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
				s, _ = tc[r.fn].earliest(s, hold, n*r.each)
			}
		}
		if s == from || s == never {
			return s
		}
		if pool.cpus < 0 && pool.memory < 0 {
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
		r.room = min(r.room, tc[pool.cpus].minFree(t, t+hold)/j.cpus)
	}
	if pool.memory >= 0 && j.memory > 0 {
		r.room = min(r.room, tc[pool.memory].minFree(t, t+hold)/j.memory)
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
		until = min(until, fn.freeUntil(fn.index(t), n*j.cpus))
	}
	if pool.memory >= 0 && j.memory > 0 {
		fn := tc[pool.memory]
		until = min(until, fn.freeUntil(fn.index(t), n*j.memory))
	}
	return until
}

// earliestBefore is earliest with a limit: the start is never if it would be after limit. It
// also returns the least number of free GPUs over the block.
func (fn stepFunction) earliestBefore(from, hold, need, limit int64) (start, free int64) {
	i := fn.index(from)
	start = from
	for {
		for fn[i].free < need {
			i++
			if i == len(fn) {
				return never, 0
			}
			start = fn[i].from
		}
		if start > limit {
			return never, 0
		}
		free = fn[i].free
		end := start + hold
		j := i + 1
		for j < len(fn) && fn[j].from < end && fn[j].free >= need {
			free = min(free, fn[j].free)
			j++
		}
		if j == len(fn) || fn[j].from >= end {
			return start, free
		}
		i = j
	}
}
