// Package hare is the domain of the scheduler: clusters, jobs, instances, schedules,
// certificates, results, events and decisions, and the validation of instances. Package wire
// reads and writes these types as JSON. Package hare imports no other package of this
// module.
package hare

import (
	"math"
	"slices"
)

// These are the objectives of an instance (docs/reference/model.md).
const (
	ObjectiveWeightedJCT     = "weighted_jct"      // Σ w_j (C_j − a_j)
	ObjectiveJCTAndTardiness = "jct_and_tardiness" // Σ w_j (C_j − a_j) + v_j max(0, C_j − d_j)
	ObjectiveMakespan        = "makespan"          // max C_j
)

// Objectives lists the objectives in the order of the documentation.
func Objectives() []string {
	return []string{ObjectiveWeightedJCT, ObjectiveJCTAndTardiness, ObjectiveMakespan}
}

// MaxExact is the largest integer that every JSON reader holds exactly (2^53). MaxExact
// limits each time in microseconds, each weight in micro-units, each count, and the length
// of the sequential schedule of an instance.
const MaxExact = 1 << 53

// MaxGPUs limits the GPUs of a cluster, counted over all copies of all nodes.
const MaxGPUs = 1 << 20

// Forever is the end of a window that stays open.
const Forever int64 = math.MaxInt64

// Sync is the synchronisation rule of a job (docs/inside/design.md, section 1).
type Sync uint8

// These are the synchronisation rules.
const (
	Relaxed Sync = iota // the tasks of a round run one after another or in parallel, on any types
	Gang                // the tasks of a round start together on distinct GPUs of one type (or of several, with Mix)
	Rigid               // like Gang, on the same GPUs for all rounds, back to back
)

// String returns the JSON name of the rule.
func (sy Sync) String() string {
	switch sy {
	case Gang:
		return "gang"
	case Rigid:
		return "rigid"
	default:
		return "relaxed"
	}
}

// Instance is a cluster and the jobs to run on it. A decoded instance is valid: defaults
// are explicit, nodes are expanded and windows are merged.
type Instance struct {
	Name      string
	Objective string
	Cluster   Cluster
	// Quota limits what users hold at any time, in the order of the document.
	Quota []Quota
	Jobs  []Job
}

// Cluster is a list of nodes; counts of nodes are expanded.
type Cluster struct {
	Nodes []Node
	// Topology are labels that all nodes have, coarse ones first, which make the levels of the
	// cluster (Levels).
	Topology []string
	// Reservations keep jobs off nodes, in the order of the document.
	Reservations []Reservation
	// Bandwidths are sorted by level, and GPUTypes by type (docs/reference/model.md, "Bandwidth and memory").
	Bandwidths []LevelBandwidth
	GPUTypes   []GPUType
}

// Node is one machine. Its GPU number i is named Name/i; the numbers run through GPUs in
// order.
type Node struct {
	Name string
	// GPUs is sorted by type.
	GPUs []TypeCount
	// Windows are the times in service: half-open, in order, disjoint and not touching. Nil
	// means always in service.
	Windows []Window
	// Busy lists the busy GPUs, sorted by GPU, with one entry for each GPU.
	Busy []Busy
	// CPUMilli is the number of CPUs of the node in thousandths; 0 means no limit.
	CPUMilli int64
	// MemoryMiB is the memory of the node; 0 means no limit.
	MemoryMiB int64
	// Labels is sorted by name, each name once.
	Labels []Label
}

// TypeCount is a number of GPUs of one type.
type TypeCount struct {
	Type  string
	Count int
}

// Window is the half-open interval [StartUs, EndUs) in microseconds.
type Window struct {
	StartUs, EndUs int64
}

// Busy makes GPU number GPU of its node unavailable from 0 to UntilUs.
type Busy struct {
	GPU     int
	UntilUs int64
}

