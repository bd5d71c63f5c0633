package openapi

// Replan says how a plan for the rest of an earlier one hangs together with the
// whole. Times are on the clock of the whole instance, while those of the result
// start at at_s.
type Replan struct {
	AtS float64 `json:"at_s" validate:"required"`
	// Stability is what moving planned work had to bring, in weight-seconds per GPU-second.
	Stability float64 `json:"stability" validate:"required"`
	// InstanceSHA256 names the whole instance.
	InstanceSHA256 string `json:"instance_sha256" validate:"required"`
	// Constant is the part of the whole's objective that no plan for the rest changes.
	Constant float64 `json:"constant" validate:"required"`
	// WholeValue is value + constant, WholeBound bound + constant.
	WholeValue float64 `json:"whole_value,omitempty"`
	WholeBound float64 `json:"whole_bound,omitempty"`
	// KeptValue is the value of the plan that moves only what it must, and gain what the moves bring beside it.
	KeptValue float64 `json:"kept_value,omitempty"`
	Gain      float64 `json:"gain,omitempty"`
	// PlannedGPUS is the GPU-time planned before and not started, MovedGPUS how much of it has another start or type, ForcedGPUS how much of that had to.
	PlannedGPUS float64       `json:"planned_gpu_s" validate:"required"`
	MovedGPUS   float64       `json:"moved_gpu_s" validate:"required"`
	ForcedGPUS  float64       `json:"forced_gpu_s" validate:"required"`
	Started     []StartedWork `json:"started" validate:"required"`
	Lost        []LostWork    `json:"lost" validate:"required"`
	Moved       []MovedJob    `json:"moved" validate:"required"`
	// Kept are planned jobs that stay.
	Kept    []string `json:"kept" validate:"required"`
	Added   []string `json:"added" validate:"required"`
	Removed []string `json:"removed" validate:"required"`
	// GPUs are those of nodes that instance splits, with their names in the whole.
	GPUs map[string]string `json:"gpus,omitempty"`
	// Instance is what is left: the result is about it.
	Instance Instance `json:"instance,omitempty"`
	// Schedule of the whole: what has run, what has started, and the new plan.
	Schedule Schedule `json:"schedule,omitempty"`
	// ScheduleMissing says why there is none.
	ScheduleMissing string `json:"schedule_missing,omitempty"`
} //	@name	Replan

// StartedWork runs at the planning instant and stays.
type StartedWork struct {
	Job string `json:"job" validate:"required"`
	// Rounds are done when it ends.
	Rounds int64   `json:"rounds" validate:"required"`
	UntilS float64 `json:"until_s" validate:"required"`
} //	@name	StartedWork

// LostWork is a started round that must be repeated, and the GPU that it lacks.
type LostWork struct {
	Job   string `json:"job" validate:"required"`
	Round int64  `json:"round" validate:"required"`
	GPU   string `json:"gpu" validate:"required"`
} //	@name	LostWork

// MovedJob is a job whose work has another start or type than before.
type MovedJob struct {
	Job  string   `json:"job" validate:"required"`
	From JobPlace `json:"from" validate:"required"`
	To   JobPlace `json:"to" validate:"required"`
	// DeltaEndS is negative where the job ends earlier.
	DeltaEndS float64 `json:"delta_end_s" validate:"required"`
	GPUS      float64 `json:"gpu_s" validate:"required"`
	Why       string  `json:"why" validate:"required" enums:"lost,cluster,changed,earlier,made_way"`
} //	@name	MovedJob

// JobPlace is what of a job is planned, from its first start to its end.
type JobPlace struct {
	Types  []string `json:"types" validate:"required"`
	StartS float64  `json:"start_s" validate:"required"`
	EndS   float64  `json:"end_s" validate:"required"`
} //	@name	JobPlace
