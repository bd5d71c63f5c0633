package estimate

import (
	"math"
	"math/bits"
)

// LogUnit is what the logarithms of this package count for a factor of 2. They are
// integers, because the logarithms of floating-point numbers differ between machines.
const LogUnit = 256

// Log2 is LogUnit times the binary logarithm of v, rounded down; v must be positive.
func Log2(v int64) int64 {
	whole := int64(bits.Len64(uint64(v)) - 1)
	m := uint64(v) << (63 - whole) // in [2^63, 2^64)
	out := whole
	for range 8 {
		high, _ := bits.Mul64(m, m) // in [2^62, 2^64)
		out <<= 1
		if high>>63 == 1 {
			out |= 1
			m = high
		} else {
			m = high << 1
		}
	}
	return out
}

// roots are 2^(1/2), 2^(1/4), …, 2^(1/256), times 2^63.
var roots = [8]uint64{
	0xb504f333f9de6484, 0x9837f0518db8a96f, 0x8b95c1e3ea8bd6e6, 0x85aac367cc487b14,
	0x82cd8698ac2ba1d7, 0x8164d1f3bc030773, 0x80b1ed4fd999ab6c, 0x8058d7d2d5e5f6b0,
}

// powers are 2^(log/LogUnit), times 2^63.
var powers = func() (of [LogUnit]uint64) {
	for log := range of {
		m := uint64(1) << 63
		for i, root := range roots {
			if log>>(7-i)&1 == 1 {
				high, low := bits.Mul64(m, root)
				m = high<<1 | low>>63
			}
		}
		of[log] = m
	}
	return of
}()

// Exp2 is the inverse of Log2 up to rounding: 2^(log/LogUnit), from 1 to the largest
// int64.
func Exp2(log int64) int64 {
	switch {
	case log < 0:
		return 1
	case log >= 63*LogUnit:
		return math.MaxInt64
	}
	return int64(powers[log%LogUnit] >> (63 - log/LogUnit))
}
