// Package hare is the domain of the scheduler: clusters, jobs, instances, schedules,
// certificates, results, events and decisions, and the validation of instances. Package wire
// reads and writes these types as JSON. Package hare imports no other package of this
// module.
//
// The files stand in three layers. At the bottom are exact numbers (micros.go, amount.go), names and faults. Above
// them are the types: instances, schedules, certificates, results, replans and events. On top are what the parts of an
// instance mean and which faults they may have, from labels, shapes and levels up to rules.go and validate.go.
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

// LevelBandwidth is what the network of a level carries (docs/reference/model.md, "Bandwidth and memory").
type LevelBandwidth struct {
	Level string
	Mbps  int64 // megabits per second in one direction, at least 1
}

// GPUType is what a cluster says of all GPUs of one type.
type GPUType struct {
	Type string
	// MemoryMilliGiB is the memory of one GPU in thousandths of GiB, at least 1.
	MemoryMilliGiB int64
}

// Reservation keeps all jobs but some off some nodes for some time.
type Reservation struct {
	// Nodes chooses the nodes as Job.Only does; nil means all nodes.
	Nodes           []LabelValues
	FromUs, UntilUs int64
	// Users and Jobs may use the nodes nevertheless. Both are sorted, each name once.
	Users, Jobs []string
}

// Quota limits the GPUs that the jobs of a user hold together at any time.
type Quota struct {
	User string
	GPUs int64
	// Types are the GPU types that count, sorted, each once; nil means all.
	Types []string
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

// GPUCount counts the node's GPUs, up to one more than MaxGPUs.
func (n *Node) GPUCount() int64 {
	var sum int64
	for _, g := range n.GPUs {
		sum = min(sum+int64(max(0, min(g.Count, MaxGPUs+1))), MaxGPUs+1)
	}
	return sum
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

// Label is one label of a node, such as disk=nvme.
type Label struct {
	Name, Value string
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

// Shape is one way in which the rounds of a job may run (docs/reference/model.md). The fields without a
// comment are those of Job.
type Shape struct {
	Tasks       int64
	GPUsPerTask int64
	Counts      int64 // u ≥ 1, the units of Job.Rounds that one round in this shape does
	On          []Profile
}

// TaskGPUs returns g, the number of GPUs that one task holds.
func (s *Shape) TaskGPUs() int64 { return max(1, s.GPUsPerTask) }

// Profile returns the times of a task on a GPU type.
func (s *Shape) Profile(kind string) (Profile, bool) {
	i := slices.IndexFunc(s.On, func(p Profile) bool { return p.Type == kind })
	if i < 0 {
		return Profile{}, false
	}
	return s.On[i], true
}

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

// LevelSync is the synchronisation time of the rounds that a level holds in one domain and no
// finer level with a time does.
type LevelSync struct {
	Level  string
	SyncUs int64
}

// Duration is one of the ways in which the times of a job may turn out.
type Duration struct {
	Micro       int64 // p, how likely this is, in units of 1e-6
	FactorMicro int64 // by how much each time of the job is multiplied, in units of 1e-6
}

// LabelValues is a label and the values of the label that a selector names.
type LabelValues struct {
	Label  string
	Values []string // sorted, each value once, at least one
}

// Predecessor is a job for whose end another job waits.
type Predecessor struct {
	Job   string
	LagUs int64 // the time between the end and the earliest start
}

// Progress is how far a job is at time 0 (docs/reference/model.md#running-work-reservations-and-quotas).
type Progress struct {
	// RoundsDone is the number of units that are done.
	RoundsDone int64
	// GPUs names the K·g GPUs on which the job runs at time 0, in the order of the document;
	// nil means that the job does not run. Only gang and rigid jobs run.
	GPUs []string
	// ElapsedUs says how long ago the running round of a gang job, or the running rest of a
	// rigid job, began.
	ElapsedUs int64
	// Shape is the shape of the round that runs, as an index in Job.Shapes.
	Shape int
}

// JobHints are what a user says about a job. Online policies that do not know sizes may go
// by hints; plans of instances know sizes and ignore them. Hints never limit a job.
type JobHints struct {
	// EstimateUs is for how long the user expects the job to run, with all its rounds,
	// alone on its fastest GPU type; 0 means that the user does not say.
	EstimateUs int64 `json:"estimate_us,omitempty"`
	// Class is what jobs that take alike have in common, sorted by name, each name once.
	Class []ClassLabel `json:"class,omitempty"`
}

// Clone returns hints that share no memory with h.
func (h *JobHints) Clone() *JobHints {
	if h == nil {
		return nil
	}
	return &JobHints{EstimateUs: h.EstimateUs, Class: slices.Clone(h.Class)}
}

// ClassLabel is one label of a job's class, such as user=ann.
type ClassLabel struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
