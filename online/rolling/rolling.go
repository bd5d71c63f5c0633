// Package rolling has the policy rolling, which plans the jobs that are there again and again and follows the plan by
// type and order, and hgittins, which decides while there is no plan.
package rolling

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
)

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

// New plans all jobs that are there at each arrival, end and change of GPUs, as if
// nobody else came, and follows the plan by GPU type and order, not by GPU and time. The
// cluster must be valid.
//
// A job's size is the mean residual of the Kaplan-Meier estimate over the jobs that have
// ended; see SizeBelief. A job that cannot start where the plan has it next keeps the GPUs
// that it needs from jobs that come after it in the plan, unless those end before it is
// expected to start (EASY backfill). A job may run a round elsewhere than the plan says
// if that round ends before the job's own turn.
//
// With Config.Aside the last plan holds until the next one is taken. Jobs that
// have come since stand by weighted shortest time at the plan's prices. Without a plan,
// and when the plan is too old, the policy decides as hgittins does.
func New(cluster *hare.Cluster, cfg Config) *Policy {
	r := newRolling(cfg)
	return &Policy{list.New(cluster, r.rule()), r}
}

// Defaults of Config.
const (
	defaultMigrationUs = 60e6
	DefaultMaxAgeUs    = 60e6
	// rollingKappa is GuardConfig.Kappa, as hgittins has it. With 16 the guard lets wide gangs
	// wait so long among many short jobs that the mean suffers (docs/inside/online.md#the-guard-of-rolling-and-hgittins).
	DefaultKappa = 8
	// defaultPlanEveryUs limits how fast the log of a session grows by its plans.
	DefaultPlanEveryUs = 1e6
	planBurst          = 10
)

// maxSwitchUs is the longest switch that a session may state: a day.
const maxSwitchUs = 24 * 3600e6

func newRolling(cfg Config) *rolling {
	if cfg.MaxAgeUs == 0 {
		cfg.MaxAgeUs = DefaultMaxAgeUs
	}
	if cfg.PlanEveryUs == 0 {
		cfg.PlanEveryUs = DefaultPlanEveryUs
	}
	if cfg.Name == "" {
		cfg.Name = "rolling"
	}
	if cfg.Guard.Kappa == 0 {
		cfg.Guard.Kappa = DefaultKappa
	}
	r := &rolling{cfg: cfg, belief: &list.SizeBelief{}, setup: list.NewSetupTime(cfg.SwitchUs)}
	r.fallback = HGittinsConfig{}.ruleWith(r.belief,
		func(j *list.JobState) *gittinsIndexOfJob { return &planOf(j).index })
	return r
}

func (r *rolling) rule() list.Rule {
	rule := list.Rule{
		Name: r.cfg.Name, Hold: hare.Gang, Rounds: r.cfg.Rounds, Sticky: true,
		Priority: r.priority,
		Prepare:  r.prepare, Assign: r.assign, Left: r.left,
		Touched: r.index.touch,
		Resized: func(l *list.Scheduler) { r.changed(l) },
		State:   r.encode, Restore: r.decode,
		Guard: r.cfg.Guard.Rule(r.belief, false), Setup: &r.setup, Speeds: &r.speeds,
	}
	if r.cfg.Aside {
		rule.Version = r.fallback.Version
	}
	return rule
}

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

