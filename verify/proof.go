package verify

import (
	"context"
	"fmt"
	"math/big"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// Proof is what a certificate proves for an instance. Proving takes far longer
// than checking a schedule: who answers with one certificate more than once, or
// has little time at the end, proves it beforehand. Neither the instance nor
// the certificate may change afterwards.
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

// Check is Check, and takes as proved what p has for the same certificate, in
// memory and not only alike, and an equal instance. A nil proof has nothing.
func (pf *Proof) Check(inst *hare.Instance, res *hare.Result) *Report {
	return check(inst, res, nil, pf)
}

// CheckReplan is CheckReplan with what the proof has proved.
func (pf *Proof) CheckReplan(inst *hare.Instance, res *hare.Result, prev *Previous) *Report {
	return check(inst, res, prev, pf)
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
