package text

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/whatif"
)

// Proved ends are rounded outwards, and nothing is written with an exponent.
func TestAmounts(t *testing.T) {
	amount := func(text string) *hare.Amount {
		a, err := hare.ParseAmount(text)
		if err != nil {
			t.Fatal(err)
		}
		return &a
	}
	for _, c := range []struct{ low, high, want string }{
		{"-1490.692941", "-660.228507", "−1490.70 to −660.22"},
		{"-74195.290375", "0.001", "−74195.30 to +0.01"},
		{"-0.001", "1027718", "−0.01 to +1027718"},
		{"0.001", "12345678901.999", "0 to +12345678902"},
	} {
		l := &whatif.Line{}
		l.OptimumChange = []*hare.Amount{amount(c.low), amount(c.high)}
		if got := intervalWords(l); got != c.want {
			t.Errorf("%s to %s is printed as %s, not as %s", c.low, c.high, got, c.want)
		}
	}
	for text, want := range map[string]string{"1027718": "1027718", "0.125": "0.12", "0.135": "0.14", "-0.125": "-0.12",
		"-7.001": "-7", "1234567.899": "1234567.90"} {
		if got := amountWords(amount(text)); got != want {
			t.Errorf("%s is printed as %s, not as %s", text, got, want)
		}
	}
}

// TestBetween checks that proved times are rounded outwards.
func TestBetween(t *testing.T) {
	const s = 1_000_000
	for _, x := range []struct {
		low, high int64
		want      string
	}{
		{-7200*s - 1, -3600*s - 999_999, "1 h to 2 h 1 min less"}, {3600*s + 1, 7 * 86400 * s, "1 h to 7 d more"},
		{-s, 2 * s, "from 1 s less to 2 s more"}, {-62280_014974, -62280_014974, "17 h 18 min to 17 h 19 min less"},
		{5 * s, 5 * s, "5 s more"}, {0, 90_001_000, "0 s to 90.01 s more"},
		{1_009_000, 1_011_000, "1 s to 1.02 s more"},
	} {
		if got := between(x.low, x.high); got != x.want {
			t.Errorf("%d to %d: %q, want %q", x.low, x.high, got, x.want)
		}
	}
}
