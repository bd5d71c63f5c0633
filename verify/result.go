package verify

import (
	"fmt"
	"math/big"

	"github.com/hare-sched/hare"
)

// asNamed returns the instance that a result is for: with the objective that the caller named, or inst itself.
func asNamed(inst *hare.Instance, res *hare.Result) *hare.Instance {
	if res == nil || !knownObjective(res.Options.Objective) {
		return inst
	}
	other := *inst
	other.Objective = res.Options.Objective
	return &other
}

// checkPlain checks a result, without its replan object, for an instance that is
// plausible and has the given hash.
func checkPlain(inst *hare.Instance, res *hare.Result, sha string, p *Proof) *Report {
	r := &Report{}
	if inst.Objective != hare.ObjectiveWeightedJCT {
		r.Objective = inst.Objective
	}
	bad := func(constraint, detail string, a ...any) {
		r.fault(Fault{Constraint: constraint, Detail: fmt.Sprintf(detail, a...)})
	}
	if res == nil || res.Schedule == nil {
		bad(CodeForm, "the result has no schedule to verify")
		return r
	}
	if res.InstanceSHA256 != "" && res.InstanceSHA256 != sha {
		bad(CodeInstance, "the result belongs to another instance (instance_sha256 differs)")
	}
	if res.Objective != inst.Objective {
		bad(CodeForm, "objective %.40q is not the instance's %q", res.Objective, inst.Objective)
	}
	value, ends, starts, faults := checkSchedule(inst, res.Schedule)
	for _, f := range faults {
		r.fault(f)
	}
	if len(faults) == 0 {
		r.Value = &value
		if res.Value == nil || value.Cmp(*res.Value) != 0 {
			bad(CodeValue, "the schedule's value is %s, not what the result says", value)
		}
		checkJobs(inst, res, starts, ends, r)
		checkConstant(inst, res, ends, r)
	}
	checkBound(inst, res, sha, p, r)
	if len(r.Faults) == 0 {
		checkGap(res, r)
	}
	r.OK = len(r.Faults) == 0
	return r
}

// checkJobs compares the times that a result lists with those of the schedule. A time
// below 0 was not given.
func checkJobs(inst *hare.Instance, res *hare.Result, starts, ends []int64, r *Report) {
	index := indexOf(inst)
	for _, j := range res.Jobs {
		i, ok := index[j.ID]
		switch {
		case !ok:
			r.fault(Fault{Constraint: CodeForm, Job: j.ID, Detail: "jobs lists an unknown job, or one twice"})
		case j.EndUs >= 0 && j.EndUs != ends[i]:
			by := j.EndUs - ends[i]
			r.fault(Fault{Constraint: CodeValue, Job: j.ID, ByUs: by, Detail: "end_s is not the job's completion"})
		case j.StartUs >= 0 && j.StartUs != starts[i]:
			by := j.StartUs - starts[i]
			r.fault(Fault{Constraint: CodeValue, Job: j.ID, ByUs: by, Detail: "start_s is not the job's first start"})
		}
		delete(index, j.ID)
	}
	if len(res.Jobs) > 0 && len(index) > 0 {
		r.fault(Fault{Constraint: CodeForm, Detail: fmt.Sprintf("jobs leaves out %d of the instance's", len(index))})
	}
}

// checkGap compares the stated gap with that of value and bound. 0 means that they are
// equal, and null that the bound is useless; any other gap has six decimals, rounded
// either way.
func checkGap(res *hare.Result, r *Report) {
	bad := func(detail string) { r.fault(Fault{Constraint: CodeGap, Detail: detail}) }
	equal := res.Bound != nil && res.Value.Cmp(*res.Bound) == 0
	useless := !equal && (res.Bound == nil || res.Bound.Sign() <= 0)
	if res.StatedGap == "" {
		return
	}
	if res.StatedGap == "null" {
		if !useless {
			bad("the gap is null although there is a useful bound")
		}
		return
	}
	stated, ok := new(big.Rat).SetString(res.StatedGap)
	switch {
	case !ok:
		bad("the gap is not a number")
	case useless:
		bad("there is a gap although there is no useful bound")
	case equal:
		if stated.Sign() != 0 {
			bad("value and bound are equal, the gap is not 0")
		}
	case stated.Sign() <= 0:
		bad("value and bound differ, so the gap must be above 0")
	default:
		gap := new(big.Rat).SetFrac(res.Value.Big(), res.Bound.Big())
		gap.Sub(gap, big.NewRat(1, 1))
		if stated.Sub(stated, gap).Abs(stated).Cmp(big.NewRat(1, 1_000_000)) >= 0 {
			bad("the gap is not value over bound less one")
		}
	}
}

// checkBound compares what the certificate proves with what the certificate and the
// result state. Stated bounds have six decimals, so a bound is at most the proved one
// exactly if it is at most the proved one rounded down.
func checkBound(inst *hare.Instance, res *hare.Result, sha string, p *Proof, r *Report) {
	bad := func(detail string, a ...any) {
		r.fault(Fault{Constraint: CodeBound, Detail: fmt.Sprintf(detail, a...)})
	}
	c := res.Certificate
	if c == nil {
		if res.Bound != nil {
			bad("the result states a bound without a certificate")
		}
		if res.Termination == hare.TerminationOptimal {
			bad("the result says it is optimal without a certificate")
		}
		return
	}
	if c.InstanceSHA256 != "" && c.InstanceSHA256 != sha {
		const detail = "the certificate belongs to another instance (instance_sha256 differs)"
		r.fault(Fault{Constraint: CodeInstance, Detail: detail})
	}
	bound, err := p.of(inst, sha, c)
	if err != nil {
		bad("%s", err)
		return
	}
	scaled := new(big.Rat).Mul(bound.low, big.NewRat(1e12, 1))
	a, ok := hare.AmountFromBig(new(big.Int).Div(scaled.Num(), scaled.Denom()))
	if !ok {
		bad("the proved bound does not fit 126 bits")
		return
	}
	r.Bound = &a
	if r.stated, ok = statedBound(c); !ok {
		r.stated = nil
		bad("%s", errForm(c))
		return
	}
	if !bound.atLeast(r.stated) {
		bad("%s", errLess(bound, c))
	}
	if res.Bound != nil {
		if stated := new(big.Rat).SetFrac(res.Bound.Big(), big.NewInt(1e12)); stated.Cmp(r.stated) > 0 {
			bad("the result states bound %s, above its certificate's %s", res.Bound, c.Bound)
		}
	}
	if r.Value == nil {
		return
	}
	value := new(big.Rat).SetFrac(r.Value.Big(), big.NewInt(1e12))
	if value.Cmp(bound.low) < 0 {
		bad("the schedule costs less than the proved bound %s: one of the two is wrong", bound.low.FloatString(9))
	}
	equal := res.Bound != nil && res.Bound.Cmp(*r.Value) == 0 && value.Cmp(r.stated) == 0
	if res.Termination == hare.TerminationOptimal && !equal {
		bad("the result says it is optimal, but value and bound differ")
	}
}
