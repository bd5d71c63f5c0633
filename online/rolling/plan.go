package rolling

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
)

// planQuestion is the question for a plan, which no later event changes.
type planQuestion struct {
	number   int64 // the changes that it has seen
	atUs     int64
	arrivals int64
	ask      planner.Question
	jobs     []askedJob // of the jobs of ask
}

// askedJob is a job of a question.
type askedJob struct {
	id      string
	arrival int64 // the job's number by arrival
	from    int64 // the round that the plan begins with
}

// madePlan is the answer to a planQuestion, with absolute times and rounds that count from
// the job's first.
type madePlan struct {
	followedPlan
	jobs []plannedJob
}

// plannedJob is a job of a madePlan. A job that the plan has no place for has no rows.
type plannedJob struct {
	id      string
	arrival int64
	rounds  int64 // the rounds from the first row on that are believed to be left
	rows    []planner.Row
}

// Ask is online.Planned.Ask. It takes O(jobs + GPUs). A plan that is due before its time by
// Config.PlanEveryUs is asked for after a later event.
func (ro *Policy) Ask() online.PlanQuestion {
	if ro.rolling.paced(ro.NowUs()) {
		return ro.AskNow()
	}
	return nil
}

// AskNow is online.Planned.AskNow.
func (ro *Policy) AskNow() online.PlanQuestion {
	if r := ro.rolling; r.cfg.Aside && r.due() {
		return r.question(ro.Scheduler)
	}
	return nil
}

// Answer is online.PlanQuestion.Answer.
func (pq *planQuestion) Answer(ctx context.Context) ([]byte, error) {
	q := *pq
	q.ask.Prove = true
	p, err := q.make(ctx)
	if err != nil {
		return nil, err
	}
	return planTable.Append(nil, newPlanDoc(p, q.ask.Types)), nil
}

// Take is online.Planned.Take.
func (ro *Policy) Take(plan []byte) error {
	r := ro.rolling
	if !r.cfg.Aside {
		return online.Invalid("", "not_allowed", "this policy makes its plans itself: open it with the parameter aside")
	}
	doc, fault := decodePlan(plan)
	if fault != nil {
		return fault
	}
	p, fault := r.understand(ro.Scheduler, doc)
	if fault != nil {
		return fault
	}
	r.follow(ro.Scheduler, p)
	r.pace(p.madeUs)
	r.fresh = true
	ro.Reschedule()
	return nil
}

// question is what a plan is to be made of.
func (r *rolling) question(l *list.Scheduler) *planQuestion {
	q := &planQuestion{number: r.changes, atUs: l.NowUs(), arrivals: int64(l.Arrivals()), ask: planner.Question{
		Types: slices.Clone(l.Types()), FreeUs: make([][]int64, len(l.Types())), Seed: r.cfg.Seed, Work: r.cfg.Work,
		Prices: r.plan.pricesFrom(l.NowUs()), Quotas: l.Quotas()}}
	for t := range l.Types() {
		q.ask.FreeUs[t] = make([]int64, len(l.Free()[t]))
	}
	for _, j := range l.Active() {
		left := r.belief.RoundsLeft(j)
		readyUs := int64(0)
		if len(j.GPUs()) > 0 {
			readyUs = l.RoundEndUs(j) - l.NowUs()
			freeUs := readyUs
			if j.Spec().Sync == hare.Rigid {
				freeUs += list.SpanUs(left-1, l.HeldUs(j, l.Slots()[j.GPUs()[0]].Type))
			}
			if len(q.ask.Quotas) > 0 {
				q.ask.Held = heldUntil(l, q.ask.Held, j, freeUs)
			} else {
				for _, g := range j.GPUs() {
					t := l.Slots()[g].Type
					q.ask.FreeUs[t] = append(q.ask.FreeUs[t], freeUs)
				}
			}
			if j.Spec().Sync == hare.Rigid {
				continue // there is nothing to decide
			}
			left = max(1, left-1)
		}
		if job, ok := r.job(l, j, left, readyUs); ok {
			q.ask.Jobs = append(q.ask.Jobs, job)
			q.jobs = append(q.jobs, askedJob{j.Spec().ID, int64(j.Number()), nextRound(j)})
		}
	}
	return q
}

