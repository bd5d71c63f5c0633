package greedy

import (
	"math"

	"github.com/hare-sched/hare"
)

// never is later than every time of a schedule.
const never = int64(math.MaxInt64)

// profile is the number of free GPUs of a class over time: free[i] from times[i] to
// times[i+1]. times[0] is 0.
type profile struct {
	times []int64
	free  []int32
	// hint is the step at which the last search ended; the next search mostly continues from
	// there.
	hint int
}

func newProfile(c *hare.Class) *profile {
	pr := &profile{times: []int64{0}, free: []int32{0}}
	for _, w := range c.Windows {
		pr.add(w.StartUs, w.EndUs, int32(len(c.GPUs)))
	}
	return pr
}

func (pr *profile) copyFrom(q *profile) {
	pr.times = append(pr.times[:0], q.times...)
	pr.free = append(pr.free[:0], q.free...)
	pr.hint = 0
}

// index returns the step that holds at t ≥ 0. It is an exponential search from the last
// step, since successive searches are close in time. It takes O(log distance).
func (pr *profile) index(t int64) int {
	n := len(pr.times)
	lo := min(pr.hint, n-1)
	hi := lo + 1
	if pr.times[lo] <= t {
		for step := 1; hi < n && pr.times[hi] <= t; step *= 2 {
			lo, hi = hi, min(n, hi+step)
		}
	} else {
		for step := 1; pr.times[lo] > t; step *= 2 {
			lo, hi = max(0, lo-step), lo
		}
	}
	for hi-lo > 1 {
		mid := int(uint(lo+hi) / 2)
		if pr.times[mid] <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	pr.hint = lo
	return lo
}

// add changes the free count by n within [from, to). Steps that no longer change the
// count are removed. It takes O(steps within + steps behind that must move).
func (pr *profile) add(from, to int64, n int32) {
	if from >= to || n == 0 {
		return
	}
	i := pr.index(from)
	j := i + 1
	for j < len(pr.times) && pr.times[j] < to {
		j++
	}
	before := pr.free[j-1] // this count also holds from to on
	// first and last say whether a step is added (1) or removed (−1) at from and at to.
	first, last := 0, 0
	if pr.times[i] < from {
		first = 1
	} else if i > 0 && pr.free[i-1] == pr.free[i]+n {
		first = -1
	}
	tail := j
	if j == len(pr.times) {
		if to != never {
			last = 1
		}
	} else if pr.times[j] != to {
		last = 1
	} else if pr.free[j] == before+n {
		last, tail = -1, j+1
	}
	opened := pr.free[i] + n
	for x := i + max(0, first); x < j; x++ {
		pr.free[x] += n
	}
	size := len(pr.times)
	if by := first + last; by > 0 {
		pr.times = append(pr.times, 0, 0)[:size+by]
		pr.free = append(pr.free, 0, 0)[:size+by]
	}
	if first > 0 {
		pr.shiftSteps(tail, size, first+last)
		pr.shiftSteps(i+1, j, first)
		pr.times[i+1], pr.free[i+1] = from, opened
	} else {
		pr.shiftSteps(i-first, j, first)
		pr.shiftSteps(tail, size, first+last)
	}
	if last > 0 {
		pr.times[j+first], pr.free[j+first] = to, before
	}
	pr.times, pr.free = pr.times[:size+first+last], pr.free[:size+first+last]
	pr.hint = max(0, i-1)
}

// shiftSteps moves the steps from … to−1 by so many positions.
func (pr *profile) shiftSteps(from, to, by int) {
	if by != 0 && from < to {
		copy(pr.times[from+by:], pr.times[from:to])
		copy(pr.free[from+by:], pr.free[from:to])
	}
}

// earliest returns the first start between from and limit at which at least need GPUs
// are free for hold, and how many are free. The start is never if there is none. It
// takes O(steps passed).
func (pr *profile) earliest(from, limit, hold int64, need int32) (start int64, count int32) {
	i := pr.index(from)
	start = from
	for {
		// Steps with too few free GPUs are skipped.
		for pr.free[i] < need {
			i++
			if i == len(pr.times) {
				return never, 0
			}
			if start = pr.times[i]; start > limit {
				return never, 0
			}
		}
		count = pr.free[i]
		end := start + hold
		j := i + 1
		for ; j < len(pr.times) && pr.times[j] < end; j++ {
			if pr.free[j] < need {
				break
			}
			count = min(count, pr.free[j])
		}
		if j == len(pr.times) || pr.times[j] >= end {
			return start, count
		}
		i = j
		start = pr.times[i]
	}
}

// minFree returns the smallest free count within [from, from+hold).
func (pr *profile) minFree(from, hold int64) int32 {
	i := pr.index(from)
	n := pr.free[i]
	for i++; n > 0 && i < len(pr.times) && pr.times[i] < from+hold; i++ {
		n = min(n, pr.free[i])
	}
	return n
}

// freeUntil returns the time until which at least need GPUs stay free from t on.
func (pr *profile) freeUntil(t int64, need int32) int64 {
	for i := pr.index(t); i < len(pr.times); i++ {
		if pr.free[i] < need {
			return max(t, pr.times[i])
		}
	}
	return never
}

// nextIncrease returns the first time after t at which more GPUs become free, or never.
func (pr *profile) nextIncrease(t int64) int64 {
	for i := pr.index(t) + 1; i < len(pr.times); i++ {
		if pr.free[i] > pr.free[i-1] {
			return pr.times[i]
		}
	}
	return never
}

// latest returns the last start ≥ from such that start + hold ≤ by and at least need
// GPUs are free, and how many are free. The start is never if there is none.
func (pr *profile) latest(from, by, hold int64, need int32) (start int64, count int32) {
	if by-hold < from {
		return never, 0
	}
	i := pr.index(by - 1)
	for end := by; ; {
		if start = end - hold; start < from {
			return never, 0
		}
		count = pr.free[i]
		for pr.free[i] >= need && pr.times[i] > start {
			i--
			count = min(count, pr.free[i])
		}
		if count >= need {
			return start, count
		}
		if end = pr.times[i]; i == 0 {
			return never, 0
		}
		i--
	}
}
