package relax

import (
	"math/big"

	"github.com/hare-sched/hare"
)

// product returns a · b · c.
func product[T int64 | *big.Int](a, b int64, c T) *big.Int {
	x := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	switch c := any(c).(type) {
	case int64:
		return x.Mul(x, big.NewInt(c))
	case *big.Int:
		return x.Mul(x, c)
	}
	return x
}

// ratAmount rounds x, in 1e-15 weight-seconds, down to an Amount.
func ratAmount(x *big.Rat) hare.Amount {
	d := new(big.Int).Mul(x.Denom(), big.NewInt(1000))
	a, ok := hare.AmountFromBig(new(big.Int).Div(x.Num(), d))
	if !ok {
		return hare.Amount{}
	}
	return a
}

// gcd returns the greatest common divisor.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
