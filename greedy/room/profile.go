package room

import (
	"math"
	"slices"

	"github.com/hare-sched/hare/model"
)

// Never is later than every time of a schedule.
const Never = int64(math.MaxInt64)

// Profile is the number of free GPUs of a class over time: step i holds from its time to that
// of step i+1, and step 0 begins at 0. Steps are stored in arrays with a gap (a gap buffer) where the
// last change was, since the next change is mostly close to it.
type Profile struct {
	times []int64
	free  []int32
	// The steps below split are stored at their own index, the others gap entries behind.
	split, gap int
	// hint is the step at which the last search ended; the next search mostly continues from
	// there.
	hint int
}

// FullyBusy returns a profile without a free GPU.
func FullyBusy() *Profile { return &Profile{times: []int64{0}, free: []int32{0}, split: 1} }

// NewProfile returns the profile of a class on which nothing is placed.
func NewProfile(c *model.Class) *Profile {
	pr := FullyBusy()
	for _, w := range c.Windows {
		pr.Add(w.StartUs, w.EndUs, int32(len(c.GPUs)))
	}
	return pr
}

// AppendStep says that free GPUs are free from t on. t is not before the last step, and the profile must not have
// been changed by add.
func (pr *Profile) AppendStep(t int64, free int32) {
	last := len(pr.times) - 1
	switch {
	case pr.times[last] == t:
		pr.free[last] = free
	case pr.free[last] != free:
		pr.times, pr.free, pr.split = append(pr.times, t), append(pr.free, free), last+2
	}
}

// CopyFrom makes the profile equal to q.
func (pr *Profile) CopyFrom(q *Profile) {
	pr.times = append(pr.times[:0], q.times...)
	pr.free = append(pr.free[:0], q.free...)
	pr.split, pr.gap, pr.hint = q.split, q.gap, 0
}

// Steps returns the number of steps.
func (pr *Profile) Steps() int { return len(pr.times) - pr.gap }

// at returns where step i is stored.
func (pr *Profile) at(i int) int {
	if i >= pr.split {
		i += pr.gap
	}
	return i
}

// Time returns when step i begins.
func (pr *Profile) Time(i int) int64 { return pr.times[pr.at(i)] }

// Count returns the free GPUs of step i.
func (pr *Profile) Count(i int) int32 { return pr.free[pr.at(i)] }

