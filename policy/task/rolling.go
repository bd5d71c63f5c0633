package task

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/planner"
)

// RollingConfig tunes NewRolling. The zero value is good.
type RollingConfig struct {
	// Rounds are the rounds of each job by its ID, where sizes are known; nil means that
	// the policy learns sizes from jobs that end.
	Rounds map[string]int64
	// Work limits each plan.
	Work planner.Work
	// MigrationUs is what a plan charges a job for leaving the type that the job last ran
	// on, in microseconds; zero means 60 s or, where that is longer, a round on the job's
	// fastest type, and a negative number means nothing.
	MigrationUs int64
	// Seed is of the search.
	Seed int64
}

// NewRolling plans all jobs that are there at each arrival, end and change of GPUs, as if
// nobody else came, and follows the plan by GPU type and order, not by GPU and time. The
// cluster must be valid.
//
// A job's size is the mean residual of the Kaplan-Meier estimate over the jobs that have
// ended; see sizeBelief. A job that cannot start where the plan has it next keeps the GPUs
// that it needs from jobs that come after it in the plan, unless those end before it is
// expected to start (EASY backfill). A job may run a round elsewhere than the plan says
// if that round ends before the job's own turn.
func NewRolling(cluster *hare.Cluster, cfg RollingConfig) *ListScheduler {
	return NewListScheduler(cluster, cfg.rule())
}

// defaultMigrationUs is RollingConfig.MigrationUs where it is zero.
const defaultMigrationUs = 60e6

func (cfg RollingConfig) rule() Rule {
	r := &rolling{cfg: cfg}
	return Rule{
		Name: "rolling", Hold: hare.Gang, Rounds: cfg.Rounds, sticky: true,
		Priority: func(_ *ListScheduler, j *JobState) float64 {
			if row := j.nextRow(); row != nil {
				return float64(row.StartUs)
			}
			return math.Inf(1)
		},
		prepare: r.prepare, assign: r.assign, left: r.left,
		resized: func(*ListScheduler) { r.due = true },
		state:   r.encode, restore: r.decode,
	}
}

// rolling is the state beyond that of list scheduling. The rows of the plan are the jobs'
// claims.
type rolling struct {
	cfg    RollingConfig
	belief sizeBelief
	due    bool // whether a plan is to be made
	// prices are those of the last plan, made at pricedUs; nil before.
	prices   *hare.Relaxation
	pricedUs int64

	// Those below are of one call of assign.
	l        *ListScheduler
	free     []int64 // GPUs of each type
	reserved []gpuReservation
	waiting  []*JobState
}

// claim is a job's part of the plan. Times are absolute, and rounds count from the job's
// first.
type claim struct {
	rows []planner.Row // at least one
	at   int           // no row before it covers the next round
}

// nextRow is the row of the plan for the round of a job that waits, or for the one after
// the round that runs; nil where the plan has none. The last row is for all later rounds.
func (j *JobState) nextRow() *planner.Row {
	c := j.claim
	if c == nil {
		return nil
	}
	next := j.round
	if len(j.gpus) > 0 {
		next++
	}
	for c.at < len(c.rows)-1 && c.rows[c.at].Round+c.rows[c.at].Rounds <= next {
		c.at++
	}
	return &c.rows[c.at]
}

func (r *rolling) left(_ *ListScheduler, j *JobState, ended bool) {
	r.due = true
	r.belief.observe(j, ended)
}

// prepare makes a plan where one is due, and takes it.
func (r *rolling) prepare(l *ListScheduler) {
	if !r.due {
		return
	}
	r.due = false
	r.belief.learn(l)
	q, jobs := r.question(l)
	plan, err := planner.Make(context.Background(), q)
	for _, j := range l.jobs {
		j.claim = nil
	}
	if err != nil {
		return // jobs run as far as they can without a plan
	}
	r.prices, r.pricedUs = plan.Prices, l.nowUs
	for i, j := range jobs {
		from := j.round
		if len(j.gpus) > 0 {
			from++
		}
		rows := plan.Rows[i]
		for x := range rows {
			rows[x].Round += from
			rows[x].StartUs += l.nowUs
		}
		if len(rows) > 0 {
			j.claim = &claim{rows: rows}
		}
	}
}

