package sim

import (
	"math"
	"testing"
)

// The quantiles of Student's t are those that tables print.
func TestStudent(t *testing.T) {
	for n, want := range map[int]float64{1: 12.706, 4: 2.776, 10: 2.228, 11: 2.201, 15: 2.131, 20: 2.086, 30: 2.042,
		60: 2.000, 120: 1.980, 1 << 30: 1.960} {
		if got := student(n); math.Abs(got-want) > 6e-4 {
			t.Errorf("%d degrees of freedom: %.4f, want %.3f", n, got, want)
		}
	}
}

// The mean of 2, 4 and 6 is 4 and the variance is 4, so half of the interval is
// 4.302653 · 2/√3.
func TestStat(t *testing.T) {
	var s Stat
	s.Add(2)
	if s.Mean != 2 || s.Half != 0 || s.N != 1 {
		t.Errorf("one value: %+v", s)
	}
	s.Add(4)
	s.Add(6)
	if want := 4.30265272974946 * 2 / math.Sqrt(3); s.Mean != 4 || math.Abs(s.Half-want) > 1e-9 {
		t.Errorf("%+v, want ± %g", s, want)
	}
}
