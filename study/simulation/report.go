package simulation

// Summary is what a report says beside its runs. Reports, the last lines of answers,
// the client and the specification have it from here.
type Summary struct {
	// Means are over the repeats of each policy, where there are several.
	Means []Means `json:"means,omitempty"`
	// Notes say what was assumed or changed to make the jobs fit.
	Notes []string `json:"notes,omitempty"`
	// Played says what was simulated; left out where no run ended.
	Played *Played `json:"played,omitempty"`
	// Bound is what no plan of the jobs can go below; left out where it was not asked for.
	Bound *Bound `json:"bound,omitempty"`
	// Labels are those of the request.
	Labels map[string]string `json:"labels,omitempty"`
}

// Played is what the policies played.
type Played struct {
	// Jobs says where they came from: the name of a trace or instance, or how they were drawn.
	Jobs string `json:"jobs" validate:"required"`
	// Cluster is its GPUs, by type.
	Cluster string `json:"cluster" validate:"required"`
	// Seed is that of the first repeat.
	Seed uint64 `json:"seed" validate:"required"`
} //	@name	SimulationPlayed

// Bound is a certified bound of the jobs that policies of tasks played.
type Bound struct {
	// WeightedJCTS is the bound on the sum of weight times completion less arrival, rounded down.
	WeightedJCTS float64 `json:"weighted_jct_s" validate:"required"`
	// Method is how it was computed.
	Method string `json:"method" validate:"required"`
	// Above says by which fraction the runs of a policy exceed the bound at most, by policy,
	// the worst of its repeats; of verified runs alone, and empty where the bound is 0.
	Above map[string]float64 `json:"above" validate:"required"`
} //	@name	SimulationBound

// Means is a policy over its repeats.
type Means struct {
	Policy  string `json:"policy" validate:"required"`
	Engine  string `json:"engine" validate:"required" enums:"task,lease,elastic"`
	Repeats int64  `json:"repeats" validate:"required"`
	// Figures by name, as a run has them.
	Figures map[string]MeanInterval `json:"figures" validate:"required"`
} //	@name	SimulationMeans

// MeanInterval is a mean over repeats.
type MeanInterval struct {
	Mean float64 `json:"mean" validate:"required"`
	// Half is half the width of the 95 % confidence interval by Student's t; null for one repeat.
	Half *float64 `json:"half" validate:"required" extensions:"x-nullable"`
} //	@name	MeanInterval
