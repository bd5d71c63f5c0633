package elastic

import "context"

// This file is the interface of policies that change the widths of gangs: at fixed
// intervals each job may get more or fewer GPUs, on other nodes, and goes on from its
// checkpoint. The time of a step follows from the placement of the GPUs, and the
// progress of a step from the batch and the epoch.

// Job is a job of the elastic engine. All GPUs are of one type.
type Job struct {
	ID       string
	ArrivalS float64
	Weight   float64 // > 0
	GPUs     int     // number that the job asks for, for policies of fixed width; ≥ 1
	MaxGPUs  int     // the most GPUs over which the batch can be split; ≥ 1
	Batch    int     // samples of a step, over all GPUs; ≥ 1
	// FixedBatch says that policies which choose batches must keep Batch, at GPUs up to MaxGPUs.
	FixedBatch bool
	Epochs     int // number of epochs; ≥ 1
	Limits     BatchLimits
	Training   Training
	// Kind names what the job trains.
	Kind string
}

// BatchLimits bound batches. All are at least 1, apart from MinLocal.
type BatchLimits struct {
	Init     int // largest batch of a step that one GPU does without accumulation
	Max      int // largest batch of a step
	MinLocal int // least batch of a pass on one GPU, for policies that choose batches; zero means 1
	MaxLocal int // largest batch of a pass on one GPU
}

// Training holds the measurements of an application.
type Training interface {
	// Step returns how long a pass of local samples on each GPU takes with the exchange
	// of gradients, and how long the exchange takes alone. placement lists the numbers
	// of GPUs on the job's nodes. The error says that this placement or batch was not
	// measured and cannot be interpolated.
	Step(placement []int, local int) (stepS, syncS float64, err error)
	// Epoch returns the effect of steps of a batch in an epoch, numbered from 0: the
	// progress of one step, in steps of the initial batch; the progress at which the
	// epoch ends, which does not depend on the batch; and the number of steps of this
	// batch from the start of training to the end of the epoch.
	Epoch(batch, epoch int) (gain, endProgress, endSteps float64, err error)
}

// Split splits the batch of a step over GPUs: each GPU does local samples in each of
// the passes, of which the last also exchanges gradients. Split rounds up, so that a
// step can be a little larger than Batch, but not larger than Limits.Max. On one GPU
// a batch beyond Limits.Init takes at least two passes, because the noise of gradients
// could not be estimated otherwise. Source: Pollux's simulator.
func (ej *Job) Split(gpus int) (local, passes int) {
	least := 1
	if gpus == 1 && ej.Batch > ej.Limits.Init {
		least = 2
	}
	return ej.SplitPasses(gpus, least)
}

// SplitPasses is Split with at least the given number of passes.
func (ej *Job) SplitPasses(gpus, least int) (local, passes int) {
	local = ceilDiv(ej.Batch, gpus)
	passes = max(least, ceilDiv(local, ej.Limits.MaxLocal))
	return min(ceilDiv(local, passes), ej.Limits.Max/(gpus*passes)), passes
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// NodeGPUs is the number of GPUs that a job holds on a node. Nodes are numbered from 0.
type NodeGPUs struct{ Node, GPUs int }

// View is what a policy sees of a job in the system.
type View struct {
	*Job
	Number int // number of the job by arrival, from 0
	Epoch  int // the current epoch, from 0
	// Held lists the GPUs that the job holds; nil means none. A policy that returns the
	// same list lets the job go on; another order of nodes is a move.
	Held []NodeGPUs
	// AttainedS is the time that the job held GPUs, times their number, restarts included.
	AttainedS float64
	Restarts  int64 // changes of GPUs after the first allocation
}

// State is what a policy decides on. The state belongs to the engine and is
// valid during the call. The policy may keep slices of Held but must not write to them.
type State struct {
	NowS  float64
	Nodes []int // GPUs of each
	Jobs  []View
}

// Policy returns for each interval which GPUs each of s.Jobs holds; nil means
// none. An allocation must not name a node twice for a job, nor give out more GPUs
// than a node has.
type Policy interface {
	Allocate(ctx context.Context, s *State) ([][]NodeGPUs, error)
}

// BatchPolicy is an Policy that also chooses the batches of jobs, and learns how fast
// they train. Numbers are those of View.
type BatchPolicy interface {
	Policy
	// Split splits a step over the GPUs of a placement: each GPU does local samples in each of
	// the passes, of which the last also exchanges gradients. The engine asks when the job's
	// GPUs change, at the end of its epochs and at the end of every interval.
	Split(job *Job, number int, placement []int) (local, passes int)
	// Observe tells what a job that trains measures, before its progress counts.
	Observe(job *Job, number int, seen TrainingStep) error
}

// TrainingStep is what a job measures of its steps.
type TrainingStep struct {
	Nodes, GPUs, Local int
	StepS, SyncS       float64 // of a pass, as Training.Step has them
	Sqr, Variance      float64 // of the gradients, as GradientTraining has them
}

// GradientTraining is a Training whose gradients were measured. BatchPolicy needs it.
type GradientTraining interface {
	Training
	// Gradients returns the square and the variance of the gradients of steps of a batch in
	// an epoch.
	Gradients(batch, epoch int) (sqr, variance float64, err error)
}
