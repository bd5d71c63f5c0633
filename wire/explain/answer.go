// Package explain has the documents of explanations: why a job starts and ends when it does,
// the list of jobs, and the prices of a certificate. Servers, clients and the specification share
// them; package explain fills them in.
package explain

import "github.com/hare-sched/hare"

// Answer says why a job of a result starts and ends when it does.
type Answer struct {
	// About says which plans the answer describes.
	About string `json:"about"`
	Job   string `json:"job"`
	Sync  string `json:"sync" enums:"relaxed,gang,rigid"`
	// Outcome is scheduled, or the termination of a result without schedule, which has reasons and no times.
	Outcome string   `json:"outcome" enums:"scheduled,infeasible,no_schedule,cancelled,deadline"`
	Reasons []Reason `json:"reasons,omitempty"`
	*Times
	// Timeline covers the time from the release to the end, without gaps.
	Timeline []Span `json:"timeline,omitempty"`
	// Price is nil where the bound is not made of prices.
	Price *Price `json:"price,omitempty"`
	// Elsewhere is what the job would cost on each type alone, the least cost first.
	Elsewhere []TypeCost `json:"elsewhere,omitempty"`
	Earlier   *Earlier   `json:"earlier,omitempty"`
	Notes     []string   `json:"notes,omitempty"`
} //	@name	Explanation

// Reason is a reason of a result without schedule.
type Reason struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
} //	@name	Obstacle

// Times are the figures of one job of a schedule.
type Times struct {
	Weight   hare.Seconds `json:"weight"`
	ReleaseS hare.Seconds `json:"release_s"`
	StartS   hare.Seconds `json:"start_s"`
	EndS     hare.Seconds `json:"end_s"`
	// WaitS is the time from the release to the first start.
	WaitS hare.Seconds `json:"wait_s"`
	// JCTS is the time from the release to the end.
	JCTS hare.Seconds `json:"jct_s"`
	// LeastS is a proved lower bound on jct_s: no plan ends the job sooner, even on an empty cluster.
	LeastS hare.Seconds `json:"least_s"`
	// Stretch is jct_s divided by least_s; 1 is best.
	Stretch float64 `json:"stretch"`
	// DeadlineS is the deadline of the job, if it has one.
	DeadlineS *hare.Seconds `json:"deadline_s,omitempty"`
	// LateS is how long after its deadline the job ends.
	LateS *hare.Seconds `json:"late_s,omitempty"`
	// Cost is weight times jct_s, and for the objective jct_and_tardiness also late_weight times late_s.
	Cost hare.Amount `json:"cost"`
	// Share is cost divided by the value of the whole schedule. It is 0 for the objective makespan, and for jobs that
	// end with the work that runs at time 0, which are no part of the value.
	Share float64 `json:"share"`
}

// JobList lists the jobs of a solve.
type JobList struct {
	// Count is the number of jobs of the instance.
	Count int         `json:"count"`
	Jobs  []ListedJob `json:"jobs"`
} //	@name	SolveJobs

// ListedJob is one job of a solve with its times.
type ListedJob struct {
	Job string `json:"job"`
	Times
} //	@name	ListedJob

// Span is a part of a job's time from its release to its end, in order and
// without gaps.
type Span struct {
	State string       `json:"state" enums:"waiting,running"`
	FromS hare.Seconds `json:"from_s"`
	ToS   hare.Seconds `json:"to_s"`
	// Round is the first of the rounds that run, or the round that waits: the job is released, and every earlier
	// round has synchronised. For a job with shapes, it is the first unit of this round.
	Round  int64 `json:"round"`
	Rounds int64 `json:"rounds,omitempty"`
	// GPUs holds, by type, the most GPUs that a round of the span uses.
	GPUs map[string]int64 `json:"gpus,omitempty"`
	// PausedS is for how long in all no round runs within the span. These are short waits, which are not listed.
	PausedS hare.Seconds `json:"paused_s,omitempty"`
	// Pays holds, by type, what the GPU time costs at the certificate's prices, in weight-seconds.
	Pays map[string]float64 `json:"pays,omitempty"`
	// Spread says over which levels the rounds are spread, where their times go by it, from fine to coarse.
	Spread []Spread `json:"spread,omitempty"`
	// Shapes says how many rounds have each shape, where the job has shapes.
	Shapes []ShapeRounds `json:"shapes,omitempty"`
	// Waits say what a waiting round waits for, by type.
	Waits []Wait `json:"waits,omitempty"`
} //	@name	JobSpan

// Spread is how many rounds one domain of a level holds, and none of a finer level.
type Spread struct {
	Level  string `json:"level"`
	Rounds int64  `json:"rounds"`
	// RoundS is how long such a round takes; the longest, where they differ.
	RoundS hare.Seconds `json:"round_s"`
	// MoreS is by how much the rounds take longer in all than rounds that are spread as little as the empty cluster
	// allows.
	MoreS hare.Seconds `json:"more_s"`
} //	@name	JobSpread

// ShapeRounds is how many rounds have a shape.
type ShapeRounds struct {
	// Shape is the position of the shape in the job's shapes, from 0.
	Shape  int   `json:"shape" format:"int64"`
	Rounds int64 `json:"rounds"`
} //	@name	JobShapeRounds

