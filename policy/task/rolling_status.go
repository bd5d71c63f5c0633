package task

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/planner"
)

// Plan is online.Planned.Plan. It takes O(jobs² + jobs·GPUs) at worst.
func (ro *Rolling) Plan() online.PlanStatus {
	r, l := ro.rolling, ro.ListScheduler
	s := online.PlanStatus{MadeUs: -1, Due: r.due(), Value: r.plan.value, Bound: r.plan.bound}
	if r.plan.number > 0 {
		s.MadeUs = r.plan.madeUs
	}
	if r.fallsBack(l) {
		s.Fallback = r.fallback.Name
	}
	ahead := r.inOrder(l)
	for _, j := range l.jobs {
		p := r.plannedJob(l, j)
		if !p.Running {
			p.WaitsFor = r.waitsFor(l, j, ahead)
		}
		s.Jobs = append(s.Jobs, p)
	}
	order := func(p *online.PlannedJob) int64 {
		if p.StartUs < 0 {
			return math.MaxInt64
		}
		return p.StartUs
	}
	slices.SortStableFunc(s.Jobs, func(a, b online.PlannedJob) int { return cmp.Compare(order(&a), order(&b)) })
	return s
}

// inOrder are the jobs that have not ended in the order of their turns; jobs without a
// turn come last.
func (r *rolling) inOrder(l *ListScheduler) []*JobState {
	all := slices.Clone(l.jobs)
	if r.fallsBack(l) {
		slices.SortStableFunc(all, func(a, b *JobState) int {
			return cmp.Compare(r.fallback.Priority(l, a), r.fallback.Priority(l, b))
		})
		return all
	}
	var turns []turn
	for _, j := range all {
		if row := j.nextRow(); row != nil {
			turns = append(turns, turn{job: j, row: row})
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.row.StartUs, b.row.StartUs) })
	if r.cfg.Aside {
		turns = r.placeNewcomers(l, turns)
	}
	in := map[*JobState]bool{}
	var out []*JobState
	for _, t := range turns {
		out, in[t.job] = append(out, t.job), true
	}
	for _, j := range all {
		if !in[j] {
			out = append(out, j)
		}
	}
	return out
}

// plannedJob says what is expected of a job.
func (r *rolling) plannedJob(l *ListScheduler, j *JobState) online.PlannedJob {
	p := online.PlannedJob{Job: j.spec.ID, Running: j.active > 0, Rounds: r.belief.roundsLeft(j), StartUs: -1, EndUs: -1,
		EarliestEndUs: r.earliestEndUs(l, j)}
	if p.Running {
		p.StartUs = l.nowUs
		for _, g := range j.gpus {
			if x := &l.gpus[g]; x.task >= 0 {
				p.StartUs = min(p.StartUs, x.sinceUs)
			}
			p.Types = addName(p.Types, l.types[l.gpus[g].gpuType])
		}
	}
	if j.nextRow() == nil || r.fallsBack(l) {
		return p
	}
	rows := j.claim.rows[j.claim.at:]
	if !p.Running {
		p.StartUs = max(rows[0].StartUs, l.nowUs)
	}
	for i := range rows {
		for _, c := range rows[i].Types {
			p.Types = addName(p.Types, l.types[c.Type])
		}
	}
	last := &rows[len(rows)-1]
	p.EndUs = min(last.StartUs+spanUs(last.Rounds-1, last.PeriodUs)+j.longestUs(last.Types), hare.MaxExact)
	if p.EndUs < l.nowUs || last.Round+last.Rounds <= j.round { // the job has outlived its rows
		from := l.nowUs
		left := p.Rounds
		if p.Running {
			from, left = l.roundEndUs(j), left-1
		}
		p.EndUs = min(from+spanUs(left, j.longestUs(last.Types)), hare.MaxExact)
	}
	p.EndUs = max(p.EndUs, p.EarliestEndUs)
	return p
}

