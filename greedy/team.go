package greedy

import (
	"slices"

	"github.com/hare-sched/hare"
)

// team is how GPUs share a round: gpus[k] of mode k with each[k] tasks back to
// back, and one of mode last with rest tasks where they do not come out even.
type team struct {
	gpus, each []int64 // by mode
	rest       int64
	last       int
	period     int64 // the round's time: max over the used of q·p + s
	hold       int64 // the longest compute
	// cost is the period, with what the GPUs held would do for others: thrift
	// is the charge for a GPU of the fastest type, as a share of time.
	cost float64
}

// drafter picks teams for a job and remembers them.
type drafter struct {
	j      *hare.ModelJob
	thrift float64
	speed  []float64 // by mode, a GPU's worth to all jobs
	fast   []int     // modes by time of a task
	known  map[string]*team
	key    []byte
	have   []int64
}

func newDrafter(j *hare.ModelJob, thrift float64, speed []float64) *drafter {
	d := &drafter{j: j, thrift: thrift, known: map[string]*team{}, have: make([]int64, len(j.Modes))}
	for i := range j.Modes {
		d.fast = append(d.fast, i)
		d.speed = append(d.speed, speed[j.Modes[i].Type])
	}
	slices.SortStableFunc(d.fast, func(a, b int) int { return int(min(1, max(-1, j.Modes[a].DurationUs()-j.Modes[b].DurationUs()))) })
	return d
}

// team is the cheapest for free[k] GPUs of each mode; nil without GPUs. It
// tries the fastest modes together and each alone, with all of their GPUs or a
// part. O(types² · log GPUs · 53).
func (d *drafter) team(free []int64) *team {
	d.key = d.key[:0]
	for _, n := range free {
		n = min(n, d.j.Tasks)
		d.key = append(d.key, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	if t, ok := d.known[string(d.key)]; ok {
		return t
	}
	var best *team
	consider := func(modes []int) {
		most := int64(0)
		for _, k := range modes {
			most = max(most, min(free[k], d.j.Tasks))
		}
		if free[modes[len(modes)-1]] == 0 {
			return // the same without it
		}
		for part := int64(4); ; part++ {
			// 4/4, 3/4, 4/8, 3/8, … of the GPUs.
			num, shift := int64(4), (part-4)/2
			if part%2 == 1 {
				num = 3
			}
			clear(d.have)
			for _, k := range modes {
				n := min(free[k], d.j.Tasks)
				d.have[k] = (n*num + 4<<shift - 1) / (4 << shift)
			}
			t := d.draft()
			if best == nil || t.cost < best.cost {
				best = t
			}
			if d.thrift == 0 || most*num <= 4<<shift {
				return
			}
		}
	}
	if d.thrift > 0 {
		for n := range d.fast {
			consider(d.fast[: n+1 : n+1])
			if n > 0 {
				consider(d.fast[n : n+1])
			}
		}
	} else {
		// The round's time never falls with fewer GPUs.
		modes := slices.DeleteFunc(slices.Clone(d.fast), func(k int) bool { return free[k] == 0 })
		if len(modes) > 0 {
			consider(modes)
		}
	}
	d.known[string(d.key)] = best
	return best
}

// draft is the quickest team out of have[k] GPUs of each mode, then one of few
// GPUs.
func (d *drafter) draft() *team {
	k := d.j.Tasks
	high := never
	for i := range d.have {
		if n := d.have[i]; n > 0 {
			high = min(high, (k+n-1)/n*d.j.Modes[i].ComputeUs+d.j.Modes[i].SyncUs)
		}
	}
	low := int64(0)
	for low+1 < high {
		mid := low + (high-low)/2
		if d.enough(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	n := len(d.have)
	t := &team{gpus: make([]int64, n), each: make([]int64, n), last: -1}
	byEach := slices.Clone(d.fast)
	for i := range d.have {
		if md := &d.j.Modes[i]; d.have[i] > 0 && high > md.SyncUs {
			t.each[i] = min(k, (high-md.SyncUs)/md.ComputeUs)
		}
	}
	slices.SortStableFunc(byEach, func(a, b int) int { return int(min(1, max(-1, t.each[b]-t.each[a]))) })
	used := 0.0
	left := k
	grow := func(i int, tasks int64) {
		md := &d.j.Modes[i]
		t.hold = max(t.hold, tasks*md.ComputeUs)
		t.period = max(t.period, tasks*md.ComputeUs+md.SyncUs)
	}
	for _, i := range byEach {
		if left == 0 || t.each[i] == 0 {
			break
		}
		t.gpus[i] = min(d.have[i], left/t.each[i])
		if t.gpus[i] > 0 {
			grow(i, t.each[i])
		}
		left -= t.gpus[i] * t.each[i]
		used += float64(t.gpus[i]) * d.speed[i]
		if left > 0 && t.gpus[i] < d.have[i] {
			t.rest, t.last = left, i
			left = 0
			grow(i, t.rest)
			used += d.speed[i]
		}
	}
	t.cost = float64(t.period) * (1 + d.thrift*used)
	return t
}

// enough says whether the GPUs at hand do a round in t.
func (d *drafter) enough(t int64) bool {
	left := d.j.Tasks
	for i, n := range d.have {
		md := &d.j.Modes[i]
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
