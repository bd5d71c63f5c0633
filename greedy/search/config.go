package search

import (
	"context"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/model"
)

// ImproveConfig tunes Improve.
type ImproveConfig struct {
	Seed int64
	// Moves limits the work: one move is one job placed once. Zero means 100,000.
	Moves int64
	// Heat multiplies the temperatures of simulated annealing; zero means a usual heat. Less heat
	// stays nearer to the start, which pays for a start that is nearly as good as this work
	// can make it.
	Heat float64
	// Chains is the number of Markov chains of simulated annealing; zero means 2. One chain
	// finds more where Moves is less than some hundred for each job.
	Chains int
	// First is of Replan: how many jobs at the head of each order try all of their plans. The
	// others keep the types of the earlier plan where they have some. Zero means all jobs.
	First int
	// StopAt ends the search at this value in weight-seconds; zero means never.
	StopAt float64
	// Report is called with every better value; it may be nil.
	Report func(hare.Amount)
	// Checkpoint is called between the steps of the search. Its argument copies the best
	// plan so far, or returns nil while that is start; it may be used only during the call.
	// Checkpoint does not influence the result and may be nil.
	Checkpoint func(best func() *place.Plan)
	// Workers is the number of goroutines. The result does not depend on Workers if Moves is
	// the limit that ends the search.
	Workers int
	// Elapsed returns the used share of the time budget, from 0 to 1. It is nil if only
	// Moves limits the search.
	Elapsed func() float64
	// JobSeconds is the time of the search for each job, where Elapsed goes by a clock; zero means that it is not
	// known.
	JobSeconds float64
	// Continual makes the search the beginning of one without an end: a search with more moves goes on where one with
	// fewer has ended, so that its plan is never worse. It is for searches that Moves alone ends.
	Continual bool
	// Between is called between the stages of a Continual search of gang and rigid jobs, with the moves of the last
	// stage and those that are left. It returns how many moves its own work is worth and the new StopAt, or false to
	// end the search. It may be nil.
	Between func(best func() *place.Plan, stage, left int64) (taken int64, stopAt float64, ok bool)
	// Prove proves by a certificate of the method search, whose bound is not set, that no plan is better than best. It
	// returns nil without a proof, else what keeps the proof. It may run beside the search; keep does not. It may be nil.
	Prove func(ctx context.Context, best *place.Plan, c *hare.Certificate) (keep func())
	// Without names searches and parts of searches that are left out, to measure what each is worth: see Parts.
	Without []string
	// shaped is the model with all shapes of jobs where these may get other shapes than those of the
	// model, or nil. unitGuide is then the relaxation whose progress counts units.
	shaped    *model.Model
	unitGuide *hare.Relaxation
	// staged lets the annealing of few jobs go by stages, which do not depend on the limits.
	staged bool
}

// Stats counts what a search did.
type Stats struct {
	Moves, Evaluations, Accepted int64
	// Exhausted says that all cases were seen: no plan is better.
	Exhausted bool
}

// budget counts the moves of a search against its limits.
type budget struct {
	ctx  context.Context
	cfg  *ImproveConfig
	left int64
	// timeShare is the share of the time that may be used; zero means all of it.
	timeShare float64
}

func (bu *budget) spend(n int64) { bu.left -= n }

func (bu *budget) over() bool {
	until := bu.timeShare
	if until == 0 {
		until = 1
	}
	return bu.left <= 0 || bu.ctx.Err() != nil || bu.cfg.Elapsed != nil && bu.cfg.Elapsed() >= until
}

// share returns the used share of the budget, from 0 to 1.
func (bu *budget) share() float64 {
	s := 1 - float64(bu.left)/float64(bu.cfg.Moves)
	if bu.cfg.Elapsed != nil {
		s = max(s, bu.cfg.Elapsed())
	}
	return min(1, max(0, s))
}

// These are parts of several searches that ImproveConfig.Without can leave out.
const (
	justification = "justification" // of the plans of random keys
	grids         = "grids"         // of time, in place of step functions
)

// leavesOut reports whether a search or a part is left out.
func (cfg *ImproveConfig) leavesOut(name string) bool { return slices.Contains(cfg.Without, name) }
