package room

import "slices"

// LastRooms counts the tasks that find room at the end of time, where only work that runs at
// time 0 holds anything, once for all jobs that are alike in this. A job that fits there has
// a place, however long it takes.
type LastRooms map[lastRoomKey]int64

// lastRoomKey is what the room of a job on a type goes by, beside quotas.
type lastRoomKey struct {
	kind               int16
	gpus, cpus, memory int64
	distinct           bool
	set                int
	within             int // −1 where rounds need not keep together
}

// Fits reports whether all tasks of job j find room together on type k at the end of time.
func (lr LastRooms) Fits(nl *Layout, j *Job, k int16) bool {
	key := lastRoomKey{k, j.GPUs, j.CPUs, j.Memory, j.Distinct, j.Set, -1}
	if j.Levels != nil {
		key.within = j.Levels.within
	}
	room, known := lr[key]
	if !known {
		room = nl.roomAtLast(j, k)
		lr[key] = room
	}
	for _, q := range j.Quotas {
		if nl.M.Quotas[q].Types[k] {
			room = min(room, nl.M.Quotas[q].GPUs/j.GPUs)
		}
	}
	return room >= j.Tasks
}

// roomAtLast is how many tasks of job j find room together at the end of time on type k, without
// quotas: in one domain, where they must keep together.
func (nl *Layout) roomAtLast(j *Job, k int16) int64 {
	var domains []int32
	totals := make([]int64, 1)
	if j.Levels != nil {
		var count int
		if domains, count = nl.DomainsOf(j.Levels.within); domains != nil {
			totals = make([]int64, count)
		}
	}
	tc := nl.Empty[nl.Column[k]]
	for _, p := range nl.PoolsFor(j.Set, k) {
		pool := &nl.Pools[k][p]
		room := tc[pool.GPUs].last() / j.GPUs
		if pool.CPUs >= 0 && j.CPUs > 0 {
			room = min(room, tc[pool.CPUs].last()/j.CPUs)
		}
		if pool.Memory >= 0 && j.Memory > 0 {
			room = min(room, tc[pool.Memory].last()/j.Memory)
		}
		if open := nl.OpenTo(j.Set, pool.Node); open != nil && open.last() == 0 {
			room = 0
		}
		if j.Distinct {
			room = min(room, 1)
		}
		if domains == nil {
			totals[0] += room
		} else {
			totals[domains[pool.Node]] += room
		}
	}
	return slices.Max(totals)
}

// last is the count at the end of time.
func (fn StepFunction) last() int64 { return fn[len(fn)-1].free }
