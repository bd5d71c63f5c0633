// Package verify checks schedules and certificates. It shares no code with the packages
// that make them: of this module's other packages it uses the types, the exact Amount and
// the hash, and nothing that resolves instances, schedules or bounds. The arithmetic is of
// integers and rational numbers, without a tolerance. Package verify refuses what it cannot
// check.
package verify

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// These are the codes of faults, by the condition that fails.
const (
	CodeInstance   = "instance"   // the result belongs to another instance, or the instance is not one
	CodeForm       = "form"       // names, columns or numbers that no schedule has
	CodeRelease    = "release"    // a task before its job's release, or before the job's running work has ended
	CodeAfter      = "after"      // a task before the end and lag of a job for which its job waits
	CodeOverlap    = "overlap"    // two things on a GPU at once
	CodeService    = "service"    // a GPU held out of service, while busy, or of a type the job has no profile for
	CodeRounds     = "rounds"     // a round without exactly its tasks
	CodePrecedence = "precedence" // a round before the one before it has synchronised
	CodeGang       = "gang"       // a round not together, not on K GPUs of one type, or not held to its end
	CodeShape      = "shape"      // rounds of unlike shapes that overlap, or a change that is not allowed
	CodeRigid      = "rigid"      // a rigid job not in one block
	CodeTask       = "task"       // a task that is not g equal entries on one node
	CodeNode       = "node"       // a task on a node that the job may not use
	CodeDistinct   = "distinct"   // two tasks of a round on a node, although the job wants distinct nodes
	CodeWithin     = "within"     // a round that is not in one domain of a level, although the job wants one
	CodeCPUs       = "cpus"       // more CPUs held on a node than it has
	CodeMemory     = "memory"     // more memory held on a node than it has
	CodeReserved   = "reserved"   // a node used while it is reserved for others
	CodeQuota      = "quota"      // more GPUs held than a quota allows
	CodeValue      = "value"      // a value or time that is not the schedule's
	CodeBound      = "bound"      // a bound that is not proved
	CodeGap        = "gap"        // a gap that is not that of value and bound
)

// Fault is one violated condition.
type Fault struct {
	// Constraint is a stable code.
	Constraint string `json:"constraint"`
	Job        string `json:"job,omitempty"`
	Round      *int64 `json:"round,omitempty"`
	GPU        string `json:"gpu,omitempty"`
	// ByUs is the number of microseconds by which a condition on times fails.
	ByUs   int64  `json:"by_us,omitempty"`
	Detail string `json:"detail"`
} //	@name	Fault

func (ft Fault) String() string {
	var where []string
	if ft.Job != "" {
		where = append(where, fmt.Sprintf("job %.60q", ft.Job))
	}
	if ft.Round != nil {
		where = append(where, fmt.Sprintf("round %d", *ft.Round))
	}
	if ft.GPU != "" {
		where = append(where, fmt.Sprintf("GPU %.60s", ft.GPU))
	}
	if ft.ByUs != 0 {
		where = append(where, "by "+hare.FormatMicros(ft.ByUs)+" s")
	}
	if len(where) == 0 {
		return ft.Constraint + ": " + ft.Detail
	}
	return fmt.Sprintf("%s: %s (%s)", ft.Constraint, ft.Detail, strings.Join(where, ", "))
}

// Report is the outcome of a check.
type Report struct {
	OK bool `json:"ok"`
	// Objective is that of value and bound. It is left out ("") for weighted_jct.
	Objective string `json:"objective,omitempty"`
	// Value is the recomputed value of the schedule. It is left out (nil) if the schedule has faults.
	Value *hare.Amount `json:"value,omitempty"`
	// Bound is what the certificate proves, recomputed and rounded down to 1e-12. It
	// is left out (nil) without a certificate. The stated bound may be less.
	Bound *hare.Amount `json:"bound,omitempty"`
	// Constant is what a schedule of the whole instance costs beside value: what jobs cost that
	// end with the work that runs at time 0, or what is fixed if the result is the rest of an
	// earlier plan. It is left out (nil) if there is no such cost.
	Constant *hare.Amount `json:"constant,omitempty"`
	// Note says to what the figures apply, or what was not checked.
	Note   string   `json:"note,omitempty"`
	Faults []Fault  `json:"faults,omitempty"`
	stated *big.Rat // the certificate's bound
} //	@name	Report

// maxFaults limits the faults of a report.
const maxFaults = 50

func (r *Report) fault(f Fault) {
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, f)
	}
}

// String returns one line for an accepted result, and one line for each fault of others.
func (r *Report) String() string {
	if !r.OK {
		var b strings.Builder
		b.WriteString("refused")
		for _, f := range r.Faults {
			b.WriteString("\n  " + f.String())
		}
		return b.String()
	}
	s := "accepted: "
	if r.Objective != "" {
		s += "objective " + r.Objective + ", "
	}
	s += "value " + r.Value.String() + r.quality()
	if r.Note != "" {
		s += "; " + r.Note
	}
	return s
}

// quality says what the bound says of the value.
func (r *Report) quality() string {
	if r.stated == nil {
		return ", no bound"
	}
	s := ", bound " + r.stated.FloatString(6)
	value := new(big.Rat).SetFrac(r.Value.Big(), big.NewInt(1e12))
	switch {
	case value.Cmp(r.stated) == 0:
		return s + ", optimal"
	case r.stated.Sign() <= 0:
		return s + ", no useful bound"
	}
	// The gap is in hundredths of a percent, rounded up: never better than proved.
	gap := value.Quo(value.Sub(value, r.stated), r.stated)
	gap.Mul(gap, big.NewRat(10000, 1))
	up := new(big.Int).Add(gap.Num(), gap.Denom())
	up.Sub(up, big.NewInt(1)).Div(up, gap.Denom())
	percent := new(big.Rat).SetFrac(up, big.NewInt(100))
	return s + ", at most " + percent.FloatString(2) + " % above the best possible plan"
}

// Check verifies a result against its instance: every constraint, the value, and the bound
// that the certificate proves. A result without a schedule is refused. A plan for the rest
// of an earlier plan (a result with a replan object) may be checked against the rest, as any
// result, or against the whole instance: see CheckReplan. Neither inst nor res is trusted or
// modified.
func Check(inst *hare.Instance, res *hare.Result) *Report { return check(inst, res, nil, nil) }

func check(inst *hare.Instance, res *hare.Result, prev *Previous, p *Proof) *Report {
	if err := plausible(inst); err != nil {
		return &Report{Faults: []Fault{{Constraint: CodeInstance, Detail: err.Error()}}}
	}
	own := inst
	inst = asNamed(inst, res)
	sha := wire.SHA256(inst)
	switch {
	case res == nil || res.Replan == nil:
		return checkPlain(inst, res, sha, p)
	case res.InstanceSHA256 == sha && res.Replan.InstanceSHA256 != sha:
		r := checkPlain(inst, res, sha, p)
		r.Note = "its replan object was not checked: give the whole instance"
		return r
	}
	return checkReplan(inst, own, sha, res, prev, p)
}

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
	index := make(map[string]int, len(inst.Jobs))
	for i := range inst.Jobs {
		index[inst.Jobs[i].ID] = i
	}
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
		bad("the gap is no number")
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

// boundForm is the form of a bound in a certificate: six decimals.
var boundForm = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,40})\.[0-9]{6}$`)

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
