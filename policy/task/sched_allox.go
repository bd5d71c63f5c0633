package task

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/assignment"
	"github.com/hare-sched/hare/online"
)

// NewSchedAlloX is the baseline Sched_Allox of the Hare paper, after AlloX
// (EuroSys 2020): at each change the jobs that wait are matched to types and
// places in line so that the sum of their completion times is least; those that
// run stay. It knows how long jobs take.
//
// [V, AlloX's code] The n-th job from the last on a machine delays n jobs, so
// that its cost is n × its time; an assignment problem over jobs × (free machines
// × places). [I] AlloX has jobs of one GPU: here a machine is a group of GPUs of
// one type, as wide as the mean of the jobs that wait; types narrower than a job
// are not matched to it; a job starts as a gang, in the order of the places,
// when its type has room, and others pass it. Weights are not looked at.
func NewSchedAlloX(inst *hare.Instance) online.Policy {
	a := &allox{}
	return newDesk(inst, rule{
		hold: hare.Rigid, rounds: knowing(inst), plan: a.plan,
		key: func(_ *desk, s *seat) float64 { return s.key },
	})
}

type allox struct {
	matcher assignment.Solver
	places  []alloxPlace // columns
}

type alloxPlace struct {
	kind int
	last float64 // place from the last, from 1
}

// plan matches the jobs that wait; O(jobs³ · types) at worst. Keys are the
// places, the furthest from the last first.
func (a *allox) plan(d *desk, line []*seat) {
	tasks := int64(0)
	for _, s := range line {
		tasks += s.spec.Tasks
	}
	mean := max(1, int(tasks)/len(line))
	a.places = a.places[:0]
	for k, free := range d.free {
		for i := 0; i < len(line) && len(free) > 0; i++ {
			a.places = append(a.places, alloxPlace{k, float64(1 + i/max(1, len(free)/mean))})
		}
	}
	const never = 1e18
	a.matcher.Begin(len(line), len(a.places))
	columns := a.matcher.Solve(func(row int, cost []float64) {
		s := line[row]
		long := make([]float64, len(d.kinds))
		for _, m := range s.modes {
			if int64(d.total[m.kind]) >= s.spec.Tasks {
				long[m.kind] = float64(s.rounds-s.round) * float64(m.longUs) / 1e6
			}
		}
		for c, p := range a.places {
			cost[c] = never
			if long[p.kind] > 0 {
				cost[c] = p.last * long[p.kind]
			}
		}
	})
	for i, s := range line {
		p := a.places[columns[i]]
		s.kind, s.key = -1, -p.last
		for _, m := range s.modes {
			if m.kind == p.kind && int64(d.total[p.kind]) >= s.spec.Tasks {
				s.kind = p.kind
			}
		}
	}
}
