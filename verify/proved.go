package verify

import (
	"math/big"
)

// unit is the number of units of proved.terms in one weight-second.
const unit = 1e15

// fewTerms is the number of fractions up to which the fractions are added exactly. The exact
// sum of more fractions takes long, because their denominators multiply. Each fraction is
// then first rounded down to a multiple of 2^-termBits units. Rounding can only lower the
// sum, by less than the number of fractions times 4e-30 weight-seconds.
const (
	fewTerms = 300
	termBits = 48
)

// proved is a lower bound that a certificate proves: a sum of fractions.
type proved struct {
	low   *big.Rat   // at most the bound, and equal to it if terms is nil
	terms []*big.Rat // the terms of the exact bound, in units
	fixed *big.Int   // what is subtracted from the sum of terms, in units
}

// addUp returns the bound (Σ terms − fixed) / unit.
func addUp(terms []*big.Rat, fixed *big.Int) *proved {
	p := &proved{low: new(big.Rat)}
	if len(terms) <= fewTerms {
		for _, x := range terms {
			p.low.Add(p.low, x)
		}
	} else {
		whole := new(big.Int)
		for _, x := range terms {
			y := new(big.Int).Lsh(x.Num(), termBits)
			whole.Add(whole, y.Div(y, x.Denom()))
		}
		p.low.SetFrac(whole, new(big.Int).Lsh(big.NewInt(1), termBits))
		p.terms, p.fixed = terms, fixed
	}
	p.low.Sub(p.low, new(big.Rat).SetInt(fixed))
	p.low.Quo(p.low, new(big.Rat).SetInt64(unit))
	return p
}

// atLeast reports whether the exact bound is at least the bound that a certificate states. The
// rounded sum decides nearly always. The exact sum is computed only if the stated bound lies
// above the rounded sum by less than the greatest possible rounding error.
func (pb *proved) atLeast(stated *big.Rat) bool {
	switch over := new(big.Rat).Sub(stated, pb.low); {
	case over.Sign() <= 0:
		return true
	case pb.terms == nil, over.Cmp(pb.lost()) >= 0:
		return false
	}
	sum := new(big.Rat).Mul(stated, new(big.Rat).SetInt64(unit))
	sum.Add(sum, new(big.Rat).SetInt(pb.fixed))
	num, den := exactSum(pb.terms)
	// num/den ≥ sum, and denominators are positive.
	return num.Mul(num, sum.Denom()).Cmp(den.Mul(den, sum.Num())) >= 0
}

// lost returns an upper limit of what rounding has taken off the bound.
func (pb *proved) lost() *big.Rat {
	most := new(big.Int).Lsh(big.NewInt(unit), termBits)
	return new(big.Rat).SetFrac(big.NewInt(int64(len(pb.terms))), most)
}

// exactSum adds fractions: first those of equal denominators, then in pairs, so that
// both factors of each product are about equally long.
func exactSum(xs []*big.Rat) (num, den *big.Int) {
	type fraction struct{ num, den *big.Int }
	var all []fraction
	place := map[string]int{}
	for _, x := range xs {
		key := string(x.Denom().Bytes())
		i, ok := place[key]
		if !ok {
			i = len(all)
			place[key] = i
			all = append(all, fraction{new(big.Int), new(big.Int).Set(x.Denom())})
		}
		all[i].num.Add(all[i].num, x.Num())
	}
	if len(all) == 0 {
		return new(big.Int), big.NewInt(1)
	}
	for len(all) > 1 {
		half := (len(all) + 1) / 2
		for i := range all[half:] {
			a, b := &all[i], &all[half+i]
			a.num.Mul(a.num, b.den)
			a.num.Add(a.num, b.num.Mul(b.num, a.den))
			a.den.Mul(a.den, b.den)
		}
		all = all[:half]
	}
	return all[0].num, all[0].den
}
