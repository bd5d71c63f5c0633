package rolling

import (
	"encoding/json"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
)

// rollingSnapshot is the state of rolling. Claims are those of the jobs in the order of
// arrival.
type rollingSnapshot struct {
	Belief list.BeliefSnapshot `json:"belief"`
	// Due is of versions that counted no changes.
	Due         bool                 `json:"due,omitempty"`
	Changes     int64                `json:"changes"`
	Unseen      changeTimes          `json:"unseen,omitempty"`
	Number      int64                `json:"number"`
	Arrivals    int64                `json:"arrivals"`
	Value       string               `json:"value"`
	Bound       string               `json:"bound"`
	GridUs      []int64              `json:"grid_us,omitempty"`
	Prices      [][]float64          `json:"prices,omitempty"`
	PricedTypes []int                `json:"priced_types,omitempty"`
	MadeUs      int64                `json:"priced_us"`
	Fresh       bool                 `json:"fresh,omitempty"`
	PacedUs     int64                `json:"paced_us,omitempty"`
	Claims      [][]planner.Row      `json:"claims"`
	Setup       *list.SetupSnapshot  `json:"setup,omitempty"`
	Speeds      *list.SpeedsSnapshot `json:"speeds,omitempty"`
}

func (r *rolling) encode(l *list.Scheduler) any {
	s := rollingSnapshot{Belief: r.belief.Snapshot(), Changes: r.changes, Unseen: r.unseen, Number: r.plan.number,
		Arrivals: r.plan.arrivals, Value: r.plan.value.String(), Bound: r.plan.bound.String(), MadeUs: r.plan.madeUs,
		PricedTypes: r.plan.pricedTypes, Fresh: r.fresh, Setup: l.SetupSnapshot(),
		Speeds: l.SpeedsSnapshot(), PacedUs: r.pacedUs}
	if r.plan.prices != nil {
		s.GridUs, s.Prices = r.plan.prices.GridUs, r.plan.prices.Prices
	}
	for _, j := range l.Active() {
		var rows []planner.Row
		if nextRow(j) != nil {
			rows = planOf(j).claim.rows
		}
		s.Claims = append(s.Claims, rows)
	}
	return s
}

func (r *rolling) decode(l *list.Scheduler, state json.RawMessage) bool {
	var s rollingSnapshot
	if list.DecodeState(state, &s) != nil || !r.belief.Restore(&s.Belief) || !l.RestoreSetup(s.Setup) ||
		!l.RestoreSpeeds(s.Speeds) || s.PacedUs < 0 || s.PacedUs > 2*hare.MaxExact ||
		len(s.Claims) != len(l.Active()) ||
		s.MadeUs < 0 || s.MadeUs > l.NowUs() {
		return false
	}
	if s.Changes == 0 {
		s.upgrade(l)
	}
	if s.Number < 0 || s.Number > s.Changes || s.Arrivals < 0 || s.Arrivals > int64(l.Arrivals()) ||
		r.cfg.Aside && !s.Unseen.valid(s.Number, s.Changes, l.NowUs()) || !r.cfg.Aside && len(s.Unseen) > 0 {
		return false
	}
	r.index.makeStale()
	r.changes, r.unseen, r.pacedUs = s.Changes, s.Unseen, s.PacedUs
	r.plan = followedPlan{number: s.Number, madeUs: s.MadeUs, arrivals: s.Arrivals, pricedTypes: s.PricedTypes}
	if !s.restorePrices(l, &r.plan) {
		return false
	}
	for i, rows := range s.Claims {
		if !validRows(l.Active()[i], rows) {
			return false
		}
		if len(rows) > 0 {
			planOf(l.Active()[i]).claim = &claim{rows: rows}
		}
	}
	if s.Fresh {
		r.fresh = true
		l.Reschedule()
	}
	return true
}

// upgrade counts the changes of a snapshot whose version counted none.
func (s *rollingSnapshot) upgrade(l *list.Scheduler) {
	s.Value, s.Bound = "0", "0"
	if l.Arrivals() > 0 || len(s.GridUs) > 0 {
		s.Number, s.Changes, s.Arrivals = 1, 1, int64(l.Arrivals())
	}
	if s.Due {
		s.Changes++
	}
}

func (s *rollingSnapshot) restorePrices(l *list.Scheduler, to *followedPlan) bool {
	var errs [2]error
	to.value, errs[0] = hare.ParseAmount(s.Value)
	to.bound, errs[1] = hare.ParseAmount(s.Bound)
	if errs != [2]error{} || to.bound.Cmp(to.value) > 0 {
		return false
	}
	if len(s.GridUs) > 0 {
		to.prices = &hare.Relaxation{GridUs: s.GridUs, Prices: s.Prices}
	}
	for _, row := range s.Prices {
		if len(row) != len(s.GridUs)-1 && len(row) != len(s.GridUs) {
			return false
		}
	}
	for _, t := range s.PricedTypes {
		if t < 0 || t >= len(l.Types()) {
			return false
		}
	}
	return len(s.PricedTypes) == 0 || len(s.PricedTypes) == len(s.Prices)
}

// validRows reports whether rows may be those of a job.
func validRows(j *list.JobState, rows []planner.Row) bool {
	for _, row := range rows {
		width := int64(0)
		for _, c := range row.Types {
			width += c.Count
			if c.Count < 1 || !slices.ContainsFunc(j.Modes(), func(m list.Mode) bool { return m.Type == c.Type }) {
				return false
			}
		}
		if width != j.Width() || !onWholeTasks(j, row.Types) || row.Rounds < 1 || row.Round < 0 {
			return false
		}
	}
	return true
}
