package openapi

// SolveJobs lists the jobs of a solve.
type SolveJobs struct {
	// Count is how many there are in all.
	Count int64       `json:"count" validate:"required"`
	Jobs  []ListedJob `json:"jobs" validate:"required"`
} //	@name	SolveJobs

// ListedJob is one job of a solve with its times.
type ListedJob struct {
	Job      string  `json:"job" validate:"required"`
	Weight   float64 `json:"weight" validate:"required"`
	ReleaseS float64 `json:"release_s" validate:"required"`
	StartS   float64 `json:"start_s" validate:"required"`
	EndS     float64 `json:"end_s" validate:"required"`
	// WaitS is from the release to the first start.
	WaitS float64 `json:"wait_s" validate:"required"`
	// JCTS is from the release to the end.
	JCTS float64 `json:"jct_s" validate:"required"`
	// LeastS is what no plan on an empty cluster is below.
	LeastS float64 `json:"least_s" validate:"required"`
	// Stretch is jct_s over least_s.
	Stretch float64 `json:"stretch" validate:"required"`
	// Cost is weight times jct_s.
	Cost float64 `json:"cost" validate:"required"`
	// Share is that of the value.
	Share float64 `json:"share" validate:"required"`
} //	@name	ListedJob

// Explanation says why a job of a solve starts and ends when it does.
type Explanation struct {
	// About says what the statements are about.
	About string `json:"about" validate:"required"`
	Job   string `json:"job" validate:"required"`
	Sync  string `json:"sync" validate:"required" enums:"relaxed,gang,rigid"`
	// Outcome is the termination of a solve without schedule, which gives reasons and no times.
	Outcome  string     `json:"outcome" validate:"required" enums:"scheduled,infeasible,no_schedule,cancelled,deadline"`
	Reasons  []Obstacle `json:"reasons,omitempty"`
	Weight   float64    `json:"weight,omitempty"`
	ReleaseS float64    `json:"release_s,omitempty"`
	StartS   float64    `json:"start_s,omitempty"`
	EndS     float64    `json:"end_s,omitempty"`
	// WaitS is from the release to the first start.
	WaitS float64 `json:"wait_s,omitempty"`
	// JCTS is from the release to the end.
	JCTS float64 `json:"jct_s,omitempty"`
	// LeastS is what no plan on an empty cluster is below.
	LeastS  float64 `json:"least_s,omitempty"`
	Stretch float64 `json:"stretch,omitempty"`
	Cost    float64 `json:"cost,omitempty"`
	Share   float64 `json:"share,omitempty"`
	// Timeline is from the release to the end, without gaps.
	Timeline []JobSpan `json:"timeline,omitempty"`
	Price    JobPrice  `json:"price,omitempty"`
	// Elsewhere is what the job would cost on each type alone, the least first.
	Elsewhere []TypeCost `json:"elsewhere,omitempty"`
	Earlier   JobEarlier `json:"earlier,omitempty"`
	Notes     []string   `json:"notes,omitempty"`
} //	@name	Explanation

// Obstacle is a reason of a solve without schedule.
type Obstacle struct {
	Code   string `json:"code" validate:"required"`
	Detail string `json:"detail" validate:"required"`
} //	@name	Obstacle

// JobSpan is a part of a job's time.
type JobSpan struct {
	State string  `json:"state" validate:"required" enums:"waiting,running"`
	FromS float64 `json:"from_s" validate:"required"`
	ToS   float64 `json:"to_s" validate:"required"`
	// Round is the first of rounds that run, or the one that waits.
	Round  int64 `json:"round" validate:"required"`
	Rounds int64 `json:"rounds,omitempty"`
	// GPUs are by type the most that a round uses.
	GPUs map[string]int64 `json:"gpus,omitempty"`
	// PausedS is for how long in all no round runs: waits too short to be listed.
	PausedS float64 `json:"paused_s,omitempty"`
	// Pays is by type the price of the GPU time, in weight-seconds.
	Pays map[string]float64 `json:"pays,omitempty"`
	// Waits are by type what the round waits for.
	Waits []JobWait `json:"waits,omitempty"`
} //	@name	JobSpan

// JobWait is why a round did not start on GPUs of a type. No_service: too few
// were in service; busy: too many of them were busy; held: too few were free of
// other jobs; too_short: they were not free for long enough; choice: it could
// have started, and the plan waits for better.
type JobWait struct {
	// Type has several types with + for a gang that mixes them.
	Type  string  `json:"type" validate:"required"`
	Cause string  `json:"cause" validate:"required" enums:"no_service,busy,held,too_short,choice"`
	FromS float64 `json:"from_s" validate:"required"`
	ToS   float64 `json:"to_s" validate:"required"`
	// ForS is for how long in all it held between the two.
	ForS float64 `json:"for_s" validate:"required"`
	// Need is how many GPUs must be free together, need_s for how long, free the most that were.
	Need  int64   `json:"need" validate:"required"`
	NeedS float64 `json:"need_s" validate:"required"`
	Free  int64   `json:"free" validate:"required"`
	// UntilS is when the first more comes into service, or is no longer busy.
	UntilS float64 `json:"until_s,omitempty"`
	// Jobs hold them; others more do.
	Jobs   []JobHolder `json:"jobs,omitempty"`
	Others int64       `json:"others,omitempty"`
} //	@name	JobWait

