package openapi

// The types below are the JSON documents of the HTTP interface as their
// readers and writers see them; the schemas of the specification come from
// them. Nothing decodes into them: package hare reads and writes the forms, in
// exact decimals and without reflection.

// Result is the answer to a solve. Later versions may add fields.
type Result struct {
	Hare string `json:"hare" validate:"required" enums:"result/v1"`
	// InstanceSHA256 is over the canonical form of the instance, as hare hash prints it.
	InstanceSHA256 string `json:"instance_sha256" validate:"required"`
	Version        string `json:"version" validate:"required"`
	Seed           int64  `json:"seed" validate:"required"`
	Status         string `json:"status" validate:"required" enums:"succeeded,cancelled,failed"`
	// Termination says why the solve stopped.
	Termination string `json:"termination" validate:"required" enums:"optimal,gap,work_limit,deadline,cancelled,infeasible,no_schedule"`
	// Reproducible: the clock decided nothing, so that the same call gives the same bytes, timing excepted.
	Reproducible bool `json:"reproducible" validate:"required"`
	// Degraded: the server had too much to do, and the options allowed a greedy schedule and a coarse bound.
	Degraded  bool   `json:"degraded,omitempty"`
	Objective string `json:"objective" validate:"required" enums:"weighted_jct"`
	// Value of the schedule, exact; null without a schedule.
	Value float64 `json:"value" validate:"required" extensions:"x-nullable"`
	// Bound below which no schedule can be, rounded down at six decimals; null without one.
	Bound float64 `json:"bound" validate:"required" extensions:"x-nullable"`
	// Gap is value/bound − 1, rounded up at six decimals; null without a useful bound.
	Gap float64 `json:"gap" validate:"required" extensions:"x-nullable"`
	// Reasons say why the instance is infeasible or no schedule was found.
	Reasons []Reason `json:"reasons,omitempty"`
	Options Options  `json:"options" validate:"required"`
	Engine  Engine   `json:"engine" validate:"required"`
	Metrics Metrics  `json:"metrics,omitempty"`
	// GapReport is left out where the bound is not made of prices.
	GapReport GapReport `json:"gap_report,omitempty"`
	Timing    Timing    `json:"timing" validate:"required"`
	// Jobs in the order of the instance.
	Jobs        []JobResult `json:"jobs,omitempty"`
	Certificate Certificate `json:"certificate,omitempty"`
	// Tasks are listed with detail tasks alone.
	Tasks    []Task   `json:"tasks,omitempty"`
	Schedule Schedule `json:"schedule,omitempty"`
	// Replan is there for plans for the rest of an earlier one alone.
	Replan Replan `json:"replan,omitempty"`
} //	@name	Result

// Reason is one obstacle.
type Reason struct {
	// Pointer (RFC 6901) into the instance.
	Pointer string `json:"pointer,omitempty"`
	Job     string `json:"job,omitempty"`
	Code    string `json:"code" validate:"required"`
	Detail  string `json:"detail" validate:"required"`
} //	@name	Reason

// Engine names what computed the result.
type Engine struct {
	// HiGHS is its version, empty when the LP engine was not there.
	HiGHS string `json:"highs" validate:"required"`
} //	@name	Engine

// Metrics stand beside the objective.
type Metrics struct {
	MeanJCTS         float64 `json:"mean_jct_s" validate:"required"`
	WeightedMeanJCTS float64 `json:"weighted_mean_jct_s" validate:"required"`
	MakespanS        float64 `json:"makespan_s" validate:"required"`
	// Utilization by GPU type is the share of the GPU time in service, up to the makespan, that was held.
	Utilization map[string]float64 `json:"utilization" validate:"required"`
	// Switches are changes of job on a GPU.
	Switches int64 `json:"switches" validate:"required"`
	// JainIndex is the fairness of completion times over least times; 1 is even.
	JainIndex   float64 `json:"jain_index" validate:"required"`
	BoundMethod string  `json:"bound_method" validate:"required"`
	Tasks       int64   `json:"tasks" validate:"required"`
} //	@name	Metrics

