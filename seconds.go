package hare

import "math/big"

// Seconds counts microseconds, or micro-units of a weight, and is written in
// JSON as a decimal number of whole ones.
type Seconds int64

// MarshalJSON writes the exact decimal.
func (s Seconds) MarshalJSON() ([]byte, error) { return []byte(FormatMicros(int64(s))), nil }

// UnmarshalJSON reads it.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	n, err := ParseMicros(string(text))
	*s = Seconds(n)
	return err
}

func (s Seconds) String() string { return FormatMicros(int64(s)) }

// FloorAmount is b rounded down to six decimals; false where it is too large.
func FloorAmount(b *big.Rat) (Amount, bool) {
	x := new(big.Int).Mul(b.Num(), big.NewInt(1e6))
	x.Div(x, b.Denom()) // Euclidean, so down
	return AmountFromBig(x.Mul(x, big.NewInt(1e6)))
}
