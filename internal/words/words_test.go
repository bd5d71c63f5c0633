package words_test

import (
	"math"
	"testing"

	"github.com/hare-sched/hare/internal/words"
)

func TestDuration(t *testing.T) {
	for us, want := range map[int64]string{0: "0 s", 7: "7 µs", 1500: "1.5 ms", 999_999: "999.999 ms", 90_000_000: "90 s",
		119_994_000: "119.99 s", 62280014974: "17 h 18 min", 610_000_000: "10 min 10 s", 7200_000_000: "2 h",
		3600_000_000: "1 h", 3600_999_999: "1 h",
		172800_000_000: "2 d", 180000_000_000: "2 d 2 h", -610_000_000: "−10 min 10 s", math.MinInt64: "−106751991 d 4 h"} {
		if got := words.Duration(us); got != want {
			t.Errorf("%d µs: %q, want %q", us, got, want)
		}
	}
	if got := words.Seconds(62280.014974); got != "17 h 18 min" {
		t.Error(got)
	}
	if got := words.Seconds(math.Inf(1)); got != "+Inf s" {
		t.Error(got)
	}
}

func TestAlike(t *testing.T) {
	const s = int64(1_000_000)
	for _, c := range []struct {
		a, b int64
		want string
	}{
		{6600 * s, 7380 * s, "1 h 50 min → 2 h 3 min"}, {7380 * s, 6600 * s, "2 h 3 min → 1 h 50 min"},
		{6600 * s, 6660 * s, "110 min → 111 min"}, {90 * s, 300 * s, "1 min 30 s → 5 min"}, {90 * s, 91 * s, "90 s → 91 s"},
		{30 * 3600 * s, 50 * 3600 * s, "1 d 6 h → 2 d 2 h"}, {600 * s, 7380 * s, "10 min → 2 h 3 min"},
	} {
		if a, b := words.Alike(c.a, c.b); a+" → "+b != c.want {
			t.Errorf("%s → %s, want %s", a, b, c.want)
		}
	}
}

func TestRound(t *testing.T) {
	for us, want := range map[int64][2]string{0: {"0 s", "0 s"}, 999_999: {"999.999 ms", "999.999 ms"},
		1_009_999: {"1 s", "1.01 s"}, 119_995_000: {"119.99 s", "2 min"}, 7_199_000_001: {"119 min 59 s", "2 h"},
		7_200_000_000: {"2 h", "2 h"}, 172_800_000_001: {"2 d", "2 d 1 h"}} {
		if down, up := words.Duration(words.RoundDown(us)), words.Duration(words.RoundUp(us)); down != want[0] ||
			up != want[1] {
			t.Errorf("%d µs: %q and %q, want %q", us, down, up, want)
		}
	}
	if got := words.RoundUp(math.MaxInt64); got != math.MaxInt64 {
		t.Error(got)
	}
}

func TestCount(t *testing.T) {
	if got := words.Count(1, "job") + words.Count(int64(0), "GPU") + words.Count(2, "session"); got !=
		"1 job0 GPUs2 sessions" {
		t.Error(got)
	}
}

func TestShort(t *testing.T) {
	if got := words.Short(1027718); got != "1027718" {
		t.Error(got)
	}
}

func TestPlain(t *testing.T) {
	// A name that sets the title of a terminal, turns a text around, and begins lines.
	const hostile = "\x1b]0;owned\a\u202e\u2028\u2066\u009b2J\x7f\x00\r\nhare: forged\tend\U000e0041"
	for text, want := range map[string]string{
		"bert-7, größer: 訓練 🐇 \\n": "bert-7, größer: 訓練 🐇 \\n",
		hostile:                    `\x1b]0;owned\x07\u202e\u2028\u2066\u009b2J\u007f\x00\r\nhare: forged\tend\udb40\udc41`,
		"a\xff\x9bb":               `a\xff\x9bb`, "\u00ad\ufeff\u061c\u200e�": `\u00ad\ufeff\u061c\u200e�`,
	} {
		if got := words.Plain(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
