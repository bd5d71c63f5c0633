package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// Jobs that may run in several shapes (moldable jobs: Turek, Wolf and Yu, "Approximate algorithms for scheduling
// parallelizable tasks", SPAA 1992) are searched in two levels: a choice of shapes makes a model in which each job
// has one shape, and the other searches plan that. Few choices are all tried; many are changed one job at a time,
// judged by a list schedule, or, for gang and rigid jobs, by moves of the annealing itself.

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
	best  *place.Plan
	value hare.Amount
	stats Stats
	// inner improves a plan of one choice of shapes.
	inner func(context.Context, *model.Model, *hare.Relaxation, *place.Plan, ImproveConfig) (*place.Plan, Stats, error)
}

// shapesSearch is for jobs that may run in several shapes. It gives each choice of shapes to the other searches.
var shapesSearch = search{
	name:      "shapes",
	supports:  func(rq *request) bool { return place.HasShapes(rq.m) },
	continual: never,
	run:       improveInShapes,
}

// improveInShapes is Improve for a model with shapes.
func improveInShapes(ctx context.Context, rq *request) (*place.Plan, Stats, error) {
	m, cfg, start := rq.m, rq.cfg, rq.start
	ss := &shapeSearch{ctx: ctx, m: m, rel: rq.rel, cfg: &cfg, best: start, value: start.Value(m), inner: rq.improve}
	ss.fits, _ = place.FeasibleShapes(m)
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

func (ss *shapeSearch) keep(p *place.Plan) {
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
		if start, err = place.AssignInShapes(ss.ctx, ss.m, shapes, ss.rel, "relaxation", place.Insertion); err != nil {
			return
		}
	}
	mark := func(p *place.Plan) *place.Plan {
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
		cfg.Checkpoint = func(best func() *place.Plan) {
			outer(func() *place.Plan {
				if p := mark(best()); p != nil && p.Value(ss.m).Cmp(ss.value) < 0 {
					return p
				}
				return ss.best
			})
		}
	}
	p, stats, err := ss.inner(ss.ctx, place.InShapes(ss.m, shapes), place.GuideInShapes(ss.m, shapes, ss.rel), start,
		cfg)
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
			rank[i] = float64(room.FirstStart(ss.best.Jobs[i]))
		}
	}
	listed := func(shapes []int32) *place.Plan {
		one := place.InShapes(ss.m, shapes)
		items := place.Order(one, nil, "arrival")
		for x := range items {
			items[x].Key = rank[items[x].Job]
		}
		if room.HasAfter(one) {
			place.SortAfter(room.DependenciesOf(one), items)
		} else {
			place.SortItems(items)
		}
		ss.used += int64(len(ss.m.Jobs))
		p, err := place.Assign(ss.ctx, one, items, place.Insertion)
		if err != nil {
			return nil
		}
		p.Shapes = shapes
		return p
	}
	shapes := ss.best.Shapes
	least := math.Inf(1)
	if p := listed(shapes); p != nil {
		least = room.Weighted(ss.m, p.EndUs)
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
		if p := listed(other); p != nil && room.Weighted(ss.m, p.EndUs) < least {
			least, shapes = room.Weighted(ss.m, p.EndUs), other
			ss.keep(p)
		}
	}
	if slices.Equal(shapes, ss.best.Shapes) {
		return
	}
	// The list schedule need not be better than the best plan: search from it.
	ss.improve(shapes, math.Min(1, float64(ss.used)/float64(ss.cfg.Moves)+0.125))
}
