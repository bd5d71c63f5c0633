package room

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// step says that free GPUs are left from the time from until the next step.
type step struct {
	from, free int64
}

// StepFunction is the number of free GPUs as a step function of time. Its first step
// starts at 0, and neighbouring steps differ. Unlike a profile, a StepFunction never
// frees GPUs: the search restores snapshots instead.
type StepFunction []step

// Pool is a set of classes of one type whose windows differ only in how much of their
// beginning is cut off by busy GPUs. One count for all GPUs of the pool is exact: a GPU
// that starts late is a GPU that held a job from time 0, and intervals that are assigned
// in order of start always find their GPUs.
type Pool struct {
	Classes []int32 // in order of first start
}

// Capacity is the residual capacity of one type: one step function for each pool.
type Capacity []StepFunction

// CopyFrom makes the capacity equal to o, which has as many step functions.
func (tc Capacity) CopyFrom(o Capacity) {
	for i := range tc {
		tc[i] = append(tc[i][:0], o[i]...)
	}
}

// Equal reports whether two capacities of one type are equal.
func (tc Capacity) Equal(o Capacity) bool {
	for i := range tc {
		if !slices.Equal(tc[i], o[i]) {
			return false
		}
	}
	return true
}

// NewCapacity returns a copy of a capacity.
func NewCapacity(like Capacity) Capacity {
	tr := make(Capacity, len(like))
	for i := range tr {
		tr[i] = slices.Clone(like[i])
	}
	return tr
}

