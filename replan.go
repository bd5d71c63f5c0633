package hare

import "slices"

// Replan says what a plan for the rest of an earlier plan keeps, moves and gains. Its
// result is about Rest, on a clock that starts at AtUs. The times in Replan and in Whole
// are on the clock of the whole instance.
type Replan struct {
	AtUs int64
	// StabilityMicro is the least gain for which planned work is moved, in 1e-6
	// weight-seconds per GPU-second moved.
	StabilityMicro int64
	// InstanceSHA256 is the hash of the whole instance, with finished jobs.
	InstanceSHA256 string
	// Constant is the part of the objective of the whole instance that no plan for the rest
	// can change. The value of the whole is the result's value plus Constant (see WholeCost for
	// the makespan, where Constant is the instant).
	Constant Amount
	// KeptValue is the value of the plan for the rest that moves only what must move; nil if
	// there is no such plan.
	KeptValue *Amount
	// PlannedGPU is the GPU-time of the earlier plan that had not started. MovedGPU is the
	// part of PlannedGPU that now starts at another time or on another type, and ForcedGPU
	// the part of MovedGPU that could not stay. All are in GPU-seconds.
	PlannedGPU, MovedGPU, ForcedGPU Amount
	Started                         []StartedWork // by job, in the order of the earlier instance
	Lost                            []LostWork    // by job, in the order of the earlier instance
	Moved                           []MovedJob    // in the order of Rest
	Kept                            []string      // planned jobs of Rest that stay
	// Added are the jobs that only this instance has, and Removed the jobs that only the
	// earlier instance has.
	Added, Removed []string
	// Renamed lists the GPUs of nodes that Rest splits, because a GPU of the node is held
	// again later for the rest of a started round. It is in the order of Rest.
	Renamed []RenamedGPU
	Rest    *Instance
	// Whole is the schedule of the whole instance: what has run, what has started, and the
	// new plan. It is nil if there is no such schedule; WholeMissing says why.
	Whole        *Schedule
	WholeMissing string
	// Stated holds what a decoded document states of this object and beside it. Only
	// verifiers use it; it is nil in what a program built.
	Stated *StatedReplan
}

// WholeCost returns what the whole instance costs where the rest has a value, or a bound: the
// sum with Constant. A makespan is also at least the end of all work that had started.
func (rp *Replan) WholeCost(objective string, part Amount) Amount {
	sum := part.Add(rp.Constant)
	if objective != ObjectiveMakespan {
		return sum
	}
	for _, w := range rp.Started {
		if end := Product(1e6, w.UntilUs); end.Cmp(sum) > 0 {
			sum = end
		}
	}
	return sum
}

// WholeBound returns a bound on what the whole instance costs under plans that keep the started
// work, where the rest has a bound. There is none where the rest has setups or jobs that may change
// their shape: plans of the whole may then go on with GPUs and shapes that were in use before the
// planning instant, which the rest must set up, or wait for, again.
func (rp *Replan) WholeBound(objective string, bound Amount) (whole Amount, ok bool) {
	if rp.Stated != nil && rp.Stated.WholeBound == nil || rp.Stated == nil && rp.Rest.beginsAnew() {
		return whole, false
	}
	return rp.WholeCost(objective, bound), true
}

// beginsAnew reports whether some job needs setups, or may change its shape.
func (inst *Instance) beginsAnew() bool {
	return inst != nil && slices.ContainsFunc(inst.Jobs, func(j Job) bool { return j.Reshape || j.firstSwitch() != "" })
}

// StatedReplan says which fields a replan document has, and which values it states for
// what its encoder computes.
type StatedReplan struct {
	At, Constant, Started, Lost, Added, Removed, Renamed bool
	WholeValue, WholeBound, Gain                         *Amount
}

// StartedWork is work that runs at the planning instant and stays.
type StartedWork struct {
	Job string
	// Rounds is the number of rounds that are done when the work ends, with those that ended
	// before.
	Rounds  int64
	UntilUs int64
}

// LostWork is a started round, or a started rigid job, that must be repeated.
type LostWork struct {
	Job   string
	Round int64
	GPU   string // the GPU that the lost work would have needed
}

// MovedJob is a job whose work starts at another time or on another type than before.
type MovedJob struct {
	ID       string
	From, To JobPlace
	// GPU is the GPU-time moved, in GPU-seconds.
	GPU Amount
	// Why is one of the constants below.
	Why string
}

// JobPlace is the planned place of a job, from its first start to its end.
type JobPlace struct {
	Types          []string // sorted
	StartUs, EndUs int64
}

// These are the reasons of moves.
const (
	MovedLost    = "lost"     // a started round must be repeated
	MovedCluster = "cluster"  // the GPUs of the job are no longer available as planned
	MovedChanged = "changed"  // the job itself has changed
	MovedEarlier = "earlier"  // the job ends earlier, which is worth the move
	MovedMadeWay = "made_way" // other jobs end earlier, which is worth the move
)

// RenamedGPU is one GPU of the rest and its name in the whole instance.
type RenamedGPU struct {
	Rest, Whole string
}

// ReplanRequest asks for a plan for the rest of an earlier plan.
type ReplanRequest struct {
	// Previous is the earlier result with its schedule. Nil asks for a plan from the
	// beginning.
	Previous *Result
	// Before is the instance of Previous; nil means the instance of the request.
	Before *Instance
	// AtUs is the planning instant, on the clock of the earlier schedule.
	AtUs int64
	// StabilityMicro is the least gain for which planned work is moved, in 1e-6
	// weight-seconds per GPU-second; 0 moves freely.
	StabilityMicro int64
	// HasAt and HasStability say whether AtUs and StabilityMicro were given.
	HasAt, HasStability bool
}
