package greedy

import "slices"

// lastRooms counts the tasks that find room at the end of time, where only work that runs at
// time 0 holds anything, once for all jobs that are alike in this. A job that fits there has
// a place, however long it takes.
type lastRooms map[lastRoomKey]int64

// lastRoomKey is what the room of a job on a type goes by, beside quotas.
type lastRoomKey struct {
	kind               int16
	gpus, cpus, memory int64
	distinct           bool
	set                int
	within             int // −1 where rounds need not keep together
}

// fits says whether all tasks of job j find room together on type k at the end of time.
func (lr lastRooms) fits(nl *nodeLayout, j *annealJob, k int16) bool {
	key := lastRoomKey{k, j.gpus, j.cpus, j.memory, j.distinct, j.set, -1}
	if j.levels != nil {
		key.within = j.levels.within
	}
	room, known := lr[key]
	if !known {
		room = nl.roomAtLast(j, k)
		lr[key] = room
	}
	for _, q := range j.quotas {
		if nl.m.Quotas[q].Types[k] {
			room = min(room, nl.m.Quotas[q].GPUs/j.gpus)
		}
	}
	return room >= j.tasks
}

// roomAtLast is how many tasks of job j find room together at the end of time on type k, without
// quotas: in one domain, where they must keep together.
func (nl *nodeLayout) roomAtLast(j *annealJob, k int16) int64 {
	var domains []int32
	totals := make([]int64, 1)
	if j.levels != nil {
		var count int
		if domains, count = nl.domainsOf(j.levels.within); domains != nil {
			totals = make([]int64, count)
		}
	}
	tc := nl.empty[nl.column[k]]
	for _, p := range nl.poolsFor(j.set, k) {
		pool := &nl.pools[k][p]
		room := tc[pool.gpus].last() / j.gpus
		if pool.cpus >= 0 && j.cpus > 0 {
			room = min(room, tc[pool.cpus].last()/j.cpus)
		}
		if pool.memory >= 0 && j.memory > 0 {
			room = min(room, tc[pool.memory].last()/j.memory)
		}
		if open := nl.openTo(j.set, pool.node); open != nil && open.last() == 0 {
			room = 0
		}
		if j.distinct {
			room = min(room, 1)
		}
		if domains == nil {
			totals[0] += room
		} else {
			totals[domains[pool.node]] += room
		}
	}
	return slices.Max(totals)
}

// last is the count at the end of time.
func (fn stepFunction) last() int64 { return fn[len(fn)-1].free }
