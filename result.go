package hare

import (
	"math/big"
	"time"
)

// These are the statuses and terminations of a result.
const (
	StatusSucceeded = "succeeded"
	StatusCancelled = "cancelled"
	StatusFailed    = "failed"

	TerminationOptimal    = "optimal"
	TerminationGap        = "gap"
	TerminationWorkLimit  = "work_limit"
	TerminationDeadline   = "deadline"
	TerminationMethod     = "method" // the plan of Options.Method, which is not searched on
	TerminationCancelled  = "cancelled"
	TerminationInfeasible = "infeasible"
	TerminationNoSchedule = "no_schedule"
)

// Result is the answer to one solve.
type Result struct {
	InstanceSHA256 string
	Version        string
	Seed           int64
	Status         string
	Termination    string
	Reproducible   bool
	// Degraded reports whether a busy server made use of Options.Degrade.
	Degraded bool
	// Estimated reports whether some job has durations: value, bound and gap are for the times as
	// they are written.
	Estimated bool
	// OptimalBySearch reports whether a search has seen all plans, so that none is better, although Bound does not
	// prove it.
	OptimalBySearch bool
	Objective       string
	// Value is nil without a schedule, and Bound is nil without a certificate.
	Value *Amount
	Bound *Amount
	// Constant is Σ w (C − a) of the jobs that end with the work that runs at time 0, with
	// their tardiness where this is part of the objective; Value and Bound are without it. It
	// is nil where there are no such jobs, and for the objective makespan.
	Constant *Amount
	// StatedGap is the gap that a decoded document states: a decimal, "null", or "" without
	// one. Only verifiers use it; the encoder writes Gap.
	StatedGap string
	// Reasons say why a result is infeasible or has no schedule.
	Reasons []Reason
	Options Options
	Engine  Engine
	Metrics *Metrics
	// GapReport is nil if the bound is not made of prices.
	GapReport *GapReport
	Timing    Timing
	Jobs      []JobResult
	// Schedule and Certificate may be left out by Options.Detail.
	Schedule *Schedule
	// TaskList is only set for Options.Detail "tasks".
	TaskList    []Task
	Certificate *Certificate
	// Replan is only set for plans for the rest of an earlier plan.
	Replan *Replan
}

// Options are the options of the caller with defaults filled in.
type Options struct {
	TimeLimit time.Duration // 0 means none
	WorkLimit int64         // 0 means computed from the size of the instance
	Gap       float64       // stops at this gap, a fraction; 0 means only when proved optimal
	Seed      int64
	Bound     string // price, critical_path, machine, queyranne, paper
	Order     string // price, queyranne, paper, critical_path, machine, wspt, arrival
	Assign    string // earliest_available, earliest_finish, insertion
	Detail    string // lanes (the default), jobs, none, tasks
	// Objective takes the place of the instance's objective; "" leaves that.
	Objective string
	// Method makes the plan in place of the engine's own search: a policy or another paper's
	// scheduler, by name. The bound is the engine's all the same. "" means the search.
	Method string
	// Degrade allows a busy server to answer with a greedy schedule and a coarse bound
	// instead of a refusal.
	Degrade bool
}

// Engine names what computed the result.
type Engine struct {
	HiGHS string // the version; "" if only the Go engine was used
}

// Reason explains one obstacle.
type Reason struct {
	Pointer string // the job in the instance
	Job     string
	Code    string
	Detail  string
}

// Metrics are reported beside the objective.
type Metrics struct {
	MeanJCTSeconds         float64
	WeightedMeanJCTSeconds float64 // value / Σ w
	MakespanUs             int64
	Utilization            []TypeUse // by type, sorted
	Switches               int64     // the changes of job on GPUs
	JainIndex              float64   // the fairness of JCT over the job's least time; 1 is even
	BoundMethod            string    // the method of the certificate
	Tasks                  int64
	// Deadlines is nil where no job has a deadline.
	Deadlines *DeadlineMetrics
	// Setups is nil where no job has a setup.
	Setups *SetupMetrics
}

// SetupMetrics says how often GPUs are set up for jobs.
type SetupMetrics struct {
	Count       int64   // setups of one GPU each that take time
	TimeSeconds float64 // GPU-time
}

// DeadlineMetrics says how many deadlines a schedule meets, whatever the objective.
type DeadlineMetrics struct {
	Jobs, Met        int64   // the jobs with deadlines, and those that end by then
	MetShare         float64 // Met / Jobs
	TardinessSeconds float64 // Σ max(0, C − d), without weights
}

// TypeUse is the used share of the GPU time in service up to the makespan.
type TypeUse struct {
	Type string
	Use  float64
}

// GapReport divides value − bound, in weight-seconds. A schedule would be optimal if no
// job had a reduced cost and no priced capacity were idle.
type GapReport struct {
	// Excess is value − bound: ReducedCost + IdleCapacity.
	Excess float64
	// ReducedCost sums over jobs w C + the price of their use − the least such sum of the
	// job alone.
	ReducedCost float64
	// IdleCapacity is the price of the capacity that could have been used and was not.
	// IdleByType is the same by type, sorted.
	IdleCapacity float64
	IdleByType   []TypeIdle
	// Jobs are the jobs of the greatest reduced cost, at most MaxReportedJobs.
	Jobs []JobExcess
}

// MaxReportedJobs limits the jobs of a gap report.
const MaxReportedJobs = 20

// TypeIdle is the price of a type's idle capacity.
type TypeIdle struct {
	Type string
	Idle float64
}

// JobExcess is a job's reduced cost.
type JobExcess struct {
	ID          string
	ReducedCost float64
}

// Timing is the wall time by phase. Only Timing may differ between equal runs.
type Timing struct {
	Total, Relax, Assign, Improve, Verify time.Duration
}

// JobResult is one job's times.
type JobResult struct {
	ID             string
	StartUs, EndUs int64
}

// MaxTaskObjects limits results with detail "tasks".
const MaxTaskObjects = 10_000

// Gap returns value/bound − 1 rounded up at six decimals; 0 if they are equal. It
// returns false ("no useful bound") if bound ≤ 0 < value or one of them is missing.
func (r *Result) Gap() (gap *big.Rat, ok bool) {
	switch {
	case r.Value == nil || r.Bound == nil:
		return nil, false
	case r.Value.Cmp(*r.Bound) == 0:
		return new(big.Rat), true
	case r.Bound.Sign() <= 0:
		return nil, false
	}
	v, b := r.Value.Big(), r.Bound.Big()
	num := new(big.Int).Sub(v, b)
	num.Mul(num, big.NewInt(1e6))
	num.Add(num, new(big.Int).Sub(b, big.NewInt(1)))
	return new(big.Rat).SetFrac(num.Div(num, b), big.NewInt(1e6)), true
}