// heldUntil appends the GPUs that a job holds until a time, by type.
func heldUntil(l *list.Scheduler, to []planner.Held, j *list.JobState, untilUs int64) []planner.Held {
	from := len(to)
	for _, g := range j.GPUs() {
		t := l.Slots()[g].Type
		at := slices.IndexFunc(to[from:], func(h planner.Held) bool { return h.Type == t })
		if at < 0 {
			at = len(to) - from
			to = append(to, planner.Held{Users: j.Spec().Users, Type: t, UntilUs: untilUs})
		}
		to[from+at].Count++
	}
	return to
}

// job is a job of the question; false where no type has a known speed.
func (r *rolling) job(l *list.Scheduler, j *list.JobState, left, readyUs int64) (planner.Job, bool) {
	_, mix := l.Holding(j)
	out := planner.Job{WeightMicro: l.AgedInPlans(j), Tasks: j.Width(), Sync: max(hare.Gang, j.Spec().Sync),
		Mix: mix && j.Spec().Sync != hare.Rigid && j.Spec().GPUsPerTask < 2, ReadyUs: readyUs, Rounds: left,
		Users: j.Spec().Users}
	own := j.Width()
	if out.Mix {
		own = 1
	}
	for _, m := range j.Modes() {
		if m.DurationUs == 0 || l.InService()[m.Type] == 0 || l.Nodes() != nil && !out.Mix &&
			l.Most(j, m.Type) < j.Spec().Tasks {
			continue
		}
		d := m.DurationUs
		if len(j.LastGPUs()) > 0 && m.Type != l.Slots()[j.LastGPUs()[0]].Type {
			d += r.migrationUs(j) / left
		}
		d += l.SetupUs(j, m.Type, own) / left
		out.On = append(out.On, planner.Mode{Type: m.Type, DurationUs: d})
	}
	if row := nextRow(j); row != nil {
		out.BeforeUs = row.StartUs - l.NowUs()
		for _, row := range planOf(j).claim.rows[planOf(j).claim.at:] {
			for _, c := range row.Types {
				if !slices.Contains(out.Before, c.Type) {
					out.Before = append(out.Before, c.Type)
				}
			}
		}
	}
	if l.Nodes() != nil && !l.FitsTogether(j) {
		return out, false // sums of GPUs do not show that no nodes have room
	}
	return out, len(out.On) > 0
}

// migrationUs is what a plan charges a job for leaving its type.
func (r *rolling) migrationUs(j *list.JobState) int64 {
	if r.cfg.MigrationUs == 0 {
		return max(defaultMigrationUs, j.FastestUs())
	}
	return max(0, r.cfg.MigrationUs)
}

// fewestCells is the least number of cells that prices are worth taking from.
const fewestCells = 4

// pricesFrom are the prices from a time on, with times after that time; nil where too few
// are left.
func (fp *followedPlan) pricesFrom(nowUs int64) *hare.Relaxation {
	if fp.prices == nil {
		return nil
	}
	by := nowUs - fp.madeUs
	from := fp.cell(nowUs)
	if len(fp.prices.GridUs)-from <= fewestCells {
		return nil
	}
	out := &hare.Relaxation{}
	for _, at := range fp.prices.GridUs[from:] {
		out.GridUs = append(out.GridUs, max(0, at-by))
	}
	for _, row := range fp.prices.Prices {
		out.Prices = append(out.Prices, row[from:])
	}
	return out
}

// make answers the question.
func (pq *planQuestion) make(ctx context.Context) (*madePlan, error) {
	plan, err := planner.Make(ctx, &pq.ask)
	if err != nil {
		return nil, err
	}
	p := &madePlan{followedPlan: followedPlan{number: pq.number, madeUs: pq.atUs, arrivals: pq.arrivals,
		value: plan.Value, bound: plan.Bound, prices: plan.Prices, pricedTypes: plan.PricedTypes}}
	for i, job := range pq.jobs {
		rows := plan.Rows[i]
		for x := range rows {
			rows[x].Round += job.from
			rows[x].StartUs += pq.atUs
		}
		p.jobs = append(p.jobs, plannedJob{job.id, job.arrival, pq.ask.Jobs[i].Rounds, rows})
	}
	return p, nil
}

