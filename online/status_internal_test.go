package online

import "testing"

func TestRoundedUp(t *testing.T) {
	for us, want := range map[int64]string{0: "0 s", 1: "1 s", 119_000_001: "120 s", 120_000_001: "3 min",
		7200e6: "120 min", 7200e6 + 1: "3 h", 92_161_028_452: "26 h", 48 * 3600e6: "48 h", 48*3600e6 + 1: "3 days"} {
		if got := RoundedUp(us); got != want {
			t.Errorf("%d µs: %s, not %s", us, got, want)
		}
	}
}
