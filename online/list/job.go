package list

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/estimate"
	"github.com/hare-sched/hare/online/placement"
)

// JobState is what a Scheduler knows of one job.
type JobState struct {
	// Own is what the rule keeps of the job, nil until the rule sets it. The scheduler does not read it, and snapshots
	// have it only if Rule.State does.
	Own any

	spec   *hare.Job
	serial int
	rounds int64 // 0: the policy does not know
	belief *SizeBelief
	modes  []Mode

	round, next, ended int64     // next is the least task of the round that never started
	redo               []int64   // tasks of the round that were lost
	syncing            []syncing // relaxed tasks that have ended their compute, by task
	gpus               []int     // the GPUs that the job holds
	last               []int     // the GPUs of the last round, for sticky rules
	hold               hare.Sync // for how long the current round holds its GPUs; see Rule.Hold
	finished           bool      // whether all rounds have ended

	arrivedUs, startedUs int64           // startedUs is the first start, −1 before it
	sinceUs              int64           // when the job last began to run or to wait
	executedUs, waitedUs int64           // execution and waiting up to sinceUs, since the last promotion
	totalUs              int64           // execution up to sinceUs, since the arrival
	active               int64           // tasks that have started and not ended
	Queue                int             // for rules with queues
	OnlyType             int             // for rules that assign types; −1 means any type
	LeaseEndUs           int64           // for rules with leases
	shape                placement.Shape // where the scheduler goes by nodes
	together, togetherAt int64           // see mostTogether
	spread               spreadTimes
	priority             float64
	group                *waitingGroup // where the job waits
	groupAt              int
	touched              bool // whether the job is in waitingJobs.touched

	promise *promise // of backfill by estimates; nil before the job is the first that waits
	guarded guarded
	// measured are the times of rounds, for rules that learn speeds.
	measured []measuredTimes
	// timesVersion counts changes of the times of modes, for what is computed from them.
	timesVersion int64
	// subject is what spec.Hints say, nil where they say nothing, and prediction what follows.
	subject    *estimate.Subject
	prediction estimate.Prediction
}

// Mode is a job on one GPU type.
type Mode struct {
	Type                  int
	ComputeUs, DurationUs int64 // durationUs is with synchronisation; both are 0 where nothing is known
}

// syncing is a relaxed task that synchronises.
type syncing struct {
	task   int64
	gpu    string
	others hare.OtherGPUs
}

// spreadTimes are the expected times of synchronisation of a job, by profile.
type spreadTimes struct {
	syncUs []int64 // nil where no time goes by the spread
	// held is the spread of the GPUs that the job holds, by number of the level and 1 more; 0 means that
	// it is to be found.
	held int
}

// measuredTimes are the last rounds of a job on a type.
type measuredTimes struct {
	Type int     `json:"type"`
	Us   []int64 `json:"us"`
}

// promise is the first reservation of a job, where ends are only believed. What is
// believed changes, and a reservation that moved with it would let short jobs pass the
// first for ever. So the time and the type stay: from the promised time on, no job that
// comes after it takes a GPU of that type before the job.
type promise struct {
	AtUs int64 `json:"at_us"`
	Type int   `json:"type"` // −1 means all that the job may use
}

// Ready is how many tasks of the round wait for a start.
func (j *JobState) Ready() int64 {
	if j.finished {
		return 0
	}
	return j.spec.Tasks - j.next + int64(len(j.redo))
}

// nextTask is the task that starts next; there must be a ready one.
func (j *JobState) nextTask() int64 {
	if len(j.redo) > 0 {
		return j.redo[0]
	}
	return j.next
}

// waits reports whether a job waits for GPUs and no task of it runs.
func (j *JobState) waits() bool { return j.active == 0 && j.Ready() > 0 }

func (j *JobState) before(o *JobState) bool {
	return j.priority < o.priority || j.priority == o.priority && j.serial < o.serial
}

// types are those on which the job may run, in the order in which it tries them.
func (j *JobState) types() (types []int) {
	for _, m := range j.modes {
		types = append(types, m.Type)
	}
	return types
}

// uses reports whether a job may run on a type.
func (j *JobState) uses(gpuType int) bool {
	return slices.ContainsFunc(j.modes, func(m Mode) bool { return m.Type == gpuType })
}

// FastestUs is the time of a round on the job's fastest type; 0 where none is known.
func (j *JobState) FastestUs() int64 {
	least := int64(0)
	for _, m := range j.modes {
		if m.DurationUs > 0 && (least == 0 || m.DurationUs < least) {
			least = m.DurationUs
		}
	}
	return least
}

