package search

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// On single nodes a place costs many times as much as one in the sums of types, while the best order and types of
// jobs are nearly the same. So a part of the work anneals on sums, and the rest begins with the order that this has
// found, on nodes. What annealing cannot place, above all relaxed jobs, is searched by random keys (see
// key_search.go) in what the others leave, in turns with the annealing.

const (
	// sumShare is the share of the budget for the annealing on the sums of free GPUs.
	sumShare = 0.2
	// mixedRounds is how often annealing and the search for other jobs take turns.
	mixedRounds = 3
	// nodesPerPlacement is the number of nodes that a place is searched on in the time of one
	// move, which is a place on sums. With more than placementNodes nodes, a search looks at few
	// of them.
	nodesPerPlacement = 8
	placementNodes    = 64
)

// nodeSearch searches where nodes matter. Gang and rigid jobs are annealed on the sums of the
// free GPUs of each type first, which is fast and comes near to the best order and types.
// From there, the annealing goes on with places on single nodes. Jobs that annealing cannot
// place, above all relaxed ones, are searched by random keys in what the others leave.
type nodeSearch struct {
	ctx    context.Context
	m      *model.Model
	rel    *hare.Relaxation
	cfg    *ImproveConfig
	layout *room.Layout
	left   int64       // the moves that are left
	cost   int64       // of a place on nodes, in moves
	best   *place.Plan // nil until there is one
	value  hare.Amount
	tie    float64            // SumOfEnds of the best plan
	after  *room.Dependencies // nil where no job waits for others
	stats  Stats
}

// nodesSearch is for all models but those with several shapes: single nodes, setups, jobs that wait for others, and
// each objective. Where nodes do not matter, classes of GPUs stand for them. It is slower than the searches for some
// models.
var nodesSearch = search{
	name:      "nodes",
	supports:  func(rq *request) bool { return !place.HasShapes(rq.m) },
	continual: never,
	run:       improveOnNodes,
}

// improveOnNodes is Improve where nodes matter.
func improveOnNodes(ctx context.Context, rq *request) (*place.Plan, Stats, error) {
	m, rel, start, cfg := rq.m, rq.rel, rq.start, rq.cfg
	ns := &nodeSearch{ctx: ctx, m: m, rel: rel, cfg: &cfg, layout: room.NewLayout(cmp.Or(cfg.shaped, m)),
		left: cfg.Moves,
		cost: 1 + int64(min(len(m.Nodes), placementNodes))/nodesPerPlacement, best: start}
	if start != nil {
		ns.value, ns.tie = start.Value(m), room.SumOfEnds(m, start.EndUs)
	}
	if room.HasAfter(m) {
		ns.after = room.DependenciesOf(m)
	}
	none := &place.Plan{Jobs: make([][]room.Block, len(m.Jobs)), EndUs: make([]int64, len(m.Jobs))}
	if start != nil {
		none.Shapes = start.Shapes
	}
	split, _ := newShapedProblem(m, cfg.shaped, nil, none, ns.layout)
	filler, annealed := split.fixed, len(split.jobs)
	every := make([]int, 0, len(m.Jobs))
	for i := range m.Jobs {
		if !room.IsFixed(&m.Jobs[i]) {
			every = append(every, i)
		}
	}
	switch {
	case len(every) == 0:
	case len(filler) == 0:
		if ns.anneal(0, 1, true); len(m.Jobs) <= fewJobs {
			ns.searchKeys(every, 1)
		}
	case annealed == 0 || start == nil || room.WaitAcross(m, filler):
		ns.searchKeys(every, 1)
	default:
		share := 1.0
		if len(m.Jobs) <= fewJobs {
			share = 0.5 // there are so few jobs that nearly all orders can be tried
		}
		for n := range mixedRounds {
			ns.anneal(int64(n), share*(float64(n)+0.5)/mixedRounds, n == 0)
			ns.searchKeys(filler, share*float64(n+1)/mixedRounds)
		}
		ns.searchKeys(every, 1)
	}
	return ns.best, ns.stats, nil
}