func (r *rolling) left(l *list.Scheduler, j *list.JobState, ended bool) {
	r.changed(l)
	r.belief.Observe(j, ended)
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

// prepare makes a plan where one is due and no host makes it, and follows it.
func (r *rolling) prepare(l *list.Scheduler) {
	r.fresh = false
	if r.cfg.Aside {
		r.belief.Learn(l)
		return
	}
	if !r.due() {
		return
	}
	r.belief.Learn(l)
	q := r.question(l)
	plan, err := q.make(context.Background())
	if err != nil { // jobs run as far as they can without a plan
		r.plan.number, r.plan.arrivals = q.number, q.arrivals
		for _, j := range l.Active() {
			planOf(j).claim = nil
		}
		r.index.makeStale()
		return
	}
	r.follow(l, plan)
}

// priority is that of the plan, or of hgittins where that decides.
func (r *rolling) priority(l *list.Scheduler, j *list.JobState) float64 {
	if r.fallsBack(l) {
		return r.fallback.Priority(l, j)
	}
	if row := nextRow(j); row != nil {
		return float64(row.StartUs)
	}
	return math.Inf(1)
}

// fallsBack reports whether hgittins decides.
func (r *rolling) fallsBack(l *list.Scheduler) bool {
	return r.cfg.Aside && (r.plan.number == 0 || r.tooOld(l))
}

// tooOld reports whether a change that the plan has not seen is older than Config.MaxAgeUs.
func (r *rolling) tooOld(l *list.Scheduler) bool {
	sinceUs, ok := r.unseen.firstUs()
	return ok && l.NowUs()-sinceUs > r.cfg.MaxAgeUs
}

// waitsForPlan reports whether nothing starts because a plan is due. A plan that is due and may
// not be made yet is not waited for: it would be asked for after a later event, and where nothing
// starts there may be none.
func (r *rolling) waitsForPlan(l *list.Scheduler) bool {
	return r.cfg.WaitForPlan && r.due() && r.paced(l.NowUs()) && !r.tooOld(l)
}

// parseRolling reads {"migration_s": 60, "switch_s": 10, "moves": 20000, "aside": true,
// "max_age_s": 60, "plan_every_s": 1, "wait_for_plan": true, "guard": true, "kappa": 4, "fifo_slowdown": 1}, where
// they differ from cfg.
func parseRolling(cfg Config, parameters []byte) (*rolling, error) {
	form := struct {
		MigrationS json.Number `json:"migration_s"`
		SwitchS    json.Number `json:"switch_s"`
		Moves      *int64      `json:"moves"`
		Aside      bool        `json:"aside"`
		MaxAgeS    json.Number `json:"max_age_s"`
		PlanEveryS json.Number `json:"plan_every_s"`
		Wait       bool        `json:"wait_for_plan"`
		list.GuardForm
	}{}
	if err := online.DecodeParameters(parameters, &form); err != nil {
		return nil, err
	}
	if form.Wait && !form.Aside {
		return nil, online.Invalid("/wait_for_plan", "contradiction",
			"rolling: wait_for_plan needs \"aside\": true, with which plans are made beside the session")
	}
	cfg.Aside, cfg.WaitForPlan = form.Aside, form.Wait
	if form.GuardForm != (list.GuardForm{}) {
		guard, err := form.GuardForm.Config("rolling")
		if err != nil {
			return nil, err
		}
		cfg.Guard = guard
	}
	for _, x := range []struct {
		pointer string
		text    json.Number
		to      *int64
	}{{"/migration_s", form.MigrationS, &cfg.MigrationUs}, {"/max_age_s", form.MaxAgeS, &cfg.MaxAgeUs}} {
		if x.text == "" {
			continue
		}
		us, err := list.PositiveMicros(x.pointer, x.text)
		if err != nil {
			return nil, err
		}
		*x.to = us
	}
	if form.SwitchS != "" {
		us, err := hare.ParseMicros(form.SwitchS.String())
		if err != nil || us < 0 || us > maxSwitchUs {
			return nil, online.Invalid("/switch_s", "out_of_range", "%.60s must be from 0 to %s, with at most six decimals",
				form.SwitchS, hare.FormatMicros(maxSwitchUs))
		}
		if cfg.SwitchUs = us; us == 0 {
			cfg.SwitchUs = -1
		}
	}
	if form.PlanEveryS != "" {
		us, err := hare.ParseMicros(form.PlanEveryS.String())
		if err != nil || us < 0 || us > maxPlanEveryUs {
			return nil, online.Invalid("/plan_every_s", "out_of_range",
				"%.60s must be from 0 to %s, with at most six decimals", form.PlanEveryS, hare.FormatMicros(maxPlanEveryUs))
		}
		if cfg.PlanEveryUs = us; us == 0 {
			cfg.PlanEveryUs = -1
		}
	}
	if form.Moves != nil {
		if *form.Moves < 0 || *form.Moves > 1e9 {
			return nil, online.Invalid("/moves", "out_of_range", "rolling: moves is %d: it must be from 0 to 1e9", *form.Moves)
		}
		if cfg.Work.Moves = *form.Moves; cfg.Work.Moves == 0 {
			cfg.Work.Moves = -1
		}
	}
	return newRolling(cfg), nil
}

// maxPlanEveryUs is the longest time for each plan, a day.
const maxPlanEveryUs = 24 * 3600 * 1e6

// Open makes the policy for a session on a cluster, with the settings of cfg where parameters do not replace them.
// Errors are *hare.InvalidError.
func (cfg Config) Open(cluster *hare.Cluster, parameters []byte) (*Policy, error) {
	return cfg.with(func(rule func([]byte) (list.Rule, error)) (*list.Scheduler, error) {
		return list.Open(cluster, parameters, rule)
	})
}

// Restore makes the policy of which a snapshot was taken.
func (cfg Config) Restore(snapshot []byte) (*Policy, error) {
	return cfg.with(func(rule func([]byte) (list.Rule, error)) (*list.Scheduler, error) {
		return list.Restore(snapshot, rule)
	})
}

// Check says what Open would refuse of parameters on every cluster. Errors are *hare.InvalidError.
func (cfg Config) Check(parameters []byte) error {
	_, err := parseRolling(cfg, parameters)
	return err
}

// with makes a Rolling of the scheduler that made makes by the rule.
func (cfg Config) with(made func(rule func(parameters []byte) (list.Rule, error)) (*list.Scheduler, error)) (
	*Policy, error) {
	var r *rolling
	l, err := made(func(parameters []byte) (list.Rule, error) {
		var err error
		if r, err = parseRolling(cfg, parameters); err != nil {
			return list.Rule{}, err
		}
		return r.rule(), nil
	})
	if err != nil {
		return nil, err
	}
	return &Policy{l, r}, nil
}

// maxChangeTimes limits the memory of a changeTimes.
const maxChangeTimes = 256

// changeTimes are the times of the changes that a plan has not seen: those of the changes
// from each Number on, up to the next one. Where there are many, the times of some are
// those of changes before them.
type changeTimes []changeTime

type changeTime struct {
	Number int64 `json:"number"`
	AtUs   int64 `json:"at_us"`
}

func (ct *changeTimes) add(number, atUs int64) {
	all := *ct
	if n := len(all); n > 0 && all[n-1].AtUs == atUs {
		return
	}
	if len(all) == maxChangeTimes {
		for i := range maxChangeTimes / 2 {
			all[i] = all[2*i]
		}
		all = all[:maxChangeTimes/2]
	}
	*ct = append(all, changeTime{number, atUs})
}

// see forgets all changes up to a number, of the last change at most.
func (ct *changeTimes) see(number, last int64) {
	all := *ct
	if number >= last {
		*ct = all[:0]
		return
	}
	from := 0
	for from+1 < len(all) && all[from+1].Number <= number+1 {
		from++
	}
	all = slices.Delete(all, 0, from)
	all[0].Number = number + 1
	*ct = all
}

// firstUs is the time of the first change; false where there is none.
func (ct changeTimes) firstUs() (int64, bool) {
	if len(ct) == 0 {
		return 0, false
	}
	return ct[0].AtUs, true
}
