package greedy

import (
	"math/bits"

	"github.com/hare-sched/hare"
)

// cells is the number of free GPUs of a class in each unit of time, for
// instances whose times are multiples of a coarse unit: what a step function
// answers by walking its steps, this answers 64 units at a time.
type cells struct {
	free []int32  // by unit of time; a multiple of 64
	open []uint64 // bit t: free[t] > 0
	// tail is the number from len(free) on, and limit the most units there may
	// be: what would end later has no place.
	tail  int32
	limit int64
}

// newCells has the GPUs of a class with windows in units of time.
func newCells(c *hare.Class, limit int64) *cells {
	g := &cells{limit: limit}
	for _, w := range c.Windows {
		if w.StartUs >= limit {
			break
		}
		g.grow(w.StartUs)
		if w.EndUs == hare.Forever {
			// All that comes is free; what is there from the start on too.
			g.tail = int32(len(c.GPUs))
			g.add(w.StartUs, int64(len(g.free)), g.tail)
			break
		}
		g.add(w.StartUs, min(w.EndUs, limit), int32(len(c.GPUs)))
	}
	return g
}

func (g *cells) copyFrom(o *cells) {
	g.free = append(g.free[:0], o.free...)
	g.open = append(g.open[:0], o.open...)
	g.tail, g.limit = o.tail, o.limit
}

// grow makes room for the units before to.
func (g *cells) grow(to int64) {
	for int64(len(g.free)) < to {
		word := uint64(0)
		if g.tail > 0 {
			word = ^word
		}
		g.open = append(g.open, word)
		for range 64 {
			g.free = append(g.free, g.tail)
		}
	}
}

// add changes the free count by n within [from, to). O(to − from).
func (g *cells) add(from, to int64, n int32) {
	if from >= to {
		return
	}
	g.grow(to)
	free := g.free[from:to]
	for x := range free {
		f := free[x] + n
		free[x] = f
		if f == 0 {
			t := uint64(from) + uint64(x)
			g.open[t>>6] &^= 1 << (t & 63)
		}
	}
	if n <= 0 {
		return
	}
	first, last := from>>6, (to-1)>>6
	low, high := ^uint64(0)<<(from&63), ^uint64(0)>>(63-(to-1)&63)
	if first == last {
		g.open[first] |= low & high
		return
	}
	g.open[first] |= low
	for x := first + 1; x < last; x++ {
		g.open[x] = ^uint64(0)
	}
	g.open[last] |= high
}

// word is word x of open, also behind its end.
func (g *cells) word(x int64) uint64 {
	if x < int64(len(g.open)) {
		return g.open[x]
	}
	if g.tail > 0 {
		return ^uint64(0)
	}
	return 0
}

// starts has a bit for each of the 64 times of word x from which on a GPU is
// free for hold ≤ 64 units.
func (g *cells) starts(x, hold int64) uint64 {
	low := g.word(x)
	if low == 0 {
		return 0
	}
	high := g.word(x + 1)
	// After each turn a bit stands for have free units in a row.
	for have := int64(1); have < hold; {
		by := uint(min(have, hold-have))
		low &= low>>by | high<<(64-by)
		high &= high >> by
		have += int64(by)
	}
	return low
}

// earliest is the first start between from and limit at which at least a GPU
// is free for hold, and how many are. start is never when there is none.
func (g *cells) earliest(from, limit, hold int64) (start int64, count int32) {
	if hold > 64 {
		return g.earliestLong(from, limit, hold)
	}
	n := int64(len(g.open))
	mask := ^uint64(0) << (from & 63)
	for x := from >> 6; x<<6 <= limit; x++ {
		if s := g.starts(x, hold) & mask; s != 0 {
			if start = x<<6 + int64(bits.TrailingZeros64(s)); start > limit {
				return never, 0
			}
			return g.counted(start, hold)
		}
		if x >= n {
			break // the tail has none
		}
		mask = ^uint64(0)
	}
	return never, 0
}

// counted is start with what is free for hold then.
func (g *cells) counted(start, hold int64) (int64, int32) {
	if start+hold > g.limit {
		return never, 0
	}
	g.grow(start + hold)
	span := g.free[start : start+hold]
	n := span[0]
	for _, f := range span[1:] {
		n = min(n, f)
	}
	return start, n
}

// earliestLong is earliest for any hold.
func (g *cells) earliestLong(from, limit, hold int64) (start int64, count int32) {
	n := int64(len(g.free))
	for start = from; start <= limit; {
		if start = g.next(start, 0); start > limit {
			break
		}
		if start >= n {
			if g.tail == 0 {
				break
			}
			return g.counted(start, hold)
		}
		end := g.next(start, ^uint64(0))
		if end-start >= hold || end >= n && g.tail > 0 {
			return g.counted(start, hold)
		}
		start = end
	}
	return never, 0
}

// next is the first time from t on, up to the end of the cells, at which open
// differs from flip.
func (g *cells) next(t int64, flip uint64) int64 {
	n := int64(len(g.open))
	x := t >> 6
	if x >= n {
		return t
	}
	for w := (g.open[x] ^ flip) & (^uint64(0) << (t & 63)); ; w = g.open[x] ^ flip {
		if w != 0 {
			return x<<6 + int64(bits.TrailingZeros64(w))
		}
		if x++; x == n {
			return x << 6
		}
	}
}

// latest is the last start ≥ from such that start + hold ≤ by with at least a
// GPU free, and how many are; never when there is none.
func (g *cells) latest(from, by, hold int64) (start int64, count int32) {
	last := by - hold
	if last < from {
		return never, 0
	}
	if hold > 64 {
		return g.latestLong(from, by, hold)
	}
	mask := ^uint64(0) >> (63 - last&63)
	for x := last >> 6; x<<6+63 >= from; x-- {
		if s := g.starts(x, hold) & mask; s != 0 {
			if start = x<<6 + 63 - int64(bits.LeadingZeros64(s)); start < from {
				return never, 0
			}
			return g.counted(start, hold)
		}
		mask = ^uint64(0)
	}
	return never, 0
}

// latestLong is latest for any hold.
func (g *cells) latestLong(from, by, hold int64) (start int64, count int32) {
	g.grow(min(by, g.limit))
	end := min(by, g.limit) // of the times looked at
	for end-hold >= from {
		// The last time before end that is not open.
		x := (end - 1) >> 6
		w := ^g.open[x] & (^uint64(0) >> (63 - (end-1)&63))
		for w == 0 && x > 0 && x<<6 > end-hold {
			x--
			w = ^g.open[x]
		}
		shut := int64(-1)
		if w != 0 {
			shut = x<<6 + 63 - int64(bits.LeadingZeros64(w))
		}
		if shut < end-hold {
			return g.counted(end-hold, hold)
		}
		end = shut
	}
	return never, 0
}