func (ns *nodeSearch) over() bool {
	return ns.left <= 0 || ns.best != nil && (ns.ctx.Err() != nil ||
		ns.cfg.StopAt != 0 && ns.value.Float() <= ns.cfg.StopAt)
}

// used returns the used share of the budget, from 0 to 1.
func (ns *nodeSearch) used() float64 {
	b := budget{ctx: ns.ctx, cfg: ns.cfg, left: ns.left}
	return b.share()
}

// part returns a configuration for a search that ends when share of the whole budget is used,
// whose moves take cost moves each.
func (ns *nodeSearch) part(share float64, cost int64) ImproveConfig {
	from := ns.used()
	cfg := *ns.cfg
	affordable := int64(share*float64(ns.cfg.Moves)) - (ns.cfg.Moves - ns.left)
	cfg.Moves = max(1, min(ns.left, affordable)/cost)
	if ns.cfg.Elapsed != nil {
		whole := ns.cfg.Elapsed
		cfg.Elapsed = func() float64 { return (whole() - from) / math.Max(share-from, 1e-9) }
	}
	return cfg
}

// keep takes over a plan if it is the best so far.
func (ns *nodeSearch) keep(p *place.Plan) bool {
	v, tie := p.Value(ns.m), room.SumOfEnds(ns.m, p.EndUs)
	if order := v.Cmp(ns.value); ns.best != nil && (order > 0 || order == 0 && tie >= ns.tie) {
		return false
	}
	if ns.best, ns.value, ns.tie = p, v, tie; ns.cfg.Report != nil {
		ns.cfg.Report(v)
	}
	if shaped := ns.cfg.shaped; shaped != nil {
		ns.m, ns.rel = place.InShapes(shaped, p.Shapes), place.GuideInShapes(shaped, p.Shapes, ns.cfg.unitGuide)
	}
	return true
}

// anneal improves the places of the gang and rigid jobs until share of the budget is used, and
// leaves the others where they are. With sums, it anneals on the sums of free GPUs before.
func (ns *nodeSearch) anneal(n int64, share float64, sums bool) {
	if ns.over() {
		return
	}
	var order []int32
	var plans []room.JobPlan
	on, ok := newShapedProblem(ns.m, ns.cfg.shaped, ns.rel, ns.best, ns.layout)
	if !ok || len(on.jobs) == 0 {
		return
	}
	if sums {
		from := ns.used()
		cfg := ns.part(from+sumShare*(share-from), 1)
		cfg.Report, cfg.Checkpoint, cfg.StopAt, cfg.Seed = nil, nil, 0, cfg.Seed+n<<40
		if order, plans = ns.annealSums(on, cfg); ns.over() {
			return
		}
	}
	cfg := ns.part(share, ns.cost)
	cfg.Seed += n << 40
	an := newAnnealing(on, &cfg)
	if ns.best != nil {
		an.setIncumbent(ns.best)
	}
	an.firstOrder, an.firstPlan = order, plans
	before := an.budget
	an.findInitialState(ns.ctx, ns.rel)
	if an.key != nil && ns.ctx.Err() == nil {
		an.runChains(ns.ctx)
	}
	ns.left -= (before - max(0, an.budget)) * ns.cost
	ns.add(an.stats())
	if an.improved {
		report := ns.cfg.Report
		ns.cfg.Report = nil // the annealing has reported its values
		ns.keep(an.bestPlan())
		ns.cfg.Report = report
	}
}

func (ns *nodeSearch) add(s Stats) {
	ns.stats.Moves += s.Moves
	ns.stats.Evaluations += s.Evaluations
	ns.stats.Accepted += s.Accepted
}