// Job is R rounds of K parallel tasks.
type Job struct {
	ID          string
	WeightMicro int64 // in units of 1e-6
	ReleaseUs   int64
	Rounds      int64 // R ≥ 1
	Tasks       int64 // K ≥ 1
	Sync        Sync
	Mix         bool // only for gangs: a round may mix types
	// On is sorted by type; the types need not be in the cluster.
	On []Profile
	// Hints are what the user says of the job; nil means nothing. They decide nothing that
	// is part of a problem, so that the canonical form of an instance leaves them out.
	Hints *JobHints
	// GPUsPerTask is g: a task holds g GPUs of one type on one node. 0 means 1, and a
	// decoded job never has 1; TaskGPUs returns g.
	GPUsPerTask int64
	// CPUMilliPerTask are the thousandths of CPUs that a task holds on its node while it
	// holds its GPUs.
	CPUMilliPerTask int64
	// MemoryMiBPerTask is the memory that a task holds on its node while it holds its GPUs.
	MemoryMiBPerTask int64
	// DistinctNodes allows at most one task of a round on a node; relaxed jobs never have it.
	DistinctNodes bool
	// Within is the level of which one domain must hold all tasks of a round; "" means LevelAny,
	// and relaxed jobs never have another.
	Within string
	// Only and Exclude choose the nodes of the job: each member of Only must match a node,
	// and no member of Exclude may. Both are sorted by label, each label once.
	Only, Exclude []LabelValues
	// Users are the names under which quotas and reservations find the job: of its user, its
	// account, its queue. Sorted, each once.
	Users []string
	// Progress says what of the job is done and what runs at time 0; nil means nothing.
	Progress *Progress
	// After are the jobs for whose ends this job waits, sorted by ID, each once.
	After []Predecessor
	// DeadlineUs is when the job should have ended; 0 means no deadline.
	DeadlineUs int64
	// LateWeightMicro is v, the cost of a second after the deadline, in units of 1e-6.
	LateWeightMicro int64
	// Shapes are the ways in which rounds may run, in place of Tasks, GPUsPerTask and On, which are
	// 0, 0 and nil then; Rounds counts units. Nil means the one way that Tasks, GPUsPerTask and On
	// say. A decoded job never has one shape alone that counts 1.
	Shapes []Shape
	// Reshape lets the rounds of a gang have different shapes, and ReshapeUs is the least time
	// between the end of a round and the start of the next one in another shape. Otherwise all
	// rounds have the same shape.
	Reshape   bool
	ReshapeUs int64
	// Durations say how long the job may take, sorted by factor, each factor once; nil means as
	// long as its times say. Plans and bounds are for the times themselves.
	Durations []Duration
}

// TaskGPUs returns g, the number of GPUs that one task holds in a job without Shapes.
func (j *Job) TaskGPUs() int64 { return max(1, j.GPUsPerTask) }

// Profile gives the times of one task of a job on one GPU type.
type Profile struct {
	Type      string
	ComputeUs int64 // p > 0
	SyncUs    int64 // s ≥ 0; where s goes by spread, the longest of its times
	// SyncAt is s by the spread of a round (Levels.SyncUs), sorted by the names of the levels;
	// nil means that s does not go by spread. A decoded profile has at least two levels, and each
	// has a longer time than the next finer one.
	SyncAt []LevelSync
	// SwitchUs is σ ≥ 0, the setup of a GPU for the job, where the GPU did something else before.
	SwitchUs int64
}

// Equal reports whether two profiles are the same.
func (p Profile) Equal(q Profile) bool {
	return p.Type == q.Type && p.ComputeUs == q.ComputeUs && p.SyncUs == q.SyncUs && p.SwitchUs == q.SwitchUs &&
		slices.Equal(p.SyncAt, q.SyncAt)
}

// DurationUs returns d = p + s, the longest where s goes by spread.
func (p Profile) DurationUs() int64 { return p.ComputeUs + p.SyncUs }
