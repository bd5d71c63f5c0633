package hare

import "math/big"

// Seconds counts microseconds or micro-units of a weight. Its JSON is a decimal number
// of whole seconds or units.
type Seconds int64

// MarshalJSON writes the exact decimal.
func (sec Seconds) MarshalJSON() ([]byte, error) { return []byte(FormatMicros(int64(sec))), nil }

// UnmarshalJSON reads the exact decimal.
func (sec *Seconds) UnmarshalJSON(text []byte) error {
	n, err := ParseMicros(string(text))
	*sec = Seconds(n)
	return err
}

func (sec Seconds) String() string { return FormatMicros(int64(sec)) }

// FloorAmount returns b rounded down to six decimals. It returns false if b is too
// large.
func FloorAmount(b *big.Rat) (Amount, bool) {
	x := new(big.Int).Mul(b.Num(), big.NewInt(1e6))
	x.Div(x, b.Denom()) // Div is Euclidean, so it rounds down
	return AmountFromBig(x.Mul(x, big.NewInt(1e6)))
}
