package openapi

// WhatIfRequest asks what would change.
type WhatIfRequest struct {
	Base WhatIfBase `json:"base" validate:"required"`
	// Scenarios, at most 1,000.
	Scenarios []Scenario `json:"scenarios" validate:"required"`
	// Options of all solves; time_limit_s covers the whole batch. Detail is refused.
	Options Options `json:"options,omitempty"`
	Prune   Prune   `json:"prune,omitempty"`
	// Ordered asks for the scenarios in their order, not as they finish.
	Ordered bool `json:"ordered,omitempty"`
} //	@name	WhatIfRequest

// WhatIfBase is what scenarios are compared with: an instance, with its result
// or to be solved, or a stored solve.
type WhatIfBase struct {
	Instance Instance `json:"instance,omitempty"`
	// Result of the instance with its schedule; it is verified.
	Result Result `json:"result,omitempty"`
	// SolveID names a stored solve.
	SolveID string `json:"solve_id,omitempty"`
} //	@name	WhatIfBase

// Prune answers from the bound alone where that says enough.
type Prune struct {
	// BelowS: scenarios whose value is proved not to fall by more than this below the base's, in weight-seconds, are not solved.
	BelowS float64 `json:"below_s" validate:"required" minimum:"0"`
} //	@name	Prune

// Scenario is one change of the base. Its parts apply in the order of the fields here.
type Scenario struct {
	// ID is unique in the request; left out: the place of the scenario.
	ID string `json:"id,omitempty"`
	// Patch (RFC 6902) applies to the instance's document as it was sent, or for a stored solve as Hare writes it.
	Patch      []PatchOperation `json:"patch,omitempty"`
	RemoveJobs []string         `json:"remove_jobs,omitempty"`
	// ScaleWeights is a factor for all jobs, or an object of factors by job id. The new weights must have at most six decimals: nothing is rounded.
	ScaleWeights map[string]float64 `json:"scale_weights,omitempty"`
	AddJobs      []Job              `json:"add_jobs,omitempty"`
	// RemoveGPUs is an object or an array of them.
	RemoveGPUs []RemoveGPUs `json:"remove_gpus,omitempty"`
	// Drain is an object or an array of them.
	Drain []Drain `json:"drain,omitempty"`
	// AddGPUs is an object or an array of them.
	AddGPUs []AddGPUs `json:"add_gpus,omitempty"`
	// Options of this scenario's solve, over those of the request.
	Options Options `json:"options,omitempty"`
} //	@name	Scenario

// PatchOperation is one operation of RFC 6902.
type PatchOperation struct {
	Op   string `json:"op" validate:"required" enums:"add,remove,replace,move,copy,test"`
	Path string `json:"path" validate:"required"`
	// From is needed by move and copy.
	From string `json:"from,omitempty"`
	// Value is needed by add, replace and test.
	Value interface{} `json:"value,omitempty"`
} //	@name	PatchOperation

// RemoveGPUs takes GPUs of one node away, those of the highest index first. What follows them is counted anew; a busy time goes with its GPU. A node without GPUs goes.
type RemoveGPUs struct {
	// Node is a name; copies of a node with count are named name-0 and so on.
	Node string `json:"node" validate:"required"`
	// Type is needed where the node has several.
	Type  string `json:"type,omitempty"`
	Count int64  `json:"count" validate:"required" minimum:"1"`
} //	@name	RemoveGPUs

// Drain ends the service of a node. A node that would never be in service goes.
type Drain struct {
	Node string  `json:"node" validate:"required"`
	AtS  float64 `json:"at_s" validate:"required" minimum:"0"`
} //	@name	Drain

// AddGPUs adds a node that is always in service.
type AddGPUs struct {
	Type  string `json:"type" validate:"required"`
	Count int64  `json:"count" validate:"required" minimum:"1"`
	// Name of the new node; left out: the first free one of added-0, added-1 and so on.
	Name string `json:"name,omitempty"`
} //	@name	AddGPUs

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
