// Package rolling has the policy rolling, which plans the jobs that are there again and again and follows the plan by
// type and order, and hgittins, which decides while there is no plan.
package rolling

import (
	"context"
	"encoding/json"
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
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

func (r *rolling) left(l *list.Scheduler, j *list.JobState, ended bool) {
	r.changed(l)
	r.belief.Observe(j, ended)
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

// assign starts the rounds whose turn it is, and then what fits beside.
func (r *rolling) assign(l *list.Scheduler) {
	if !l.AnyFree() || r.waitsForPlan(l) {
		return
	}
	if r.fallsBack(l) {
		l.ScheduleBy(&r.fallback)
		return
	}
	r.begin(l)
	r.index.update(r)
	r.index.eachTurn(r)
	r.fill()
}

// begin prepares one call of assign.
func (r *rolling) begin(l *list.Scheduler) {
	r.l = l
	r.free, r.reserved, r.onNodes, r.onQuotas = r.free[:0], r.reserved[:0], nil, nil
	clear(r.noRoom)
	for t := range l.Types() {
		r.free = append(r.free, int64(len(l.Free()[t])))
		r.reserved = append(r.reserved, gpuReservation{})
	}
}

// fill lets jobs that wait run a round on GPUs that nobody is due on before the round
// ends, if the round also ends before the job's own turn. Jobs without a place in the
// plan come last, by arrival.
func (r *rolling) fill() {
	if r.l.AnyFree() {
		r.index.eachToFill(r, plannedTurns, plannedTurns)
	}
	if r.l.AnyFree() {
		r.index.eachToFill(r, fillTurns, fillTasks)
	}
}

// maxSwitchUs is the longest switch that a session may state: a day.
const maxSwitchUs = 24 * 3600e6

// maxPlanEveryUs is the longest time for each plan, a day.
const maxPlanEveryUs = 24 * 3600 * 1e6

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
