package hare

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"
)

// These are the faults of a decimal number.
var (
	ErrDecimalSyntax = errors.New("is not a decimal number")
	ErrDecimalPlaces = errors.New("has more than six decimals: round it to millionths")
	ErrDecimalRange  = errors.New("is too large")
)

// MaxExact is the largest integer that every JSON reader holds exactly (2^53). MaxExact
// limits each time in microseconds, each weight in micro-units, each count, and the length
// of the sequential schedule of an instance.
const MaxExact = 1 << 53

// product multiplies two numbers from 0 to MaxExact. It returns false if the product is larger.
func product(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(lo), hi == 0 && lo <= MaxExact
}

// ParseMicros reads a JSON number as an exact count of millionths. It never uses a
// float; more than six decimals are an error and are not rounded. It takes O(len(text)),
// whatever the exponent.
func ParseMicros(text string) (int64, error) { return ParseDecimal(text, 6) }

// ParseDecimal reads a decimal number as an exact count of 10^-places.
func ParseDecimal(text string, places int) (int64, error) {
	digits, shift, neg, err := splitDecimal(text, places)
	switch {
	case err != nil:
		return 0, err
	case digits == "":
		return 0, nil
	case shift < 0:
		return 0, ErrDecimalPlaces
	case len(digits)+shift > 19:
		return 0, ErrDecimalRange
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, ErrDecimalSyntax
	}
	for range shift {
		n *= 10 // below 10^19 < 2^64
	}
	switch {
	case neg && n <= 1<<63:
		return -int64(n), nil
	case n > 1<<63-1:
		return 0, ErrDecimalRange
	}
	return int64(n), nil
}

// splitDecimal reads a decimal number as digits, which neither begin nor end with a
// zero, and the power of ten that makes the digits a count of 10^-places. A number that
// is zero has no digits. It takes O(len(text)), whatever the exponent.
func splitDecimal(text string, places int) (digits string, shift int, neg bool, err error) {
	mantissa, neg := strings.CutPrefix(text, "-")
	exponent := 0
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		e, err := strconv.Atoi(mantissa[i+1:])
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return "", 0, false, ErrDecimalSyntax
		}
		// Atoi returns the nearest integer if the exponent is out of range. The longest mantissa
		// has less than 2^30 digits, so this limit changes no result.
		mantissa, exponent = mantissa[:i], max(-1<<30, min(1<<30, e))
	}
	whole, fraction, dotted := strings.Cut(mantissa, ".")
	if whole == "" || dotted && fraction == "" || !allDigits(whole) || !allDigits(fraction) {
		return "", 0, false, ErrDecimalSyntax
	}
	long := strings.TrimLeft(whole+fraction, "0")
	digits = strings.TrimRight(long, "0")
	return digits, exponent - len(fraction) + places + len(long) - len(digits), neg, nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// FormatMicros writes n millionths as the shortest exact decimal.
func FormatMicros(n int64) string { return string(AppendMicros(nil, n)) }

// FormatMillis writes n thousandths, of at most MaxExact / 1000, as the shortest exact
// decimal.
func FormatMillis(n int64) string { return FormatMicros(n * 1000) }

// AppendMicros appends n millionths as the shortest exact decimal to b.
func AppendMicros(b []byte, n int64) []byte {
	u := magnitude(n)
	if n < 0 {
		b = append(b, '-')
	}
	if whole := u / 1e6; whole < 10 {
		b = append(b, byte('0'+whole))
	} else {
		b = strconv.AppendUint(b, whole, 10)
	}
	f := uint32(u % 1e6)
	if f == 0 {
		return b
	}
	high, middle, low := f/1e4*2, f/100%100*2, f%100*2
	b = append(b, '.', pairs[high], pairs[high+1], pairs[middle], pairs[middle+1], pairs[low], pairs[low+1])
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}

// pairs are the numbers from 00 to 99.
const pairs = "00010203040506070809" + "10111213141516171819" + "20212223242526272829" + "30313233343536373839" +
	"40414243444546474849" +
	"50515253545556575859" + "60616263646566676869" + "70717273747576777879" + "80818283848586878889" +
	"90919293949596979899"

func magnitude(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

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
