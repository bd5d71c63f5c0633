package room

import (
	"math/bits"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// Grid is the number of free GPUs of a class in each unit of time, for instances
// whose times are multiples of a coarse unit. A profile searches step by step; a
// Grid searches 64 units at a time in a bitset.
type Grid struct {
	free []int32  // by unit of time; the length is a multiple of 64
	open []uint64 // bit t: free[t] > 0
	// tail is the number of free GPUs from len(free) on. limit is the greatest number of
	// units: what would end later has no place.
	tail  int32
	limit int64
}

// NewGrid returns the GPUs of a class whose windows are in units of time.
func NewGrid(c *model.Class, limit int64) *Grid {
	tg := &Grid{limit: limit}
	for _, w := range c.Windows {
		if w.StartUs >= limit {
			break
		}
		tg.grow(w.StartUs)
		if w.EndUs == hare.Forever {
			// All units behind the grid are free, and those already there become free too.
			tg.tail = int32(len(c.GPUs))
			tg.Add(w.StartUs, int64(len(tg.free)), tg.tail)
			break
		}
		tg.Add(w.StartUs, min(w.EndUs, limit), int32(len(c.GPUs)))
	}
	return tg
}

// CopyFrom makes the grid equal to o.
func (tg *Grid) CopyFrom(o *Grid) {
	tg.free = append(tg.free[:0], o.free...)
	tg.open = append(tg.open[:0], o.open...)
	tg.tail, tg.limit = o.tail, o.limit
}

// grow extends the grid to the units before to.
func (tg *Grid) grow(to int64) {
	for int64(len(tg.free)) < to {
		word := uint64(0)
		if tg.tail > 0 {
			word = ^word
		}
		tg.open = append(tg.open, word)
		for range 64 {
			tg.free = append(tg.free, tg.tail)
		}
	}
}

// Add changes the free count by n within [from, to). It takes O(to − from).
func (tg *Grid) Add(from, to int64, n int32) {
	if from >= to {
		return
	}
	tg.grow(to)
	free := tg.free[from:to]
	for x := range free {
		f := free[x] + n
		free[x] = f
		if f == 0 {
			t := uint64(from) + uint64(x)
			tg.open[t>>6] &^= 1 << (t & 63)
		}
	}
	if n <= 0 {
		return
	}
	first, last := from>>6, (to-1)>>6
	low, high := ^uint64(0)<<(from&63), ^uint64(0)>>(63-(to-1)&63)
	if first == last {
		tg.open[first] |= low & high
		return
	}
	tg.open[first] |= low
	for x := first + 1; x < last; x++ {
		tg.open[x] = ^uint64(0)
	}
	tg.open[last] |= high
}

// word returns word x of open, also behind its end.
func (tg *Grid) word(x int64) uint64 {
	if x < int64(len(tg.open)) {
		return tg.open[x]
	}
	if tg.tail > 0 {
		return ^uint64(0)
	}
	return 0
}

// starts returns a bit for each of the 64 times of word x: whether a GPU is free from
// then on for hold ≤ 64 units.
func (tg *Grid) starts(x, hold int64) uint64 {
	low := tg.word(x)
	if low == 0 {
		return 0
	}
	high := tg.word(x + 1)
	// After each iteration a bit says that have units in a row are free.
	for have := int64(1); have < hold; {
		by := uint(min(have, hold-have))
		low &= low>>by | high<<(64-by)
		high &= high >> by
		have += int64(by)
	}
	return low
}

// Earliest returns the first start between from and limit at which at least one GPU is
// free for hold, and how many are free. The start is never if there is none.
func (tg *Grid) Earliest(from, limit, hold int64) (start int64, count int32) {
	if hold > 64 {
		return tg.earliestLong(from, limit, hold)
	}
	n := int64(len(tg.open))
	mask := ^uint64(0) << (from & 63)
	for x := from >> 6; x<<6 <= limit; x++ {
		if s := tg.starts(x, hold) & mask; s != 0 {
			if start = x<<6 + int64(bits.TrailingZeros64(s)); start > limit {
				return Never, 0
			}
			return tg.withCount(start, hold)
		}
		if x >= n {
			break // the tail has no free GPU
		}
		mask = ^uint64(0)
	}
	return Never, 0
}

// withCount returns start and the number of GPUs that are free for hold from then on.
func (tg *Grid) withCount(start, hold int64) (int64, int32) {
	if start+hold > tg.limit {
		return Never, 0
	}
	tg.grow(start + hold)
	span := tg.free[start : start+hold]
	n := span[0]
	for _, f := range span[1:] {
		n = min(n, f)
	}
	return start, n
}

// earliestLong is earliest for any hold.
func (tg *Grid) earliestLong(from, limit, hold int64) (start int64, count int32) {
	n := int64(len(tg.free))
	for start = from; start <= limit; {
		if start = tg.next(start, 0); start > limit {
			break
		}
		if start >= n {
			if tg.tail == 0 {
				break
			}
			return tg.withCount(start, hold)
		}
		end := tg.next(start, ^uint64(0))
		if end-start >= hold || end >= n && tg.tail > 0 {
			return tg.withCount(start, hold)
		}
		start = end
	}
	return Never, 0
}

// next returns the first time from t on, up to the end of the grid, at which open
// differs from flip.
func (tg *Grid) next(t int64, flip uint64) int64 {
	n := int64(len(tg.open))
	x := t >> 6
	if x >= n {
		return t
	}
	for w := (tg.open[x] ^ flip) & (^uint64(0) << (t & 63)); ; w = tg.open[x] ^ flip {
		if w != 0 {
			return x<<6 + int64(bits.TrailingZeros64(w))
		}
		if x++; x == n {
			return x << 6
		}
	}
}

// Latest returns the last start ≥ from such that start + hold ≤ by and at least one GPU
// is free, and how many are free. The start is never if there is none.
func (tg *Grid) Latest(from, by, hold int64) (start int64, count int32) {
	last := by - hold
	if last < from {
		return Never, 0
	}
	if hold > 64 {
		return tg.latestLong(from, by, hold)
	}
	mask := ^uint64(0) >> (63 - last&63)
	for x := last >> 6; x<<6+63 >= from; x-- {
		if s := tg.starts(x, hold) & mask; s != 0 {
			if start = x<<6 + 63 - int64(bits.LeadingZeros64(s)); start < from {
				return Never, 0
			}
			return tg.withCount(start, hold)
		}
		mask = ^uint64(0)
	}
	return Never, 0
}

// latestLong is latest for any hold.
func (tg *Grid) latestLong(from, by, hold int64) (start int64, count int32) {
	tg.grow(min(by, tg.limit))
	end := min(by, tg.limit) // the end of the times that are left to search
	for end-hold >= from {
		// shut becomes the last time before end that is not open.
		x := (end - 1) >> 6
		w := ^tg.open[x] & (^uint64(0) >> (63 - (end-1)&63))
		for w == 0 && x > 0 && x<<6 > end-hold {
			x--
			w = ^tg.open[x]
		}
		shut := int64(-1)
		if w != 0 {
			shut = x<<6 + 63 - int64(bits.LeadingZeros64(w))
		}
		if shut < end-hold {
			return tg.withCount(end-hold, hold)
		}
		end = shut
	}
	return Never, 0
}
