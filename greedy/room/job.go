package room

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// MaxTypes is the largest number of types in the plan of one job.
const MaxTypes = 4

// These are the kinds of a JobPlan.
const (
	// Contiguous runs all rounds back to back on types[0], from the earliest possible start.
	Contiguous = uint8(iota)
	// Split runs the first rounds on types[0] and the others on types[1], each part back to
	// back and as early as possible.
	Split
	// RoundByRound places each round on the type of the set on which the round ends first.
	// This gives the earliest completion that these types allow.
	RoundByRound
)

// JobPlan says how one job is placed when its turn comes.
type JobPlan struct {
	Rounds int64
	Types  [MaxTypes]int16
	N      uint8 // the number of types in use; 1 where both parts of a split are on one type
	Kind   uint8
	// Shape is the shape of the rounds, and then that of the second part of a split, as indices in
	// Job.Forms.
	Shape, Then uint8
}

// In returns the plan for rounds of one shape.
func (jp JobPlan) In(shape uint8) JobPlan {
	jp.Shape, jp.Then = shape, shape
	return jp
}

// Uses returns the types of the plan.
func (jp *JobPlan) Uses() []int16 { return jp.Types[:jp.N] }

// ContiguousOn is the plan by which all rounds run back to back on type k.
func ContiguousOn(k int16) JobPlan { return JobPlan{Kind: Contiguous, N: 1, Types: [MaxTypes]int16{k}} }

// RoundByRoundOver is the plan by which each round runs on the type of the set on which it ends first.
func RoundByRoundOver(types ...int16) JobPlan {
	p := JobPlan{Kind: RoundByRound}
	p.N = uint8(copy(p.Types[:], types))
	return p
}

// Segment is a run of consecutive rounds of one job on width GPUs of a pool. The search compares
// segments often, which is quick because no bytes between the fields are unused.
type Segment struct {
	Type          int16
	Shape         uint8 // the shape of the rounds, as in JobPlan
	stays         bool
	Pool          int32
	Width         int64
	Round, Rounds int64
	Start, End    int64 // in µs
	Lead          int64 // for how long before start the GPUs are held, see Block.LeadUs
}

// Job is what the search needs to know of a gang or rigid job.
type Job struct {
	Index   int     // the index in Model.Jobs
	Weight  float64 // in weight-seconds per microsecond
	Release int64
	Rounds  int64
	Width   int64
	Rigid   bool
	// Where nodes matter, the width is that of tasks tasks of gpus GPUs each, and each task
	// also takes cpus thousandths of CPUs and memory MiB of its node. set is the index in
	// Model.Sets, −1 for all nodes.
	Tasks, GPUs, CPUs, Memory int64
	Distinct                  bool // at most one task on a node
	Set                       int
	Quotas                    []int32 // the indices in Model.Quotas
	// Levels is nil unless the rounds must keep together or take longer where they are spread.
	Levels *JobLevels
	// Setups are the times by type for which a GPU is taken before a block; nil without setups.
	Setups []int64
	runs   *RunningPlace // where the job runs at time 0 and may stay without setups, or nil
	Begin  int64         // nothing of the job starts before, setups included
	// Late is what a microsecond after the deadline costs, in weight-seconds.
	Late     float64
	Deadline int64
	// Before are the jobs for which the job waits, and behind those that wait for it.
	Before, Behind []Edge
	// Dur is the time of a round by type; 0 means that the job cannot run there.
	Dur []int64
	// ContiguousTypes lists the types on which the whole job fits in one piece. roundTypes
	// lists the types on which a round of a gang job fits. Both are sorted by duration.
	ContiguousTypes, RoundTypes []int16
	// Forms are the job in each of its shapes; nil for a job that keeps one.
	Forms     []Job
	Shape     uint8
	Counts    int64 // the units that a round does
	Units     int64
	Reshape   bool
	ReshapeUs int64
}

// Edge is a job for which another waits, within the jobs of an annealProblem.
type Edge struct {
	Job int32
	Lag int64
}

// Cost returns what a job that ends at end adds to the value, in weight-seconds. Under
// makespan this is its part of the mean end alone.
func (aj *Job) Cost(end int64) float64 {
	c := aj.Weight * float64(end-aj.Release)
	if aj.Late > 0 && end > aj.Deadline {
		c += aj.Late * float64(end-aj.Deadline)
	}
	return c
}

// NewJob describes job i without its durations and types.
func NewJob(m *model.Model, i int) Job {
	j := &m.Jobs[i]
	return Job{Index: i, Weight: float64(j.WeightMicro) * 1e-12, Release: EarliestStart(j), Rounds: j.Rounds,
		Width: j.Tasks * j.GPUs, Rigid: j.Sync == hare.Rigid, Tasks: j.Tasks, GPUs: j.GPUs, CPUs: j.CPUMilli,
		Memory: j.MemoryMiB, Distinct: j.Distinct, Set: j.Set, Quotas: j.Quotas, Levels: levelsOf(m, i),
		Setups: setupsOf(m, j),
		Late:   float64(j.LateWeightMicro) * 1e-12, Deadline: j.DeadlineUs}
}

// Form returns the job in a shape.
func (aj *Job) Form(shape uint8) *Job {
	if aj.Forms == nil {
		return aj
	}
	return &aj.Forms[shape]
}

// EachForm calls f with the job in each of its shapes.
func (aj *Job) EachForm(f func(*Job)) {
	if aj.Forms == nil {
		f(aj)
		return
	}
	for s := range aj.Forms {
		f(&aj.Forms[s])
	}
}

// ReshapedOn is a plan by which the first rounds run in one shape on a type, and the others in another
// shape.
func ReshapedOn(k, l int16, shape, then uint8, rounds int64) JobPlan {
	p := JobPlan{Kind: Split, N: 2, Types: [MaxTypes]int16{k, l}, Rounds: rounds, Shape: shape, Then: then}
	if k == l {
		p.N = 1
	}
	return p
}

// roundsAfter returns how many rounds in this shape follow so many rounds in another one.
func (aj *Job) roundsAfter(first *Job, rounds int64) int64 {
	return (aj.Units - rounds*first.Counts + aj.Counts - 1) / aj.Counts
}

// Setup returns the setup of a GPU of type k before a block of the job.
func (aj *Job) Setup(k int16) int64 {
	if aj.Setups == nil {
		return 0
	}
	return aj.Setups[k]
}

// LongestSetup returns the longest setup on some types.
func (aj *Job) LongestSetup(types []int16) (us int64) {
	for _, k := range types {
		us = max(us, aj.Setup(k))
	}
	return us
}

// LeastByLevel returns the shortest time of a round of job j on type k on an empty cluster, as if
// GPUs were single; 0 means that there is never room.
func (aj *Job) LeastByLevel(m *model.Model, k int16) int64 {
	for _, lt := range aj.Levels.times[k] {
		if m.LevelRoom(&m.Jobs[aj.Index], []int{int(k)}, lt.level) >= aj.Tasks {
			return lt.us
		}
	}
	return 0
}

// roundUs returns how long a round of job j takes where the job runs.
func (rp *RunningPlace) roundUs(j *Job) int64 {
	if j.Levels == nil {
		return j.Dur[rp.typ]
	}
	return j.Levels.RoundUs(rp.typ, rp.spread)
}
