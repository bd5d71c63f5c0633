package service

import (
	"math"

	"github.com/hare-sched/hare"
)

// Seconds counts microseconds, or micro-units of a weight, and is written in
// JSON as a decimal number of whole ones.
type Seconds int64

// MarshalJSON writes the exact decimal.
func (s Seconds) MarshalJSON() ([]byte, error) { return []byte(hare.FormatMicros(int64(s))), nil }

// UnmarshalJSON reads it.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	n, err := hare.ParseMicros(string(text))
	*s = Seconds(n)
	return err
}

func (s Seconds) String() string { return hare.FormatMicros(int64(s)) }

// sixDecimals keeps six decimals of a figure for people.
func sixDecimals(x float64) float64 { return math.Round(x*1e6) / 1e6 }
