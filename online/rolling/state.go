package rolling

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/placement"
	"github.com/hare-sched/hare/online/planner"
)

// This file has what rolling keeps of a session and of its jobs, and whether a plan is due or too old.

// Config tunes New. The zero value is good.
type Config struct {
	// Rounds are the rounds of each job by its ID, where sizes are known; nil means that
	// the policy learns sizes from jobs that end.
	Rounds map[string]int64
	// Work limits each plan.
	Work planner.Work
	// MigrationUs is what a plan charges a job for leaving the type that the job last ran
	// on, in microseconds; zero means 60 s or, where that is longer, a round on the job's
	// fastest type, and a negative number means nothing.
	MigrationUs int64
	// SwitchUs is what a GPU loses when it begins another job, in microseconds. Zero means
	// that the policy measures it, and a negative number nothing.
	SwitchUs int64
	// Guard is the guard against starvation.
	Guard list.GuardConfig
	// Seed is of the search.
	Seed int64
	// Aside says that the policy's host makes the plans, by Ask and Take. Otherwise Step
	// makes a plan whenever one is due, and Ask asks for none.
	Aside bool
	// MaxAgeUs is for plans that are made aside: how long the last plan is followed after a
	// change that the plan has not seen, in microseconds. Then hgittins decides until the
	// next plan. Zero means 60 s.
	MaxAgeUs int64
	// PlanEveryUs is for plans that are made aside: the time of the session for each plan,
	// in microseconds. As many as planBurst plans may follow each other at once after a
	// time with fewer. Zero means 1 s, and a negative number makes a plan at each change.
	PlanEveryUs int64
	// WaitForPlan is for plans that are made aside, and for sessions whose starts are hard to undo:
	// while a plan is due and may be made by PlanEveryUs, nothing starts, until MaxAgeUs has passed.
	// Only what the guard is due to start does.
	WaitForPlan bool

	// Name is the name of the policy; "" means rolling.
	Name string
}

// Defaults of Config.
const (
	defaultMigrationUs = 60e6
	DefaultMaxAgeUs    = 60e6
	// DefaultKappa is GuardConfig.Kappa, as hgittins has it. With 16 the guard lets wide gangs
	// wait so long among many short jobs that the mean suffers (docs/inside/online.md#the-guard-of-rolling-and-hgittins).
	DefaultKappa = 8
	// DefaultPlanEveryUs limits how fast the log of a session grows by its plans.
	DefaultPlanEveryUs = 1e6
	planBurst          = 10
)

// Policy is the policy rolling. It is a Scheduler whose plans its host may make
// aside.
type Policy struct {
	*list.Scheduler
	rolling *rolling
}

var (
	_ online.Planned    = (*Policy)(nil)
	_ online.Observable = (*Policy)(nil)
)

// rolling is the state beyond that of list scheduling. The rows of the plan are the jobs'
// claims.
type rolling struct {
	cfg      Config
	belief   *list.SizeBelief
	fallback list.Rule // hgittins, with the same belief
	// changes counts arrivals, ends of jobs, and GPUs that join or leave. A plan is due
	// where the last one has not seen all of them.
	changes int64
	unseen  changeTimes // of the changes that the plan has not seen; for plans made aside
	plan    followedPlan
	// pacedUs is until when the plans that were taken would have lasted, one for each
	// PlanEveryUs: the theoretical arrival time of the generic cell rate algorithm (ITU-T
	// I.371).
	pacedUs int64
	// fresh says that a plan was taken, and that no event has come since.
	fresh bool
	index turnIndex

	setup  list.SetupTime
	speeds list.LearnedSpeeds

	// Those below are of one call of assign.
	l        *list.Scheduler
	free     []int64 // GPUs of each type
	reserved []gpuReservation
	onNodes  list.NodeReservation
	onQuotas map[int32]list.QuotaReservation // what is kept of quotas, by number
	noRoom   map[needOnNodes][]tasksUntil    // of this assignment
}

// followedPlan is what the policy keeps of the last plan beside the claims.
type followedPlan struct {
	number   int64 // the changes that the plan has seen; 0 where there is no plan yet
	madeUs   int64 // the time of its question
	arrivals int64 // jobs that had arrived by then
	value    hare.Amount
	bound    hare.Amount
	// prices are nil where there were none. Their times are after madeUs, and each row is
	// of a type of pricedTypes.
	prices      *hare.Relaxation
	pricedTypes []int
}

