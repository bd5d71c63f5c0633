package greedy

import (
	"slices"

	"github.com/hare-sched/hare"
)

// step says that free GPUs are left from the time from until the next step.
type step struct {
	from, free int64
}

// stepFunction is the number of free GPUs as a step function of time. Its first step
// starts at 0, and neighbouring steps differ. Unlike a profile, a stepFunction never
// frees GPUs: the search restores snapshots instead.
type stepFunction []step

// pool is a set of classes of one type whose windows differ only in how much of their
// beginning is cut off by busy GPUs. One count for all GPUs of the pool is exact: a GPU
// that starts late is a GPU that held a job from time 0, and intervals that are assigned
// in order of start always find their GPUs.
type pool struct {
	classes []int32 // in order of first start
}

// typeCapacity is the residual capacity of one type: one step function for each pool.
type typeCapacity []stepFunction

func (tc typeCapacity) copyFrom(o typeCapacity) {
	for i := range tc {
		tc[i] = append(tc[i][:0], o[i]...)
	}
}

func (tc typeCapacity) equal(o typeCapacity) bool {
	for i := range tc {
		if !slices.Equal(tc[i], o[i]) {
			return false
		}
	}
	return true
}

func newTypeCapacity(like typeCapacity) typeCapacity {
	tr := make(typeCapacity, len(like))
	for i := range tr {
		tr[i] = slices.Clone(like[i])
	}
	return tr
}

// poolsOf groups the classes of type k into pools and returns the pools and their
// capacity.
func poolsOf(m *hare.Model, k int) ([]pool, typeCapacity) {
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
	var pools []pool
next:
	for _, c := range classes {
		for i := range pools {
			if isSuffix(m.Classes[pools[i].classes[0]].Windows, m.Classes[c].Windows) {
				pools[i].classes = append(pools[i].classes, c)
				continue next
			}
		}
		pools = append(pools, pool{classes: []int32{c}})
	}
	tr := make(typeCapacity, len(pools))
	for i, p := range pools {
		free := fullyBusy()
		for _, c := range p.classes {
			for _, w := range m.Classes[c].Windows {
				free.add(w.StartUs, w.EndUs, int32(len(m.Classes[c].GPUs)))
			}
		}
		for n := range free.steps() {
			tr[i] = append(tr[i], step{free.time(n), int64(free.count(n))})
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

// index returns the step that holds at t ≥ 0. It takes O(log steps).
func (fn stepFunction) index(t int64) int {
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
func (fn stepFunction) earliest(from, hold, need int64) (start int64, at int) {
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

// freeUntil returns the time until which need GPUs stay free from step i on.
func (fn stepFunction) freeUntil(i int, need int64) int64 {
	for ; i < len(fn); i++ {
		if fn[i].free < need {
			return fn[i].from
		}
	}
	return never
}

// minFree returns the smallest free count within [from, to).
func (fn stepFunction) minFree(from, to int64) int64 {
	free, _ := fn.leastWithin(fn.index(from), to)
	return free
}

// leastWithin returns the smallest free count from the start of step i until the time to, and the end of the last step
// that has it. A range of the same length that starts before this end has no greater smallest count.
func (fn stepFunction) leastWithin(i int, to int64) (free, end int64) {
	free, last := fn[i].free, i
	for i++; i < len(fn) && fn[i].from < to; i++ {
		if fn[i].free <= free {
			free, last = fn[i].free, i
		}
	}
	if last+1 == len(fn) {
		return free, never
	}
	return free, fn[last+1].from
}

// nextIncrease returns the first time after t at which the count grows, or never.
func (fn stepFunction) nextIncrease(t int64) int64 {
	for i := fn.index(t) + 1; i < len(fn); i++ {
		if fn[i].free > fn[i-1].free {
			return fn[i].from
		}
	}
	return never
}

// reserve takes n GPUs within [from, to), where from lies in step i. It takes O(steps).
func (fn *stepFunction) reserve(i int, from, to, n int64) {
	a := *fn
	if a[i].from < from {
		i++
		a = append(a, step{})
		copy(a[i+1:], a[i:])
		a[i] = step{from, a[i-1].free}
	}
	j := i
	for ; j < len(a) && a[j].from < to; j++ {
		a[j].free -= n
	}
	if j == len(a) || a[j].from > to {
		a = append(a, step{})
		copy(a[j+1:], a[j:])
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
func (fn stepFunction) firstFree(from, need int64) int64 {
	if from == never {
		return never
	}
	i := fn.index(from)
	for ; fn[i].free < need; from = fn[i].from {
		if i++; i == len(fn) {
			return never
		}
	}
	return from
}

// firstFreeFor returns the first time ≥ from at which need GPUs are free for hold, or never.
func (fn stepFunction) firstFreeFor(from, hold, need int64) int64 {
	if hold == 0 || from == never {
		return fn.firstFree(from, need)
	}
	from, _ = fn.earliest(from, hold, need)
	return from
}

// gapAfter is gapAt for a block that ends at end.
func (fn stepFunction) gapAfter(end int64) int64 {
	i := fn.index(end)
	if fn[i].from < end {
		i++
	}
	return fn.gapAt(i, end)
}

// gapAt returns how far a block's end is from the next change of the free GPUs, which is at
// step i, or from the last change if there is none after it.
func (fn stepFunction) gapAt(i int, end int64) int64 {
	if i == len(fn) {
		return end - fn[i-1].from
	}
	return fn[i].from - end
}

// earliestBefore is earliest with a limit: the start is never if it would be after limit. It
// also returns the least number of free GPUs over the block, and the gap after it.
func (fn stepFunction) earliestBefore(from, hold, need, limit int64) (start, free, gap int64) {
	if from > limit {
		return never, 0, 0
	}
	i := fn.index(from)
	start = from
	for {
		for fn[i].free < need {
			i++
			if i == len(fn) {
				return never, 0, 0
			}
			start = fn[i].from
		}
		if start > limit {
			return never, 0, 0
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
