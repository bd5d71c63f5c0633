package policies

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/assignment"
	"github.com/hare-sched/hare/online/list"
)

// NewSchedAlloX is the baseline Sched_Allox of the Hare paper, after AlloX
// (EuroSys 2020): at each change the jobs that wait are matched to types and
// places in line so that the sum of their completion times is least; those that
// run stay. It knows how long jobs take; in sessions it goes by estimates.
//
// [V, AlloX's code] The n-th job from the last on a machine delays n jobs, so
// that its cost is n × its time; an assignment problem over jobs × (free machines
// × places). [I] AlloX has jobs of one GPU: here a machine is a group of GPUs of
// one type, as wide as the mean of the jobs that wait; types narrower than a job
// are not matched to it; a job starts as a gang, in the order of the places,
// when its type has room, and others pass it. Weights are not looked at. In sessions only
// the maxMatched jobs with the least time left are matched, and the others come after
// them by arrival, since the time of matching grows with the cube of the jobs.
func NewSchedAlloX(cluster *hare.Cluster, sizes JobSizes) *list.Scheduler {
	return list.New(cluster, schedAlloX(sizes.Rounds))
}

// schedAlloX is the rule for the rounds of each job; nil means that they are learned.
func schedAlloX(rounds map[string]int64) list.Rule {
	a := &allox{}
	r := list.Rule{
		Name: "sched_allox", Hold: hare.Rigid, Rounds: rounds, LearnSizes: rounds == nil, Plan: a.plan,
		Priority: func(_ *list.Scheduler, j *list.JobState) float64 { return rankOf(j) },
	}
	if rounds == nil {
		r.Plan = a.planFew
	}
	return r
}

type allox struct {
	solver assignment.Solver
	places []alloxPlace // columns
}

// maxMatched is the most jobs that are matched at once in a session.
const maxMatched = 100

// planFew is plan for the jobs with the least time left; the others come after them.
func (a *allox) planFew(l *list.Scheduler, waiting []*list.JobState) {
	if len(waiting) <= maxMatched {
		a.plan(l, waiting)
		return
	}
	waiting = slices.Clone(waiting)
	for _, j := range waiting {
		j.Own = float64(j.RoundsLeft()) * float64(l.RoundUs(j))
	}
	slices.SortStableFunc(waiting, func(a, b *list.JobState) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	a.plan(l, waiting[:maxMatched])
	for _, j := range waiting[maxMatched:] {
		j.OnlyType, j.Own = -1, float64(j.Number())
	}
}

type alloxPlace struct {
	gpuType int
	last    float64 // place from the last, from 1
}

// plan matches the jobs that wait; O(jobs³ · types) at worst. Priorities are the
// places, the furthest from the last first.
func (a *allox) plan(l *list.Scheduler, waiting []*list.JobState) {
	tasks := int64(0)
	for _, j := range waiting {
		tasks += j.Width()
	}
	mean := max(1, int(tasks)/len(waiting))
	a.places = a.places[:0]
	for t, free := range l.Free() {
		for i := 0; i < len(waiting) && len(free) > 0; i++ {
			a.places = append(a.places, alloxPlace{t, float64(1 + i/max(1, len(free)/mean))})
		}
	}
	const longest, never = 1e14, 1e18
	a.solver.Begin(len(waiting), len(a.places))
	columns := a.solver.Solve(func(row int, cost []float64) {
		j := waiting[row]
		leftS := make([]float64, len(l.Types()))
		for _, m := range j.Modes() {
			if l.Most(j, m.Type) >= j.Spec().Tasks {
				leftS[m.Type] = min(float64(j.RoundsLeft())*float64(m.DurationUs)/1e6, longest)
			}
		}
		for c, p := range a.places {
			cost[c] = never
			if leftS[p.gpuType] > 0 {
				cost[c] = p.last * leftS[p.gpuType]
			}
		}
	})
	for i, j := range waiting {
		p := a.places[columns[i]]
		j.OnlyType, j.Own = -1, -p.last
		for _, m := range j.Modes() {
			if m.Type == p.gpuType && l.Most(j, p.gpuType) >= j.Spec().Tasks {
				j.OnlyType = p.gpuType
			}
		}
	}
}
