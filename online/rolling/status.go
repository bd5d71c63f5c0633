package rolling

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
)

// Plan is online.Planned.Plan. It takes O(GPUs + jobs log jobs), and O(jobs) for each job
// whose round mixes types.
func (ro *Policy) Plan() online.PlanStatus {
	r, l := ro.rolling, ro.Scheduler
	s := online.PlanStatus{MadeUs: -1, Due: r.due(), Value: r.plan.value, Bound: r.plan.bound}
	if r.plan.number > 0 {
		s.MadeUs = r.plan.madeUs
	}
	s.Fallback = ro.Fallback()
	s.Jobs = r.plannedJobs(l)
	return s
}

// plannedJobs says what is expected of the jobs, by expected start.
func (r *rolling) plannedJobs(l *list.Scheduler) (jobs []online.PlannedJob) {
	line := r.lineUp(l)
	for at, j := range line.jobs {
		p := r.plannedJob(l, j)
		if !p.Running {
			p.Reason = line.reason(at)
		}
		jobs = append(jobs, p)
	}
	order := func(p *online.PlannedJob) int64 {
		if p.StartUs < 0 {
			return math.MaxInt64
		}
		return p.StartUs
	}
	slices.SortStableFunc(jobs, func(a, b online.PlannedJob) int { return cmp.Compare(order(&a), order(&b)) })
	return jobs
}

// Rows is online.Observable.Rows.
func (ro *Policy) Rows() []online.JobRow {
	l := ro.Scheduler
	var rows []online.JobRow
	for _, p := range ro.rolling.plannedJobs(l) {
		j := l.Job(p.Job)
		row := l.Row(j)
		if p.Running && p.EndUs < 0 && p.EarliestEndUs >= 0 && j.Spec().Sync == hare.Rigid {
			// The job started before a plan had it, and runs to its end where it is.
			held := l.HeldUs(j, l.Slots()[j.GPUs()[0]].Type)
			p.EndUs = max(min(l.RoundEndUs(j)+list.SpanUs(p.Rounds-1, held), hare.MaxExact), p.EarliestEndUs)
		}
		row.EndUs, row.EarliestEndUs, row.Reason = p.EndUs, p.EarliestEndUs, p.Reason
		if !p.Running {
			row.StartUs = p.StartUs
		}
		rows = append(rows, row)
	}
	return rows
}

// Fallback is the policy that decides because there is no plan, or because the plan is too
// old; "" where the plan is followed.
func (ro *Policy) Fallback() string {
	if ro.rolling.fallsBack(ro.Scheduler) {
		return ro.rolling.fallback.Name
	}
	return ""
}

// lineUp are the jobs in the order of their turns, with what each wants next.
type lineUp struct {
	r    *rolling
	l    *list.Scheduler
	jobs []*list.JobState
	want [][]planner.TypeCount // of each job
	// stand are the places in jobs, by type, of those that hold GPUs of the type or wait for
	// them; hold are those of the former.
	stand, hold [][]int
}

func (r *rolling) lineUp(l *list.Scheduler) *lineUp {
	li := &lineUp{r: r, l: l, jobs: r.inOrder(l), stand: make([][]int, len(l.Types())), hold: make([][]int,
		len(l.Types()))}
	prices := r.plan.pricesAt(l.NowUs(), len(l.Types()))
	for at, j := range li.jobs {
		want := r.wanted(l, j, prices)
		li.want = append(li.want, want)
		for _, g := range j.GPUs() {
			t := l.Slots()[g].Type
			if n := len(li.hold[t]); n == 0 || li.hold[t][n-1] != at {
				li.hold[t], li.stand[t] = append(li.hold[t], at), append(li.stand[t], at)
			}
		}
		for _, c := range want {
			if n := len(li.stand[c.Type]); j.Ready() > 0 && (n == 0 || li.stand[c.Type][n-1] != at) {
				li.stand[c.Type] = append(li.stand[c.Type], at)
			}
		}
	}
	return li
}

