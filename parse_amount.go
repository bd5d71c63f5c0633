package hare

import (
	"errors"
	"math/big"
	"strconv"
	"strings"
)

var errAmountPlaces = errors.New("has more than twelve decimals")

// ParseAmount reads a decimal of weight-seconds with at most twelve decimals,
// exactly.
func ParseAmount(text string) (Amount, error) {
	s, neg := text, false
	if strings.HasPrefix(s, "-") {
		s, neg = s[1:], true
	}
	exponent := 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		switch {
		case errors.Is(err, strconv.ErrRange) || e > 100 || e < -100:
			return Amount{}, errDecimalRange
		case err != nil:
			return Amount{}, errDecimalSyntax
		}
		s, exponent = s[:i], e
	}
	whole, fraction, dotted := strings.Cut(s, ".")
	switch {
	case whole == "" || dotted && fraction == "" || !allDigits(whole) || !allDigits(fraction):
		return Amount{}, errDecimalSyntax
	case len(whole)+len(fraction) > 100: // 39 digits fill an Amount
		return Amount{}, errDecimalRange
	}
	x, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return Amount{}, errDecimalSyntax
	}
	shift := 12 + exponent - len(fraction)
	pow := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(shift, -shift))), nil)
	if shift >= 0 {
		x.Mul(x, pow)
	} else {
		rest := new(big.Int)
		if x.QuoRem(x, pow, rest); rest.Sign() != 0 {
			return Amount{}, errAmountPlaces
		}
	}
	if neg {
		x.Neg(x)
	}
	a, ok := AmountFromBig(x)
	if !ok {
		return Amount{}, errDecimalRange
	}
	return a, nil
}