// annealSums anneals on the sums of the free GPUs of each type and returns the order found and
// the plans of the jobs of on, or nil.
func (ns *nodeSearch) annealSums(on *annealProblem, cfg ImproveConfig) (order []int32, plans []room.JobPlan) {
	ap, ok := newShapedProblem(ns.m, ns.cfg.shaped, ns.rel, ns.best, nil)
	if !ok || len(ap.jobs) == 0 {
		return nil, nil
	}
	an := newAnnealing(ap, &cfg)
	before := an.budget
	an.findInitialState(ns.ctx, ns.rel)
	if an.key != nil && ns.ctx.Err() == nil {
		an.runChains(ns.ctx)
	}
	ns.left -= before - max(0, an.budget)
	ns.add(an.stats())
	if an.key == nil {
		return nil, nil
	}
	// A few jobs may fit by sums and not on nodes, on some types or at all.
	at := make(map[int]int32, len(on.jobs))
	for i := range on.jobs {
		at[on.jobs[i].Index] = int32(i)
	}
	plans = make([]room.JobPlan, len(on.jobs))
	rank := make([]int32, len(ap.jobs))
	for i := range rank {
		rank[i] = int32(i)
	}
	slices.SortFunc(rank, func(a, b int32) int { return cmp.Or(cmp.Compare(an.key[a], an.key[b]), cmp.Compare(a, b)) })
	for _, i := range rank {
		if x, ok := at[ap.jobs[i].Index]; ok {
			order = append(order, x)
			plans[x] = on.fitting(&on.jobs[x], an.plan[i])
		}
	}
	if len(order) < len(on.jobs) {
		return nil, nil
	}
	return order, plans
}

// fitting returns the plan if job j fits on its types, or else a plan on one type.
func (ap *annealProblem) fitting(j *room.Job, plan room.JobPlan) room.JobPlan {
	if plan.Then != plan.Shape {
		if slices.Contains(j.Form(plan.Shape).ContiguousTypes, plan.Types[0]) &&
			slices.Contains(j.Form(plan.Then).ContiguousTypes, plan.Types[1]) {
			return plan
		}
		plan = room.ContiguousOn(plan.Types[0]).In(plan.Shape)
	}
	whole, shape := j, plan.Shape
	if j = j.Form(shape); len(j.ContiguousTypes)+len(j.RoundTypes) == 0 {
		whole.EachForm(func(f *room.Job) {
			if len(f.ContiguousTypes)+len(f.RoundTypes) > 0 {
				j, shape = f, f.Shape
			}
		})
	}
	fits := j.RoundTypes
	if plan.Kind == room.Contiguous || j.Rigid {
		fits = j.ContiguousTypes
	}
	single := ap.nodes != nil && ap.nodes.Coupled
	for n, k := range plan.Uses() {
		if !slices.Contains(fits, k) || n > 0 && single || shape != plan.Shape {
			if len(j.ContiguousTypes) > 0 {
				return room.ContiguousOn(j.ContiguousTypes[0]).In(shape)
			}
			return room.RoundByRoundOver(j.RoundTypes[0]).In(shape)
		}
	}
	return plan
}

