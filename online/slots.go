package online

import "math/bits"

// slotSet is a set of small integers that finds its least member: a tree with 64
// bits in each node and four levels, enough for 2^24 integers. Every operation is
// O(1).
type slotSet struct {
	levels [4][]uint64
	n      int
}

func (s *slotSet) add(i int32) {
	s.n++
	x := int(i)
	for l := range s.levels {
		word := x >> 6
		for len(s.levels[l]) <= word {
			s.levels[l] = append(s.levels[l], 0)
		}
		w := &s.levels[l][word]
		if *w |= 1 << (x & 63); *w&(*w-1) != 0 {
			return // the node was not empty, so its bit above is set
		}
		x = word
	}
}

// remove takes out i, which must be in the set.
func (s *slotSet) remove(i int32) {
	s.n--
	x := int(i)
	for l := range s.levels {
		word := x >> 6
		s.levels[l][word] &^= 1 << (x & 63)
		if s.levels[l][word] != 0 {
			return
		}
		x = word
	}
}

// least returns the smallest member of a set that is not empty.
func (s *slotSet) least() int32 {
	x := 0
	for l := len(s.levels) - 1; l >= 0; l-- {
		x = x<<6 | bits.TrailingZeros64(s.levels[l][x])
	}
	return int32(x)
}