// follow replaces the plan that is followed. A job that is not in the new plan loses its
// rows.
func (r *rolling) follow(l *list.Scheduler, p *madePlan) {
	r.plan = p.followedPlan
	r.index.makeStale()
	if r.cfg.Aside {
		r.unseen.see(p.number, r.changes)
	}
	for _, j := range l.Active() {
		planOf(j).claim = nil
	}
	for i := range p.jobs {
		job := &p.jobs[i]
		if j := l.Job(job.id); j != nil && int64(j.Number()) == job.arrival && len(job.rows) > 0 {
			planOf(j).claim = &claim{rows: job.rows}
		}
	}
}

// understand checks a plan against the state, and translates the names of types. It
// changes nothing.
func (r *rolling) understand(l *list.Scheduler, doc *planDoc) (*madePlan, *hare.InvalidError) {
	switch {
	case doc.number <= r.plan.number:
		return nil, online.Invalid("/number", "old_plan", "the plan has seen %d changes, and the last one had seen %d",
			doc.number, r.plan.number)
	case doc.number > r.changes:
		return nil, online.Invalid("/number", "unknown_question", "the plan has seen %d changes, and there were only %d",
			doc.number, r.changes)
	case doc.atUs > l.NowUs() || doc.atUs < r.plan.madeUs:
		return nil, online.Invalid("/at_s", "unknown_question", "must lie between %s, the time of the last plan, and %s, "+
			"the time of the last event", hare.FormatMicros(r.plan.madeUs), hare.FormatMicros(l.NowUs()))
	case doc.arrivals > int64(l.Arrivals()) || doc.arrivals < r.plan.arrivals:
		return nil, online.Invalid("/arrivals", "unknown_question", "must lie between %d, those of the last plan, and %d",
			r.plan.arrivals, l.Arrivals())
	case doc.bound.Cmp(doc.value) > 0:
		return nil, online.Invalid("/bound", "contradiction", "the bound %s is above the value %s", doc.bound, doc.value)
	}
	p := &madePlan{followedPlan: followedPlan{number: doc.number, madeUs: doc.atUs, arrivals: doc.arrivals,
		value: doc.value, bound: doc.bound}}
	if len(doc.gridUs) > 0 {
		p.prices = &hare.Relaxation{GridUs: doc.gridUs}
	}
	for _, named := range doc.prices {
		t, ok := l.TypeIndex(named.gpuType)
		if !ok {
			return nil, online.Invalid("/prices", "unknown_type", "there is no GPU of type %.60q", named.gpuType)
		}
		row := make([]float64, len(named.nanos))
		for i, nanos := range named.nanos {
			row[i] = float64(nanos) * 1e-9
		}
		p.pricedTypes, p.prices.Prices = append(p.pricedTypes, t), append(p.prices.Prices, row)
	}
	for i := range doc.jobs {
		job, fault := doc.jobs[i].understand(l, doc)
		if fault != nil {
			fault.Pointer = fmt.Sprintf("/jobs/%d%s", i, fault.Pointer)
			return nil, fault
		}
		if job != nil {
			p.jobs = append(p.jobs, *job)
		}
	}
	return p, nil
}

