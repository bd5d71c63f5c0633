package openapi

// WhatIfLine is one line of the answer. Value, bound and gap are null where not known, and in the summary.
type WhatIfLine struct {
	Line string `json:"line" enums:"base,scenario,summary"`
	// Index of the scenario in the request.
	Index int64  `json:"index,omitempty"`
	ID    string `json:"id,omitempty"`
	// Status is failed where error says why.
	Status         string `json:"status" enums:"succeeded,failed"`
	InstanceSHA256 string `json:"instance_sha256,omitempty"`
	// Pruned: answered from the bound alone.
	Pruned bool     `json:"pruned,omitempty"`
	Value  *float64 `json:"value"`
	Bound  *float64 `json:"bound"`
	Gap    *float64 `json:"gap"`
	// Plan is where the value is from: the scenario's own search, or the base's plan, which the scenario allows too.
	Plan string `json:"plan,omitempty" enums:"search,base"`
	// BoundFrom is base_prices, base (the base's bound, where the scenario only tightens limits), or the method of the bound.
	BoundFrom string `json:"bound_from,omitempty" enums:"base_prices,base,price,critical_path,machine"`
	// ValueChange is value − value of the base.
	ValueChange float64 `json:"value_change,omitempty"`
	// OptimumChange are the ends between which the scenario's optimum less the base's must lie; null where not known.
	OptimumChange []float64  `json:"optimum_change,omitempty"`
	Jobs          JobChanges `json:"jobs,omitempty"`
	Termination   string     `json:"termination,omitempty" enums:"optimal,gap,work_limit,deadline,cancelled,infeasible,no_schedule"`
	Reasons       []Reason   `json:"reasons,omitempty"`
	// Notes say what of the scenario has no effect, and why.
	Notes        []string   `json:"notes,omitempty"`
	Reproducible bool       `json:"reproducible,omitempty"`
	Counts       LineCounts `json:"counts,omitempty"`
	// Refined stands in the summary: what all answers together prove of scenarios beyond their own lines.
	Refined []RefinedLine `json:"refined,omitempty"`
	Timing  LineTiming    `json:"timing"`
	Error   Problem       `json:"error,omitempty"`
} //	@name	WhatIfLine

// RefinedLine is what all answers of a batch together prove about one scenario.
type RefinedLine struct {
	// Index of the scenario in the request.
	Index int64  `json:"index"`
	ID    string `json:"id,omitempty"`
	// Bound is the best lower bound on the scenario's optimum.
	Bound float64 `json:"bound,omitempty"`
	// OptimumChange are the ends between which the scenario's optimum less the base's must lie; null where not known.
	OptimumChange []float64 `json:"optimum_change"`
} //	@name	RefinedLine

// LineCounts count the scenarios by how they were answered.
type LineCounts struct {
	Scenarios int64 `json:"scenarios"`
	Solved    int64 `json:"solved"`
	Pruned    int64 `json:"pruned"`
	// Bounded had no time for a solve.
	Bounded int64 `json:"bounded"`
	Failed  int64 `json:"failed"`
} //	@name	LineCounts

// LineTiming is in seconds of wall time.
type LineTiming struct {
	TotalS float64 `json:"total_s"`
	// WaitS is the part spent in the queue.
	WaitS float64 `json:"wait_s"`
} //	@name	LineTiming

// JobChanges compare the jobs that both plans have.
type JobChanges struct {
	// Gain counts the jobs that end earlier.
	Gain int64 `json:"gain"`
	// Lose counts those that end later.
	Lose int64 `json:"lose"`
	// ByWeightedChange are those whose weight · (end − release) changes most, at most 20.
	ByWeightedChange []ScenarioJob `json:"by_weighted_change"`
	// ByEndChange are those whose end changes most, at most 20.
	ByEndChange []ScenarioJob `json:"by_end_change"`
} //	@name	JobChanges

// ScenarioJob is one job in both plans.
type ScenarioJob struct {
	ID             string  `json:"id"`
	BaseEndS       float64 `json:"base_end_s"`
	EndS           float64 `json:"end_s"`
	EndChangeS     float64 `json:"end_change_s"`
	WeightedChange float64 `json:"weighted_change"`
} //	@name	ScenarioJob
