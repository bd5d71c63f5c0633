package whatif

import (
	"encoding/json"

	"github.com/hare-sched/hare"
)

// Values of Outcome.Plan.
const (
	PlanSearch = "search" // the scenario's own solve
	PlanBase   = "base"   // the base's plan, which the scenario allows too
)

// Values of Outcome.BoundFrom, beside the methods of certificates.
const (
	BoundBasePrices = "base_prices" // the base's prices, evaluated for the scenario
	BoundBase       = "base"        // the base's bound, where the base is a relaxation of the scenario
)

// Values of Outcome.Line.
const (
	LineBase     = "base"
	LineScenario = "scenario"
	LineSummary  = "summary"
)

// Outcome is what a line of the answer says: of the base, of a scenario, or of all in the
// summary. The line of a scenario that failed has an error beside it.
type Outcome struct {
	Line string `json:"line" enums:"base,scenario,summary"`
	// Index is the index of the scenario in the request.
	Index *int   `json:"index,omitempty"`
	ID    string `json:"id,omitempty"`
	// Status is failed where error says why.
	Status         string `json:"status" enums:"succeeded,failed"`
	InstanceSHA256 string `json:"instance_sha256,omitempty"`
	// Pruned says that the scenario was answered from the bound alone.
	Pruned *bool        `json:"pruned,omitempty"`
	Value  *hare.Amount `json:"value"`
	Bound  *hare.Amount `json:"bound"`
	// Gap is value/bound − 1, rounded up at six decimals.
	Gap *json.Number `json:"gap" swaggertype:"number" extensions:"x-nullable"`
	// Plan says where the plan comes from: the scenario's own search, or the base's plan, which the scenario allows too.
	Plan string `json:"plan,omitempty" enums:"search,base"`
	// BoundFrom says where the bound comes from: base_prices are the base's prices, base is the base's bound where the
	// scenario only tightens limits, and the others are methods of bounds.
	BoundFrom string `json:"bound_from,omitempty" enums:"base_prices,base,price,critical_path,machine"`
	// ValueChange is the value less the base's.
	ValueChange *hare.Amount `json:"value_change,omitempty"`
	// OptimumChange is the interval in which the scenario's optimum less the base's optimum must lie. An end that is
	// not known is null.
	OptimumChange []*hare.Amount `json:"optimum_change,omitempty"`
	Jobs          *JobChanges    `json:"jobs,omitempty"`
	Termination   string         `json:"termination,omitempty" enums:"optimal,gap,work_limit,deadline,cancelled,infeasible,no_schedule"`
	Reasons       []ReasonLine   `json:"reasons,omitempty"`
	// Notes say which parts of the scenario have no effect, and why.
	Notes        []string `json:"notes,omitempty"`
	Reproducible *bool    `json:"reproducible,omitempty"`
	Counts       *Counts  `json:"counts,omitempty"`
	// Refined is in the summary: what all answers together prove about scenarios
	// beyond the scenarios' own lines.
	Refined []Refined `json:"refined,omitempty"`
	Timing  Timing    `json:"timing"`
}

// ReasonLine is hare.Reason in JSON.
type ReasonLine struct {
	Pointer string `json:"pointer,omitempty"`
	Job     string `json:"job,omitempty"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

// Counts count scenarios by how they were answered.
type Counts struct {
	Scenarios int `json:"scenarios"`
	Solved    int `json:"solved"`
	Pruned    int `json:"pruned"`
	// Bounded counts the scenarios for which there was no time to solve.
	Bounded int `json:"bounded"`
	Failed  int `json:"failed"`
} //	@name	LineCounts

// Timing is in seconds of wall time.
type Timing struct {
	TotalS float64 `json:"total_s"`
	// WaitS is the part spent in the queue.
	WaitS float64 `json:"wait_s"`
} //	@name	LineTiming

// Refined is what all answers of a batch together prove about one scenario beyond
// the scenario's own line: where one scenario is a relaxation of another, the
// bound of the first holds for the second, and the plan of the second is feasible
// for the first.
type Refined struct {
	// Index is the index of the scenario in the request.
	Index int    `json:"index"`
	ID    string `json:"id,omitempty"`
	// Bound is the best lower bound on the scenario's optimum.
	Bound *hare.Amount `json:"bound,omitempty"`
	// OptimumChange is the interval in which the scenario's optimum less the base's optimum must lie. An end that is
	// not known is null.
	OptimumChange []*hare.Amount `json:"optimum_change"`
} //	@name	RefinedLine

// MaxChangedJobs limits each list of a JobChanges.
const MaxChangedJobs = 20

// JobChanges compares the plans of the base and the scenario for the jobs that
// both have.
type JobChanges struct {
	// Gain counts the jobs that end earlier.
	Gain int `json:"gain"`
	// Lose counts the jobs that end later.
	Lose int `json:"lose"`
	// ByWeightedChange are the jobs whose weight · (end − release) changes most, in either direction, at most 20.
	ByWeightedChange []JobChange `json:"by_weighted_change"`
	// ByEndChange are the jobs whose end changes most, in either direction, at most 20.
	ByEndChange []JobChange `json:"by_end_change"`
} //	@name	JobChanges

// JobChange is one job in both plans.
type JobChange struct {
	ID             string       `json:"id"`
	BaseEndS       hare.Seconds `json:"base_end_s"`
	EndS           hare.Seconds `json:"end_s"`
	EndChangeS     hare.Seconds `json:"end_change_s"`
	WeightedChange hare.Amount  `json:"weighted_change"`
} //	@name	ScenarioJob
