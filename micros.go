package hare

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Faults of a decimal number.
var (
	errDecimalSyntax = errors.New("is not a decimal number")
	errDecimalPlaces = errors.New("has more than six decimals: round it to microseconds (or micro-units)")
	errDecimalRange  = errors.New("is too large")
)

// ParseMicros reads a JSON number as an exact count of millionths. It never
// goes through a float; more than six decimals are an error. O(len(text)).
func ParseMicros(text string) (int64, error) {
	s, neg := text, false
	if strings.HasPrefix(s, "-") {
		s, neg = s[1:], true
	}
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa = s[:i]
		e, err := strconv.Atoi(s[i+1:])
		if err != nil {
			var ne *strconv.NumError
			if !errors.As(err, &ne) || !errors.Is(ne.Err, strconv.ErrRange) {
				return 0, errDecimalSyntax
			}
			e = math.MaxInt32 // or its negative: both are out of range below
			if strings.HasPrefix(s[i+1:], "-") {
				e = -e
			}
		}
		exponent = max(-math.MaxInt32, min(math.MaxInt32, e))
	}
	whole, fraction, dotted := strings.Cut(mantissa, ".")
	if whole == "" || dotted && fraction == "" {
		return 0, errDecimalSyntax
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, errDecimalSyntax
		}
	}
	shift := exponent - len(fraction) + 6
	trimmed := strings.TrimRight(digits, "0")
	shift += len(digits) - len(trimmed)
	switch {
	case trimmed == "":
		return 0, nil
	case shift < 0:
		return 0, errDecimalPlaces
	case len(trimmed)+shift > 18:
		return 0, errDecimalRange
	}
	n, err := strconv.ParseInt(trimmed+strings.Repeat("0", shift), 10, 64)
	if err != nil {
		return 0, errDecimalRange
	}
	if neg {
		n = -n
	}
	return n, nil
}

// FormatMicros writes n millionths as the shortest exact decimal.
func FormatMicros(n int64) string { return string(appendMicros(nil, n)) }

func appendMicros(b []byte, n int64) []byte {
	u := magnitude(n)
	if n < 0 {
		b = append(b, '-')
	}
	b = strconv.AppendUint(b, u/1e6, 10)
	if f := u % 1e6; f > 0 {
		s := strconv.FormatUint(1e6+f, 10)
		b = append(b, '.')
		b = append(b, strings.TrimRight(s[1:], "0")...)
	}
	return b
}
