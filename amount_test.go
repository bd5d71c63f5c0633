package hare_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
)

// drawBig draws integers of all sizes up to 126 bits.
func drawBig(t *rapid.T, label string) *big.Int {
	x := new(big.Int).Mul(big.NewInt(rapid.Int64().Draw(t, label)), big.NewInt(rapid.Int64().Draw(t, label)))
	x.Add(x, big.NewInt(rapid.Int64().Draw(t, label)))
	if x.BitLen() > 125 {
		x.Rsh(x, 1)
	}
	return x
}

func fromBig(t *rapid.T, x *big.Int) hare.Amount {
	a, ok := hare.AmountFromBig(x)
	if !ok {
		t.Fatalf("%s does not fit", x)
	}
	return a
}

func TestAmountsAreIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := drawBig(t, "x"), drawBig(t, "y")
		a, b := fromBig(t, x), fromBig(t, y)
		for name, c := range map[string]struct {
			got  hare.Amount
			want *big.Int
		}{
			"a":   {a, x},
			"a+b": {a.Add(b), new(big.Int).Add(x, y)},
			"a-b": {a.Sub(b), new(big.Int).Sub(x, y)},
			"-a":  {a.Neg(), new(big.Int).Neg(x)},
		} {
			if c.got.Big().Cmp(c.want) != 0 {
				t.Fatalf("%s: got %s, want %s", name, c.got.Big(), c.want)
			}
		}
		if a.Cmp(b) != x.Cmp(y) || a.Sign() != x.Sign() || a.Cmp(a) != 0 {
			t.Fatalf("order of %s and %s", x, y)
		}
		if f, _ := new(big.Rat).SetFrac(x, big.NewInt(1e12)).Float64(); a.Float() != f {
			t.Fatalf("got %g, want %g", a.Float(), f)
		}
		m, n := rapid.Int64().Draw(t, "m"), rapid.Int64().Draw(t, "n")
		if got, want := hare.Product(m, n).Big(), new(big.Int).Mul(big.NewInt(m), big.NewInt(n)); got.Cmp(want) != 0 {
			t.Fatalf("%d·%d: got %s", m, n, got)
		}
	})
}

func TestAmountsPrintExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawBig(t, "x")
		a := fromBig(t, x)
		exact := new(big.Rat).SetFrac(x, big.NewInt(1e12))
		if got, ok := new(big.Rat).SetString(a.String()); !ok || got.Cmp(exact) != 0 {
			t.Fatalf("%s prints as %s", exact, a)
		}
		if s := a.String(); strings.Contains(s, ".") && strings.HasSuffix(s, "0") {
			t.Fatalf("%s ends in zeros", s)
		}
		back, err := hare.ParseAmount(a.String())
		if err != nil || back.Cmp(a) != 0 {
			t.Fatalf("%s: read as %s, %v", a, back, err)
		}
		text, err := json.Marshal(a)
		if err != nil || string(text) != a.String() {
			t.Fatalf("got %s, %v", text, err)
		}
		// The printed bound is at most the bound, by less than 1e-6.
		down, ok := new(big.Rat).SetString(a.Bound6())
		if !ok || down.Cmp(exact) > 0 {
			t.Fatalf("%s is above %s", a.Bound6(), exact)
		}
		if rest := new(big.Rat).Sub(exact, down); rest.Cmp(big.NewRat(1, 1e6)) >= 0 {
			t.Fatalf("%s is far below %s", a.Bound6(), exact)
		}
		if i := strings.IndexByte(a.Bound6(), '.'); len(a.Bound6())-i != 7 {
			t.Fatalf("%s does not have six decimals", a.Bound6())
		}
		if again, err := hare.ParseAmount(a.Bound6()); err != nil || again.Cmp(a.RoundDown()) != 0 {
			t.Fatalf("%s is not %s", again, a.RoundDown())
		}
	})
}

func TestAmountsEnd(t *testing.T) {
	limit := new(big.Int).Lsh(big.NewInt(1), 126)
	if _, ok := hare.AmountFromBig(limit); ok {
		t.Error("2^126 is within")
	}
	below := new(big.Int).Sub(limit, big.NewInt(1))
	for _, x := range []*big.Int{below, new(big.Int).Neg(below)} {
		if a, ok := hare.AmountFromBig(x); !ok || a.Big().Cmp(x) != 0 {
			t.Errorf("%s: got %s, %v", x, a.Big(), ok)
		}
	}
	for _, text := range []string{"", "-", ".", "1.", ".5", "1e", "--1", "+1", "1_0", "0x1", "NaN",
		"1e999999999999999999999", "1e-13", "0.1234567890123", strings.Repeat("9", 60), "1e30"} {
		if a, err := hare.ParseAmount(text); err == nil {
			t.Errorf("%q: got %s", text, a)
		}
	}
	for text, want := range map[string]string{"-0": "0", "1.50": "1.5", "-2.25e1": "-22.5", "1e-12": "0.000000000001",
		"12e3": "12000", "100e-2": "1"} {
		if a, err := hare.ParseAmount(text); err != nil || a.String() != want {
			t.Errorf("%s: got %s, %v, want %s", text, a, err, want)
		}
	}
}
