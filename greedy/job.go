package greedy

import "github.com/hare-sched/hare"

// maxSet is the largest number of types in the plan of one job.
const maxSet = 4

// These are the kinds of a jobPlan.
const (
	// contiguous runs all rounds back to back on types[0], from the earliest possible start.
	contiguous = uint8(iota)
	// split runs the first rounds on types[0] and the others on types[1], each part back to
	// back and as early as possible.
	split
	// roundByRound places each round on the type of the set on which the round ends first.
	// This gives the earliest completion that these types allow.
	roundByRound
)

// jobPlan says how one job is placed when its turn comes.
type jobPlan struct {
	rounds int64
	types  [maxSet]int16
	n      uint8 // the number of types in use; 1 where both parts of a split are on one type
	kind   uint8
	// shape is the shape of the rounds, and then that of the second part of a split, as indices in
	// annealJob.forms.
	shape, then uint8
}

// in returns the plan for rounds of one shape.
func (jp jobPlan) in(shape uint8) jobPlan {
	jp.shape, jp.then = shape, shape
	return jp
}

func (jp *jobPlan) uses() []int16 { return jp.types[:jp.n] }

func contiguousOn(k int16) jobPlan { return jobPlan{kind: contiguous, n: 1, types: [maxSet]int16{k}} }

func roundByRoundOver(types ...int16) jobPlan {
	p := jobPlan{kind: roundByRound}
	p.n = uint8(copy(p.types[:], types))
	return p
}

// segment is a run of consecutive rounds of one job on width GPUs of a pool. The search compares
// segments often, which is quick because no bytes between the fields are unused.
type segment struct {
	typ           int16
	shape         uint8 // the shape of the rounds, as in jobPlan
	stays         bool
	pool          int32
	width         int64
	round, rounds int64
	start, end    int64 // in µs
	lead          int64 // for how long before start the GPUs are held, see Block.LeadUs
}

// annealJob is what the search needs to know of a gang or rigid job.
type annealJob struct {
	index   int     // the index in Model.Jobs
	weight  float64 // in weight-seconds per microsecond
	release int64
	rounds  int64
	width   int64
	rigid   bool
	// Where nodes matter, the width is that of tasks tasks of gpus GPUs each, and each task
	// also takes cpus thousandths of CPUs and memory MiB of its node. set is the index in
	// Model.Sets, −1 for all nodes.
	tasks, gpus, cpus, memory int64
	distinct                  bool // at most one task on a node
	set                       int
	quotas                    []int32 // the indices in Model.Quotas
	// levels is nil unless the rounds must keep together or take longer where they are spread.
	levels *jobLevels
	// setups are the times by type for which a GPU is taken before a block; nil without setups.
	setups []int64
	runs   *runningPlace // where the job runs at time 0 and may stay without setups, or nil
	begin  int64         // nothing of the job starts before, setups included
	// late is what a microsecond after the deadline costs, in weight-seconds.
	late     float64
	deadline int64
	// before are the jobs for which the job waits, and behind those that wait for it.
	before, behind []annealEdge
	// dur is the time of a round by type; 0 means that the job cannot run there.
	dur []int64
	// contiguousTypes lists the types on which the whole job fits in one piece. roundTypes
	// lists the types on which a round of a gang job fits. Both are sorted by duration.
	contiguousTypes, roundTypes []int16
	// forms are the job in each of its shapes; nil for a job that keeps one.
	forms     []annealJob
	shape     uint8
	counts    int64 // the units that a round does
	units     int64
	reshape   bool
	reshapeUs int64
}

// annealEdge is a job for which another waits, within the jobs of an annealProblem.
type annealEdge struct {
	job int32
	lag int64
}

// cost returns what a job that ends at end adds to the value, in weight-seconds. Under
// makespan this is its part of the mean end alone.
func (aj *annealJob) cost(end int64) float64 {
	c := aj.weight * float64(end-aj.release)
	if aj.late > 0 && end > aj.deadline {
		c += aj.late * float64(end-aj.deadline)
	}
	return c
}

// newAnnealJob describes job i without its durations and types.
func newAnnealJob(m *hare.Model, i int) annealJob {
	j := &m.Jobs[i]
	return annealJob{index: i, weight: float64(j.WeightMicro) * 1e-12, release: earliestStart(j), rounds: j.Rounds,
		width: j.Tasks * j.GPUs, rigid: j.Sync == hare.Rigid, tasks: j.Tasks, gpus: j.GPUs, cpus: j.CPUMilli,
		memory: j.MemoryMiB, distinct: j.Distinct, set: j.Set, quotas: j.Quotas, levels: levelsOf(m, i),
		setups: setupsOf(m, j),
		late:   float64(j.LateWeightMicro) * 1e-12, deadline: j.DeadlineUs}
}

// form returns the job in a shape.
func (aj *annealJob) form(shape uint8) *annealJob {
	if aj.forms == nil {
		return aj
	}
	return &aj.forms[shape]
}

// eachForm calls f with the job in each of its shapes.
func (aj *annealJob) eachForm(f func(*annealJob)) {
	if aj.forms == nil {
		f(aj)
		return
	}
	for s := range aj.forms {
		f(&aj.forms[s])
	}
}

// reshapedOn is a plan by which the first rounds run in one shape on a type, and the others in another
// shape.
func reshapedOn(k, l int16, shape, then uint8, rounds int64) jobPlan {
	p := jobPlan{kind: split, n: 2, types: [maxSet]int16{k, l}, rounds: rounds, shape: shape, then: then}
	if k == l {
		p.n = 1
	}
	return p
}

// roundsAfter returns how many rounds in this shape follow so many rounds in another one.
func (aj *annealJob) roundsAfter(first *annealJob, rounds int64) int64 {
	return (aj.units - rounds*first.counts + aj.counts - 1) / aj.counts
}

// setup returns the setup of a GPU of type k before a block of the job.
func (aj *annealJob) setup(k int16) int64 {
	if aj.setups == nil {
		return 0
	}
	return aj.setups[k]
}

// longestSetup returns the longest setup on some types.
func (aj *annealJob) longestSetup(types []int16) (us int64) {
	for _, k := range types {
		us = max(us, aj.setup(k))
	}
	return us
}

// leastByLevel returns the shortest time of a round of job j on type k on an empty cluster, as if
// GPUs were single; 0 means that there is never room.
func (aj *annealJob) leastByLevel(m *hare.Model, k int16) int64 {
	for _, lt := range aj.levels.times[k] {
		if m.LevelRoom(&m.Jobs[aj.index], []int{int(k)}, lt.level) >= aj.tasks {
			return lt.us
		}
	}
	return 0
}
