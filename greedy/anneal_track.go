package greedy

import (
	"slices"

	"github.com/hare-sched/hare"
)

// step says that free GPUs are left from a time on, until the next step.
type step struct {
	from, free int64
}

// steps is a step function of time; the first step starts at 0. Neighbours
// differ. Unlike a profile it only ever fills up: the search that uses it goes
// back to snapshots instead of freeing GPUs.
type steps []step

// pool is a set of classes of one type whose windows differ only in how much of
// their beginning is cut off by busy GPUs. Counting the pool's GPUs together is
// exact: a GPU that starts late is one that held a job from time 0, and
// intervals given out by start always find their GPUs.
type pool struct {
	classes []int32 // by first start
}

// track is the free capacity of one type, a step function for each pool.
type track []steps

func (tr track) copyFrom(o track) {
	for i := range tr {
		tr[i] = append(tr[i][:0], o[i]...)
	}
}

func (tr track) equal(o track) bool {
	for i := range tr {
		if !slices.Equal(tr[i], o[i]) {
			return false
		}
	}
	return true
}

func newTrack(like track) track {
	tr := make(track, len(like))
	for i := range tr {
		tr[i] = slices.Clone(like[i])
	}
	return tr
}

// poolsOf groups the classes of type k into pools and returns their capacity.
func poolsOf(m *hare.Model, k int) ([]pool, track) {
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
			if isTail(m.Classes[pools[i].classes[0]].Windows, m.Classes[c].Windows) {
				pools[i].classes = append(pools[i].classes, c)
				continue next
			}
		}
		pools = append(pools, pool{classes: []int32{c}})
	}
	tr := make(track, len(pools))
	for i, p := range pools {
		free := &profile{times: []int64{0}, free: []int32{0}}
		for _, c := range p.classes {
			for _, w := range m.Classes[c].Windows {
				free.add(w.StartUs, w.EndUs, int32(len(m.Classes[c].GPUs)))
			}
		}
		for n, t := range free.times {
			tr[i] = append(tr[i], step{t, int64(free.free[n])})
		}
	}
	return pools, tr
}

// isTail says whether cut is what is left of windows from some time on.
func isTail(windows, cut []hare.Window) bool {
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

// index is the step that holds at t ≥ 0. O(log steps).
func (s steps) index(t int64) int {
	if len(s) == 1 || s[1].from > t {
		return 0
	}
	lo, hi := 1, len(s) // s[lo].from ≤ t < s[hi].from
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) >> 1); s[mid].from <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// earliest is the first start ≥ from at which need GPUs are free for hold, and
// the step that holds there; never when there is none. O(steps passed).
func (s steps) earliest(from, hold, need int64) (start int64, at int) {
	i := s.index(from)
	start = from
	for {
		for s[i].free < need {
			i++
			if i == len(s) {
				return never, 0
			}
			start = s[i].from
		}
		end := start + hold
		j := i + 1
		for j < len(s) && s[j].from < end && s[j].free >= need {
			j++
		}
		if j == len(s) || s[j].from >= end {
			return start, i
		}
		i = j
	}
}

// until is the time up to which need GPUs stay free from step i on.
func (s steps) until(i int, need int64) int64 {
	for ; i < len(s); i++ {
		if s[i].free < need {
			return s[i].from
		}
	}
	return never
}

// least is the smallest free count within [from, to).
func (s steps) least(from, to int64) int64 {
	i := s.index(from)
	n := s[i].free
	for i++; i < len(s) && s[i].from < to; i++ {
		n = min(n, s[i].free)
	}
	return n
}

// rise is the first time after t at which the count grows; never if none.
func (s steps) rise(t int64) int64 {
	for i := s.index(t) + 1; i < len(s); i++ {
		if s[i].free > s[i-1].free {
			return s[i].from
		}
	}
	return never
}

// take holds n GPUs within [from, to), from lying in step i. O(steps).
func (s *steps) take(i int, from, to, n int64) {
	a := *s
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
	*s = a
}
