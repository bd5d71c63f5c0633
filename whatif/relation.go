package whatif

import (
	"github.com/hare-sched/hare"
)

// relation says how the constraints of a scenario compare with those of the base.
// If one of the two is a relaxation of the other, the best plan of the other costs at least
// slack more.
type relation struct {
	looser  bool // the scenario is a relaxation of the base
	tighter bool // the base is a relaxation of the scenario; both hold where nothing that matters changes
	slack   hare.Amount
}

// lesser returns the lesser of two amounts, where nil is unknown.
func lesser(a, b *hare.Amount) *hare.Amount {
	if a == nil || b != nil && b.Cmp(*a) < 0 {
		return b
	}
	return a
}

// greater returns the greater of two amounts, where nil is unknown.
func greater(a, b *hare.Amount) *hare.Amount {
	if a == nil || b != nil && b.Cmp(*a) > 0 {
		return b
	}
	return a
}

// plus returns a + b, or nil where a is unknown.
func plus(a *hare.Amount, b hare.Amount) *hare.Amount {
	if a == nil {
		return nil
	}
	sum := a.Add(b)
	return &sum
}

// differenceOfOptima returns the interval of the scenario's optimum, which lies
// between low and high, less the base's optimum, which lies between baseLow and
// baseHigh. An end that is not known is nil.
func (rel relation) differenceOfOptima(low, high, baseLow, baseHigh *hare.Amount) []*hare.Amount {
	slack, saved := rel.slack, rel.slack.Neg()
	if rel.looser && baseLow != nil { // a base without a bound may have no plan at all
		high, baseLow = lesser(high, plus(baseHigh, saved)), greater(baseLow, plus(low, slack))
	}
	if rel.tighter {
		low, baseHigh = greater(low, plus(baseLow, slack)), lesser(baseHigh, plus(high, saved))
	}
	ends := make([]*hare.Amount, 2)
	if low != nil && baseHigh != nil {
		ends[0] = plus(low, baseHigh.Neg())
	}
	if high != nil && baseLow != nil {
		ends[1] = plus(high, baseLow.Neg())
	}
	if rel.looser && baseHigh != nil {
		ends[1] = lesser(ends[1], &saved)
	}
	if rel.tighter && baseHigh != nil {
		ends[0] = greater(ends[0], &slack)
	}
	return ends
}
