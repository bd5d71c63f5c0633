package verify

import (
	"context"
	"fmt"
	"math/big"
	"regexp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// Proof is what a certificate proves for an instance. A proof takes far longer than the
// check of a schedule. A program that checks several results with one certificate, or has
// little time for the check, can therefore prove the certificate beforehand. Neither the
// instance nor the certificate may change afterwards.
type Proof struct {
	inst  *hare.Instance
	cert  *hare.Certificate
	bound *proved
}

// Prove is Bound for later checks. It refuses a certificate that states more than it
// proves. It returns the error of ctx if ctx ends first.
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
	if !bound.atLeast(stated) {
		return nil, errLess(bound, c)
	}
	return &Proof{inst, c, bound}, nil
}

// of returns what the certificate proves for the instance, which has the given hash.
func (pf *Proof) of(inst *hare.Instance, sha string, c *hare.Certificate) (*proved, error) {
	if pf != nil && pf.cert == c && (pf.inst == inst || wire.SHA256(pf.inst) == sha) {
		return pf.bound, nil
	}
	return prove(context.Background(), inst, c)
}

// statedBound returns the bound that a certificate states.
func statedBound(c *hare.Certificate) (*big.Rat, bool) {
	if !boundForm.MatchString(c.Bound) || c.Bound == "-0.000000" {
		return nil, false
	}
	return new(big.Rat).SetString(c.Bound)
}

func errForm(c *hare.Certificate) error {
	return fmt.Errorf("the certificate's bound %.40q is not a number with six decimals", c.Bound)
}

func errLess(bound *proved, c *hare.Certificate) error {
	return fmt.Errorf("the certificate proves %s, less than the %s it states", bound.low.FloatString(9), c.Bound)
}

// boundForm is the form of a bound in a certificate: six decimals.
var boundForm = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,40})\.[0-9]{6}$`)
