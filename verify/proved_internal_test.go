package verify

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// A rounded sum of many fractions is never above the exact sum, and bounds between the
// two are decided by the exact sum.
func TestManyFractions(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, n := range []int{0, 1, fewTerms, fewTerms + 1, 1000} {
		terms := make([]*big.Rat, n)
		sum := new(big.Rat)
		for i := range terms {
			terms[i] = big.NewRat(r.Int64N(1e15), 1+r.Int64N(1e6))
			sum.Add(sum, terms[i])
		}
		fixed := big.NewInt(r.Int64N(1e15))
		sum.Sub(sum, new(big.Rat).SetInt(fixed))
		sum.Quo(sum, new(big.Rat).SetInt64(unit))
		p := addUp(terms, fixed)
		if c := p.low.Cmp(sum); c > 0 || n <= fewTerms && c != 0 || n > fewTerms && c == 0 {
			t.Errorf("%d terms: the sum is %s, the exact one %s", n, p.low.FloatString(40), sum.FloatString(40))
		}
		tiny := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(60), nil))
		for _, c := range []struct {
			stated *big.Rat
			want   bool
		}{
			{p.low, true}, {sum, true}, {new(big.Rat).Add(sum, tiny), false}, {new(big.Rat).Sub(sum, tiny), true},
			{new(big.Rat).Add(sum, big.NewRat(1, 1)), false}, {new(big.Rat).Sub(sum, big.NewRat(1, 1)), true},
		} {
			if got := p.atLeast(c.stated); got != c.want {
				t.Errorf("%d terms: at least %s is %t, the exact sum is %s", n, c.stated.FloatString(70), got,
					sum.FloatString(70))
			}
		}
	}
}