// question is what a plan is to be made of, and the jobs of its jobs.
func (r *rolling) question(l *ListScheduler) (*planner.Question, []*JobState) {
	q := &planner.Question{Types: l.types, FreeUs: make([][]int64, len(l.types)), Seed: r.cfg.Seed, Work: r.cfg.Work,
		Prices: r.pricesFrom(l.nowUs)}
	for t := range l.types {
		q.FreeUs[t] = make([]int64, len(l.free[t]))
	}
	var jobs []*JobState
	for _, j := range l.jobs {
		left := r.belief.roundsLeft(j)
		readyUs := int64(0)
		if len(j.gpus) > 0 {
			readyUs = l.roundEndUs(j) - l.nowUs
			freeUs := readyUs
			if j.spec.Sync == hare.Rigid {
				freeUs += spanUs(left-1, j.durationUs(l.gpus[j.gpus[0]].gpuType))
			}
			for _, g := range j.gpus {
				t := l.gpus[g].gpuType
				q.FreeUs[t] = append(q.FreeUs[t], freeUs)
			}
			if j.spec.Sync == hare.Rigid {
				continue // there is nothing to decide
			}
			left = max(1, left-1)
		}
		if job, ok := r.job(l, j, left, readyUs); ok {
			q.Jobs = append(q.Jobs, job)
			jobs = append(jobs, j)
		}
	}
	return q, jobs
}

// job is a job of the question; false where no type has a known speed.
func (r *rolling) job(l *ListScheduler, j *JobState, left, readyUs int64) (planner.Job, bool) {
	_, mix := l.holding(j)
	out := planner.Job{WeightMicro: j.spec.WeightMicro, Tasks: j.spec.Tasks, Sync: max(hare.Gang, j.spec.Sync),
		Mix: mix && j.spec.Sync != hare.Rigid, ReadyUs: readyUs, Rounds: left}
	for _, m := range j.modes {
		if m.durationUs == 0 || l.inService[m.gpuType] == 0 {
			continue
		}
		d := m.durationUs
		if len(j.last) > 0 && m.gpuType != l.gpus[j.last[0]].gpuType {
			d += r.migrationUs(j) / left
		}
		out.On = append(out.On, planner.Mode{Type: m.gpuType, DurationUs: d})
	}
	if row := j.nextRow(); row != nil {
		out.BeforeUs = row.StartUs - l.nowUs
		for _, row := range j.claim.rows[j.claim.at:] {
			for _, c := range row.Types {
				if !slices.Contains(out.Before, c.Type) {
					out.Before = append(out.Before, c.Type)
				}
			}
		}
	}
	return out, len(out.On) > 0
}

// migrationUs is what a plan charges a job for leaving its type.
func (r *rolling) migrationUs(j *JobState) int64 {
	if r.cfg.MigrationUs == 0 {
		return max(defaultMigrationUs, j.fastestUs())
	}
	return max(0, r.cfg.MigrationUs)
}

// roundEndUs is when the round of a job that runs is expected to end.
func (l *ListScheduler) roundEndUs(j *JobState) int64 {
	end, slowest := l.nowUs, int64(0)
	for _, g := range j.gpus {
		slowest = max(slowest, j.durationUs(l.gpus[g].gpuType))
	}
	for _, g := range j.gpus {
		end = max(end, l.gpus[g].sinceUs+slowest)
	}
	return end
}

// spanUs is how long some rounds take, or hare.MaxExact where that is longer.
func spanUs(rounds, roundUs int64) int64 { return min(times(max(0, rounds), roundUs), hare.MaxExact) }

// fewestCells is the least number of cells that prices are worth taking from.
const fewestCells = 4

