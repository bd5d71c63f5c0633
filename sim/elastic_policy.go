package sim

import "context"

// This file is the interface of policies that change the widths of gangs: at
// fixed intervals each job may be given more or fewer GPUs, on other nodes, and
// goes on from its checkpoint. Its speed follows from where its GPUs are, and
// how much a step helps from its batch and how far it is.

// ElasticJob is a job of the elastic engine. GPUs are all of one type.
type ElasticJob struct {
	ID       string
	ArrivalS float64
	Weight   float64 // > 0
	GPUs     int     // asked for, by those policies that keep to it; ≥ 1
	MaxGPUs  int     // the most that its batch can be dealt out to; ≥ 1
	Batch    int     // samples of a step, over all GPUs; ≥ 1
	Epochs   int     // until it ends; ≥ 1
	Limits   BatchLimits
	Training Training
	// Kind names what the job trains.
	Kind string
}

// BatchLimits bound batches. All are at least 1.
type BatchLimits struct {
	Init     int // of a step, where gradients need no accumulation on one GPU
	Max      int // of a step
	MaxLocal int // of a pass on one GPU
}

// Training is what was measured of an application.
type Training interface {
	// Step is how long a pass of local samples on each GPU takes, with the
	// exchange of gradients, and how long the exchange alone. placement is the
	// numbers of GPUs on the job's nodes. The error says that this was not
	// measured and cannot be interpolated.
	Step(placement []int, local int) (stepS, syncS float64, err error)
	// Epoch is what steps of a batch do in an epoch, numbered from 0: how much
	// progress one makes, in steps of the initial batch; the progress at which the
	// epoch ends, whatever the batch; and how many steps of this batch end it,
	// from the start of training.
	Epoch(batch, epoch int) (gain, endProgress, endSteps float64, err error)
}

// Split deals a step's batch out to GPUs: local samples of each in each of
// passes, of which the last also exchanges gradients. It rounds up, so that a
// step can be a little larger than Batch, but not than Limits.Max. On one GPU a
// batch beyond Limits.Init takes two passes at least, as there is then no other
// way to estimate the noise of gradients. Source: Pollux's simulator.
func (ej *ElasticJob) Split(gpus int) (local, passes int) {
	least := 1
	if gpus == 1 && ej.Batch > ej.Limits.Init {
		least = 2
	}
	return ej.SplitPasses(gpus, least)
}

// SplitPasses is Split with at least so many passes.
func (ej *ElasticJob) SplitPasses(gpus, least int) (local, passes int) {
	local = ceilDiv(ej.Batch, gpus)
	passes = max(least, ceilDiv(local, ej.Limits.MaxLocal))
	return min(ceilDiv(local, passes), ej.Limits.Max/(gpus*passes)), passes
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// NodeGPUs is how many GPUs of a node, numbered from 0, a job holds.
type NodeGPUs struct{ Node, GPUs int }

// ElasticView is a job that is there, as a policy sees it.
type ElasticView struct {
	*ElasticJob
	Number int // by arrival, from 0
	Epoch  int // that it is in, from 0
	// Held is what it holds, nil if nothing. A policy that returns the same lets
	// the job go on; any other order of nodes is a move.
	Held []NodeGPUs
}

// ElasticState is what a policy decides on. It belongs to the engine and is
// valid during the call; slices of Held may be kept, and not be written to.
type ElasticState struct {
	NowS  float64
	Nodes []int // GPUs of each
	Jobs  []ElasticView
}

// ElasticPolicy says for each interval which GPUs each of s.Jobs holds; nil is
// none. No node may be named twice for a job, nor give more GPUs than it has.
type ElasticPolicy interface {
	Allocate(ctx context.Context, s *ElasticState) ([][]NodeGPUs, error)
}
