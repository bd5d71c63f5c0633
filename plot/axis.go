package plot

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// tick is a mark on the time axis.
type tick struct {
	us    int64
	label string
}

const (
	second = int64(1e6)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// steps are the distances between ticks that people read easily.
var steps = func() []int64 {
	var out []int64
	for unit := int64(1); unit < second; unit *= 10 {
		out = append(out, unit, 2*unit, 5*unit)
	}
	out = append(out, second, 2*second, 5*second, 10*second, 15*second, 30*second,
		minute, 2*minute, 5*minute, 10*minute, 15*minute, 30*minute,
		hour, 2*hour, 3*hour, 6*hour, 12*hour)
	for unit := day; unit < 1e6*day; unit *= 10 {
		out = append(out, unit, 2*unit, 5*unit)
	}
	return out
}()

// ticks returns marks from 0 to endUs, at most most+1.
func ticks(endUs int64, most int) []tick {
	step := steps[len(steps)-1]
	for _, s := range steps {
		if endUs/s <= int64(most) {
			step = s
			break
		}
	}
	var out []tick
	for us := int64(0); us <= endUs; us += step {
		out = append(out, tick{us, axisLabel(us, step)})
	}
	return out
}

// liveTicks returns marks at round times before and after now, at most about most.
func (s *scene) liveTicks(most int) []tick {
	around := ticks(s.endUs, most)
	step := int64(math.MaxInt64)
	if len(around) > 1 {
		step = around[1].us
	}
	var out []tick
	for k := -(s.nowUs / step); k <= (s.endUs-s.nowUs)/step; k++ {
		label := "now"
		if k < 0 {
			label = "−" + axisLabel(-k*step, step)
		} else if k > 0 {
			label = "+" + axisLabel(k*step, step)
		}
		out = append(out, tick{s.nowUs + k*step, label})
	}
	return out
}

// axisLabel formats us in the unit that suits step.
func axisLabel(us, step int64) string {
	switch {
	case us == 0:
		return "0"
	case step < 1000:
		return strconv.FormatInt(us, 10) + " µs"
	case step < second && us < second:
		return strconv.FormatInt(us/1000, 10) + " ms"
	case step < second:
		return trimZeros(fmt.Sprintf("%.3f", float64(us)/1e6)) + " s"
	case step < minute && us < minute:
		return strconv.FormatInt(us/second, 10) + " s"
	case step < minute:
		return twoUnits(us/minute, "min", us%minute/second, "s")
	case step < hour && us < hour:
		return strconv.FormatInt(us/minute, 10) + " min"
	case step < hour:
		return twoUnits(us/hour, "h", us%hour/minute, "")
	case step < day && us < 2*day:
		return strconv.FormatInt(us/hour, 10) + " h"
	case step < day:
		return twoUnits(us/day, "d", us%day/hour, "h")
	}
	return strconv.FormatInt(us/day, 10) + " d"
}

// twoUnits formats a duration in two units such as "2 h 05", without a part that is
// zero.
func twoUnits(big int64, bigUnit string, small int64, smallUnit string) string {
	s := strconv.FormatInt(big, 10) + " " + bigUnit
	if small == 0 {
		return s
	}
	if smallUnit == "" {
		return fmt.Sprintf("%s %02d", s, small)
	}
	return fmt.Sprintf("%s %d %s", s, small, smallUnit)
}

// trimZeros removes zeros behind the point.
func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// thousands groups the digits before the point.
func thousands(s string) string {
	whole, fraction, point := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		whole += "." + fraction
	}
	return sign + whole
}
