package leases

import "context"

// This file is the interface of policies that lend GPUs for leases: periods of equal
// length at whose end the policy decides again. Jobs progress by throughput × time, so
// neither steps nor tasks are events.

// Job is a job of the lease engine.
type Job struct {
	ID       string
	ArrivalS float64
	Weight   float64 // > 0
	GPUs     int     // GPUs of one type that the job needs at once; ≥ 1
	Steps    int64   // number of steps; ≥ 1
	// Rounds says that the GPUs do their steps together, one each, so that the number of
	// steps done is always a multiple of GPUs; Steps must be such a multiple too. Without
	// Rounds the number of steps is not restricted.
	Rounds bool
	// Rate is in steps a second of the whole gang, by GPU type as in
	// State.Types; 0 where the job cannot run.
	Rate []float64
	// SpreadRate is Rate where the GPUs of the gang are on more than one node; nil means
	// that the rate is Rate there, too. A HoldPolicy must not spread a job over nodes with
	// GPUs for which SpreadRate is 0; a SharePolicy, which does not see nodes, may do so, and
	// the job then runs at Rate.
	SpreadRate []float64
	// Kind names what the job trains; measurements of jobs that share GPUs refer to it.
	Kind string
	// SLO limits the time of the job, as a multiple of its time alone on GPUs of the
	// reference type; 0 means no limit. Only policies with deadlines use SLO.
	SLO float64
	// Entity is the entity to which the job belongs; nil means none.
	Entity *Entity
}

// Entity is a user or team whose jobs share the entity's part of the cluster.
type Entity struct {
	Name   string
	Weight float64 // > 0
	// FIFO divides the entity's part among its jobs by arrival instead of by weight.
	FIFO bool
}

// View is what a policy sees of a job in the system.
type View struct {
	*Job
	Number    int   // number of the job by arrival, from 0
	StepsLeft int64 // ≥ 1; policies that claim not to know sizes must not use it
	// EnteredS is when the job entered the engine: the end of the round in which the job
	// arrived.
	EnteredS float64
}

// State is what a policy decides on. The state belongs to the engine and is valid
// during the call.
type State struct {
	NowS  float64
	Types []string // in ascending order
	GPUs  []int    // by type, including the GPUs that are out of service
	Jobs  []View
	// NodeSize is Cluster.NodeSize.
	NodeSize []int
	// Out lists the GPUs that are out of service, by number. A HoldPolicy must not lend
	// these; a SharePolicy need not consider them.
	Out []int32
	// PairRates returns the rates of two jobs that share their GPUs of a type, both 0
	// where that pair was not measured; the function is nil without measurements.
	PairRates func(a, b *Job, gpuType int) (float64, float64)
}

// Shares is the part of its time for which each job shall hold GPUs of each type: the
// share of job i on type k is Share[i*types+k], from 0 to 1, and the shares of a job add
// up to at most 1. The engine passes Share to the policy filled with zeros.
type Shares struct {
	Share []float64
	Pairs []PairShare
	// Oversubscribed says that the shares may need more GPUs than there are; the rounds
	// then grant what fits, by priority. Otherwise the engine refuses such shares.
	Oversubscribed bool
}

// PairShare is the share of two jobs that use the same GPUs at the same time.
type PairShare struct {
	A, B  int       // indices into State.Jobs, A < B
	Share []float64 // by type
}

// SharePolicy divides the time of the GPUs. The engine asks the policy after jobs have
// arrived or ended, but not more often than RunConfig.ResetS allows, and turns the
// shares into leases by priority: the share over the fraction of time received.
type SharePolicy interface {
	LeaseTraits() Traits
	Shares(ctx context.Context, s *State, out *Shares) error
}

// Traits tell the engine how to turn the shares of a policy into leases.
type Traits struct {
	// ShuffleTypes draws the order in which types choose their jobs again for
	// each round; otherwise the types choose in falling order of name.
	ShuffleTypes bool
	// OnlyShares leaves GPUs idle instead of lending them to jobs whose share of their
	// type is 0.
	OnlyShares bool
	// Pairs says that the policy makes jobs share GPUs; it needs PairRates.
	Pairs bool
}

// HoldPolicy decides for each round which job holds which GPUs.
type HoldPolicy interface {
	Hold(ctx context.Context, s *State, previous []Hold) ([]Hold, error)
}

// MixedHoldPolicy is a HoldPolicy that may give a job GPUs of several types. The job then
// runs at the rate of the slowest of them.
type MixedHoldPolicy interface {
	HoldPolicy
	// MixesTypes has no effect.
	MixesTypes()
}

// ForkingHoldPolicy is a HoldPolicy that may run several copies of a job at the same time, as
// Hold.Copies says.
type ForkingHoldPolicy interface {
	HoldPolicy
	// ForksJobs has no effect.
	ForksJobs()
}

// Hold is one job with the GPUs that it holds for a round: as many as it needs, all of
// one type unless the policy is a MixedHoldPolicy, and of types on which the job has a
// rate. GPUs are numbered consecutively in the order of the types, and nodes of a type
// are consecutive.
type Hold struct {
	Job  int // index into State.Jobs
	GPUs []int32
	// Copies is the number of copies of the job; 0 means 1. Each copy has as many GPUs as the job needs,
	// one copy after the other in GPUs, all on a node on which no other copy of the job is. Only a
	// ForkingHoldPolicy may give more than one; Fork says how copies progress.
	Copies int
}
