package place

import (
	"slices"

	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// allocation says how GPUs share a round: gpus[k] GPUs of mode k do each[k] tasks each,
// back to back, and one GPU of mode last does the remaining rest tasks.
type allocation struct {
	gpus, each []int64 // by mode
	rest       int64
	last       int
	period     int64 // the time of the round: the maximum of tasks · compute + sync over the GPUs used
	hold       int64 // the longest compute time
	// cost is the period times one plus the opportunity cost of the GPUs held, as a share of
	// time.
	cost float64
}

// allocator finds the cheapest allocation for a job and remembers the answers.
type allocator struct {
	j            *model.Job
	gpuCost      float64
	speed        []float64 // by mode: what a GPU is worth to all jobs
	fastestFirst []int     // the modes sorted by time of a task
	known        map[string]*allocation
	key          []byte
	have         []int64
}

func newAllocator(j *model.Job, gpuCost float64, speed []float64) *allocator {
	al := &allocator{j: j, gpuCost: gpuCost, known: map[string]*allocation{}, have: make([]int64, len(j.Modes))}
	for i := range j.Modes {
		al.fastestFirst = append(al.fastestFirst, i)
		al.speed = append(al.speed, speed[j.Modes[i].Type])
	}
	slices.SortStableFunc(al.fastestFirst, func(a, b int) int {
		return int(min(1, max(-1, j.Modes[a].DurationUs()-j.Modes[b].DurationUs())))
	})
	return al
}

// cheapest returns the cheapest allocation within free[k] GPUs of each mode, or nil
// without GPUs. It tries the fastest modes together and each mode alone, with all of
// their GPUs or a part of them. It takes O(types² · log GPUs · 53).
func (al *allocator) cheapest(free []int64) *allocation {
	al.key = al.key[:0]
	for _, n := range free {
		n = min(n, al.j.Tasks)
		al.key = append(al.key, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	if t, ok := al.known[string(al.key)]; ok {
		return t
	}
	var best *allocation
	consider := func(modes []int) {
		most := int64(0)
		for _, k := range modes {
			most = max(most, min(free[k], al.j.Tasks))
		}
		if free[modes[len(modes)-1]] == 0 {
			return // this set equals the one without its last mode
		}
		for part := int64(4); ; part++ {
			// The parts are 4/4, 3/4, 4/8, 3/8, … of the GPUs.
			num, shift := int64(4), (part-4)/2
			if part%2 == 1 {
				num = 3
			}
			clear(al.have)
			for _, k := range modes {
				n := min(free[k], al.j.Tasks)
				al.have[k] = (n*num + 4<<shift - 1) / (4 << shift)
			}
			t := al.fastest()
			if best == nil || t.cost < best.cost {
				best = t
			}
			if al.gpuCost == 0 || most*num <= 4<<shift {
				return
			}
		}
	}
	if al.gpuCost > 0 {
		for n := range al.fastestFirst {
			consider(al.fastestFirst[: n+1 : n+1])
			if n > 0 {
				consider(al.fastestFirst[n : n+1])
			}
		}
	} else {
		// Without an opportunity cost, fewer GPUs never make the round shorter.
		modes := slices.DeleteFunc(slices.Clone(al.fastestFirst), func(k int) bool { return free[k] == 0 })
		if len(modes) > 0 {
			consider(modes)
		}
	}
	al.known[string(al.key)] = best
	return best
}

// fastest returns the allocation of have[k] GPUs of each mode with the shortest period,
// and among these one of few GPUs.
func (al *allocator) fastest() *allocation {
	k := al.j.Tasks
	high := room.Never
	for i := range al.have {
		if n := al.have[i]; n > 0 {
			high = min(high, (k+n-1)/n*al.j.Modes[i].ComputeUs+al.j.Modes[i].SyncUs)
		}
	}
	low := int64(0)
	for low+1 < high {
		mid := low + (high-low)/2
		if al.enough(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	n := len(al.have)
	t := &allocation{gpus: make([]int64, n), each: make([]int64, n), last: -1}
	byEach := slices.Clone(al.fastestFirst)
	for i := range al.have {
		if md := &al.j.Modes[i]; al.have[i] > 0 && high > md.SyncUs {
			t.each[i] = min(k, (high-md.SyncUs)/md.ComputeUs)
		}
	}
	slices.SortStableFunc(byEach, func(a, b int) int { return int(min(1, max(-1, t.each[b]-t.each[a]))) })
	used := 0.0
	left := k
	grow := func(i int, tasks int64) {
		md := &al.j.Modes[i]
		t.hold = max(t.hold, tasks*md.ComputeUs)
		t.period = max(t.period, tasks*md.ComputeUs+md.SyncUs)
	}
	for _, i := range byEach {
		if left == 0 || t.each[i] == 0 {
			break
		}
		t.gpus[i] = min(al.have[i], left/t.each[i])
		if t.gpus[i] > 0 {
			grow(i, t.each[i])
		}
		left -= t.gpus[i] * t.each[i]
		used += float64(t.gpus[i]) * al.speed[i]
		if left > 0 && t.gpus[i] < al.have[i] {
			t.rest, t.last = left, i
			left = 0
			grow(i, t.rest)
			used += al.speed[i]
		}
	}
	t.cost = float64(t.period) * (1 + al.gpuCost*used)
	return t
}

// enough reports whether the available GPUs can do a round in t.
func (al *allocator) enough(t int64) bool {
	left := al.j.Tasks
	for i, n := range al.have {
		md := &al.j.Modes[i]
		if n == 0 || t < md.DurationUs() {
			continue
		}
		each := (t - md.SyncUs) / md.ComputeUs
		if each >= left || each*n >= left {
			return true
		}
		left -= each * n
	}
	return false
}
