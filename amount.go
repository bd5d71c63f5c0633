package hare

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"strings"
)

// Amount is an exact objective value: a signed 128-bit number of units of 1e-12
// weight-seconds. A unit is one millionth of a weight times one microsecond.
type Amount struct {
	hi int64
	lo uint64
}

// ParseAmount reads a number of weight-seconds with at most twelve decimals exactly.
func ParseAmount(text string) (Amount, error) {
	x, err := parseExact(text)
	if err != nil {
		return Amount{}, err
	}
	a, ok := AmountFromBig(x)
	if !ok {
		return Amount{}, ErrDecimalRange
	}
	return a, nil
}

// FloorAmount returns b rounded down to six decimals. It returns false if b is too
// large.
func FloorAmount(b *big.Rat) (Amount, bool) {
	x := new(big.Int).Mul(b.Num(), big.NewInt(1e6))
	x.Div(x, b.Denom()) // Div is Euclidean, so it rounds down
	return AmountFromBig(x.Mul(x, big.NewInt(1e6)))
}

// Product returns weightMicro · timeUs. It cannot overflow.
func Product(weightMicro, timeUs int64) Amount {
	neg := (weightMicro < 0) != (timeUs < 0)
	hi, lo := bits.Mul64(magnitude(weightMicro), magnitude(timeUs))
	a := Amount{int64(hi), lo}
	if neg {
		return a.Neg()
	}
	return a
}

// Add returns a + b. Sums wrap around beyond 128 bits, which valid instances never reach.
func (a Amount) Add(b Amount) Amount {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(uint64(a.hi), uint64(b.hi), carry)
	return Amount{int64(hi), lo}
}

// Neg returns −a.
func (a Amount) Neg() Amount {
	lo, carry := bits.Add64(^a.lo, 1, 0)
	return Amount{int64(^uint64(a.hi) + carry), lo}
}

// Sub returns a − b.
func (a Amount) Sub(b Amount) Amount { return a.Add(b.Neg()) }

// Sign returns −1, 0 or 1.
func (a Amount) Sign() int {
	switch {
	case a.hi < 0:
		return -1
	case a.hi == 0 && a.lo == 0:
		return 0
	}
	return 1
}

// Cmp returns −1, 0 or 1 if a is less than, equal to or greater than b.
func (a Amount) Cmp(b Amount) int {
	if c := cmp.Compare(a.hi, b.hi); c != 0 {
		return c
	}
	return cmp.Compare(a.lo, b.lo)
}

// Big returns a as a big integer in units of 1e-12 weight-seconds.
func (a Amount) Big() *big.Int {
	x := new(big.Int).SetInt64(a.hi)
	x.Lsh(x, 64)
	return x.Add(x, new(big.Int).SetUint64(a.lo))
}

// AmountFromBig converts x units of 1e-12. It returns false outside 128 bits.
func AmountFromBig(x *big.Int) (a Amount, ok bool) {
	if x.BitLen() > 126 {
		return Amount{}, false
	}
	m := new(big.Int).Abs(x)
	a.lo = new(big.Int).And(m, new(big.Int).SetUint64(^uint64(0))).Uint64()
	a.hi = int64(new(big.Int).Rsh(m, 64).Uint64())
	if x.Sign() < 0 {
		a = a.Neg()
	}
	return a, true
}

// Float returns the nearest float64 in weight-seconds.
func (a Amount) Float() float64 {
	f, _ := new(big.Rat).SetFrac(a.Big(), big.NewInt(1e12)).Float64()
	return f
}

// String returns the exact decimal without trailing zeros.
func (a Amount) String() string { return trimZeros(decimal(a.Big())) }

// trimZeros returns a decimal without trailing zeros.
func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// decimal prints x units of 1e-12 with twelve decimals. It overwrites x.
func decimal(x *big.Int) string {
	sign := ""
	if x.Sign() < 0 {
		sign = "-"
		x.Neg(x)
	}
	q, r := new(big.Int).QuoRem(x, big.NewInt(1e12), new(big.Int))
	return fmt.Sprintf("%s%s.%012d", sign, q, r)
}

// RoundDown returns a rounded down to a multiple of 1e-6. Printed bounds are rounded so.
func (a Amount) RoundDown() Amount {
	m := big.NewInt(1e6)
	x := a.Big()
	x.Div(x, m) // Div is Euclidean: it rounds towards −∞ for m > 0
	b, _ := AmountFromBig(x.Mul(x, m))
	return b
}

// Bound6 prints a rounded down to six decimals, e.g. "37.614500".
func (a Amount) Bound6() string {
	s := decimal(a.RoundDown().Big())
	return s[:len(s)-6]
}

// MarshalJSON writes the exact decimal as a JSON number.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalJSON reads the exact decimal. null leaves the amount as it is.
func (a *Amount) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	read, err := ParseAmount(string(text))
	*a = read
	return err
}

var errAmountPlaces = errors.New("has more than twelve decimals")

// exactDigits limits the decimal digits of the number that parseExact returns; an Amount has
// at most 39.
const exactDigits = 60

// TrimDecimal writes a decimal of at most twelve decimals without needless zeros and
// without an exponent. The number may be outside the range of an Amount.
func TrimDecimal(text string) (string, error) {
	x, err := parseExact(text)
	if err != nil {
		return "", err
	}
	return trimZeros(decimal(x)), nil
}

// parseExact reads a number with at most twelve decimals in units of 1e-12. It takes
// O(len(text)), whatever the exponent.
func parseExact(text string) (*big.Int, error) {
	digits, shift, neg, err := splitDecimal(text, 12)
	switch {
	case err != nil:
		return nil, err
	case digits == "":
		return new(big.Int), nil
	case shift < 0:
		return nil, errAmountPlaces
	case len(digits)+shift > exactDigits:
		return nil, ErrDecimalRange
	}
	x, ok := new(big.Int).SetString(digits+strings.Repeat("0", shift), 10)
	if !ok {
		return nil, ErrDecimalSyntax
	}
	if neg {
		x.Neg(x)
	}
	return x, nil
}
