package relax

import (
	"math"
)

// segment is part of the lower convex hull of one piece of time: up to cap
// rounds at slope each; full use moves the piece's seconds from one mode to
// another (−1: idle).
type segment struct {
	slope, cap   float64
	start, len   float64 // of the piece
	from, to     int16   // to may be offered
	fcell, tcell int32
}

// offered marks the segment that stands for all dearer ones.
const offered = int16(-2)

// segments are those that may do some of a job's rounds, the dearest first:
// new ones are mostly the cheapest, so they go to the end and the dearest
// leave at head.
type segments struct {
	list        []segment // from head on, by falling slope
	head        int
	total, cost float64 // Σ cap, Σ cap·slope
	peak        float64 // the greatest cost since it was last summed up anew
}

func (b *segments) reset() { b.list, b.head, b.total, b.cost, b.peak = b.list[:0], 0, 0, 0, 0 }

// cancelled is how far cost may fall below its peak before the rounding errors
// of the peak are summed away.
const cancelled = 100

// insert adds s in order and drops what can never be used to do rounds.
// O(segments cheaper than s).
func (b *segments) insert(s segment, rounds float64) {
	if b.total >= rounds && s.slope >= b.list[b.head].slope {
		return
	}
	s.cap = min(s.cap, rounds) // more would only blur the sums
	i := len(b.list)
	b.list = append(b.list, s)
	for i > b.head && b.list[i-1].slope <= s.slope {
		i--
	}
	if i+1 < len(b.list) {
		copy(b.list[i+1:], b.list[i:])
		b.list[i] = s
	}
	b.total += s.cap
	b.cost += s.cap * s.slope
	for ; b.head+1 < len(b.list) && b.total-b.list[b.head].cap >= rounds; b.head++ {
		b.total -= b.list[b.head].cap
		b.cost -= b.list[b.head].cap * b.list[b.head].slope
	}
	if b.peak = max(b.peak, b.cost); b.peak > cancelled*b.cost {
		b.cost = 0
		for i := b.head; i < len(b.list); i++ {
			b.cost += b.list[i].cap * b.list[i].slope
		}
		b.peak = b.cost
	}
}

// useful is the slope from which on segments are of no use beside those kept.
func (b *segments) useful(rounds float64) float64 {
	if b.total >= rounds {
		return b.list[b.head].slope
	}
	return math.Inf(1)
}
