package hare

import (
	"errors"
	"math/big"
	"strings"
)

var errAmountPlaces = errors.New("has more than twelve decimals")

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
