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
	x, err := parseExact(text)
	if err != nil {
		return Amount{}, err
	}
	a, ok := AmountFromBig(x)
	if !ok {
		return Amount{}, errDecimalRange
	}
	return a, nil
}

// parseExact reads a decimal with at most twelve decimals, in units of 1e-12.
func parseExact(text string) (*big.Int, error) {
	s, neg := text, false
	if strings.HasPrefix(s, "-") {
		s, neg = s[1:], true
	}
	exponent := 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		switch {
		case errors.Is(err, strconv.ErrRange) || e > 100 || e < -100:
			return nil, errDecimalRange
		case err != nil:
			return nil, errDecimalSyntax
		}
		s, exponent = s[:i], e
	}
	whole, fraction, dotted := strings.Cut(s, ".")
	switch {
	case whole == "" || dotted && fraction == "" || !allDigits(whole) || !allDigits(fraction):
		return nil, errDecimalSyntax
	case len(whole)+len(fraction) > 100: // 39 digits fill an Amount
		return nil, errDecimalRange
	}
	x, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return nil, errDecimalSyntax
	}
	shift := 12 + exponent - len(fraction)
	pow := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(shift, -shift))), nil)
	if shift >= 0 {
		x.Mul(x, pow)
	} else {
		rest := new(big.Int)
		if x.QuoRem(x, pow, rest); rest.Sign() != 0 {
			return nil, errAmountPlaces
		}
	}
	if neg {
		x.Neg(x)
	}
	return x, nil
}
