// Package words writes counts, times, numbers and the names that others gave for people. Documents for programs have
// exact numbers and names as they are.
package words

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Count counts things: 1 job, 2 jobs.
func Count[N ~int | ~int64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Microseconds of the units of Duration.
const (
	second = 1_000_000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// Duration writes microseconds: with three digits below two minutes, in two units above, such as 17 h 18 min. What
// is less than the smaller unit is left out.
func Duration[N ~int64](us N) string { return inUnitsOf(int64(us), int64(us)) }

// Alike is Duration of two times that are compared, in the same units: 1 h 50 min and 2 h 3 min, not 110 min and
// 2 h 3 min. A time that is less than the greater unit keeps its own.
func Alike[N ~int64](a, b N) (string, string) {
	return inUnitsOf(int64(a), int64(max(a, b))), inUnitsOf(int64(b), int64(max(a, b)))
}

// inUnitsOf writes microseconds in the units that suit other ones.
func inUnitsOf(n, like int64) string {
	switch {
	case n == math.MinInt64:
		return Duration(n + 1)
	case n < 0:
		return "−" + Duration(-n)
	case n == 0:
		return "0 s"
	case n < 1000:
		return strconv.FormatInt(n, 10) + " µs"
	case n < second:
		return trimZeros(fmt.Sprintf("%.3f", float64(n)/1e3)) + " ms"
	case n < minute, n < 2*minute && like < 2*minute:
		return trimZeros(fmt.Sprintf("%.2f", float64(n)/1e6)) + " s"
	case n/second == hour/second: // not 60 min
		return "1 h"
	case n < hour, n < 2*hour && like < 2*hour:
		return twoUnits(n/minute, "min", n%minute/second, "s")
	case n < day, n < 2*day && like < 2*day:
		return twoUnits(n/hour, "h", n%hour/minute, "min")
	default:
		return twoUnits(n/day, "d", n%day/hour, "h")
	}
}

// RoundUp rounds microseconds, which are not negative, up to a time of which Duration leaves nothing out.
func RoundUp(us int64) int64 {
	down := RoundDown(us)
	if step := resolution(us); down < us && down <= math.MaxInt64-step {
		return down + step
	}
	return us
}

// RoundDown is RoundUp in the other direction.
func RoundDown(us int64) int64 { return us - us%resolution(us) }

// resolution is the least difference between times about us that Duration shows, in microseconds.
func resolution(us int64) int64 {
	switch {
	case us < second:
		return 1
	case us < 2*minute:
		return second / 100
	case us < 2*hour:
		return second
	case us < 2*day:
		return minute
	}
	return hour
}

// Seconds is Duration of seconds.
func Seconds(s float64) string {
	us := math.Round(s * 1e6)
	if math.IsNaN(us) || math.Abs(us) >= math.MaxInt64 {
		return fmt.Sprintf("%.0f s", s)
	}
	if math.Abs(us) >= 1000 { // no digits below a millisecond
		us = math.Round(us/1000) * 1000
	}
	return Duration(int64(us))
}

// twoUnits writes two units, without the second where it is zero.
func twoUnits(big int64, bigUnit string, small int64, smallUnit string) string {
	s := strconv.FormatInt(big, 10) + " " + bigUnit
	if small == 0 {
		return s
	}
	return fmt.Sprintf("%s %d %s", s, small, smallUnit)
}

// trimZeros removes zeros at the end of a fraction.
func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Short formats a number for people: whole from a thousand on, else with two decimals, and with two digits where
// it is below a hundredth. Numbers from a thousandth on never have an exponent.
func Short(x float64) string {
	switch size := math.Abs(x); {
	case size >= 1000:
		return fmt.Sprintf("%.0f", x)
	case size != 0 && size < 0.01:
		return fmt.Sprintf("%.2g", x)
	}
	return fmt.Sprintf("%.2f", x)
}