// Wait is why a round did not start on GPUs of a type.
type Wait struct {
	// Type is the type of the GPUs; a gang that mixes types has several, joined by "+".
	Type string `json:"type"`
	// Cause is no_service where too few GPUs were in service, busy where too many of them were busy, held where other
	// jobs held too many, too_short where enough were free but not for long enough, and choice where the round could
	// have started and the plan waits for better GPUs. Where nodes matter, it is also not_allowed where the nodes that
	// the job may use never have room for a round, fragmented where enough GPUs were free in all, but not together on
	// nodes, and cpus or memory where too little of these was free beside the GPUs; reserved where too many GPUs were
	// kept for others, and quota where the jobs of user held too many. It is after, without a type, until the jobs
	// have ended for which the job waits, and their lags have passed. It is setup where enough GPUs were free, but for
	// too short a time to be set up for the job; reshape, without a type, where the job changes its shape, which takes
	// this time; and shape where the round could have started in another shape, which shape names.
	Cause string `json:"cause" enums:"no_service,busy,held,too_short,choice,not_allowed,fragmented,cpus,memory,after,reserved,quota,setup,reshape,shape"`
	// Shape is the position of the shape, from 0, in which the round would run; it is left out where the job has no
	// shapes.
	Shape *int `json:"shape,omitempty" format:"int64"`
	// User is the user of the quota where the cause is quota.
	User string `json:"user,omitempty"`
	// FromS is when the cause first held.
	FromS hare.Seconds `json:"from_s"`
	// ToS is when the cause last held.
	ToS hare.Seconds `json:"to_s"`
	// ForS is for how long in all the cause held between from_s and to_s.
	ForS hare.Seconds `json:"for_s"`
	// Need is how many GPUs have to be free together.
	Need int64 `json:"need"`
	// PerTask is how many of these GPUs have to be on one node, for each task; it is left out where a task holds one.
	PerTask int64 `json:"per_task,omitempty"`
	// Within is the level of which one domain has to hold these GPUs; it is left out where all nodes may.
	Within string `json:"within,omitempty"`
	// NeedS is for how long the GPUs have to be free.
	NeedS hare.Seconds `json:"need_s"`
	// SetupS is for how long a GPU is set up for the job before, where it did something else; it is left out where the
	// job has no setups.
	SetupS hare.Seconds `json:"setup_s,omitempty"`
	// Free is the most GPUs that were free at a time.
	Free int64 `json:"free"`
	// UntilS is when the first GPU becomes available: back in service, or no longer busy. Where the cause is after, it
	// is when the job may start.
	UntilS *hare.Seconds `json:"until_s,omitempty"`
	// Jobs are the jobs that hold the GPUs during the wait, those that hold the most first. Where the cause is after,
	// they are the jobs that have not ended, the last first, each until its end and lag.
	Jobs []Holder `json:"jobs,omitempty"`
	// Others counts further jobs that hold GPUs.
	Others int `json:"others,omitempty"`
	// Nodes says, for the causes fragmented, cpus and memory, what was free on nodes when the cause first held, the
	// nodes with the most free GPUs first.
	Nodes []NodeFree `json:"nodes,omitempty"`
	// OtherNodes counts further nodes with free GPUs.
	OtherNodes int `json:"other_nodes,omitempty"`
} //	@name	JobWait

// Holder is a job that holds GPUs for which another job waits.
type Holder struct {
	Job  string `json:"job"`
	GPUs int64  `json:"gpus"`
	// UntilS is when the job releases the last of the GPUs that it holds during the wait.
	UntilS hare.Seconds `json:"until_s"`
} //	@name	JobHolder

// NodeFree is what is free on a node at a time.
type NodeFree struct {
	Node string `json:"node"`
	GPUs int64  `json:"gpus"`
	// CPUs are the free CPUs of the node, where it limits them.
	CPUs *hare.Seconds `json:"cpus,omitempty"`
	// MemoryMiB is the free memory of the node, where it limits its memory.
	MemoryMiB *int64 `json:"memory_mib,omitempty"`
} //	@name	NodeFree

// Price is what a job costs at the certificate's prices, in weight-seconds.
type Price struct {
	// Cost is the job's weighted time, and what it pays for being late, in weight-seconds.
	Cost hare.Amount `json:"cost"`
	// Weight is the weight with which cost and the certificate count the job, where the certificate moves weight along
	// dependencies.
	Weight *hare.Seconds `json:"weight,omitempty"`
	Paid   float64       `json:"paid"`
	ByType []TypeCharge  `json:"by_type"`
	// Least is the least sum of cost and price over all choices of the job, rounded down exactly.
	Least float64 `json:"least"`
	// Reduced is the reduced cost: cost and price less least. It is not negative, and is what the job adds to the gap
	// between value and bound.
	Reduced float64 `json:"reduced_cost"`
	// ReducedShare is the reduced cost divided by value less bound; 0 where value and bound are equal.
	ReducedShare float64 `json:"reduced_share"`
} //	@name	JobPrice

// TypeCharge is what a job pays for GPUs of a type.
type TypeCharge struct {
	Type string `json:"type"`
	// GPUs counts the GPU-seconds that the job holds.
	GPUs hare.Seconds `json:"gpu_s"`
	Paid float64      `json:"paid"`
} //	@name	TypeCharge

// TypeCost is what a job would cost if the job ran on one type alone and paid the
// certificate's prices.
type TypeCost struct {
	Type string `json:"type"`
	// Label and Place say on which nodes: a node where label is node, or else a domain of this level. They are left out
	// where all nodes count that the job may use.
	Label string `json:"label,omitempty"`
	Place string `json:"place,omitempty"`
	// Least is the least sum of cost and price on this type. It is left out where the job can never run on this type
	// alone.
	Least *float64 `json:"least,omitempty"`
	// More is how far least is above the least over all types.
	More *float64 `json:"more,omitempty"`
	// EndS is when the job would end on this type at the cost least; it is left out where nodes, shapes, dependencies or
	// deadlines matter.
	EndS   *hare.Seconds `json:"end_s,omitempty"`
	Detail string        `json:"detail,omitempty"`
} //	@name	TypeCost