// GapReport says where value − bound sits, in weight-seconds.
type GapReport struct {
	// Excess is value − bound: the sum of the next two.
	Excess float64 `json:"excess" validate:"required"`
	// ReducedCost sums over jobs what they cost over the least that each could cost on its own at the certificate's prices.
	ReducedCost float64 `json:"reduced_cost" validate:"required"`
	// IdleCapacity is the price of what GPUs could have been used for and were not.
	IdleCapacity float64            `json:"idle_capacity" validate:"required"`
	IdleByType   map[string]float64 `json:"idle_by_type" validate:"required"`
	// Jobs are those of the greatest reduced cost, at most 20.
	Jobs []JobExcess `json:"jobs" validate:"required"`
} //	@name	GapReport

// JobExcess is a job's reduced cost, in weight-seconds.
type JobExcess struct {
	ID          string  `json:"id" validate:"required"`
	ReducedCost float64 `json:"reduced_cost" validate:"required"`
} //	@name	JobExcess

// Timing is wall time by phase, in seconds; it alone differs between equal runs.
type Timing struct {
	TotalS   float64 `json:"total_s" validate:"required"`
	RelaxS   float64 `json:"relax_s" validate:"required"`
	AssignS  float64 `json:"assign_s" validate:"required"`
	ImproveS float64 `json:"improve_s" validate:"required"`
	VerifyS  float64 `json:"verify_s" validate:"required"`
} //	@name	Timing

// JobResult has one job's times, in seconds.
type JobResult struct {
	ID     string  `json:"id" validate:"required"`
	StartS float64 `json:"start_s,omitempty"`
	EndS   float64 `json:"end_s" validate:"required"`
} //	@name	JobResult

// Task is one task of the schedule, in seconds.
type Task struct {
	Job         string  `json:"job" validate:"required"`
	Round       int64   `json:"round" validate:"required"`
	GPU         string  `json:"gpu" validate:"required"`
	StartS      float64 `json:"start_s" validate:"required"`
	ComputeEndS float64 `json:"compute_end_s" validate:"required"`
	SyncEndS    float64 `json:"sync_end_s" validate:"required"`
} //	@name	Task

// BoundResult is a lower bound on the objective of every feasible schedule.
type BoundResult struct {
	Method string  `json:"method" validate:"required"`
	Bound  float64 `json:"bound" validate:"required"`
	// Certified says that the certificate proves the bound.
	Certified   bool        `json:"certified" validate:"required"`
	Certificate Certificate `json:"certificate,omitempty"`
} //	@name	BoundResult

// Report is the outcome of a check.
type Report struct {
	OK bool `json:"ok" validate:"required"`
	// Value recomputed from the schedule.
	Value float64 `json:"value,omitempty"`
	// Bound recomputed from the certificate.
	Bound float64 `json:"bound,omitempty"`
	// Constant is what the whole instance costs beside value, where the result is a plan for the rest of an earlier one.
	Constant float64 `json:"constant,omitempty"`
	// Note says what the figures are of, or what was not checked.
	Note   string  `json:"note,omitempty"`
	Faults []Fault `json:"faults,omitempty"`
} //	@name	Report

// Fault is one violated condition.
type Fault struct {
	// Constraint is a stable code.
	Constraint string `json:"constraint" validate:"required"`
	Job        string `json:"job,omitempty"`
	Round      int64  `json:"round,omitempty"`
	GPU        string `json:"gpu,omitempty"`
	// ByUs is by how many microseconds the condition fails.
	ByUs   int64  `json:"by_us,omitempty"`
	Detail string `json:"detail" validate:"required"`
} //	@name	Fault

// Version names the program and its LP engine.
type Version struct {
	Version string `json:"version" validate:"required"`
	// HiGHS is empty when the LP engine is not there.
	HiGHS string `json:"highs" validate:"required"`
} //	@name	Version

// Problem says why a request was refused (RFC 9457).
type Problem struct {
	Type   string `json:"type" validate:"required"`
	Title  string `json:"title" validate:"required"`
	Status int64  `json:"status" validate:"required"`
	// Code is stable.
	Code   string `json:"code" validate:"required"`
	Detail string `json:"detail" validate:"required"`
	// RequestID is in the server's log.
	RequestID string         `json:"request_id" validate:"required"`
	Errors    []ProblemError `json:"errors,omitempty"`
} //	@name	Problem

// ProblemError is one fault of the request.
type ProblemError struct {
	// Pointer (RFC 6901) into the request.
	Pointer string `json:"pointer" validate:"required"`
	Code    string `json:"code" validate:"required"`
	Detail  string `json:"detail" validate:"required"`
	Line    int64  `json:"line,omitempty"`
} //	@name	ProblemError