// PoolsOf groups the classes of type k into pools and returns the pools and their
// capacity.
func PoolsOf(m *model.Model, k int) ([]Pool, Capacity) {
	var classes []int32
	for c := range m.Classes {
		if m.Classes[c].Type == k && len(m.Classes[c].Windows) > 0 {
			classes = append(classes, int32(c))
		}
	}
	slices.SortStableFunc(classes, func(a, b int32) int {
		x, y := m.Classes[a].Windows[0].StartUs, m.Classes[b].Windows[0].StartUs
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	var pools []Pool
next:
	for _, c := range classes {
		for i := range pools {
			if isSuffix(m.Classes[pools[i].Classes[0]].Windows, m.Classes[c].Windows) {
				pools[i].Classes = append(pools[i].Classes, c)
				continue next
			}
		}
		pools = append(pools, Pool{Classes: []int32{c}})
	}
	tr := make(Capacity, len(pools))
	for i, p := range pools {
		free := FullyBusy()
		for _, c := range p.Classes {
			for _, w := range m.Classes[c].Windows {
				free.Add(w.StartUs, w.EndUs, int32(len(m.Classes[c].GPUs)))
			}
		}
		for n := range free.Steps() {
			tr[i] = append(tr[i], step{free.Time(n), int64(free.Count(n))})
		}
	}
	return pools, tr
}

// isSuffix reports whether cut is the part of windows from some time on.
func isSuffix(windows, cut []hare.Window) bool {
	from := cut[0].StartUs
	n := 0
	for _, w := range windows {
		if w.EndUs <= from {
			continue
		}
		if n >= len(cut) || cut[n].EndUs != w.EndUs || cut[n].StartUs != max(w.StartUs, from) {
			return false
		}
		n++
	}
	return n == len(cut)
}

// Index returns the step that holds at t ≥ 0. It takes O(log steps).
func (fn StepFunction) Index(t int64) int {
	if len(fn) == 1 || fn[1].from > t {
		return 0
	}
	lo, hi := 1, len(fn) // fn[lo].from ≤ t < fn[hi].from
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) >> 1); fn[mid].from <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// earliest returns the first start ≥ from at which need GPUs are free for hold, and the
// index of the step that holds there. The start is never if there is none. It takes
// O(steps passed).
func (fn StepFunction) earliest(from, hold, need int64) (start int64, at int) {
	i := fn.Index(from)
	start = from
	for {
		for fn[i].free < need {
			i++
			if i == len(fn) {
				return Never, 0
			}
			start = fn[i].from
		}
		end := start + hold
		j := i + 1
		for j < len(fn) && fn[j].from < end && fn[j].free >= need {
			j++
		}
		if j == len(fn) || fn[j].from >= end {
			return start, i
		}
		i = j
	}
}

// FreeUntil returns the time until which need GPUs stay free from step i on.
func (fn StepFunction) FreeUntil(i int, need int64) int64 {
	for ; i < len(fn); i++ {
		if fn[i].free < need {
			return fn[i].from
		}
	}
	return Never
}

// MinFree returns the smallest free count within [from, to).
func (fn StepFunction) MinFree(from, to int64) int64 {
	free, _ := fn.leastWithin(fn.Index(from), to)
	return free
}

// leastWithin returns the smallest free count from the start of step i until the time to, and the end of the last
// step that has it. A range of the same length that starts before this end has no greater smallest count.
func (fn StepFunction) leastWithin(i int, to int64) (free, end int64) {
	free, last := fn[i].free, i
	for i++; i < len(fn) && fn[i].from < to; i++ {
		if fn[i].free <= free {
			free, last = fn[i].free, i
		}
	}
	if last+1 == len(fn) {
		return free, Never
	}
	return free, fn[last+1].from
}

// NextIncrease returns the first time after t at which the count grows, or never.
func (fn StepFunction) NextIncrease(t int64) int64 {
	for i := fn.Index(t) + 1; i < len(fn); i++ {
		if fn[i].free > fn[i-1].free {
			return fn[i].from
		}
	}
	return Never
}

// Reserve takes n GPUs within [from, to), where from lies in step i. It takes O(steps).
func (fn *StepFunction) Reserve(i int, from, to, n int64) {
	a := *fn
	begins := a[i].from < from // a step that begins at from comes before step i
	if begins {
		i++
	}
	j := i
	for ; j < len(a) && a[j].from < to; j++ {
		a[j].free -= n
	}
	ends := j == len(a) || a[j].from > to // and one that begins at to before step j
	switch {
	case begins && ends:
		a = append(a, step{}, step{}) // the steps after to move once: there are many
		copy(a[j+2:], a[j:])
		copy(a[i+1:], a[i:j])
	case begins:
		a = slices.Insert(a, i, step{})
	case ends:
		a = slices.Insert(a, j, step{})
	}
	if begins {
		a[i] = step{from, a[i-1].free - n}
		j++
	}
	if ends {
		a[j] = step{to, a[j-1].free + n}
	} else if a[j].free == a[j-1].free {
		a = append(a[:j], a[j+1:]...)
	}
	if i > 0 && a[i-1].free == a[i].free {
		a = append(a[:i], a[i+1:]...)
	}
	*fn = a
}

// firstFree returns the first time ≥ from at which need GPUs are free, or never.
func (fn StepFunction) firstFree(from, need int64) int64 {
	if from == Never {
		return Never
	}
	i := fn.Index(from)
	for ; fn[i].free < need; from = fn[i].from {
		if i++; i == len(fn) {
			return Never
		}
	}
	return from
}

// firstFreeFor returns the first time ≥ from at which need GPUs are free for hold, or never.
func (fn StepFunction) firstFreeFor(from, hold, need int64) int64 {
	if hold == 0 || from == Never {
		return fn.firstFree(from, need)
	}
	from, _ = fn.earliest(from, hold, need)
	return from
}

// gapAfter is gapAt for a block that ends at end.
func (fn StepFunction) gapAfter(end int64) int64 {
	i := fn.Index(end)
	if fn[i].from < end {
		i++
	}
	return fn.gapAt(i, end)
}

// gapAt returns how far a block's end is from the next change of the free GPUs, which is at
// step i, or from the last change if there is none after it.
func (fn StepFunction) gapAt(i int, end int64) int64 {
	if i == len(fn) {
		return end - fn[i-1].from
	}
	return fn[i].from - end
}

// earliestBefore is earliest with a limit: the start is never if it would be after limit. It
// also returns the least number of free GPUs over the block, and the gap after it.
func (fn StepFunction) earliestBefore(from, hold, need, limit int64) (start, free, gap int64) {
	if from > limit {
		return Never, 0, 0
	}
	i := fn.Index(from)
	start = from
	for {
		for fn[i].free < need {
			i++
			if i == len(fn) {
				return Never, 0, 0
			}
			start = fn[i].from
		}
		if start > limit {
			return Never, 0, 0
		}
		free = fn[i].free
		end := start + hold
		j := i + 1
		for j < len(fn) && fn[j].from < end && fn[j].free >= need {
			free = min(free, fn[j].free)
			j++
		}
		if j == len(fn) || fn[j].from >= end {
			return start, free, fn.gapAt(j, end)
		}
		i = j
	}
}
