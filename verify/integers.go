package verify

import (
	"cmp"
	"fmt"
	"math/big"
	"math/bits"
	"strings"

	"github.com/hare-sched/hare"
)

// sum128 is an unsigned 128-bit sum of products.
type sum128 struct{ hi, lo uint64 }

// addProduct adds a·b for non-negative numbers. Sums stay within 128 bits, because lengths
// add up to at most 2^56 and prices are at most 2^53.
func (su *sum128) addProduct(a, b int64) { *su = su.plus(a, b) }

// plus returns s + a·b for non-negative numbers.
func (su sum128) plus(a, b int64) sum128 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return su.add(sum128{hi, lo})
}

func (su sum128) add(t sum128) sum128 {
	lo, carry := bits.Add64(su.lo, t.lo, 0)
	hi, _ := bits.Add64(su.hi, t.hi, carry)
	return sum128{hi, lo}
}

// sub returns s − t, which must not be negative.
func (su sum128) sub(t sum128) sum128 {
	lo, borrow := bits.Sub64(su.lo, t.lo, 0)
	hi, _ := bits.Sub64(su.hi, t.hi, borrow)
	return sum128{hi, lo}
}

// times returns s·n, which fits for n GPUs at the price of one slot each.
func (su sum128) times(n int64) sum128 {
	hi, lo := bits.Mul64(su.lo, uint64(n))
	return sum128{hi + su.hi*uint64(n), lo}
}

// compare returns −1, 0 or 1 if s is less than, equal to or greater than t.
func (su sum128) compare(t sum128) int {
	if su.hi != t.hi {
		return cmp.Compare(su.hi, t.hi)
	}
	return cmp.Compare(su.lo, t.lo)
}

func (su sum128) big() *big.Int {
	x := new(big.Int).SetUint64(su.hi)
	return x.Lsh(x, 64).Add(x, new(big.Int).SetUint64(su.lo))
}

// times multiplies integers of any size.
func times(xs ...int64) *big.Int {
	p := big.NewInt(1)
	for _, x := range xs {
		p.Mul(p, big.NewInt(x))
	}
	return p
}

// mul returns a·b for non-negative numbers; false beyond 2^53.
func mul(a, b int64) (int64, bool) {
	if a != 0 && b > hare.MaxExact/a {
		return 0, false
	}
	return a * b, true
}

// lessProduct reports whether a·b < c·d, for numbers that are not negative.
func lessProduct(a, b, c, d int64) bool {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	hi2, lo2 := bits.Mul64(uint64(c), uint64(d))
	return hi < hi2 || hi == hi2 && lo < lo2
}

func outside(x, least, most int64) bool { return x < least || x > most }

// thousandths writes a number of thousandths.
func thousandths(n int64) string {
	s := fmt.Sprintf("%d.%03d", n/1000, n%1000)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