// Index returns the step that holds at t ≥ 0. It is an exponential search from the last
// step, since successive searches are close in time. It takes O(log distance).
func (pr *Profile) Index(t int64) int {
	n := pr.Steps()
	lo := min(pr.hint, n-1)
	hi := lo + 1
	if pr.Time(lo) <= t {
		for step := 1; hi < n && pr.Time(hi) <= t; step *= 2 {
			lo, hi = hi, min(n, hi+step)
		}
	} else {
		for step := 1; pr.Time(lo) > t; step *= 2 {
			lo, hi = max(0, lo-step), lo
		}
	}
	for hi-lo > 1 {
		mid := int(uint(lo+hi) / 2)
		if pr.Time(mid) <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	pr.hint = lo
	return lo
}

// splitAt moves the gap in front of step i and widens it to at least two entries. It takes
// O(steps between the old and the new place), amortised.
func (pr *Profile) splitAt(i int) {
	if pr.gap < 2 {
		n, more := pr.Steps(), 16+len(pr.times)/2
		pr.times = slices.Grow(pr.times, more)[:n+pr.gap+more]
		pr.free = slices.Grow(pr.free, more)[:n+pr.gap+more]
		copy(pr.times[pr.split+pr.gap+more:], pr.times[pr.split+pr.gap:n+pr.gap])
		copy(pr.free[pr.split+pr.gap+more:], pr.free[pr.split+pr.gap:n+pr.gap])
		pr.gap += more
	}
	switch s, g := pr.split, pr.gap; {
	case i < s:
		copy(pr.times[i+g:], pr.times[i:s])
		copy(pr.free[i+g:], pr.free[i:s])
	case i > s:
		copy(pr.times[s:], pr.times[s+g:i+g])
		copy(pr.free[s:], pr.free[s+g:i+g])
	}
	pr.split = i
}

// Add changes the free count by n within [from, to). Steps that no longer change the
// count are removed. It takes O(steps within + steps from the last change), amortised.
func (pr *Profile) Add(from, to int64, n int32) {
	if from >= to || n == 0 {
		return
	}
	i := pr.Index(from)
	j, size := i+1, pr.Steps()
	for j < size && pr.Time(j) < to {
		j++
	}
	pr.splitAt(j)
	// Steps i to j−1 end in front of the gap.
	before := pr.free[j-1] // this count also holds from to on
	switch {
	case j == size:
		if to != Never {
			pr.times[j], pr.free[j] = to, before
			pr.split, pr.gap = j+1, pr.gap-1
		}
	case pr.times[j+pr.gap] != to:
		pr.times[j], pr.free[j] = to, before
		pr.split, pr.gap = j+1, pr.gap-1
	case pr.free[j+pr.gap] == before+n:
		pr.gap++
	}
	for x := i + 1; x < j; x++ {
		pr.free[x] += n
	}
	// Step i is divided, changed, or joined with the one before.
	switch {
	case pr.times[i] < from:
		copy(pr.times[i+2:pr.split+1], pr.times[i+1:pr.split])
		copy(pr.free[i+2:pr.split+1], pr.free[i+1:pr.split])
		pr.times[i+1], pr.free[i+1] = from, pr.free[i]+n
		pr.split, pr.gap = pr.split+1, pr.gap-1
	case i > 0 && pr.free[i-1] == pr.free[i]+n:
		copy(pr.times[i:pr.split-1], pr.times[i+1:pr.split])
		copy(pr.free[i:pr.split-1], pr.free[i+1:pr.split])
		pr.split, pr.gap = pr.split-1, pr.gap+1
	default:
		pr.free[i] += n
	}
	pr.hint = max(0, i-1)
}

// Earliest returns the first start between from and limit at which at least need GPUs
// are free for hold, and how many are free. The start is never if there is none. It
// moves the gap out of the steps that are passed, and takes O(steps passed + steps from the last
// change).
func (pr *Profile) Earliest(from, limit, hold int64, need int32) (start int64, count int32) {
	pr.splitAt(pr.Index(from))
	times, free := pr.times[pr.split+pr.gap:], pr.free[pr.split+pr.gap:]
	free = free[:len(times)]
	start = from
	for i := 0; ; {
		// Steps with too few free GPUs are skipped.
		for free[i] < need {
			i++
			if i == len(times) {
				return Never, 0
			}
			if start = times[i]; start > limit {
				return Never, 0
			}
		}
		count = free[i]
		end := start + hold
		j := i + 1
		for ; j < len(times) && times[j] < end; j++ {
			if free[j] < need {
				break
			}
			count = min(count, free[j])
		}
		if j == len(times) || times[j] >= end {
			return start, count
		}
		i = j
		start = times[i]
	}
}

// MinFree returns the smallest free count within [from, from+hold).
func (pr *Profile) MinFree(from, hold int64) int32 {
	i := pr.Index(from)
	n := pr.Count(i)
	for i++; n > 0 && i < pr.Steps() && pr.Time(i) < from+hold; i++ {
		n = min(n, pr.Count(i))
	}
	return n
}

// FreeUntil returns the time until which at least need GPUs stay free from t on.
func (pr *Profile) FreeUntil(t int64, need int32) int64 {
	for i := pr.Index(t); i < pr.Steps(); i++ {
		if pr.Count(i) < need {
			return max(t, pr.Time(i))
		}
	}
	return Never
}

// NextIncrease returns the first time after t at which more GPUs become free, or never.
func (pr *Profile) NextIncrease(t int64) int64 {
	for i := pr.Index(t) + 1; i < pr.Steps(); i++ {
		if pr.Count(i) > pr.Count(i-1) {
			return pr.Time(i)
		}
	}
	return Never
}

// Latest returns the last start ≥ from such that start + hold ≤ by and at least need
// GPUs are free, and how many are free. The start is never if there is none. It moves the gap as
// earliest does.
func (pr *Profile) Latest(from, by, hold int64, need int32) (start int64, count int32) {
	if by-hold < from {
		return Never, 0
	}
	i := pr.Index(by - 1)
	pr.splitAt(i + 1)
	times, free := pr.times[:i+1], pr.free[:i+1]
	for end := by; ; {
		if start = end - hold; start < from {
			return Never, 0
		}
		count = free[i]
		for free[i] >= need && times[i] > start {
			i--
			count = min(count, free[i])
		}
		if count >= need {
			return start, count
		}
		if end = times[i]; i == 0 {
			return Never, 0
		}
		i--
	}
}
