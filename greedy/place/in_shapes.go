package place

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// HasShapes reports whether some job of a model may have several shapes.
func HasShapes(m *model.Model) bool {
	return slices.ContainsFunc(m.Jobs, func(j model.Job) bool { return j.Shapes != nil })
}

// InShapes returns the model in which each job with shapes has all its rounds in the given one, as
// an index in model.Job.Shapes. The jobs of the result have no shapes, and Rounds counts rounds.
// A model whose jobs have no shapes is returned as it is; shapes is nil then.
func InShapes(m *model.Model, shapes []int32) *model.Model {
	if shapes == nil {
		return m
	}
	one := *m
	one.Jobs = slices.Clone(m.Jobs)
	for i := range one.Jobs {
		j := &m.Jobs[i]
		if j.Shapes == nil {
			continue
		}
		one.Jobs[i] = InShape(j, int(shapes[i]))
	}
	return &one
}

// InShape returns a job of InShapes.
func InShape(j *model.Job, s int) model.Job {
	in := j.InShape(s)
	if j.RunsUntilUs > 0 && j.Rounds > 0 && j.Shapes[s].Index != j.RunsShape {
		in.RunsUntilUs += j.ReshapeUs // the first round has another shape than what runs
		in.RunsOn = nil
	}
	return in
}

// markShapes turns the rounds of a schedule of InShapes into units and fills in the shapes.
func (p *Plan) markShapes(m *model.Model, s *hare.Schedule) {
	for x := range s.Lanes {
		l := &s.Lanes[x]
		for e, i := range l.Job {
			j := &m.Jobs[i]
			if j.Shapes == nil {
				continue
			}
			shape, unit := p.ShapesOf(int(i)).Unit(j, l.Round[e]-j.FirstRound)
			l.Round[e] = j.FirstRound + unit
			if shape.Index > 0 {
				if l.Shape == nil {
					l.Shape = make([]int64, len(l.Job))
				}
				l.Shape[e] = int64(shape.Index)
			}
		}
	}
}

// GuideInShapes returns a relaxation whose progress counts rounds in the given shapes.
func GuideInShapes(m *model.Model, shapes []int32, rel *hare.Relaxation) *hare.Relaxation {
	if rel == nil || len(rel.Progress) != len(m.Jobs) {
		return rel
	}
	one := *rel
	one.Progress = slices.Clone(rel.Progress)
	for i := range m.Jobs {
		if m.Jobs[i].Shapes == nil {
			continue
		}
		counts := float64(m.Jobs[i].Shapes[shapes[i]].Counts)
		one.Progress[i] = slices.Clone(rel.Progress[i])
		for x := range one.Progress[i] {
			one.Progress[i][x].Rounds /= counts
		}
	}
	return &one
}

// infeasibleInShapes is Infeasible for a model with shapes: a job can never run if it can run in
// none of its shapes. The reason is that of the first one.
func infeasibleInShapes(m *model.Model) []hare.Reason {
	_, never := FeasibleShapes(m)
	return never
}

// FeasibleShapes returns the shapes in which each job with shapes may run, by job, and the
// reasons of jobs that can run in none.
func FeasibleShapes(m *model.Model) (fits [][]int32, never []hare.Reason) {
	most := 0
	for i := range m.Jobs {
		most = max(most, len(m.Jobs[i].Shapes))
	}
	fits = make([][]int32, len(m.Jobs))
	first := make([]*hare.Reason, len(m.Jobs))
	index := make(map[string]int, len(m.Jobs))
	for i := range m.Jobs {
		index[m.Instance.Jobs[i].ID] = i
	}
	heads := room.DependenciesOf(m).Head // whatever the shapes of predecessors are
	for s := range most {
		shapes := make([]int32, len(m.Jobs))
		for i := range shapes {
			shapes[i] = int32(max(0, min(s, len(m.Jobs[i].Shapes)-1)))
		}
		bad := make([]bool, len(m.Jobs))
		reasons := infeasibleInClasses
		if m.Placed {
			reasons = func(in *model.Model) []hare.Reason { return infeasibleOnNodes(in, heads) }
		}
		for _, r := range reasons(InShapes(m, shapes)) {
			i := index[r.Job]
			if bad[i] = true; first[i] == nil {
				if field, ok := strings.CutPrefix(r.Pointer, fmt.Sprintf("/jobs/%d", i)); ok && m.Jobs[i].Shapes != nil &&
					(field == "/tasks" || field == "/gpus_per_task") {
					r.Pointer = fmt.Sprintf("/jobs/%d/shapes/%d%s", i, m.Jobs[i].Shapes[shapes[i]].Index, field)
				}
				first[i] = &r
			}
		}
		for i := range m.Jobs {
			if j := &m.Jobs[i]; j.Shapes != nil && s < len(j.Shapes) && !bad[i] {
				fits[i] = append(fits[i], int32(s))
			}
		}
	}
	for i := range m.Jobs {
		if first[i] != nil && len(fits[i]) == 0 {
			never = append(never, *first[i])
		}
	}
	return fits, never
}

// quickestShapes returns the shape of each job in which it ends first on an empty cluster, and
// cheapestShapes those in which it takes the least GPU-time, both among those that fit.
func quickestShapes(m *model.Model, fits [][]int32) []int32 {
	return shapesBy(m, fits, func(j *model.Job) float64 { return float64(room.LeastTime(j)) })
}

func cheapestShapes(m *model.Model, fits [][]int32) []int32 {
	return shapesBy(m, fits, func(j *model.Job) float64 {
		return float64(room.LeastTime(j)) * float64(j.Tasks*j.GPUs)
	})
}

func shapesBy(m *model.Model, fits [][]int32, cost func(j *model.Job) float64) []int32 {
	shapes := make([]int32, len(m.Jobs))
	for i := range shapes {
		least := math.Inf(1)
		for _, s := range fits[i] {
			in := m.Jobs[i].InShape(int(s))
			if c := cost(&in); c < least {
				least, shapes[i] = c, s
			}
		}
	}
	return shapes
}

// AssignInOrder places all jobs in the order that Order gives, each job with shapes in the shape in
// which it ends first on an empty cluster, or in which it takes the least GPU-time, whichever gives
// the better plan.
func AssignInOrder(ctx context.Context, m *model.Model, rel *hare.Relaxation, kind string, rule Rule) (*Plan, error) {
	if !HasShapes(m) {
		return Assign(ctx, m, Order(m, rel, kind), rule)
	}
	fits, _ := FeasibleShapes(m)
	var best *Plan
	var fault error
	for _, shapes := range [][]int32{quickestShapes(m, fits), cheapestShapes(m, fits)} {
		p, err := AssignInShapes(ctx, m, shapes, rel, kind, rule)
		if err != nil {
			fault = err
			continue
		}
		if best == nil || room.Weighted(m, p.EndUs) < room.Weighted(m, best.EndUs) {
			best = p
		}
	}
	if best == nil {
		return nil, fault
	}
	return best, nil
}

// AssignInShapes places all jobs in the given shapes, in the order that Order gives for these.
func AssignInShapes(ctx context.Context, m *model.Model, shapes []int32, rel *hare.Relaxation, kind string,
	rule Rule) (*Plan, error) {
	one := InShapes(m, shapes)
	p, err := Assign(ctx, one, Order(one, GuideInShapes(m, shapes, rel), kind), rule)
	if err == nil {
		p.Shapes = shapes
	}
	return p, err
}
