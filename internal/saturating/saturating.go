// Package saturating is arithmetic on numbers that are not negative, in which a result that
// is too large is the largest int64.
package saturating

import (
	"math"
	"math/bits"
)

// Add is a + b.
func Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Mul is a·b.
func Mul(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}

// MulDiv is a·b/c rounded down, for c > 0.
func MulDiv(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return div(high, low, uint64(c))
}

// MulDivUp is a·b/c rounded up, for c > 0.
func MulDivUp(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	low, carry := bits.Add64(low, uint64(c-1), 0)
	return div(high+carry, low, uint64(c))
}

// div divides a number of two words.
func div(high, low, c uint64) int64 {
	if high >= c {
		return math.MaxInt64
	}
	q, _ := bits.Div64(high, low, c)
	return int64(min(q, math.MaxInt64))
}
