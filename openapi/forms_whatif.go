package openapi

// WhatIfLine is one line of the answer. Value, bound and gap are null where not known, and in the summary.
type WhatIfLine struct {
	Line string `json:"line" validate:"required" enums:"base,scenario,summary"`
	// Index of the scenario in the request.
	Index int64  `json:"index,omitempty"`
	ID    string `json:"id,omitempty"`
	// Status is failed where error says why.
	Status         string `json:"status" validate:"required" enums:"succeeded,failed"`
	InstanceSHA256 string `json:"instance_sha256,omitempty"`
	// Pruned: answered from the bound alone.
	Pruned bool    `json:"pruned,omitempty"`
	Value  float64 `json:"value" validate:"required" extensions:"x-nullable"`
	Bound  float64 `json:"bound" validate:"required" extensions:"x-nullable"`
	Gap    float64 `json:"gap" validate:"required" extensions:"x-nullable"`
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
	Timing  LineTiming    `json:"timing" validate:"required"`
	Error   Problem       `json:"error,omitempty"`
} //	@name	WhatIfLine

// RefinedLine is what all answers of a batch together prove about one scenario.
type RefinedLine struct {
	// Index of the scenario in the request.
	Index int64  `json:"index" validate:"required"`
	ID    string `json:"id,omitempty"`
	// Bound is the best lower bound on the scenario's optimum.
	Bound float64 `json:"bound,omitempty"`
	// OptimumChange are the ends between which the scenario's optimum less the base's must lie; null where not known.
	OptimumChange []float64 `json:"optimum_change" validate:"required"`
} //	@name	RefinedLine

// LineCounts count the scenarios by how they were answered.
type LineCounts struct {
	Scenarios int64 `json:"scenarios" validate:"required"`
	Solved    int64 `json:"solved" validate:"required"`
	Pruned    int64 `json:"pruned" validate:"required"`
	// Bounded had no time for a solve.
	Bounded int64 `json:"bounded" validate:"required"`
	Failed  int64 `json:"failed" validate:"required"`
} //	@name	LineCounts

// LineTiming is in seconds of wall time.
type LineTiming struct {
	TotalS float64 `json:"total_s" validate:"required"`
	// WaitS is the part spent in the queue.
	WaitS float64 `json:"wait_s" validate:"required"`
} //	@name	LineTiming

// JobChanges compare the jobs that both plans have.
type JobChanges struct {
	// Gain counts the jobs that end earlier.
	Gain int64 `json:"gain" validate:"required"`
	// Lose counts those that end later.
	Lose int64 `json:"lose" validate:"required"`
	// ByWeightedChange are those whose weight · (end − release) changes most, at most 20.
	ByWeightedChange []ScenarioJob `json:"by_weighted_change" validate:"required"`
	// ByEndChange are those whose end changes most, at most 20.
	ByEndChange []ScenarioJob `json:"by_end_change" validate:"required"`
} //	@name	JobChanges

// ScenarioJob is one job in both plans.
type ScenarioJob struct {
	ID             string  `json:"id" validate:"required"`
	BaseEndS       float64 `json:"base_end_s" validate:"required"`
	EndS           float64 `json:"end_s" validate:"required"`
	EndChangeS     float64 `json:"end_change_s" validate:"required"`
	WeightedChange float64 `json:"weighted_change" validate:"required"`
} //	@name	ScenarioJob

// Prices are those of a solve's certificate, by type and time.
type Prices struct {
	InstanceSHA256 string  `json:"instance_sha256" validate:"required"`
	Bound          float64 `json:"bound" validate:"required"`
	// Meaning says what the figures are, and are not.
	Meaning string `json:"meaning" validate:"required"`
	// GridS are the ends of the cells, in seconds; behind the last, prices are 0.
	GridS []float64   `json:"grid_s" validate:"required"`
	Types []TypePrice `json:"types" validate:"required"`
	Sizes []SizePrice `json:"sizes,omitempty"`
} //	@name	Prices

// TypePrice is one type's price of a GPU-second, in weight-seconds.
type TypePrice struct {
	Type string `json:"type" validate:"required"`
	// Total is Σ price · length, or where gangs have prices of their own what the dearest use of one more GPU costs.
	Total float64 `json:"total" validate:"required"`
	// BoundFall is an upper limit on how far the bound can fall with one more GPU of the type, always in service. It is not what that GPU is worth.
	BoundFall float64 `json:"bound_fall" validate:"required"`
	// Prices by cell.
	Prices []float64 `json:"prices" validate:"required"`
} //	@name	TypePrice

// SizePrice is the price of several GPUs that one gang holds together, for a second.
type SizePrice struct {
	Type   string    `json:"type" validate:"required"`
	Tasks  int64     `json:"tasks" validate:"required"`
	Prices []float64 `json:"prices" validate:"required"`
} //	@name	SizePrice