// searchKeys searches places for the given jobs by random keys, until share of the budget is
// used: the rounds of relaxed jobs, and the other jobs as a whole, are placed early in the
// order of their keys. The other jobs stay where the best plan has them.
func (ns *nodeSearch) searchKeys(jobs []int, share float64) {
	if ns.over() || len(jobs) == 0 {
		return
	}
	cfg := ns.part(share, ns.cost)
	bu := budget{ctx: ns.ctx, cfg: &cfg, left: cfg.Moves}
	r := rand.New(rand.NewPCG(uint64(cfg.Seed), 0x6e6f646573))
	ks := &nodeKeys{board: place.NewBoard(ns.m, ns.layout), jobs: jobs, keys: make([][]float64, len(ns.m.Jobs)),
		after: ns.after}
	ks.empty = ns.layout.NewCapacities()
	searched := make([]bool, len(ns.m.Jobs))
	for i := range searched {
		searched[i] = room.IsFixed(&ns.m.Jobs[i]) // a plan has nothing of such a job
	}
	for _, i := range jobs {
		searched[i] = true
	}
	for i := range ns.m.Jobs {
		if !searched[i] {
			reservePlan(ns.layout, ks.empty, ns.m, ns.cfg.shaped, ns.best, i)
		}
	}
	ks.held, ks.searched = ns.best, searched
	value := math.Inf(1)
	var keys [][]float64
	for n := range 2 {
		if n == 0 && ns.best == nil || n == 1 && (ns.rel == nil || len(ns.rel.Progress) != len(ns.m.Jobs)) {
			continue
		}
		for _, i := range jobs {
			if n == 0 {
				ks.keys[i] = keysOfPlan(ns.best.Jobs[i], ks.items(i), ns.m.Jobs[i].Rounds)
			} else {
				ks.keys[i] = keysOfProgress(ns.rel.Progress[i], ks.items(i), ns.m.Jobs[i].Rounds)
			}
		}
		p := ks.decode()
		bu.spend(int64(len(jobs)))
		if p == nil {
			continue
		}
		ns.keep(p)
		if v := room.Weighted(ns.m, p.EndUs); v < value {
			value, keys = v, slices.Clone(ks.keys)
		}
	}
	if keys == nil {
		ns.left -= (cfg.Moves - bu.left) * ns.cost
		return
	}
	ks.keys = keys
	for !bu.over() && !ns.over() {
		i, j := ks.change(r)
		olds := [2][]float64{ks.keys[i], ks.keys[j]}
		ks.apply(r, i, j)
		p := ks.decode()
		bu.spend(int64(len(jobs)))
		ns.stats.Moves += int64(len(jobs))
		ns.stats.Evaluations++
		t := max(1, relaxedStartTemperature/float64(len(jobs))*value*(1-bu.share()))
		if p != nil {
			if v := room.Weighted(ns.m, p.EndUs); v <= value || r.Float64() < math.Exp((value-v)/t) {
				value = v
				ns.stats.Accepted++
				ns.keep(p)
				continue
			}
		}
		ks.keys[i], ks.keys[j] = olds[0], olds[1]
	}
	ns.left -= (cfg.Moves - max(0, bu.left)) * ns.cost
}

// nodeKeys is the state of a search by keys.
type nodeKeys struct {
	board    *place.Board
	empty    []room.Capacity // by column: what the other jobs leave
	held     *place.Plan     // where the other jobs are
	jobs     []int
	searched []bool      // by job
	keys     [][]float64 // by job: a key for each item
	after    *room.Dependencies
	order    []place.Item // scratch
}

// items returns the number of items of job i: its rounds, or 1.
func (ks *nodeKeys) items(i int) int64 {
	if ks.board.Model.Jobs[i].Sync == hare.Relaxed && !ks.board.Runs[i] {
		return ks.board.Model.Jobs[i].Rounds
	}
	return 1
}

// decode places the jobs in the order of their keys. It returns nil if a job finds no place.
func (ks *nodeKeys) decode() *place.Plan {
	ks.order = ks.order[:0]
	for _, i := range ks.jobs {
		if ks.items(i) == 1 && !(ks.board.Model.Jobs[i].Sync == hare.Relaxed && !ks.board.Runs[i]) {
			ks.order = append(ks.order, place.Item{Job: int32(i), Round: place.Whole, Key: ks.keys[i][0]})
			continue
		}
		last := math.Inf(-1)
		for r, k := range ks.keys[i] {
			last = max(last, k) // rounds are in order
			ks.order = append(ks.order, place.Item{Job: int32(i), Round: int64(r), Key: last})
		}
	}
	if ks.after != nil {
		place.SortAfter(ks.after, ks.order)
	} else {
		place.SortItems(ks.order)
	}
	for c := range ks.empty {
		ks.board.Capacities[c].CopyFrom(ks.empty[c])
	}
	p, err := ks.board.Assign(context.Background(), ks.order)
	if err != nil {
		return nil
	}
	if ks.held != nil {
		p.Shapes, p.Changes = ks.held.Shapes, slices.Clone(ks.held.Changes)
	}
	for i := range ks.searched {
		if !ks.searched[i] {
			p.Jobs[i], p.EndUs[i] = ks.held.Jobs[i], ks.held.EndUs[i]
		} else if p.Changes != nil {
			p.Changes[i] = place.ShapeChange{}
		}
	}
	return p
}