// pricesFrom are the last prices from a time on, with times after that time; nil where
// too few are left.
func (r *rolling) pricesFrom(nowUs int64) *hare.Relaxation {
	if r.prices == nil {
		return nil
	}
	by, from := nowUs-r.pricedUs, 0
	for from+1 < len(r.prices.GridUs) && r.prices.GridUs[from+1] <= by {
		from++
	}
	if len(r.prices.GridUs)-from <= fewestCells {
		return nil
	}
	out := &hare.Relaxation{}
	for _, at := range r.prices.GridUs[from:] {
		out.GridUs = append(out.GridUs, max(0, at-by))
	}
	for _, row := range r.prices.Prices {
		out.Prices = append(out.Prices, row[from:])
	}
	return out
}

// rollingSnapshot is the state of rolling. Claims are those of the jobs in the order of
// arrival.
type rollingSnapshot struct {
	Belief   beliefSnapshot  `json:"belief"`
	Due      bool            `json:"due"`
	GridUs   []int64         `json:"grid_us,omitempty"`
	Prices   [][]float64     `json:"prices,omitempty"`
	PricedUs int64           `json:"priced_us"`
	Claims   [][]planner.Row `json:"claims"`
}

func (r *rolling) encode(l *ListScheduler) any {
	s := rollingSnapshot{Belief: r.belief.snapshot(), Due: r.due, PricedUs: r.pricedUs}
	if r.prices != nil {
		s.GridUs, s.Prices = r.prices.GridUs, r.prices.Prices
	}
	for _, j := range l.jobs {
		var rows []planner.Row
		if j.nextRow() != nil {
			rows = j.claim.rows
		}
		s.Claims = append(s.Claims, rows)
	}
	return s
}

func (r *rolling) decode(l *ListScheduler, state json.RawMessage) bool {
	var s rollingSnapshot
	if json.Unmarshal(state, &s) != nil || !r.belief.restore(&s.Belief) || len(s.Claims) != len(l.jobs) ||
		s.PricedUs < 0 || s.PricedUs > l.nowUs {
		return false
	}
	r.due, r.pricedUs = s.Due, s.PricedUs
	if len(s.GridUs) > 0 {
		r.prices = &hare.Relaxation{GridUs: s.GridUs, Prices: s.Prices}
	}
	for _, row := range s.Prices {
		if len(row) != len(s.GridUs)-1 && len(row) != len(s.GridUs) {
			return false
		}
	}
	for i, rows := range s.Claims {
		for _, row := range rows {
			width := int64(0)
			for _, c := range row.Types {
				width += c.Count
				if c.Count < 1 || !slices.ContainsFunc(l.jobs[i].modes, func(m mode) bool { return m.gpuType == c.Type }) {
					return false
				}
			}
			if width != l.jobs[i].spec.Tasks || row.Rounds < 1 || row.Round < 0 {
				return false
			}
		}
		if len(rows) > 0 {
			l.jobs[i].claim = &claim{rows: rows}
		}
	}
	return true
}

// parseRolling reads {"migration_s": 60, "moves": 20000}.
func parseRolling(parameters []byte) (Rule, error) {
	form := struct {
		MigrationS json.Number `json:"migration_s"`
		Moves      *int64      `json:"moves"`
	}{}
	if err := online.DecodeParameters(parameters, &form); err != nil {
		return Rule{}, err
	}
	cfg := RollingConfig{}
	if form.MigrationS != "" {
		us, err := positiveMicros("/migration_s", form.MigrationS)
		if err != nil {
			return Rule{}, err
		}
		cfg.MigrationUs = us
	}
	if form.Moves != nil {
		if *form.Moves < 0 || *form.Moves > 1e9 {
			return Rule{}, invalid("/moves", "out_of_range", "rolling: moves is %d: it must be from 0 to 1e9", *form.Moves)
		}
		if cfg.Work.Moves = *form.Moves; cfg.Work.Moves == 0 {
			cfg.Work.Moves = -1
		}
	}
	return cfg.rule(), nil
}