// JobHolder is a job that holds GPUs that another waits for.
type JobHolder struct {
	Job    string  `json:"job" validate:"required"`
	GPUs   int64   `json:"gpus" validate:"required"`
	UntilS float64 `json:"until_s" validate:"required"`
} //	@name	JobHolder

// JobPrice is what a job costs at the certificate's prices, in weight-seconds.
type JobPrice struct {
	Paid   float64      `json:"paid" validate:"required"`
	ByType []TypeCharge `json:"by_type" validate:"required"`
	// Least is that of cost and price over the job's own choices.
	Least float64 `json:"least" validate:"required"`
	// ReducedCost is cost and price less that: the job's part of value less bound.
	ReducedCost  float64 `json:"reduced_cost" validate:"required"`
	ReducedShare float64 `json:"reduced_share" validate:"required"`
} //	@name	JobPrice

// TypeCharge is what a job pays for GPUs of a type.
type TypeCharge struct {
	Type string `json:"type" validate:"required"`
	// GPUS is GPU-seconds held.
	GPUS float64 `json:"gpu_s" validate:"required"`
	Paid float64 `json:"paid" validate:"required"`
} //	@name	TypeCharge

// TypeCost is what a job would cost on one type alone, at the certificate's prices.
type TypeCost struct {
	Type string `json:"type" validate:"required"`
	// Least is left out where it can never run there alone.
	Least float64 `json:"least,omitempty"`
	// More is how much that is above the least over all types.
	More float64 `json:"more,omitempty"`
	// EndS is when it would end there for that.
	EndS   float64 `json:"end_s,omitempty"`
	Detail string  `json:"detail,omitempty"`
} //	@name	TypeCost

// JobEarlier says with which changes a job ends by a time.
type JobEarlier struct {
	ByS float64 `json:"by_s" validate:"required"`
	// EndS is the end without a change.
	EndS float64 `json:"end_s" validate:"required"`
	// Baseline is what changes are compared with: solved_again where the clock had a part in the result.
	Baseline string `json:"baseline" validate:"required" enums:"result,solved_again"`
	Already  bool   `json:"already" validate:"required"`
	// EarliestS is proved: no plan on this cluster ends the job sooner.
	EarliestS float64     `json:"earliest_s" validate:"required"`
	Changes   []JobChange `json:"changes" validate:"required"`
	// Cheapest is the index of the change that does it and costs the other jobs least; left out where none does.
	Cheapest int64 `json:"cheapest,omitempty"`
	Solves   int64 `json:"solves" validate:"required"`
	Finished bool  `json:"finished" validate:"required"`
	// Unfinished says what ended the search.
	Unfinished string `json:"unfinished,omitempty"`
} //	@name	JobEarlier

// JobChange is the least change of a kind that was found to do it, or that none does.
type JobChange struct {
	Kind string `json:"kind" validate:"required" enums:"add_gpu,weight,fewer_rounds"`
	Does bool   `json:"does" validate:"required"`
	// Finished is false where the search for a lesser one did not end.
	Finished bool `json:"finished" validate:"required"`
	// Weight is the job's new one.
	Weight float64 `json:"weight,omitempty"`
	// Rounds are the job's new ones.
	Rounds int64 `json:"rounds,omitempty"`
	// Type is that of the GPU added, as the node.
	Type string `json:"type,omitempty"`
	Node string `json:"node,omitempty"`
	// NotWeight is the nearest lesser change that was tried and does not do it.
	NotWeight float64 `json:"not_weight,omitempty"`
	// NotRounds is the same for rounds.
	NotRounds int64   `json:"not_rounds,omitempty"`
	Tried     int64   `json:"tried" validate:"required"`
	Detail    string  `json:"detail,omitempty"`
	EndS      float64 `json:"end_s,omitempty"`
	// OthersCost is how much the weighted completion time of the other jobs rises.
	OthersCost float64 `json:"others_cost,omitempty"`
	// Delayed and sooner count the other jobs that end later and sooner.
	Delayed int64 `json:"delayed" validate:"required"`
	Sooner  int64 `json:"sooner" validate:"required"`
	// Jobs are up to 10 that are delayed, the dearest first.
	Jobs []JobDelay `json:"jobs,omitempty"`
} //	@name	JobChange

// JobDelay is a job that ends later.
type JobDelay struct {
	Job  string  `json:"job" validate:"required"`
	ByS  float64 `json:"by_s" validate:"required"`
	EndS float64 `json:"end_s" validate:"required"`
	// Cost is its weight times by_s.
	Cost float64 `json:"cost" validate:"required"`
} //	@name	JobDelay
