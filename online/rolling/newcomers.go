package rolling

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
)

// newcomer is a job that waits and that came after the plan's question. Newcomers stand
// among the planned jobs by weighted shortest time, at the prices that the plan has for
// the time at hand.
type newcomer struct {
	job *list.JobState
	// density is the weight over the price of the GPU time that the job is expected to need
	// on its cheapest type.
	density float64
	modes   []list.Mode // those that are wide enough, the cheapest first
}

// isNew reports whether a job came after the plan's question.
func (r *rolling) isNew(j *list.JobState) bool {
	return planOf(j).claim == nil && int64(j.Number()) >= r.plan.arrivals
}

// priceCell is the cell of the prices at a time, and 0 where there are no prices.
func (fp *followedPlan) priceCell(nowUs int64) int {
	if fp.prices == nil {
		return 0
	}
	return fp.cell(nowUs)
}

// pricesAt are the prices of GPU time by type at a time, in weight-seconds per
// GPU-second. They are positive, so that without prices the shortest job goes first.
func (fp *followedPlan) pricesAt(nowUs int64, types int) []float64 {
	out := make([]float64, types)
	highest := 0.0
	if fp.prices != nil {
		cell := fp.cell(nowUs)
		for i, t := range fp.pricedTypes {
			if row := fp.prices.Prices[i]; cell < len(row) {
				out[t] = row[cell]
				highest = max(highest, row[cell])
			}
		}
	}
	least := max(highest/1000, 1e-9)
	for t := range out {
		out[t] = max(out[t], least)
	}
	return out
}

// newcomer describes a job at prices; false where no type with a known speed is wide
// enough. There are only products and quotients, so that all machines agree.
func (r *rolling) newcomer(l *list.Scheduler, j *list.JobState, prices []float64) (newcomer, bool) {
	n := newcomer{job: j}
	cost := func(m list.Mode) float64 { return float64(m.DurationUs) * prices[m.Type] }
	for _, m := range j.Modes() {
		if m.DurationUs > 0 && l.Most(j, m.Type) >= j.Spec().Tasks {
			n.modes = append(n.modes, m)
		}
	}
	if len(n.modes) == 0 {
		return n, false
	}
	slices.SortStableFunc(n.modes, func(a, b list.Mode) int { return cmp.Compare(cost(a), cost(b)) })
	gpuTime := float64(r.belief.RoundsLeft(j)) * float64(j.Width()) * cost(n.modes[0])
	n.density = float64(j.Spec().WeightMicro) / gpuTime
	return n, true
}

// turn is a job whose turn it is, in the order of the plan.
type turn struct {
	job *list.JobState
	row *planner.Row // of the plan; of a newcomer, the row that it would have
	// atUs is when the turn of a job comes; see turnUs.
	atUs int64
	new  *newcomer // nil where the plan has the job
}

// placeNewcomers puts newcomers among the turns of the planned jobs: each before the
// first planned job that waits and has less weight for its price, and after that job's
// predecessors.
func (r *rolling) placeNewcomers(l *list.Scheduler, turns []turn) []turn {
	var all []newcomer
	var prices []float64
	for _, j := range l.Active() {
		if !r.isNew(j) || j.Ready() == 0 || len(j.GPUs()) > 0 {
			continue
		}
		l.OpenRound(j)
		if taskByTask(j) {
			continue
		}
		if prices == nil {
			prices = r.plan.pricesAt(l.NowUs(), len(l.Types()))
		}
		if n, ok := r.newcomer(l, j, prices); ok {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return turns
	}
	slices.SortStableFunc(all, func(a, b newcomer) int { return cmp.Compare(b.density, a.density) })
	var out []turn
	next, startUs := 0, l.NowUs()
	stand := func(startUs int64) {
		out = append(out, all[next].turn(startUs))
		next++
	}
	for _, t := range turns {
		density := math.Inf(1)
		goesOn := t.atUs < t.row.StartUs // and no newcomer is worth a switch before the next plan
		if next < len(all) && t.job.Ready() > 0 && len(t.job.GPUs()) == 0 && !goesOn {
			if n, ok := r.newcomer(l, t.job, prices); ok {
				density = n.density
			}
		}
		for next < len(all) && all[next].density > density {
			stand(t.atUs)
		}
		startUs = max(startUs, t.atUs)
		out = append(out, t)
	}
	for next < len(all) {
		stand(startUs)
	}
	return out
}

// turn is that of a newcomer that stands before a job whose row starts at startUs.
func (n *newcomer) turn(startUs int64) turn {
	row := &planner.Row{Round: n.job.Round(), Rounds: 1, StartUs: startUs,
		Types: []planner.TypeCount{{Type: n.modes[0].Type, Count: n.job.Width()}}}
	return turn{job: n.job, row: row, atUs: startUs, new: n}
}

// densityOf is newcomer.density of a job, or infinite where that has none.
func (r *rolling) densityOf(j *list.JobState, prices []float64) float64 {
	cheapest := math.Inf(1)
	for _, m := range j.Modes() {
		if m.DurationUs > 0 && r.l.Most(j, m.Type) >= j.Spec().Tasks {
			cheapest = min(cheapest, float64(m.DurationUs)*prices[m.Type])
		}
	}
	if math.IsInf(cheapest, 1) {
		return cheapest
	}
	gpuTime := float64(r.belief.RoundsLeft(j)) * float64(j.Width()) * cheapest
	return float64(j.Spec().WeightMicro) / gpuTime
}
