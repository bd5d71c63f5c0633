package verify

import (
	"context"
	"fmt"
	"math/big"

	"github.com/hare-sched/hare"
)

// Proof is what a certificate proves for an instance. Proving takes far longer
// than checking a schedule: who answers with one certificate more than once, or
// has little time at the end, proves it beforehand. Neither the instance nor
// the certificate may change afterwards.
type Proof struct {
	inst  *hare.Instance
	cert  *hare.Certificate
	bound *big.Rat
}

// Prove is Bound, for later checks. It refuses a certificate that states more
// than it proves. The error is that of ctx where that ends first.
func Prove(ctx context.Context, inst *hare.Instance, c *hare.Certificate) (*Proof, error) {
	bound, err := prove(ctx, inst, c)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stated, ok := statedBound(c)
	if !ok {
		return nil, errForm(c)
	}
	if stated.Cmp(bound) > 0 {
		return nil, errLess(bound, c)
	}
	return &Proof{inst, c, bound}, nil
}

// Check is Check, and takes as proved what p has for the same instance and
// certificate: the same in memory, not only alike. A nil proof has nothing.
func (p *Proof) Check(inst *hare.Instance, res *hare.Result) *Report {
	return check(inst, res, p)
}

// of is what the certificate proves for the instance.
func (p *Proof) of(inst *hare.Instance, c *hare.Certificate) (*big.Rat, error) {
	if p != nil && p.inst == inst && p.cert == c {
		return p.bound, nil
	}
	return Bound(inst, c)
}

// statedBound is the bound that a certificate states.
func statedBound(c *hare.Certificate) (*big.Rat, bool) {
	if !boundForm.MatchString(c.Bound) {
		return nil, false
	}
	return new(big.Rat).SetString(c.Bound)
}

func errForm(c *hare.Certificate) error {
	return fmt.Errorf("the certificate's bound %.40q is not a number with six decimals", c.Bound)
}

func errLess(proved *big.Rat, c *hare.Certificate) error {
	return fmt.Errorf("the certificate proves %s, less than the %s it states", proved.FloatString(9), c.Bound)
}
