// Package greedy turns orders of rounds into feasible schedules and improves them by local search. It works on
// profiles of the free GPUs of each class, or of each node where nodes matter, and on runs of rounds; single GPUs are
// assigned at the end.
//
// The work is done in three layers, of which each knows only those before it; README.md shows how they hang together.
// Package room finds where a round fits, package place makes a plan of an order (list scheduling), and package search
// looks for better plans. This package is what the rest of Hare calls.
package greedy

import (
	"context"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/greedy/search"
	"github.com/hare-sched/hare/model"
)

// These are the parts of a plan.
type (
	// Plan is a feasible schedule of classes: it does not name single GPUs.
	Plan = place.Plan
	// Block is GPUs of a class side by side with the rounds that they do.
	Block = room.Block
	// ShapeChange says that a job has another shape from a round on.
	ShapeChange = place.ShapeChange
	// JobShapes says in which shapes the rounds of a job run.
	JobShapes = place.JobShapes
	// Item is one round of a relaxed job, or a whole job, in an order.
	Item = place.Item
	// Rule is an assignment rule.
	Rule = place.Rule
)

// These are the settings of the searches.
type (
	// ImproveConfig tunes Improve and Replan.
	ImproveConfig = search.ImproveConfig
	// Stats counts what a search did.
	Stats = search.Stats
	// Hint is what a plan that was made a little earlier had of a job.
	Hint = search.Hint
	// RuinAndRecreateConfig tunes RuinAndRecreate.
	RuinAndRecreateConfig = search.RuinAndRecreateConfig
)

// These are the rules and limits that callers name.
const (
	Whole             = place.Whole
	EarliestAvailable = place.EarliestAvailable
	EarliestFinish    = place.EarliestFinish
	Insertion         = place.Insertion
	StagedJobs        = search.StagedJobs
	AnnealingChains   = search.AnnealingChains
)

// ErrNoPlace says that a job has no place in the residual capacity.
var ErrNoPlace = place.ErrNoPlace

// Order sorts the items of all jobs: by the relaxation rel, by least work over weight ("wspt"), or by earliest start
// ("arrival"). See place.Order.
func Order(m *model.Model, rel *hare.Relaxation, kind string) []Item {
	return place.Order(m, rel, kind)
}

// Assign places the items in their order by one rule. See place.Assign.
func Assign(ctx context.Context, m *model.Model, items []Item, rule Rule) (*Plan, error) {
	return place.Assign(ctx, m, items, rule)
}

// AssignInOrder places all jobs in the order that Order gives, and chooses the shapes of jobs that have several. See
// place.AssignInOrder.
func AssignInOrder(ctx context.Context, m *model.Model, rel *hare.Relaxation, kind string, rule Rule) (*Plan, error) {
	return place.AssignInOrder(ctx, m, rel, kind, rule)
}

// Complete leaves the jobs of p where they are and places the jobs without blocks beside them. See place.Complete.
func Complete(ctx context.Context, m *model.Model, p *Plan) (*Plan, error) {
	return place.Complete(ctx, m, p)
}

// FromSchedule reads the plan of a feasible schedule, which may hold only some of m's jobs. See place.FromSchedule.
func FromSchedule(m *model.Model, s *hare.Schedule) *Plan { return place.FromSchedule(m, s) }

// InShapes returns the model in which each job with shapes has all its rounds in the given one. See place.InShapes.
func InShapes(m *model.Model, shapes []int32) *model.Model { return place.InShapes(m, shapes) }

// Infeasible lists the jobs that can never run, each with the proof in words. See place.Infeasible.
func Infeasible(m *model.Model) []hare.Reason { return place.Infeasible(m) }

// Entries estimates how many entries the lanes of a schedule of m will have. See place.Entries.
func Entries(m *model.Model) int64 { return place.Entries(m) }

// TimeUnit returns the largest unit of time, in µs, that divides all compute and synchronisation times of m. See
// place.TimeUnit.
func TimeUnit(m *model.Model) int64 { return place.TimeUnit(m) }

// Constant returns what the jobs that end with the work that runs at time 0 add to the objective. See room.Constant.
func Constant(m *model.Model) (constant hare.Amount, ok bool) { return room.Constant(m) }

// Improve searches from start for a better plan, guided by rel. The returned plan is never worse than start. See
// search.Improve.
func Improve(ctx context.Context, m *model.Model, rel *hare.Relaxation, start *Plan,
	cfg ImproveConfig) (*Plan, Stats, error) {
	return search.Improve(ctx, m, rel, start, cfg)
}

// Replan plans gang and rigid jobs again, with the prices of rel and what an earlier plan had of each job. See
// search.Replan.
func Replan(ctx context.Context, m *model.Model, rel *hare.Relaxation, hints []Hint,
	cfg ImproveConfig) (*Plan, Stats, error) {
	return search.Replan(ctx, m, rel, hints, cfg)
}

// RuinAndRecreate searches from start for the plan with the least sum of value and cost of moves. See
// search.RuinAndRecreate.
func RuinAndRecreate(ctx context.Context, m *model.Model, start *Plan, cfg RuinAndRecreateConfig) *Plan {
	return search.RuinAndRecreate(ctx, m, start, cfg)
}

// SearchParts returns what ImproveConfig.Without can leave out: the searches, and parts of them.
func SearchParts() []string { return search.Parts() }

// AnnealsMixture reports whether Improve mostly anneals the jobs of m, of which some are relaxed. See
// search.AnnealsMixture.
func AnnealsMixture(m *model.Model) bool { return search.AnnealsMixture(m) }