func addName(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// earliestEndUs is a time before which a job cannot end if it has as many rounds left as
// is believed and rounds take the times of its profile: the round that runs has to end,
// and each other one takes as long as on the fastest type of the profile. It is −1 where
// the profile has types without times.
func (r *rolling) earliestEndUs(l *ListScheduler, j *JobState) int64 {
	if slices.ContainsFunc(j.spec.On, func(p hare.Profile) bool { return p.ComputeUs == 0 }) {
		return -1
	}
	fastest := int64(math.MaxInt64)
	for _, p := range j.spec.On {
		fastest = min(fastest, p.ComputeUs+p.SyncUs)
	}
	left := r.belief.roundsLeft(j)
	atUs := l.nowUs
	if j.active > 0 {
		left--
		for _, g := range j.gpus {
			if x := &l.gpus[g]; x.task >= 0 {
				atUs = max(atUs, x.sinceUs+j.durationUs(x.gpuType))
			}
		}
	}
	return min(atUs+spanUs(left, fastest), hare.MaxExact)
}

// waitsFor says what a job waits for.
func (r *rolling) waitsFor(l *ListScheduler, j *JobState, order []*JobState) string {
	all, _ := l.room(j)
	switch {
	case j.ready() == 0:
		return "It waits for its job_ended or for the end of its tasks."
	case all == 0:
		return "It waits for a GPU of a type that it has a profile for: none is in service."
	case !l.fitsWhenEmpty(j):
		return fmt.Sprintf("It waits for GPUs that join: it needs %d at once, and no type that it may use has that many "+
			"in service.", j.spec.Tasks)
	}
	types := r.wanted(l, j)
	var parts, kept []string
	enough := true
	for _, c := range types {
		free := int64(len(l.free[c.Type]))
		text := fmt.Sprintf("%s of type %s, of which %s free", count(int(c.Count), "GPU", "GPUs"), l.types[c.Type],
			isOrAre(min(free, c.Count)))
		parts = append(parts, text)
		enough = enough && free >= c.Count
	}
	for _, o := range order {
		if o == j {
			break
		}
		for _, c := range types {
			if r.stands(l, o, c.Type) {
				kept = append(kept, o.spec.ID)
				break
			}
		}
	}
	var holders []string
	for _, o := range l.jobs {
		for _, c := range types {
			if !enough && !slices.Contains(kept, o.spec.ID) && holdsType(l, o, c.Type) {
				holders = append(holders, o.spec.ID)
				break
			}
		}
	}
	text := "It waits for " + strings.Join(parts, " and ") + "."
	if len(kept) > 0 {
		text += " Before it " + standOrStands(kept) + "."
	}
	if len(holders) > 0 {
		text += " GPUs are held by " + listed(holders) + "."
	}
	if r.fallsBack(l) {
		text += " " + r.fallback.Name + " decides, because there is no plan that is new enough."
	} else if r.isNew(j) && r.cfg.Aside {
		text += " The job came after the plan was asked for."
	}
	return text
}

// wanted are the GPUs that a job takes next: those of its row, or all of its fastest type
// that is wide enough.
func (r *rolling) wanted(l *ListScheduler, j *JobState) []planner.TypeCount {
	if row := j.nextRow(); row != nil && !r.fallsBack(l) {
		return row.Types
	}
	modes := j.modes
	if r.isNew(j) && !r.fallsBack(l) {
		if n, ok := r.newcomer(l, j, r.plan.pricesAt(l.nowUs, len(l.types))); ok {
			modes = n.modes
		}
	}
	for _, m := range modes {
		if int64(l.inService[m.gpuType]) >= j.spec.Tasks {
			return []planner.TypeCount{{Type: m.gpuType, Count: j.spec.Tasks}}
		}
	}
	var out []planner.TypeCount
	left := j.spec.Tasks
	for _, m := range modes {
		if n := min(left, int64(l.inService[m.gpuType])); n > 0 {
			out = append(out, planner.TypeCount{Type: m.gpuType, Count: n})
			left -= n
		}
	}
	return out
}

// stands reports whether a job that is in order before another one takes GPUs of a type:
// it holds them, or it waits for them.
func (r *rolling) stands(l *ListScheduler, o *JobState, gpuType int) bool {
	if holdsType(l, o, gpuType) {
		return true
	}
	return o.ready() > 0 && slices.ContainsFunc(r.wanted(l, o), func(c planner.TypeCount) bool { return c.Type == gpuType })
}

func holdsType(l *ListScheduler, j *JobState, gpuType int) bool {
	return slices.ContainsFunc(j.gpus, func(g int) bool { return l.gpus[g].gpuType == gpuType })
}

func isOrAre(n int64) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

func standOrStands(ids []string) string {
	if len(ids) == 1 {
		return "stands " + listed(ids)
	}
	return "stand " + listed(ids)
}

// listed names at most three jobs.
func listed(ids []string) string {
	const most = 3
	quoted := make([]string, 0, most)
	for i, id := range ids {
		if i == most {
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", hare.Clip(id)))
	}
	text := strings.Join(quoted, ", ")
	if more := len(ids) - most; more > 0 {
		return text + fmt.Sprintf(" and %d more", more)
	}
	return text
}