// inOrder are the jobs that have not ended in the order of their turns; jobs without a
// turn come last.
func (r *rolling) inOrder(l *list.Scheduler) []*list.JobState {
	all := slices.Clone(l.Active())
	if r.fallsBack(l) {
		slices.SortStableFunc(all, func(a, b *list.JobState) int {
			return cmp.Compare(r.fallback.Priority(l, a), r.fallback.Priority(l, b))
		})
		return all
	}
	var turns []turn
	for _, j := range all {
		if row := nextRow(j); row != nil {
			turns = append(turns, turn{job: j, row: row, atUs: turnUs(l, j, row)})
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.atUs, b.atUs) })
	if r.cfg.Aside {
		turns = r.placeNewcomers(l, turns)
	}
	in := map[*list.JobState]bool{}
	var out []*list.JobState
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
func (r *rolling) plannedJob(l *list.Scheduler, j *list.JobState) online.PlannedJob {
	p := online.PlannedJob{Job: j.Spec().ID, Running: j.Running() > 0, Rounds: r.belief.RoundsLeft(j), StartUs: -1,
		EndUs:         -1,
		EarliestEndUs: r.earliestEndUs(l, j)}
	if p.Running {
		p.StartUs = l.NowUs()
		for _, g := range j.GPUs() {
			if x := &l.Slots()[g]; x.Task >= 0 {
				p.StartUs = min(p.StartUs, x.SinceUs)
			}
			p.Types = addName(p.Types, l.Types()[l.Slots()[g].Type])
		}
	}
	if nextRow(j) == nil || r.fallsBack(l) {
		return p
	}
	rows := planOf(j).claim.rows[planOf(j).claim.at:]
	if !p.Running {
		p.StartUs = max(rows[0].StartUs, l.NowUs())
	}
	for i := range rows {
		for _, c := range rows[i].Types {
			p.Types = addName(p.Types, l.Types()[c.Type])
		}
	}
	last := &rows[len(rows)-1]
	p.EndUs = min(last.StartUs+list.SpanUs(last.Rounds-1, last.PeriodUs)+longestUs(j, last.Types), hare.MaxExact)
	if p.EndUs < l.NowUs() || last.Round+last.Rounds <= j.Round() { // the job has outlived its rows
		from := l.NowUs()
		left := p.Rounds
		if p.Running {
			from, left = l.RoundEndUs(j), left-1
		}
		p.EndUs = min(from+list.SpanUs(left, longestUs(j, last.Types)), hare.MaxExact)
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
func (r *rolling) earliestEndUs(l *list.Scheduler, j *list.JobState) int64 {
	if slices.ContainsFunc(j.Spec().On, func(p hare.Profile) bool { return p.ComputeUs == 0 }) {
		return -1
	}
	fastest := int64(math.MaxInt64)
	for _, p := range j.Spec().On {
		fastest = min(fastest, p.ComputeUs+p.SyncUs)
	}
	left := r.belief.RoundsLeft(j)
	atUs := l.NowUs()
	if j.Running() > 0 {
		left--
		for _, g := range j.GPUs() {
			if x := &l.Slots()[g]; x.Task >= 0 {
				atUs = max(atUs, x.SinceUs+j.DurationUs(x.Type))
			}
		}
	}
	return min(atUs+list.SpanUs(left, fastest), hare.MaxExact)
}

// reason says what the job at a place waits for.
func (li *lineUp) reason(at int) online.Reason {
	r, l, j := li.r, li.l, li.jobs[at]
	all, _ := l.Room(j)
	none, lacks := l.NoPlace(j)
	switch {
	case j.Ready() == 0:
		return online.Reason{Text: "It waits for the end of its tasks, or for job_ended."}
	case lacks && none.Code == online.Fragmented:
		none.Text = "It waits for nodes that join: no nodes in service that it may use have room for it, even if all of " +
			"their GPUs were free."
		return none
	case all == 0:
		none.Text = "It waits for a GPU of a type that it has a profile for: none is in service."
		return none
	case lacks:
		none.Text = fmt.Sprintf("It waits for GPUs that join: it needs %d at once, and no type that it may use has that "+
			"many in service.", j.Width())
		return none
	}
	var parts, busy []string
	var before, holders []int
	for _, c := range li.want[at] {
		free := int64(len(l.Free()[c.Type]))
		parts = append(parts, fmt.Sprintf("%s of type %s, of which %s free", words.Count(c.Count, "GPU"),
			l.Types()[c.Type], isOrAre(min(free, c.Count))))
		n, _ := slices.BinarySearch(li.stand[c.Type], at)
		before = union(before, li.stand[c.Type][:n])
		if free < c.Count {
			n, _ := slices.BinarySearch(li.hold[c.Type], at)
			holders = union(holders, li.hold[c.Type][n:])
			busy = append(busy, fmt.Sprintf("%d %s", c.Count-free, l.Types()[c.Type]))
		}
	}
	text := "It waits for " + strings.Join(parts, " and ") + "."
	if len(before) == 1 {
		text += " " + li.names(before) + " comes before it."
	} else if len(before) > 1 {
		text += " " + li.names(before) + " come before it."
	}
	if len(holders) > 0 {
		text += " Jobs whose turn comes after its own hold GPUs: " + li.names(holders) + "."
	}
	newcomer := r.isNew(j) && r.cfg.Aside && !r.fallsBack(l)
	if r.fallsBack(l) {
		text += " " + r.fallback.Name + " decides, because there is no plan that is new enough."
	} else if newcomer {
		text += " The job came after the plan was asked for."
	}
	x := online.Reason{Code: online.PlannedLater, Short: "planned later", Text: text}
	switch {
	case len(busy) > 0:
		x.Code, x.Short = online.Busy, online.InFew("GPUs busy", "%s busy", strings.Join(busy, ", "))
	case l.Nodes() != nil && len(li.want[at]) == 1 && l.RoomNow(j, li.want[at][0].Type, j.Spec().Tasks) < j.Spec().Tasks:
		none := online.NodesLackRoom(j.Width())
		x.Code, x.Short = none.Code, none.Short
	case newcomer:
		x.Code, x.Short = online.NextPlan, "starts with the next plan"
	case len(before) > 0:
		x.Short = online.InFew("after another job", "after %s", hare.Clip(li.jobs[before[len(before)-1]].Spec().ID))
	case r.fallsBack(l):
		x.Code, x.Short = online.Reserved, "GPUs kept for other jobs"
	}
	return x
}

// union is the union of two ascending lists, which may be one of them.
func union(a, b []int) []int {
	if len(a) == 0 {
		return b
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// names names at most three jobs.
func (li *lineUp) names(places []int) string {
	const most = 3
	var quoted []string
	for _, at := range places[:min(most, len(places))] {
		quoted = append(quoted, fmt.Sprintf("%q", hare.Clip(li.jobs[at].Spec().ID)))
	}
	text := strings.Join(quoted, ", ")
	if more := len(places) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// wanted are the GPUs that a job takes next: those of its row, or all of its fastest type
// that is wide enough.
func (r *rolling) wanted(l *list.Scheduler, j *list.JobState, prices []float64) []planner.TypeCount {
	if row := nextRow(j); row != nil && !r.fallsBack(l) {
		return row.Types
	}
	modes := j.Modes()
	if r.isNew(j) && !r.fallsBack(l) {
		if n, ok := r.newcomer(l, j, prices); ok {
			modes = n.modes
		}
	}
	for _, m := range modes {
		if l.Most(j, m.Type) >= j.Spec().Tasks {
			return []planner.TypeCount{{Type: m.Type, Count: j.Width()}}
		}
	}
	var out []planner.TypeCount
	left := j.Width()
	for _, m := range modes {
		if n := min(left, int64(l.InService()[m.Type])); n > 0 {
			out = append(out, planner.TypeCount{Type: m.Type, Count: n})
			left -= n
		}
	}
	return out
}

func isOrAre(n int64) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}
