package sim

import "context"

// This file is the interface of policies that lend GPUs for leases: periods of
// equal length at whose end every gang is asked again. Jobs progress with
// throughput × time, so neither steps nor tasks are events.

// LeaseJob is a job of a lease engine.
type LeaseJob struct {
	ID       string
	ArrivalS float64
	Weight   float64 // > 0
	GPUs     int     // that it needs at once, of one type; ≥ 1
	Steps    int64   // in all; ≥ 1
	// Rounds says that the GPUs do their steps together, one each: whatever is done
	// is a multiple of GPUs. Steps must be one. Otherwise they may be any.
	Rounds bool
	// Rate is in steps a second of the whole gang, by GPU type as in
	// LeaseState.Types; 0 where the job cannot run.
	Rate []float64
	// Kind names what the job trains, where jobs that share GPUs were measured.
	Kind string
	// SLO is how many times as long as alone on GPUs of the reference type a job
	// may take; 0: as long as it takes. Only policies of deadlines look.
	SLO float64
	// Entity is whom the job belongs to; nil: nobody.
	Entity *LeaseEntity
}

// LeaseEntity is a user or team whose jobs share what it is due.
type LeaseEntity struct {
	Name   string
	Weight float64 // > 0
	// FIFO gives what it is due to its jobs by arrival, and not by weight.
	FIFO bool
}

// LeaseView is a job that is there, as a policy sees it.
type LeaseView struct {
	*LeaseJob
	Number    int   // by arrival, from 0
	StepsLeft int64 // ≥ 1; policies that claim not to know sizes must not look
	// EnteredS is when the engine took the job in: at the end of the round in
	// which it arrived.
	EnteredS float64
}

// LeaseState is what a policy decides on. It belongs to the engine and is
// valid during the call.
type LeaseState struct {
	NowS  float64
	Types []string // in rising order
	GPUs  []int    // by type, those that are out included
	Jobs  []LeaseView
	// Out are GPUs that are out of service, by number; those of a HoldPolicy must
	// not be lent. Policies that share need not look.
	Out []int32
	// PairRates gives the rates of two jobs that share their GPUs of a type,
	// both 0 where that was not measured; nil without measurements.
	PairRates func(a, b *LeaseJob, gpuType int) (float64, float64)
}

// Shares is how much of its time each job shall hold GPUs of each type: that
// of job i on type k is Share[i*types+k], from 0 to 1, as is a job's sum. The
// engine hands it out with zeros.
type Shares struct {
	Share []float64
	Pairs []PairShare
	// Oversubscribed says that the shares may need more GPUs than there are; the rounds
	// then grant what fits, by priority. Otherwise an engine refuses them.
	Oversubscribed bool
}

// PairShare is the share of two jobs that use the same GPUs at the same time.
type PairShare struct {
	A, B  int       // indices into LeaseState.Jobs, A < B
	Share []float64 // by type
}

// SharePolicy divides time. An engine asks it when jobs came or went, but not
// more often than its own rule allows, and turns the shares into leases by
// priority: share over the fraction of time received.
type SharePolicy interface {
	LeaseTraits() LeaseTraits
	Shares(ctx context.Context, s *LeaseState, out *Shares) error
}

// LeaseTraits tell an engine how a policy wants its shares to be followed.
type LeaseTraits struct {
	// ShuffleTypes draws the order in which types choose their jobs anew for
	// each round; otherwise the types choose in falling order of name.
	ShuffleTypes bool
	// OnlyShares leaves GPUs idle rather than lend them to jobs whose share of
	// that type is 0.
	OnlyShares bool
	// Pairs says that the policy makes jobs share GPUs; it needs PairRates.
	Pairs bool
}

// HoldPolicy says itself, for each round, which job holds which GPUs.
type HoldPolicy interface {
	Hold(ctx context.Context, s *LeaseState, previous []Hold) ([]Hold, error)
}

// Hold is one job on the GPUs that it holds for a round: as many as it needs,
// all of a type on which it has a rate. GPUs are numbered through the types in
// their order.
type Hold struct {
	Job  int // index into LeaseState.Jobs
	GPUs []int32
}
