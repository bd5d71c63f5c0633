package hare

// Replan says what a plan for the rest of an earlier one keeps, moves and
// gains. The result that it is part of is about Rest, on a clock that starts at
// AtUs; the times here, and Whole, are on the clock of the whole instance.
type Replan struct {
	AtUs int64
	// StabilityMicro is what moving planned work must bring, in 1e-6
	// weight-seconds per GPU-second moved.
	StabilityMicro int64
	// InstanceSHA256 names the whole instance, finished jobs included.
	InstanceSHA256 string
	// Constant is the part of Σ w (C − a) of the whole instance that no plan for
	// the rest can change: the whole's value is the result's plus this.
	Constant Amount
	// KeptValue is the value of the plan for the rest that moves only what it
	// must; nil where there is none.
	KeptValue *Amount
	// PlannedGPU is the GPU-time of the earlier plan that had not started,
	// MovedGPU how much of it now starts at another time or on another type, and
	// ForcedGPU how much of that could not stay. In GPU-seconds.
	PlannedGPU, MovedGPU, ForcedGPU Amount
	Started                         []StartedWork // by job, in the order of the earlier instance
	Lost                            []LostWork    // likewise
	Moved                           []MovedJob    // in the order of Rest
	Kept                            []string      // planned jobs of Rest that stay
	Added, Removed                  []string      // jobs that the earlier instance lacks, or that this one does
	// Renamed GPUs are those of nodes that Rest splits, because a GPU of them is
	// held later for the rest of a started round; in the order of Rest.
	Renamed []RenamedGPU
	Rest    *Instance
	// Whole is the schedule of the whole instance: what has run, what has
	// started, and the new plan. It is nil where none can be, as WholeMissing says.
	Whole        *Schedule
	WholeMissing string
	// Stated is what a decoded document states of this and beside it. It is for
	// verifiers, and nil in what a program built.
	Stated *StatedReplan
}

// StatedReplan says which fields a replan document has, and what it states of
// the values that its encoder computes from others.
type StatedReplan struct {
	At, Constant, Started, Lost, Added, Removed, Renamed bool
	WholeValue, WholeBound, Gain                         *Amount
}

// StartedWork is what runs at the planning instant and stays.
type StartedWork struct {
	Job string
	// Rounds are done when it ends, those that have ended before included.
	Rounds  int64
	UntilUs int64
}

// LostWork is a started round, or a started rigid job, that must be repeated.
type LostWork struct {
	Job   string
	Round int64
	GPU   string // that it would have needed
}

// MovedJob is a job whose work has another start or type than before.
type MovedJob struct {
	ID       string
	From, To JobPlace
	// GPU is the GPU-time moved, in GPU-seconds.
	GPU Amount
	// Why is one of the constants below.
	Why string
}

// JobPlace is what of a job is planned: from its first start to its end.
type JobPlace struct {
	Types          []string // sorted
	StartUs, EndUs int64
}

// Reasons of moves.
const (
	MovedLost    = "lost"     // a started round must be repeated
	MovedCluster = "cluster"  // its GPUs are no longer available as planned
	MovedChanged = "changed"  // the job itself is another than before
	MovedEarlier = "earlier"  // it ends earlier, which is worth the move
	MovedMadeWay = "made_way" // others end earlier, which is worth the move
)

// RenamedGPU is one GPU of the rest and its name in the whole instance.
type RenamedGPU struct {
	Rest, Whole string
}

// ReplanRequest asks for a plan for the rest of an earlier one.
type ReplanRequest struct {
	// Previous is the earlier result, with its schedule; nil asks for a plan from
	// the beginning.
	Previous *Result
	// Before is the instance that Previous is for; nil means that of the request.
	Before *Instance
	// AtUs is the planning instant, on the clock of the earlier schedule.
	AtUs int64
	// StabilityMicro is what moving planned work must bring, in 1e-6
	// weight-seconds per GPU-second; 0 moves freely.
	StabilityMicro int64
	// HasAt says that AtUs was given, HasStability the same.
	HasAt, HasStability bool
}