// claim is a job's part of the plan. Times are absolute, and rounds count from the job's
// first.
type claim struct {
	rows []planner.Row // at least one
	at   int           // the row of the next round when it was last asked for
}

// jobPlan is what rolling keeps of a job.
type jobPlan struct {
	claim *claim
	turns jobTurns
	index gittinsIndexOfJob
}

// gpuReservation keeps GPUs of a type for the first job in the order of the plan that
// does not fit: EASY backfill with the plan's order.
// Where the scheduler goes by nodes, it keeps whole nodes instead: rolling.onNodes.
type gpuReservation struct {
	made     bool
	shadowUs int64 // when that job is expected to start
	extra    int64 // GPUs that the job leaves then
	// chunk is how many of the extra GPUs are on one node at most, where the scheduler goes by nodes.
	chunk int64
}

// needOnNodes are jobs whose tasks need the same of nodes with GPUs of a type.
type needOnNodes struct {
	shape   placement.Shape
	gpuType int
}

// tasksUntil is a number of tasks that run until a time.
type tasksUntil struct{ tasks, endUs int64 }

// planOf is what rolling keeps of a job.
func planOf(j *list.JobState) *jobPlan {
	x, ok := j.Own.(*jobPlan)
	if !ok {
		x = &jobPlan{}
		j.Own = x
	}
	return x
}

// nextRow is the row of the plan for the round of a job that waits, or for the one after
// the round that runs; nil where the plan has none. The last row is for all later rounds.
func nextRow(j *list.JobState) *planner.Row {
	c := planOf(j).claim
	if c == nil {
		return nil
	}
	next := nextRound(j)
	for c.at > 0 && c.rows[c.at].Round > next { // the round that ran was lost
		c.at--
	}
	for c.at < len(c.rows)-1 && c.rows[c.at].Round+c.rows[c.at].Rounds <= next {
		c.at++
	}
	return &c.rows[c.at]
}

// nextRound is the round that starts next.
func nextRound(j *list.JobState) int64 {
	if len(j.GPUs()) > 0 {
		return j.Round() + 1
	}
	return j.Round()
}

// cell is the cell of the prices at a time, or the end of the grid.
func (fp *followedPlan) cell(nowUs int64) int {
	by, from := nowUs-fp.madeUs, 0
	for from+1 < len(fp.prices.GridUs) && fp.prices.GridUs[from+1] <= by {
		from++
	}
	return from
}

// changed takes note of a change that makes a plan due.
func (r *rolling) changed(l *list.Scheduler) {
	r.changes++
	if r.cfg.Aside {
		r.unseen.add(r.changes, l.NowUs())
	}
}

// due reports whether something has changed since the plan's question.
func (r *rolling) due() bool { return r.changes > r.plan.number }

// paced reports whether a plan may be made at a time by Config.PlanEveryUs.
func (r *rolling) paced(nowUs int64) bool {
	return r.cfg.PlanEveryUs < 0 || r.plan.number == 0 || nowUs >= r.pacedUs-(planBurst-1)*r.cfg.PlanEveryUs
}

// pace counts a plan whose question was asked at a time.
func (r *rolling) pace(askedUs int64) {
	if r.cfg.PlanEveryUs > 0 {
		r.pacedUs = min(max(r.pacedUs, askedUs)+r.cfg.PlanEveryUs, 2*hare.MaxExact)
	}
}

// tooOld reports whether a change that the plan has not seen is older than Config.MaxAgeUs.
func (r *rolling) tooOld(l *list.Scheduler) bool {
	sinceUs, ok := r.unseen.firstUs()
	return ok && l.NowUs()-sinceUs > r.cfg.MaxAgeUs
}

// fallsBack reports whether hgittins decides.
func (r *rolling) fallsBack(l *list.Scheduler) bool {
	return r.cfg.Aside && (r.plan.number == 0 || r.tooOld(l))
}

// waitsForPlan reports whether nothing starts because a plan is due. A plan that is due and may
// not be made yet is not waited for: it would be asked for after a later event, and where nothing
// starts there may be none.
func (r *rolling) waitsForPlan(l *list.Scheduler) bool {
	return r.cfg.WaitForPlan && r.due() && r.paced(l.NowUs()) && !r.tooOld(l)
}