// understand checks a job of a plan; nil is a job that is gone.
func (pj *plannedJobDoc) understand(l *list.Scheduler, doc *planDoc) (*plannedJob, *hare.InvalidError) {
	if pj.arrival >= doc.arrivals {
		return nil, online.Invalid("/arrival", "contradiction",
			"the plan has seen %d arrivals, and this is number %d from 0",
			doc.arrivals, pj.arrival)
	}
	j := l.Job(pj.id)
	if j == nil || int64(j.Number()) != pj.arrival {
		return nil, nil
	}
	mix := j.Spec().Sync == hare.Relaxed || j.Spec().Mix && j.Spec().Sync != hare.Rigid
	out := &plannedJob{id: pj.id, arrival: pj.arrival, rounds: pj.rounds}
	sum := int64(0)
	for i := range pj.rows {
		row := &pj.rows[i]
		at := fmt.Sprintf("/rows/%d", i)
		types, fault := row.understand(l, j, mix)
		switch {
		case fault != nil:
			fault.Pointer = at + fault.Pointer
			return nil, fault
		case i == 0 && row.round > j.Round()+1:
			return nil, online.Invalid(at+"/round", "contradiction",
				"round %d of job %.60q has not ended, and the plan begins "+
					"with round %d", j.Round(), pj.id, row.round)
		case i > 0 && row.round != pj.rows[i-1].round+pj.rows[i-1].rounds:
			return nil, online.Invalid(at+"/round", "contradiction", "the row before has the rounds up to %d",
				pj.rows[i-1].round+pj.rows[i-1].rounds-1)
		case row.startUs < doc.atUs || i > 0 && row.startUs < pj.rows[i-1].startUs:
			return nil, online.Invalid(at+"/start_s", "contradiction", "is before the plan was asked for, or before the row "+
				"before it")
		}
		sum += row.rounds
		out.rows = append(out.rows, planner.Row{Round: row.round, Rounds: row.rounds, StartUs: row.startUs,
			PeriodUs: row.periodUs, Types: types})
	}
	if len(pj.rows) > 0 && sum != pj.rounds {
		return nil, online.Invalid("/rounds", "contradiction", "the rows have %d rounds, and %d are left", sum, pj.rounds)
	}
	return out, nil
}

// understand checks the GPUs of a row.
func (rd *rowDoc) understand(l *list.Scheduler, j *list.JobState, mix bool) ([]planner.TypeCount,
	*hare.InvalidError) {
	var types []planner.TypeCount
	width := int64(0)
	for _, g := range rd.gpus {
		t, ok := l.TypeIndex(g.gpuType)
		if !ok {
			return nil, online.Invalid("/gpus", "unknown_type", "there is no GPU of type %.60q", g.gpuType)
		}
		if !slices.ContainsFunc(j.Modes(), func(m list.Mode) bool { return m.Type == t && m.DurationUs > 0 }) {
			return nil, online.Invalid("/gpus", "contradiction", "job %.60q has no times on type %.60q", j.Spec().ID,
				g.gpuType)
		}
		width += g.count
		types = append(types, planner.TypeCount{Type: t, Count: g.count})
	}
	if width != j.Width() {
		return nil, online.Invalid("/gpus", "contradiction", "are %d, and a round of job %.60q takes %d", width,
			j.Spec().ID,
			j.Width())
	}
	if !onWholeTasks(j, types) {
		return nil, online.Invalid("/gpus", "contradiction", "a task of job %.60q takes %d GPUs of one type", j.Spec().ID,
			j.Spec().TaskGPUs())
	}
	if len(types) > 1 && !mix {
		return nil, online.Invalid("/gpus", "contradiction", "are of several types, which job %.60q may not mix",
			j.Spec().ID)
	}
	return types, nil
}

// newPlanDoc is the document of a plan; types are those of its question.
func newPlanDoc(p *madePlan, types []string) *planDoc {
	doc := &planDoc{number: p.number, atUs: p.madeUs, arrivals: p.arrivals, value: p.value, bound: p.bound.RoundDown()}
	if p.prices != nil {
		doc.gridUs = p.prices.GridUs
		for i, row := range p.prices.Prices {
			named := typePrices{gpuType: types[p.pricedTypes[i]]}
			for _, price := range row {
				named.nanos = append(named.nanos, int64(min(math.Round(price*1e9), hare.MaxExact)))
			}
			doc.prices = append(doc.prices, named)
		}
	}
	for i := range p.jobs {
		job := &p.jobs[i]
		out := plannedJobDoc{id: job.id, arrival: job.arrival, rounds: job.rounds}
		for _, row := range job.rows {
			to := rowDoc{round: row.Round, rounds: row.Rounds, startUs: min(row.StartUs, hare.MaxExact),
				periodUs: min(row.PeriodUs, hare.MaxExact)}
			for _, c := range row.Types {
				to.gpus = append(to.gpus, typeCount{types[c.Type], c.Count})
			}
			out.rows = append(out.rows, to)
		}
		doc.jobs = append(doc.jobs, out)
	}
	return doc
}
