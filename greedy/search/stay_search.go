package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// On single nodes, one cannot take out a job and place others in its gap without regard to CPUs, memory, setups and
// jobs that wait. A staySearch therefore builds each plan from the start: it is a simulated annealing over which jobs
// stay at their previous places and in which order a list schedule places the others beside them.

// maxReleased is the number of jobs that a move of a staySearch takes from their previous places beside the
// first one.
const maxReleased = 2

// staySearch is RuinAndRecreate where nodes matter, jobs wait for others, GPUs need setups, jobs have shapes
// or the objective is the makespan. Its state is a set of jobs that stay at their previous places, and an
// order of the other jobs, which a list schedule places beside those that stay. A move lets jobs leave their
// previous places, puts a job back to its own, or changes the order.
type staySearch struct {
	m      *model.Model // in the shapes of the plans of the state
	whole  *model.Model // with all shapes
	cfg    *RuinAndRecreateConfig
	layout *room.Layout
	items  []place.Item // the items of all jobs in the model m
	shapes []int32
	left   int64
}

// stayState is a state of a staySearch.
type stayState struct {
	stays  []bool
	rank   []float64 // by job: its position in the order
	shapes []int32   // by job, nil where no job has shapes
}

func (st *stayState) clone() stayState {
	return stayState{slices.Clone(st.stays), slices.Clone(st.rank), slices.Clone(st.shapes)}
}

// searchStays returns the cheapest plan that it finds, or start. A list schedule counts as a move for each
// job, times the nodes that a place is searched on.
func searchStays(ctx context.Context, m *model.Model, start *place.Plan, cfg *RuinAndRecreateConfig) *place.Plan {
	ss := &staySearch{whole: m, cfg: cfg, layout: room.NewLayout(m), left: cfg.Moves}
	st := stayState{make([]bool, len(m.Jobs)), make([]float64, len(m.Jobs)), slices.Clone(start.Shapes)}
	var movable []int
	for i := range m.Jobs {
		if len(start.Jobs[i]) == 0 {
			continue
		}
		movable = append(movable, i)
		st.rank[i] = float64(room.FirstStart(start.Jobs[i]))
		st.stays[i] = ss.hasPrevious(i) && start.ShapesOf(i) == cfg.Previous.ShapesOf(i) &&
			slices.Equal(start.Jobs[i], cfg.Previous.Jobs[i])
	}
	each := int64(len(movable)) * (1 + int64(min(len(m.Nodes), placementNodes))/nodesPerPlacement)
	best, least := start, ss.cost(start)
	now := least
	r := rand.New(rand.NewPCG(uint64(cfg.Seed), 0x73746179))
	for len(movable) > 0 && ss.left >= each && ctx.Err() == nil {
		t := ruinStartTemperature * least / float64(len(movable)) * float64(ss.left) / float64(cfg.Moves)
		ss.left -= each
		next := st.clone()
		ss.change(r, movable, &next, best)
		p := ss.place(ctx, &next)
		if p == nil {
			continue
		}
		c := ss.cost(p)
		if c <= now || !cfg.DescentOnly && r.Float64() < math.Exp((now-c)/max(t, 1e-9)) {
			st, now = next, c
		}
		if c < least*(1-1e-12) {
			best, least = p, c
		}
	}
	return best
}

func (ss *staySearch) hasPrevious(i int) bool { return len(ss.cfg.Previous.Jobs[i]) > 0 }

// cost returns the value of a plan and the cost of its moves, in 1e-12 weight-seconds.
func (ss *staySearch) cost(p *place.Plan) float64 {
	sum := p.Value(ss.whole).Float() * 1e12
	for i := range p.Jobs {
		sum += ss.cfg.MoveCost(i, p.Jobs[i], p.ShapesOf(i))
	}
	return sum
}

// change makes a move. The best plan says which jobs run at the same time.
func (ss *staySearch) change(r *rand.Rand, movable []int, st *stayState, best *place.Plan) {
	i := movable[r.IntN(len(movable))]
	other := movable[r.IntN(len(movable))]
	switch {
	case !st.stays[i] && ss.hasPrevious(i) && r.IntN(2) == 0:
		st.stays[i] = true
		if st.shapes != nil {
			st.shapes[i] = ss.cfg.Previous.Shape(i)
		}
		return
	case st.stays[i]:
		st.stays[i] = false
		for range r.IntN(maxReleased + 1) {
			if j := movable[r.IntN(len(movable))]; st.stays[j] && room.FirstStart(best.Jobs[j]) < best.EndUs[i] {
				st.stays[j] = false
			}
		}
	}
	st.rank[i] = st.rank[other] + r.Float64() - 0.5 // just before or after the other
}

// place returns the plan of a state, or nil where some job has no place.
func (ss *staySearch) place(ctx context.Context, st *stayState) *place.Plan {
	if ss.m == nil || !slices.Equal(ss.shapes, st.shapes) {
		ss.m, ss.shapes = place.InShapes(ss.whole, st.shapes), slices.Clone(st.shapes)
		ss.items = place.Order(ss.m, nil, "arrival")
	}
	items := slices.Clone(ss.items)
	for x := range items {
		items[x].Key = st.rank[items[x].Job]
	}
	if room.HasAfter(ss.m) {
		place.SortAfter(room.DependenciesOf(ss.m), items)
	} else {
		place.SortItems(items)
	}
	// Completing may let more jobs leave because of the jobs for which they wait.
	p, err := ss.cfg.Previous.CompleteInOrder(ctx, ss.m, ss.layout, items, slices.Clone(st.stays))
	if err != nil {
		return nil
	}
	p.Shapes = ss.shapes
	return p
}
