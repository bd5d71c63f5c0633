// Package verify checks schedules and certificates. It shares no code with
// what makes them: of package hare it uses the types and the exact Amount,
// nothing that resolves, schedules or bounds. Everything is integer or
// rational arithmetic; there is no tolerance, and what cannot be checked is
// refused.
package verify

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/hare-sched/hare"
)

// Fault is one violated condition.
type Fault struct {
	// Constraint is a stable code: release, overlap, service, rounds,
	// precedence, gang, rigid, form, value, bound, instance.
	Constraint string `json:"constraint"`
	Job        string `json:"job,omitempty"`
	Round      int64  `json:"round,omitempty"`
	GPU        string `json:"gpu,omitempty"`
	// ByUs is by how many microseconds the condition fails, where it is a time.
	ByUs   int64  `json:"by_us,omitempty"`
	Detail string `json:"detail"`
}

func (f Fault) String() string {
	var where []string
	if f.Job != "" {
		where = append(where, fmt.Sprintf("job %q round %d", f.Job, f.Round))
	}
	if f.GPU != "" {
		where = append(where, "GPU "+f.GPU)
	}
	if f.ByUs != 0 {
		where = append(where, fmt.Sprintf("by %d µs", f.ByUs))
	}
	if len(where) == 0 {
		return f.Constraint + ": " + f.Detail
	}
	return fmt.Sprintf("%s: %s (%s)", f.Constraint, f.Detail, strings.Join(where, ", "))
}

// Report is the outcome of Check.
type Report struct {
	OK     bool         `json:"ok"`
	Value  *hare.Amount `json:"value,omitempty"` // recomputed
	Bound  *hare.Amount `json:"bound,omitempty"` // recomputed, rounded down to 1e-12
	Faults []Fault      `json:"faults,omitempty"`
}

// maxFaults limits a report.
const maxFaults = 50

func (r *Report) fault(f Fault) {
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, f)
	}
}

func (r *Report) String() string {
	if !r.OK {
		var b strings.Builder
		b.WriteString("refused")
		for _, f := range r.Faults {
			b.WriteString("\n  " + f.String())
		}
		return b.String()
	}
	s := "accepted: value " + r.Value.String()
	if r.Bound != nil {
		s += ", bound " + r.Bound.Bound6()
		switch {
		case r.Value.Cmp(r.Bound.RoundDown()) == 0:
			s += ", optimal"
		case r.Bound.Sign() > 0:
			gap := new(big.Rat).SetFrac(r.Value.Big(), r.Bound.RoundDown().Big())
			f, _ := gap.Float64()
			s += fmt.Sprintf(", at most %.2f %% above the best possible plan", 100*(f-1)+0.005)
		}
	}
	return s
}

// Check verifies a result against its instance: every constraint, the value,
// and what its certificate proves. A result without a schedule is refused.
func Check(inst *hare.Instance, res *hare.Result) *Report {
	r := &Report{}
	if res == nil || res.Schedule == nil {
		r.fault(Fault{Constraint: "form", Detail: "the result has no schedule to verify"})
		return r
	}
	sha := inst.SHA256()
	if res.InstanceSHA256 != "" && res.InstanceSHA256 != sha {
		r.fault(Fault{Constraint: "instance", Detail: "the result belongs to another instance (instance_sha256 differs)"})
	}
	if res.Objective != hare.ObjectiveWeightedJCT {
		r.fault(Fault{Constraint: "form", Detail: fmt.Sprintf("objective %q is not %q", res.Objective, hare.ObjectiveWeightedJCT)})
	}
	value, ends, starts := checkSchedule(inst, res.Schedule, r)
	if len(r.Faults) == 0 {
		r.Value = &value
		if res.Value == nil || value.Cmp(*res.Value) != 0 {
			r.fault(Fault{Constraint: "value", Detail: fmt.Sprintf("the schedule's value is %s, not what the result says", value)})
		}
		checkJobs(inst, res, starts, ends, r)
	}
	checkBound(inst, res, sha, r)
	r.OK = len(r.Faults) == 0
	return r
}

// checkJobs compares the times a result lists with those of the schedule.
func checkJobs(inst *hare.Instance, res *hare.Result, starts, ends []int64, r *Report) {
	index := make(map[string]int, len(inst.Jobs))
	for i := range inst.Jobs {
		index[inst.Jobs[i].ID] = i
	}
	seen := make(map[string]bool, len(res.Jobs))
	for _, j := range res.Jobs {
		i, ok := index[j.ID]
		switch {
		case !ok || seen[j.ID]:
			r.fault(Fault{Constraint: "form", Job: j.ID, Detail: "jobs lists an unknown job, or one twice"})
		case j.EndUs >= 0 && j.EndUs != ends[i]:
			r.fault(Fault{Constraint: "value", Job: j.ID, ByUs: j.EndUs - ends[i], Detail: "end_s is not the job's completion"})
		case j.StartUs >= 0 && j.StartUs != starts[i]:
			r.fault(Fault{Constraint: "value", Job: j.ID, ByUs: j.StartUs - starts[i], Detail: "start_s is not the job's first start"})
		}
		seen[j.ID] = true
	}
}

func checkBound(inst *hare.Instance, res *hare.Result, sha string, r *Report) {
	c := res.Certificate
	if c == nil {
		if res.Bound != nil {
			r.fault(Fault{Constraint: "bound", Detail: "the result states a bound without a certificate"})
		}
		return
	}
	if c.InstanceSHA256 != "" && c.InstanceSHA256 != sha {
		r.fault(Fault{Constraint: "instance", Detail: "the certificate belongs to another instance (instance_sha256 differs)"})
	}
	proved, err := Bound(inst, c)
	if err != nil {
		r.fault(Fault{Constraint: "bound", Detail: err.Error()})
		return
	}
	scaled := new(big.Rat).Mul(proved, big.NewRat(1e12, 1))
	if a, ok := hare.AmountFromBig(new(big.Int).Div(scaled.Num(), scaled.Denom())); ok {
		r.Bound = &a
	}
	claim, ok := new(big.Rat).SetString(c.Bound)
	if !ok || len(c.Bound) > 60 || strings.ContainsAny(c.Bound, "/eEpPxX_") {
		r.fault(Fault{Constraint: "bound", Detail: fmt.Sprintf("the certificate's bound %.40q is not a decimal", c.Bound)})
		return
	}
	if claim.Cmp(proved) > 0 {
		r.fault(Fault{Constraint: "bound", Detail: fmt.Sprintf("the certificate proves %s, less than the %s it states", proved.FloatString(9), c.Bound)})
	}
	if res.Bound != nil {
		stated := new(big.Rat).SetFrac(res.Bound.Big(), big.NewInt(1e12))
		if stated.Cmp(claim) > 0 {
			r.fault(Fault{Constraint: "bound", Detail: fmt.Sprintf("the result states bound %s, above its certificate's %s", res.Bound, c.Bound)})
		}
	}
}
