package solver

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
)

// taskRun is the tasks of consecutive rounds on width GPUs of a type, like an entry of a
// schedule.
type taskRun struct {
	kind                 string
	shape                int64 // the number of the shape in the rest
	unit                 int64 // the first unit of the first round, counted from the first that is left
	rounds, counts       int64 // a round does so many units
	tasks, start, period int64
	each                 int64 // the GPU-time of a task in µs
	width                int64
}

// end returns the unit after those of the run.
func (tr *taskRun) end() int64 { return tr.unit + tr.rounds*tr.counts }

// roundTasks is the place of the tasks of some rounds.
type roundTasks struct {
	kind                 string
	shape, unit, rounds  int64
	start, period, tasks int64
}

// maxExpanded is the number of tasks back to back up to which each task counts alone;
// more tasks move together or not at all.
const maxExpanded = 64

// taskRuns returns the runs of the blocks of job i, whose rounds have these shapes.
func taskRuns(m *model.Model, i int, blocks []greedy.Block, shapes greedy.JobShapes) []taskRun {
	out := make([]taskRun, 0, len(blocks))
	for x := range blocks {
		b := &blocks[x]
		counts, of, unit := int64(1), int64(0), b.Round
		if m.Jobs[i].Shapes != nil {
			var s *model.Shape
			s, unit = shapes.Unit(&m.Jobs[i], b.Round)
			counts, of = s.Counts, int64(s.Index)
		}
		p := taskRun{kind: m.Types[m.Classes[b.Class].Type], shape: of, unit: unit, rounds: b.Rounds,
			counts: counts, tasks: int64(b.Tasks),
			start: b.StartUs, period: b.PeriodUs, each: b.HoldUs / int64(b.Tasks), width: int64(b.Width)}
		if b.Rounds == 1 {
			p.period = 0
		}
		out = append(out, p)
	}
	return out
}

// compareMoves compares the plan old with the plan now. It calls do for each stretch of the
// runs of old: us is the GPU-time of the stretch on one GPU in µs, width is the number of
// GPUs, and kept is the number of GPUs on which the tasks have the same start and type in
// now. The tasks of a round are interchangeable, and so are the GPUs of a type. The rounds of
// a stretch are compared at once; they are kept only if their period is the same in both
// plans. compareMoves takes O(n log n) for n runs and stretches, apart from tasks that count
// alone.
func compareMoves(old, now []taskRun, do func(us, width, kept int64)) {
	var cuts []int64
	for _, ps := range [][]taskRun{old, now} {
		for i := range ps {
			cuts = append(cuts, ps[i].unit, ps[i].end())
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	before, after := spread(old, cuts), spread(now, cuts)
	for s := range before {
		there := map[roundTasks]int64{}
		for _, x := range after[s] {
			each(&now[x], cuts[s], cuts[s+1], func(at roundTasks) { there[at] += now[x].width })
		}
		for _, x := range before[s] {
			p := &old[x]
			each(p, cuts[s], cuts[s+1], func(at roundTasks) {
				kept := min(p.width, there[at])
				if kept > 0 {
					there[at] -= kept
				}
				do(at.rounds*at.tasks*p.each, p.width, kept)
			})
		}
	}
}

// movedTime returns the GPU-time moved and the whole GPU-time, in GPU-seconds.
func movedTime(old, now []taskRun) (moved, all hare.Amount) {
	compareMoves(old, now, func(us, width, kept int64) {
		one := hare.Product(us, 1e6)
		all = all.Add(times(one, width))
		moved = moved.Add(times(one, width-kept))
	})
	return moved, all
}

// movedUs returns the GPU-time moved in µs, for comparisons within a search.
func movedUs(old, now []taskRun) (us float64) {
	compareMoves(old, now, func(one, width, kept int64) { us += float64(one) * float64(width-kept) })
	return us
}

// times returns n·a for the small number n of GPUs side by side.
func times(a hare.Amount, n int64) (sum hare.Amount) {
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			sum = sum.Add(a)
		}
		a = a.Add(a)
	}
	return sum
}

// spread lists the runs in each stretch of rounds between cuts.
func spread(ps []taskRun, cuts []int64) [][]int {
	out := make([][]int, max(0, len(cuts)-1))
	for i := range ps {
		s, _ := slices.BinarySearch(cuts, ps[i].unit)
		for ; s < len(out) && cuts[s] < ps[i].end(); s++ {
			out[s] = append(out[s], i)
		}
	}
	return out
}

// each calls do for the places of the tasks of a run whose rounds begin in a stretch of units.
func each(p *taskRun, from, to int64, do func(roundTasks)) {
	first := (from - p.unit + p.counts - 1) / p.counts
	at := roundTasks{p.kind, p.shape, p.unit + first*p.counts, (to-p.unit+p.counts-1)/p.counts - first,
		p.start + first*p.period, p.period, p.tasks}
	if at.rounds == 0 {
		return
	}
	if at.rounds > 1 || p.tasks > maxExpanded {
		do(at)
		return
	}
	at.period, at.tasks = 0, 1
	for range p.tasks {
		do(at)
		at.start += p.each
	}
}
