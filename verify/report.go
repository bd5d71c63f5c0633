package verify

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/hare-sched/hare"
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
