package greedy

import (
	"math"

	"github.com/hare-sched/hare"
)

// never lies after every time of a schedule.
const never = int64(math.MaxInt64)

// profile is the number of free GPUs of a class over time: free[i] from
// times[i] to times[i+1]. times[0] is 0.
type profile struct {
	times []int64
	free  []int32
	// hint is where the last search ended; searches mostly go on from there.
	hint int
}

func newProfile(c *hare.Class) *profile {
	p := &profile{times: []int64{0}, free: []int32{0}}
	for _, w := range c.Windows {
		p.add(w.StartUs, w.EndUs, int32(len(c.GPUs)))
	}
	return p
}

func (p *profile) copyFrom(q *profile) {
	p.times = append(p.times[:0], q.times...)
	p.free = append(p.free[:0], q.free...)
	p.hint = 0
}

// index is the step that holds at t ≥ 0: a gallop from the last place looked
// at, since searches follow each other closely in time. O(log distance).
func (p *profile) index(t int64) int {
	n := len(p.times)
	lo := min(p.hint, n-1)
	hi := lo + 1
	if p.times[lo] <= t {
		for step := 1; hi < n && p.times[hi] <= t; step *= 2 {
			lo, hi = hi, min(n, hi+step)
		}
	} else {
		for step := 1; p.times[lo] > t; step *= 2 {
			lo, hi = max(0, lo-step), lo
		}
	}
	for hi-lo > 1 {
		mid := int(uint(lo+hi) / 2)
		if p.times[mid] <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	p.hint = lo
	return lo
}

// add changes the free count by n within [from, to). Steps that no longer
// change the count go. O(steps within + steps behind to be moved).
func (p *profile) add(from, to int64, n int32) {
	if from >= to || n == 0 {
		return
	}
	i := p.index(from)
	j := i + 1
	for j < len(p.times) && p.times[j] < to {
		j++
	}
	before := p.free[j-1] // also from to on
	// A step comes or goes at from, and at to.
	first, last := 0, 0
	if p.times[i] < from {
		first = 1
	} else if i > 0 && p.free[i-1] == p.free[i]+n {
		first = -1
	}
	tail := j
	if j == len(p.times) {
		if to != never {
			last = 1
		}
	} else if p.times[j] != to {
		last = 1
	} else if p.free[j] == before+n {
		last, tail = -1, j+1
	}
	opened := p.free[i] + n
	for x := i + max(0, first); x < j; x++ {
		p.free[x] += n
	}
	size := len(p.times)
	if by := first + last; by > 0 {
		p.times = append(p.times, 0, 0)[:size+by]
		p.free = append(p.free, 0, 0)[:size+by]
	}
	if first > 0 {
		p.move(tail, size, first+last)
		p.move(i+1, j, first)
		p.times[i+1], p.free[i+1] = from, opened
	} else {
		p.move(i-first, j, first)
		p.move(tail, size, first+last)
	}
	if last > 0 {
		p.times[j+first], p.free[j+first] = to, before
	}
	p.times, p.free = p.times[:size+first+last], p.free[:size+first+last]
	p.hint = max(0, i-1)
}

// move shifts the steps from … to−1 by so many places.
func (p *profile) move(from, to, by int) {
	if by != 0 && from < to {
		copy(p.times[from+by:], p.times[from:to])
		copy(p.free[from+by:], p.free[from:to])
	}
}

// earliest is the first start between from and limit at which at least need
// GPUs are free for hold, and how many are. start is never when there is none.
// O(steps passed).
func (p *profile) earliest(from, limit, hold int64, need int32) (start int64, count int32) {
	i := p.index(from)
	start = from
	for {
		// Skip steps with too few.
		for p.free[i] < need {
			i++
			if i == len(p.times) {
				return never, 0
			}
			if start = p.times[i]; start > limit {
				return never, 0
			}
		}
		count = p.free[i]
		end := start + hold
		j := i + 1
		for ; j < len(p.times) && p.times[j] < end; j++ {
			if p.free[j] < need {
				break
			}
			count = min(count, p.free[j])
		}
		if j == len(p.times) || p.times[j] >= end {
			return start, count
		}
		i = j
		start = p.times[i]
	}
}

// least is the smallest free count within [from, from+hold).
func (p *profile) least(from, hold int64) int32 {
	i := p.index(from)
	n := p.free[i]
	for i++; n > 0 && i < len(p.times) && p.times[i] < from+hold; i++ {
		n = min(n, p.free[i])
	}
	return n
}

// until is the time up to which at least need GPUs stay free from t on.
func (p *profile) until(t int64, need int32) int64 {
	for i := p.index(t); i < len(p.times); i++ {
		if p.free[i] < need {
			return max(t, p.times[i])
		}
	}
	return never
}

// rise is the first time after t at which more GPUs become free; never if none.
func (p *profile) rise(t int64) int64 {
	for i := p.index(t) + 1; i < len(p.times); i++ {
		if p.free[i] > p.free[i-1] {
			return p.times[i]
		}
	}
	return never
}

// latest is the last start ≥ from such that start + hold ≤ by with at least
// need GPUs free, and how many are; never when there is none.
func (p *profile) latest(from, by, hold int64, need int32) (start int64, count int32) {
	if by-hold < from {
		return never, 0
	}
	i := p.index(by - 1)
	for end := by; ; {
		if start = end - hold; start < from {
			return never, 0
		}
		count = p.free[i]
		for p.free[i] >= need && p.times[i] > start {
			i--
			count = min(count, p.free[i])
		}
		if count >= need {
			return start, count
		}
		if end = p.times[i]; i == 0 {
			return never, 0
		}
		i--
	}
}
