package greedy

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// hasShapes says whether some job of a model may have several shapes.
func hasShapes(m *model.Model) bool {
	return slices.ContainsFunc(m.Jobs, func(j model.Job) bool { return j.Shapes != nil })
}

// InShapes returns the model in which each job with shapes has all its rounds in the given one, as
// an index in ModelJob.Shapes. The jobs of the result have no shapes, and Rounds counts rounds.
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
		one.Jobs[i] = inShape(j, int(shapes[i]))
	}
	return &one
}

// inShape returns a job of InShapes.
func inShape(j *model.Job, s int) model.Job {
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

// guideInShapes returns a relaxation whose progress counts rounds in the given shapes.
func guideInShapes(m *model.Model, shapes []int32, rel *hare.Relaxation) *hare.Relaxation {
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
	_, never := feasibleShapes(m)
	return never
}

// feasibleShapes returns the shapes in which each job with shapes may run, by job, and the
// reasons of jobs that can run in none.
func feasibleShapes(m *model.Model) (fits [][]int32, never []hare.Reason) {
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
	heads := dependenciesOf(m).head // whatever the shapes of predecessors are
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
	return shapesBy(m, fits, func(j *model.Job) float64 { return float64(leastTime(j)) })
}

func cheapestShapes(m *model.Model, fits [][]int32) []int32 {
	return shapesBy(m, fits, func(j *model.Job) float64 {
		return float64(leastTime(j)) * float64(j.Tasks*j.GPUs)
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
	if !hasShapes(m) {
		return Assign(ctx, m, Order(m, rel, kind), rule)
	}
	fits, _ := feasibleShapes(m)
	var best *Plan
	var fault error
	for _, shapes := range [][]int32{quickestShapes(m, fits), cheapestShapes(m, fits)} {
		p, err := assignInShapes(ctx, m, shapes, rel, kind, rule)
		if err != nil {
			fault = err
			continue
		}
		if best == nil || weighted(m, p.EndUs) < weighted(m, best.EndUs) {
			best = p
		}
	}
	if best == nil {
		return nil, fault
	}
	return best, nil
}

func assignInShapes(ctx context.Context, m *model.Model, shapes []int32, rel *hare.Relaxation, kind string,
	rule Rule) (*Plan, error) {
	one := InShapes(m, shapes)
	p, err := Assign(ctx, one, Order(one, guideInShapes(m, shapes, rel), kind), rule)
	if err == nil {
		p.Shapes = shapes
	}
	return p, err
}

const (
	// triedShapes is the number of choices of shapes up to which all are searched.
	triedShapes = 16
	// shapeTrials is the number of changes of one job's shape that are tried for each job, each by one
	// list schedule.
	shapeTrials = 3
)

// shapeSearch searches the shapes of all jobs: where there are few choices, each gets a part of the
// budget. Gang and rigid jobs get other shapes as moves of the annealing. Where there are relaxed jobs,
// one job after another gets another shape before, which stays if a list schedule in the order of the
// best plan is better with it.
type shapeSearch struct {
	ctx   context.Context
	m     *model.Model
	rel   *hare.Relaxation
	cfg   *ImproveConfig
	fits  [][]int32
	used  int64
	best  *Plan
	value hare.Amount
	stats Stats
}

// improveInShapes is Improve for a model with shapes.
func improveInShapes(ctx context.Context, m *model.Model, rel *hare.Relaxation, start *Plan,
	cfg ImproveConfig) (*Plan, Stats, error) {
	ss := &shapeSearch{ctx: ctx, m: m, rel: rel, cfg: &cfg, best: start, value: start.Value(m)}
	ss.fits, _ = feasibleShapes(m)
	r := rand.New(rand.NewPCG(uint64(cfg.Seed), 0x736861706573))
	relaxed := slices.ContainsFunc(m.Jobs, func(j model.Job) bool { return j.Sync == hare.Relaxed })
	if all := ss.choices(); all != nil {
		for n, shapes := range all {
			ss.improve(shapes, float64(n+1)/float64(2*len(all)))
		}
	} else if relaxed {
		for n := range 3 {
			ss.change(r)
			ss.improve(ss.best.Shapes, float64(n+1)/6)
		}
	}
	ss.improve(nil, 1)
	return ss.best, ss.stats, nil
}

// choices returns all choices of shapes, or nil if there are many.
func (ss *shapeSearch) choices() [][]int32 {
	all := [][]int32{make([]int32, len(ss.m.Jobs))}
	for i, fits := range ss.fits {
		if len(fits) == 0 {
			continue
		}
		var more [][]int32
		for _, shapes := range all {
			for _, s := range fits {
				other := slices.Clone(shapes)
				other[i] = s
				more = append(more, other)
			}
		}
		if all = more; len(all) > triedShapes {
			return nil
		}
	}
	return all
}

func (ss *shapeSearch) over() bool {
	return ss.ctx.Err() != nil || ss.used >= ss.cfg.Moves || ss.cfg.Elapsed != nil && ss.cfg.Elapsed() >= 1 ||
		ss.cfg.StopAt != 0 && ss.value.Float() <= ss.cfg.StopAt
}

func (ss *shapeSearch) keep(p *Plan) {
	if v := p.Value(ss.m); v.Cmp(ss.value) < 0 {
		if ss.best, ss.value = p, v; ss.cfg.Report != nil {
			ss.cfg.Report(v)
		}
	}
}

// improve searches places with these shapes until share of the budget is used. Where shapes is nil, gang
// and rigid jobs get other shapes on the way.
func (ss *shapeSearch) improve(shapes []int32, share float64) {
	if ss.over() {
		return
	}
	cfg := *ss.cfg
	cfg.Moves = max(1, int64(share*float64(ss.cfg.Moves))-ss.used)
	if whole := ss.cfg.Elapsed; whole != nil {
		from := whole()
		cfg.Elapsed = func() float64 { return (whole() - from) / math.Max(share-from, 1e-9) }
	}
	ss.used += cfg.Moves
	start, free := ss.best, shapes == nil
	if free {
		shapes, cfg.shaped, cfg.unitGuide = start.Shapes, ss.m, ss.rel
	}
	if !slices.Equal(shapes, start.Shapes) {
		var err error
		if start, err = assignInShapes(ss.ctx, ss.m, shapes, ss.rel, "relaxation", Insertion); err != nil {
			return
		}
	}
	mark := func(p *Plan) *Plan {
		if p == nil || free {
			return p
		}
		marked := *p
		marked.Shapes = shapes
		return &marked
	}
	cfg.Report = func(v hare.Amount) {
		if v.Cmp(ss.value) < 0 && ss.cfg.Report != nil {
			ss.cfg.Report(v)
		}
	}
	if outer := ss.cfg.Checkpoint; outer != nil {
		cfg.Checkpoint = func(best func() *Plan) {
			outer(func() *Plan {
				if p := mark(best()); p != nil && p.Value(ss.m).Cmp(ss.value) < 0 {
					return p
				}
				return ss.best
			})
		}
	}
	p, stats, err := Improve(ss.ctx, InShapes(ss.m, shapes), guideInShapes(ss.m, shapes, ss.rel), start, cfg)
	ss.stats.Moves += stats.Moves
	ss.stats.Evaluations += stats.Evaluations
	ss.stats.Accepted += stats.Accepted
	if err == nil {
		ss.keep(mark(p))
	}
}

// change tries other shapes of single jobs, each by a list schedule in the order in which jobs start
// in the best plan.
func (ss *shapeSearch) change(r *rand.Rand) {
	var open []int
	for i, fits := range ss.fits {
		if len(fits) > 1 {
			open = append(open, i)
		}
	}
	rank := make([]float64, len(ss.m.Jobs))
	for i := range rank {
		if len(ss.best.Jobs[i]) > 0 {
			rank[i] = float64(firstStart(ss.best.Jobs[i]))
		}
	}
	place := func(shapes []int32) *Plan {
		one := InShapes(ss.m, shapes)
		items := Order(one, nil, "arrival")
		for x := range items {
			items[x].Key = rank[items[x].Job]
		}
		if hasAfter(one) {
			dependenciesOf(one).sortItems(items)
		} else {
			sortItems(items)
		}
		ss.used += int64(len(ss.m.Jobs))
		p, err := Assign(ss.ctx, one, items, Insertion)
		if err != nil {
			return nil
		}
		p.Shapes = shapes
		return p
	}
	shapes := ss.best.Shapes
	least := math.Inf(1)
	if p := place(shapes); p != nil {
		least = weighted(ss.m, p.EndUs)
		ss.keep(p)
	}
	limit := ss.used + ss.cfg.Moves/8
	for range shapeTrials * len(open) {
		if ss.over() || ss.used >= limit || ss.cfg.Elapsed != nil && ss.cfg.Elapsed() > 0.7 {
			return
		}
		i := open[r.IntN(len(open))]
		other := slices.Clone(shapes)
		if other[i] = ss.fits[i][r.IntN(len(ss.fits[i]))]; other[i] == shapes[i] {
			continue
		}
		if p := place(other); p != nil && weighted(ss.m, p.EndUs) < least {
			least, shapes = weighted(ss.m, p.EndUs), other
			ss.keep(p)
		}
	}
	if slices.Equal(shapes, ss.best.Shapes) {
		return
	}
	// The list schedule need not be better than the best plan: search from it.
	ss.improve(shapes, math.Min(1, float64(ss.used)/float64(ss.cfg.Moves)+0.125))
}
