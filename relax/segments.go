package relax

import (
	"math"
)

// segment is part of the lower convex hull of one piece of time: up to cap rounds at
// slope each. Full use moves the piece's seconds from one mode to another (−1: idle).
type segment struct {
	slope, cap   float64
	start, len   float64 // of the piece
	from, to     int16   // to may be artificial
	fcell, tcell int32
}

// artificial marks the segment that stands for all dearer ones.
const artificial = int16(-2)

// segments are the segments that may do some of a job's rounds, the dearest first. New
// segments are mostly the cheapest, so they are appended at the end, and the dearest
// leave at head.
type segments struct {
	list        []segment // from head on, by falling slope
	head        int
	total, cost float64 // Σ cap, Σ cap·slope
	peak        float64 // the greatest cost since it was last summed up again
}

func (ss *segments) reset() { ss.list, ss.head, ss.total, ss.cost, ss.peak = ss.list[:0], 0, 0, 0, 0 }

// cancelled is the factor by which cost may fall below its peak before it is summed up
// again to remove the rounding errors of the peak.
const cancelled = 100

// insert adds s in order and removes segments that can never be used to do rounds. It
// takes O(segments cheaper than s).
func (ss *segments) insert(s segment, rounds float64) {
	if ss.total >= rounds && s.slope >= ss.list[ss.head].slope {
		return
	}
	s.cap = min(s.cap, rounds) // a larger cap would only blur the sums
	i := len(ss.list)
	ss.list = append(ss.list, s)
	for i > ss.head && ss.list[i-1].slope <= s.slope {
		i--
	}
	if i+1 < len(ss.list) {
		copy(ss.list[i+1:], ss.list[i:])
		ss.list[i] = s
	}
	ss.total += s.cap
	ss.cost += s.cap * s.slope
	for ; ss.head+1 < len(ss.list) && ss.total-ss.list[ss.head].cap >= rounds; ss.head++ {
		ss.total -= ss.list[ss.head].cap
		ss.cost -= ss.list[ss.head].cap * ss.list[ss.head].slope
	}
	if ss.peak = max(ss.peak, ss.cost); ss.peak > cancelled*ss.cost {
		ss.cost = 0
		for i := ss.head; i < len(ss.list); i++ {
			ss.cost += ss.list[i].cap * ss.list[i].slope
		}
		ss.peak = ss.cost
	}
}

// useful returns the slope from which on further segments are of no use.
func (ss *segments) useful(rounds float64) float64 {
	if ss.total >= rounds {
		return ss.list[ss.head].slope
	}
	return math.Inf(1)
}