// change draws the one or two jobs of a move.
func (ks *nodeKeys) change(r *rand.Rand) (i, j int) {
	i, j = ks.jobs[r.IntN(len(ks.jobs))], ks.jobs[r.IntN(len(ks.jobs))]
	return i, j
}

// apply gives job i other keys: scaled, shifted, stretched, or exchanged with those of job j.
func (ks *nodeKeys) apply(r *rand.Rand, i, j int) {
	span := 1.0
	for _, o := range ks.jobs {
		span = max(span, ks.keys[o][len(ks.keys[o])-1])
	}
	row := slices.Clone(ks.keys[i])
	switch mid := row[len(row)/2]; r.IntN(4) {
	case 0:
		f := math.Exp(0.25 * r.NormFloat64())
		for x := range row {
			row[x] *= f
		}
	case 1:
		d := 0.1 * span * r.NormFloat64()
		for x := range row {
			row[x] += d
		}
	case 2:
		f := math.Exp(0.4 * r.NormFloat64())
		for x := range row {
			row[x] = mid + (row[x]-mid)*f
		}
	case 3:
		other := slices.Clone(ks.keys[j])
		d := other[len(other)/2] - mid
		for x := range other {
			other[x] -= d
		}
		for x := range row {
			row[x] += d
		}
		if i != j {
			ks.keys[j] = other
		}
	}
	ks.keys[i] = row
}

// keysOfPlan returns keys for the items of a job with these blocks: the starts of its rounds.
func keysOfPlan(blocks []room.Block, items, rounds int64) []float64 {
	keys := make([]float64, items)
	if items < rounds || items == 1 {
		keys[0] = float64(room.FirstStart(blocks))
		return keys
	}
	for r := range keys {
		keys[r] = math.Inf(1)
	}
	for x := range blocks {
		b := &blocks[x]
		for r := range b.Rounds {
			keys[b.Round+r] = min(keys[b.Round+r], float64(b.StartUs+r*b.PeriodUs))
		}
	}
	return keys
}

// keysOfProgress returns keys for the items of a job by its progress in the relaxation.
func keysOfProgress(progress []hare.Point, items, rounds int64) []float64 {
	if items < rounds || items == 1 {
		return []float64{place.TimeOf(progress, float64(rounds)/2)}
	}
	keys, at := make([]float64, items), 0
	for r := range keys {
		keys[r] = place.AdvanceTo(progress, &at, float64(r)+0.5)
	}
	return keys
}

// reservePlan takes the blocks of job i in a plan from the capacities by column. m is the model in the shapes
// of the plan, and shaped that with all shapes, or nil.
func reservePlan(nl *room.Layout, capacities []room.Capacity, m, shaped *model.Model, p *place.Plan, i int) {
	first := room.NewJob(m, i)
	c := p.Change(i)
	if shaped == nil || c.Round == 0 {
		nl.ReserveBlocks(capacities, &first, p.Jobs[i])
		return
	}
	then := first
	then.GPUs = shaped.Jobs[i].Shapes[c.Shape].GPUs
	for x := range p.Jobs[i] {
		j := &first
		if p.Jobs[i][x].Round >= c.Round {
			j = &then
		}
		nl.ReserveBlocks(capacities, j, p.Jobs[i][x:x+1])
	}
}
