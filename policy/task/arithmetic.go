package task

import (
	"math"
	"math/bits"
)

// The functions of this file are for numbers that are not negative. Where the result is
// too large, it is the largest int64.

func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}

// mulDivUp is a·b/c rounded up, for c > 0.
func mulDivUp(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	low, carry := bits.Add64(low, uint64(c-1), 0)
	if high += carry; high >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(high, low, uint64(c))
	return int64(min(q, math.MaxInt64))
}
