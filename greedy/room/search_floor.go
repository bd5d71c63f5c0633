package room

import "math/bits"

// Floor remembers times before which searches in a StepFunction found no place,
// while nothing frees GPUs: the next search for a place as long and as wide, or longer
// and wider, starts there. It changes no result.
type Floor struct {
	// at[a][b] is a time before which there is no place of the length a for 2^b GPUs.
	at [64 * floorLengths][floorWidths]int64
}

const (
	// floorLengths is how many lengths a Floor distinguishes between two powers of two.
	floorLengths = 8
	// floorWidths is how many powers of two of GPUs a Floor distinguishes; the last
	// stands for all greater ones too.
	floorWidths = 12
)

// Reset must be called when GPUs become free.
func (sf *Floor) Reset() { clear(sf.at[:]) }

// lengthIndex is the greatest of the lengths a Floor distinguishes that is at
// most hold > 0, and whether the two are equal.
func lengthIndex(hold int64) (index int, equal bool) {
	n := bits.Len64(uint64(hold)) - 1
	first := uint64(hold) << (63 - n) // the first bit is 1
	return n*floorLengths + int(first>>60)&(floorLengths-1), first<<4 == 0
}

// earliest is fn.earliest.
func (sf *Floor) earliest(fn StepFunction, from, hold, need int64) (start int64, at int) {
	a, equal := lengthIndex(hold)
	known := sf.at[a][min(bits.Len64(uint64(need))-1, floorWidths-1)]
	start, at = fn.earliest(max(from, known), hold, need)
	if !equal {
		a++
	}
	// What is as long and wide as the next of the lengths and widths has no place before.
	if b := bits.Len64(uint64(need - 1)); from <= known && b < floorWidths && a < len(sf.at) {
		sf.at[a][b] = max(sf.at[a][b], start)
	}
	return start, at
}
