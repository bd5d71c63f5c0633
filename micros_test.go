package hare_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
)

func TestMicrosAreExact(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "0.0": 0, "1": 1e6, "0.000001": 1, "1.5e1": 15e6, "15e-1": 1500000, "1.5E+1": 15e6,
		"12.5": 12500000, "1e-6": 1, "-2.25": -2250000,
		"1200000e-5": 12e6, "0e999999999999": 0, "0.1": 100000, "1.1000000000": 1100000, "9007199254.740992": 1 << 53,
		"9223372036854.775807": math.MaxInt64, "-9223372036854.775808": math.MinInt64,
		"1" + strings.Repeat("0", 5000) + "e-5000": 1e6, "0." + strings.Repeat("0", 5000) + "1e5001": 1e6,
	} {
		if got, err := hare.ParseMicros(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "-", "1e", "1.", ".5", "0.0000001", "1e13", "abc", "1e-7", "--1", "+1", "1e1.5", "1 ", "NaN", "Infinity",
		"1_0",
		"0x1", "1e1_0", "1.2.3", "١",
		"9223372036854.775808", "1e999999999999999999999", "1e-999999999999999999999",
	} {
		if got, err := hare.ParseMicros(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

// The results agree with math/big on numbers of every shape.
func TestMicrosAgreeWithRationals(t *testing.T) {
	million := big.NewRat(1e6, 1)
	rapid.Check(t, func(t *rapid.T) {
		text := fmt.Sprint(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "whole"))
		if rapid.Bool().Draw(t, "dotted") {
			text += "." + rapid.StringMatching(`[0-9]{1,9}0{0,3}`).Draw(t, "fraction")
		}
		if rapid.Bool().Draw(t, "scaled") {
			text += fmt.Sprintf("e%d", rapid.IntRange(-12, 12).Draw(t, "exponent"))
		}
		exact, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatal(text)
		}
		exact.Mul(exact, million)
		got, err := hare.ParseMicros(text)
		fits := exact.IsInt() && exact.Num().IsInt64()
		if fits != (err == nil) {
			t.Fatalf("%s: got %d, %v", text, got, err)
		}
		if fits && exact.Num().Int64() != got {
			t.Fatalf("%s: got %d", text, got)
		}
	})
}

func TestMicrosPrintShort(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1: "0.000001", -1: "-0.000001", 100000: "0.1", 1500000: "1.5",
		12e6: "12", -12000010: "-12.00001", math.MinInt64: "-9223372036854.775808"} {
		if got := hare.FormatMicros(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		if back, err := hare.ParseMicros(hare.FormatMicros(n)); err != nil || back != n {
			t.Fatalf("%d: %s is %d, %v", n, hare.FormatMicros(n), back, err)
		}
	})
}