// DurationUs is how long a task of the job takes on a type, with synchronisation.
func (j *JobState) DurationUs(gpuType int) int64 {
	for _, m := range j.modes {
		if m.Type == gpuType {
			return m.DurationUs
		}
	}
	return 0
}

// roundOnUs is the time of a round of a job on a type; where nothing is known, four times
// that on the fastest.
func (j *JobState) roundOnUs(gpuType int) int64 {
	if d := j.DurationUs(gpuType); d > 0 {
		return d
	}
	return times(4, max(j.FastestUs(), 1))
}

// givenSyncUs is the time of synchronisation that is expected by a profile of a job.
func (j *JobState) givenSyncUs(profile int) int64 {
	if j.spread.syncUs != nil {
		return j.spread.syncUs[profile]
	}
	return j.spec.On[profile].SyncUs
}

// TaskGPUs is how many GPUs a task of the job holds.
func (j *JobState) TaskGPUs() int { return int(j.spec.TaskGPUs()) }

// Width is how many GPUs a round of the job takes at once, if it is a gang.
func (j *JobState) Width() int64 { return times(j.spec.Tasks, j.spec.TaskGPUs()) }

// Spec is the job as it arrived, without its rounds; it must not be written to.
func (j *JobState) Spec() *hare.Job { return j.spec }

// Number counts jobs by arrival, from 0.
func (j *JobState) Number() int { return j.serial }

// RoundsLeft is how many rounds have not ended, or with Rule.LearnSizes are believed to
// be left; 0 where the policy does not know.
func (j *JobState) RoundsLeft() int64 {
	switch {
	case j.rounds > 0:
		return j.rounds - j.round
	case j.belief == nil:
		return 0
	case !j.belief.curve.Known() && j.spec.Hints != nil && j.spec.Hints.EstimateUs > 0 && j.FastestUs() > 0:
		// Nothing is known yet by which to calibrate the user's estimate.
		if told := (j.spec.Hints.EstimateUs-1)/j.FastestUs() + 1; told > j.round {
			return told - j.round
		}
		return max(1, j.round)
	}
	return j.belief.RoundsLeft(j)
}

// RoundsDone is how many rounds have ended.
func (j *JobState) RoundsDone() int64 { return j.round }

// ArrivedUs is when the job arrived.
func (j *JobState) ArrivedUs() int64 { return j.arrivedUs }

// WaitsSinceUs is the time at which the last task of the job ended, or its arrival before
// the first start.
func (j *JobState) WaitsSinceUs() int64 { return j.sinceUs }

// ExecutedUs is how long some task of the job has run, up to the end of its last.
func (j *JobState) ExecutedUs() int64 { return j.totalUs }

// Round is the round that runs, or the next one.
func (j *JobState) Round() int64 { return j.round }

// RoundBegun reports whether some task of the round has started.
func (j *JobState) RoundBegun() bool { return j.next > 0 || len(j.redo) > 0 }

// Running is how many tasks have started and not ended.
func (j *JobState) Running() int64 { return j.active }

// Finished reports whether all rounds have ended, where the policy knows their number.
func (j *JobState) Finished() bool { return j.finished }

// GPUs are the GPUs that the job has, in the order of its tasks.
func (j *JobState) GPUs() []int { return j.gpus }

// LastGPUs are those of its last round, for rules with Sticky.
func (j *JobState) LastGPUs() []int { return j.last }

// Hold is for how long the round keeps its GPUs; see Rule.Hold.
func (j *JobState) Hold() hare.Sync { return j.hold }

// Modes are the types that the job may use, in the order in which they are tried.
func (j *JobState) Modes() []Mode { return j.modes }

// Shape is what the job needs of nodes, where the scheduler goes by nodes.
func (j *JobState) Shape() placement.Shape { return j.shape }

// TimesBySpread reports whether times of the job go by the spread of its rounds.
func (j *JobState) TimesBySpread() bool { return j.spread.syncUs != nil }

// StartedUs is the first start, or −1 before it.
func (j *JobState) StartedUs() int64 { return j.startedUs }

// SinceUs is when the job last began to run or to wait.
func (j *JobState) SinceUs() int64 { return j.sinceUs }

// RunUs and WaitedUs are how long some task has run, and no task, up to SinceUs and since the last promotion.
func (j *JobState) RunUs() int64 { return j.executedUs }

// WaitedUs is described at RunUs.
func (j *JobState) WaitedUs() int64 { return j.waitedUs }

// TimesVersion is a number that changes whenever the times of Modes change.
func (j *JobState) TimesVersion() int64 { return j.timesVersion }
