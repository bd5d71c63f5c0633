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

// A search by random keys orders rounds instead of moving them: a state has a number for each round of a relaxed job
// (for each other job as a whole), and a list schedule in the order of these numbers is its plan. Every state is
// feasible, and a small change of the keys of one job is a small change of the plan, so that simulated annealing over
// keys needs no repair. Keys after Bean, "Genetic algorithms and random keys for sequencing and optimization" (ORSA
// J. Computing 6, 1994); the first keys are the times at which the relaxation does the rounds (α-points: Phillips,
// Stein and Wein 1998), mixed with the order by Smith's ratio. What departs from these: a job has a weight of the
// prices of GPU-time beside its keys, with which its rounds take cheaper GPUs (place.PriceGuide), each plan is
// justified (place.Residual.Justify), and four moves are tried at a time, whatever the number of cores, of which the
// first accepted one gives the next state.

// keysSearch is for relaxed jobs, and for other jobs beside them where only the sum of completion times counts. Like
// mixedJobsSearch it does not know jobs that wait for others.
var keysSearch = search{
	name: "keys",
	supports: func(rq *request) bool {
		if !rq.inClasses() || rq.cfg.shaped != nil || room.HasAfter(rq.m) {
			return false
		}
		filler, annealed := rq.jobs()
		return len(filler) > 0 && (len(annealed) == 0 || rq.m.Instance.Objective == hare.ObjectiveWeightedJCT)
	},
	// By cycles of cooling: see cooled.
	continual: func(rq *request) bool {
		_, annealed := rq.jobs()
		return len(annealed) == 0
	},
	run: func(ctx context.Context, rq *request) (*place.Plan, Stats, error) {
		return searchRelaxed(ctx, rq.m, rq.rel, rq.start, rq.cfg, place.BigJobs(rq.m, place.MaxTasksByRound))
	},
}

// searchRelaxed searches over random keys: a key for each round, and for each job a
// weight of the prices. A state is decoded by placing the rounds in the order of their
// keys, each early and by price, and is then justified. Big jobs have one key and are
// placed as whole items.
func searchRelaxed(ctx context.Context, m *model.Model, rel *hare.Relaxation, start *place.Plan, cfg ImproveConfig,
	big []bool) (*place.Plan, Stats, error) {
	ks := newKeySearch(ctx, m, start, &cfg)
	ks.chooseResidual(start, big)
	return ks.search(rel, start)
}

// searchRelaxedBeside is searchRelaxed on the capacity that the blocks of fixed leave.
func searchRelaxedBeside(ctx context.Context, m *model.Model, rel *hare.Relaxation, start, fixed *place.Plan,
	cfg ImproveConfig) (*place.Plan, Stats, error) {
	ks := newKeySearch(ctx, m, start, &cfg)
	ks.empty = place.NewRunResidual(m, place.BigJobs(m, place.MaxTasksByRound))
	ks.empty.ReservePlan(fixed)
	if start != nil {
		ks.horizon = slices.Max(append(start.EndUs, 0))
	}
	return ks.search(rel, start)
}

func newKeySearch(ctx context.Context, m *model.Model, start *place.Plan, cfg *ImproveConfig) *keySearch {
	return &keySearch{fullModel: m, m: m, unit: 1, best: start, r: rand.New(rand.NewPCG(uint64(cfg.Seed), 0x68617265)),
		budget: budget{ctx: ctx, cfg: cfg, left: cfg.Moves}, cfg: cfg, bestValue: math.Inf(1)}
}

// search runs the search and returns the best plan in µs.
func (ks *keySearch) search(rel *hare.Relaxation, start *place.Plan) (*place.Plan, Stats, error) {
	if ks.best != nil {
		ks.bestValue = room.Weighted(ks.m, ks.best.EndUs)
	}
	first := ks.best
	ks.checkpoint = func() *place.Plan {
		if ks.best == first {
			return nil
		}
		return ks.bestPlan(start)
	}
	ks.cool(start)
	ks.run(rel)
	ks.stats.Moves = ks.cfg.Moves - ks.budget.left
	if ks.cycle.settles {
		return ks.cycle.settled, ks.stats, nil
	}
	if best := ks.checkpoint(); best != nil {
		return best, ks.stats, nil
	}
	return start, ks.stats, nil
}

// bestPlan returns the best plan in µs, or nil if start is no worse.
func (ks *keySearch) bestPlan(start *place.Plan) *place.Plan {
	best := ks.best.FromUnits(ks.unit)
	if ks.rounded {
		ks.justifyToTrueReleases(best)
	}
	if start != nil && ks.rounded && room.Weighted(ks.fullModel, start.EndUs) <= room.Weighted(ks.fullModel,
		best.EndUs) {
		return nil
	}
	return best
}

// roundedTimeShare is the share of the time after which a plan for rounded times is
// justified to the true times.
const roundedTimeShare = 0.93

// justifyToTrueReleases shifts the jobs of p left, one after another, because the search
// used releases that were rounded up. It stops when time is over.
func (ks *keySearch) justifyToTrueReleases(p *place.Plan) {
	res := place.NewRunResidual(ks.fullModel, make([]bool, len(ks.fullModel.Jobs)))
	res.ReservePlan(p)
	res.JustifyAllLeft(ks.budget.ctx, p)
}

// chooseResidual chooses between step functions and time grids for the residual capacity. Grids need a horizon, and
// are for whole plans of relaxed jobs: in what the gang and rigid jobs of mixtures leave, values were the same with
// step functions.
func (ks *keySearch) chooseResidual(start *place.Plan, big []bool) {
	ks.empty = place.NewRunResidual(ks.m, big)
	if start == nil {
		return
	}
	horizon := slices.Max(append(start.EndUs, 0))
	ks.horizon = horizon
	if slices.Contains(big, true) || ks.cfg.leavesOut(grids) {
		return
	}
	m, unit := place.Coarsen(ks.m, horizon)
	if m == nil {
		return
	}
	ks.m, ks.unit, ks.best, ks.horizon = m, unit, start.ToUnits(unit), horizon/unit
	exact := ks.best != nil
	for i := range m.Jobs {
		j := &ks.fullModel.Jobs[i]
		ks.releaseDelay += float64(j.WeightMicro) * float64(m.Jobs[i].ReleaseUs*unit-j.ReleaseUs)
		exact = exact && j.DeadlineUs%unit == 0
	}
	if ks.rounded = !exact || ks.releaseDelay > 0; ks.rounded {
		ks.budget.timeShare = roundedTimeShare
	}
	ks.empty = place.NewGridResidual(m, 4*horizon/unit+64)
}

// trialsPerStep is the number of moves that are evaluated in parallel; the first
// accepted one gives the next state. The number does not depend on the number of cores,
// so the search does not either.
const trialsPerStep = 4

const (
	// relaxedStartTemperature is the first temperature, in values over the number of jobs.
	relaxedStartTemperature = 0.02
	// patience is the number of steps without a better value after which a chain restarts
	// from the best state, with each job's keys scaled by exp(jitter · a normal variate).
	patience = 300
	jitter   = 0.03
	// justifyThreshold is how far, as a factor of the current state's decoded value, a plan
	// may be worse and still be justified.
	justifyThreshold = 1.0005
	// minJustifyGain is the relative gain of a pass of justification after which another
	// pass may follow.
	minJustifyGain = 1e-4
	// maxJustifyPasses is the number of further passes for a plan that is the best after
	// one.
	maxJustifyPasses = 5
	// A new λ is 0 with probability 1 − pricedShare, and else at most maxPriceWeight.
	pricedShare, maxPriceWeight = 0.75, 1.2
)

// The first states have the keys of the relaxation, mixed with the order by Smith's ratio: a relaxation with
// arrivals does many jobs side by side, of which a schedule had better finish the short ones first.
var (
	// startMixes are the shares of the order by Smith's ratio.
	startMixes = [...]float64{0, 0.15, 0.3, 0.6, 1}
	// startLambdas are the weights of the prices, equal for all jobs. Those with a share of Smith's order have one of
	// the first mixedLambdas weights.
	startLambdas = [...]float64{0.8, 0.5, 0.25, 0}
)

const (
	mixedLambdas = 2
	// A share is the last one that is tried where its best value is above the best one by startMargin, or by
	// startMarginJobs divided by the number of jobs: trying another one takes longer with more jobs.
	startMargin     = 0.01
	startMarginJobs = 0.4
)

// state is what a plan is decoded from. Rows of keys are never changed in place.
type state struct {
	keys   [][]float64
	lambda []float64
	value  float64 // after one justification
}

type keySearch struct {
	fullModel, m  *model.Model // with times in µs, and in units
	unit          int64        // the unit of time of m, in µs
	rounded       bool         // whether times of m are rounded, so that its plans may leave gaps in fullModel
	releaseDelay  float64      // Σ w · (rounded release − release), in 1e-12
	horizon       int64        // the horizon of a plan of these jobs in m; 0 without a plan
	empty         *place.Residual
	r             *rand.Rand
	budget        budget
	cfg           *ImproveConfig
	stats         Stats
	best          *place.Plan
	bestValue     float64
	cycle         coolingCycle
	checkpoint    func() *place.Plan // returns the best plan in µs, nil while that is the start
	bestJustified float64            // the least value after one justification
	guide         *place.PriceGuide  // nil without prices
	keys          [][]float64
	items         []place.Item // the items of keys, sorted
	lambda        []float64    // by job: the weight of the prices; 0 places as early as possible
	trials        [trialsPerStep]trial
}

// run searches from start and from the order of rel.
func (ks *keySearch) run(rel *hare.Relaxation) {
	if ks.best != nil {
		ks.justifyStart()
	}
	if rel == nil || len(ks.m.Jobs) == 0 || ks.budget.over() {
		return
	}
	ks.prepare(rel)
	value, raw := ks.chooseStart()
	top := state{slices.Clone(ks.keys), slices.Clone(ks.lambda), value}
	chain, stale := value, 0
	for !math.IsInf(value, 1) && !ks.budget.over() &&
		(ks.cfg.StopAt == 0 || ks.bestValue*float64(ks.unit)+ks.releaseDelay > ks.cfg.StopAt*1e12) {
		if ks.cfg.Checkpoint != nil {
			ks.cfg.Checkpoint(ks.checkpoint)
		}
		ks.settle()
		if stale++; stale > patience {
			// If the order finds no place, the next step restarts again.
			if v, w := ks.restart(&top); !math.IsInf(v, 1) {
				value, raw, chain, stale = v, w, v, 0
			}
			continue
		}
		for x := range ks.trials {
			ks.drawMove(&ks.trials[x])
		}
		ks.runTrials(trialsPerStep, func(x int) { ks.trials[x].evaluate(ks, raw*justifyThreshold) })
		temperature := max(1, relaxedStartTemperature/float64(len(ks.keys))*value*(1-ks.cooled()))
		for x := range ks.trials {
			t := &ks.trials[x]
			ks.updateIncumbent(t)
			if t.plan != nil {
				ks.bestJustified = min(ks.bestJustified, t.value)
			}
		}
		for x := range ks.trials {
			t := &ks.trials[x]
			if t.plan == nil {
				continue
			}
			ks.stats.Evaluations++
			if t.value <= value || ks.r.Float64() < math.Exp((value-t.value)/temperature) {
				value, raw = t.value, t.raw
				for at, i := range t.jobs {
					ks.keys[i], ks.lambda[i] = t.keys[at], t.lambda[at]
				}
				ks.items, t.items = t.items, ks.items
				ks.stats.Accepted++
				if value < top.value {
					top = state{slices.Clone(ks.keys), slices.Clone(ks.lambda), value}
				}
				if value < chain*(1-1e-5) {
					chain, stale = value, 0
				}
				break
			}
		}
	}
}

// prepare makes the price guide and the first keys.
func (ks *keySearch) prepare(rel *hare.Relaxation) {
	// Without a plan the horizon is 0, the tables end at once, and waiting always costs the
	// job's weight. This is better than full tables for jobs that fill what others leave.
	ks.guide = place.NewPriceGuide(ks.m, ks.unit, rel, ks.empty.Big, ks.horizon+ks.horizon/10, ks.cfg.Workers)
	for i := range ks.m.Jobs {
		ks.keys = append(ks.keys, ks.keysOf(i, rel))
	}
	ks.sort()
}

// justifyStart justifies the start plan.
func (ks *keySearch) justifyStart() {
	t := &ks.trials[0]
	t.prepare(ks)
	t.residual.Reset(ks.empty)
	t.plan = ks.best.FromUnits(1)
	for i := range t.plan.Jobs {
		for x := range t.plan.Jobs[i] {
			t.residual.Reserve(&t.plan.Jobs[i][x])
		}
	}
	t.value, t.final = ks.bestValue, ks.bestValue
	t.justifyWhileBetter(ks, 1)
	ks.budget.spend(t.work)
	ks.updateIncumbent(t)
}

// chooseStart evaluates the first states, takes the best one, and returns its values, justified and as decoded; +Inf
// where there is none.
func (ks *keySearch) chooseStart() (value, raw float64) {
	value = math.Inf(1)
	var best state
	margin := min(startMargin, startMarginJobs/float64(len(ks.keys)))
	relaxed, smith := ks.keys, ks.smithKeys()
	for n, share := range startMixes {
		if n > 0 && ks.budget.over() {
			break
		}
		ks.keys, ks.lambda = mixKeys(relaxed, smith, share), nil
		ks.sort()
		lambdas := startLambdas[:]
		if n > 0 {
			lambdas = lambdas[:mixedLambdas]
		}
		if ks.guide == nil {
			lambdas = []float64{0}
		}
		v, r := ks.evaluateStart(lambdas)
		ks.settle()
		if v < value {
			value, raw, best = v, r, state{ks.keys, ks.lambda, v}
		} else if v > value*(1+margin) {
			break
		}
	}
	if math.IsInf(value, 1) {
		return value, raw
	}
	ks.keys, ks.lambda, ks.bestJustified = best.keys, best.lambda, value
	ks.sort()
	return value, raw
}

// smithKeys are keys in the order of Smith's ratio, spread evenly over the time of the keys of the relaxation.
func (ks *keySearch) smithKeys() [][]float64 {
	span := ks.span()
	order := make([]int, len(ks.keys))
	ratios := make([]float64, len(ks.keys))
	for i := range order {
		order[i], ratios[i] = i, place.SmithRatio(&ks.m.Jobs[i])
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(ratios[x], ratios[y]) })
	keys := make([][]float64, len(ks.keys))
	for at, i := range order {
		keys[i] = make([]float64, len(ks.keys[i]))
		for r := range keys[i] {
			keys[i][r] = span * float64(at+1) / float64(len(order))
		}
	}
	return keys
}

// mixKeys returns (1 − share) · x + share · y.
func mixKeys(x, y [][]float64, share float64) [][]float64 {
	keys := make([][]float64, len(x))
	for i := range x {
		keys[i] = make([]float64, len(x[i]))
		for r := range keys[i] {
			keys[i][r] = (1-share)*x[i][r] + share*y[i][r]
		}
	}
	return keys
}

// span is the greatest key.
func (ks *keySearch) span() (span float64) {
	for _, row := range ks.keys {
		span = max(span, row[len(row)-1])
	}
	return span
}

// evaluateStart evaluates the present keys with weights of the prices, of which the best one stays, and returns the
// values of that state, justified and as decoded; +Inf if the budget ends before.
func (ks *keySearch) evaluateStart(weights []float64) (value, raw float64) {
	n := len(weights)
	lambdas := make([][]float64, n)
	for x := range n {
		lambdas[x] = make([]float64, len(ks.keys))
		for i := range lambdas[x] {
			lambdas[x][i] = weights[x]
		}
		ks.trials[x].jobs = ks.trials[x].jobs[:0]
	}
	ks.bestJustified = 0 // one pass of justification for each
	ks.runTrials(n, func(x int) {
		ks.trials[x].prices = lambdas[x]
		ks.trials[x].evaluate(ks, math.Inf(1))
	})
	at := 0
	value = math.Inf(1)
	for x := range n {
		t := &ks.trials[x]
		if t.plan == nil {
			continue
		}
		ks.updateIncumbent(t)
		if t.value < value {
			at = x
			value, raw, ks.lambda = t.value, t.raw, slices.Clone(lambdas[x])
		}
	}
	if !math.IsInf(value, 1) && value < ks.bestValue*(1+startMargin) {
		t := &ks.trials[at]
		t.work = 0
		t.justifyWhileBetter(ks, maxJustifyPasses)
		ks.budget.spend(t.work)
		ks.updateIncumbent(t)
	}
	return value, raw
}

// runTrials calls do for the first n trials, in parallel if workers are allowed, and
// charges their work to the budget.
func (ks *keySearch) runTrials(n int, do func(x int)) {
	place.RunParallel(ks.cfg.Workers, n, do)
	for x := range n {
		ks.budget.spend(ks.trials[x].work)
	}
}

// updateIncumbent keeps the plan of a trial if it is the best so far.
func (ks *keySearch) updateIncumbent(t *trial) {
	if t.plan == nil || t.final >= ks.bestValue || ks.cfg.Continual && t.final >= ks.bestValue*(1-sureGain) {
		return
	}
	ks.best, ks.bestValue = t.plan.FromUnits(1), t.final
	if ks.cfg.Report != nil {
		ks.cfg.Report((&place.Plan{Jobs: make([][]room.Block, len(ks.m.Jobs)),
			EndUs: ks.best.EndUs}).FromUnits(ks.unit).Value(ks.fullModel))
	}
}

// sort makes the sorted items of all keys.
func (ks *keySearch) sort() {
	ks.items = ks.items[:0]
	for i, row := range ks.keys {
		ks.items = ks.itemsOf(i, row, ks.items)
	}
	place.SortItems(ks.items)
}

// itemsOf appends the items of job i.
func (ks *keySearch) itemsOf(i int, row []float64, items []place.Item) []place.Item {
	if ks.m.Jobs[i].Sync != hare.Relaxed || ks.empty.Big[i] {
		return append(items, place.Item{Job: int32(i), Round: place.Whole, Key: row[0]})
	}
	for r, k := range row {
		items = append(items, place.Item{Job: int32(i), Round: int64(r), Key: k})
	}
	return items
}

// keysOf returns the keys of the items of job i.
func (ks *keySearch) keysOf(i int, rel *hare.Relaxation) []float64 {
	j := &ks.m.Jobs[i]
	if j.Sync != hare.Relaxed || ks.empty.Big[i] {
		return []float64{place.TimeOf(rel.Progress[i], float64(j.Rounds)/2)}
	}
	keys := make([]float64, j.Rounds)
	at := 0
	for r := range keys {
		keys[r] = place.AdvanceTo(rel.Progress[i], &at, float64(r)+0.5)
	}
	return keys
}

// restart begins another chain near the best state.
func (ks *keySearch) restart(top *state) (value, raw float64) {
	for i := range ks.keys {
		ks.keys[i], ks.lambda[i] = slices.Clone(top.keys[i]), top.lambda[i]
		f := math.Exp(jitter * ks.r.NormFloat64())
		for r := range ks.keys[i] {
			ks.keys[i][r] *= f
		}
	}
	ks.sort()
	t := &ks.trials[0]
	t.jobs = t.jobs[:0]
	ks.runTrials(1, func(x int) { ks.trials[x].evaluate(ks, math.Inf(1)) })
	if t.plan == nil {
		return math.Inf(1), 0
	}
	ks.updateIncumbent(t)
	return t.value, t.raw
}

// A search by keys that is continual or goes by the clock cools in cycles, each with twice the work of the one
// before, so that no temperature depends on the limit. Where a continual search rounds times, the best plan is
// justified to the true releases at the same places under each limit, which are settlements: a plan that is better
// before may be worse after that.
const (
	firstCycle  = 25 // the work of the first cycle, for each job
	settlements = 8  // in a cycle
	// sureGain is the least gain of a continual search, as a share of the value: less may be an error of rounding.
	sureGain = 1e-12
)

// coolingCycle is where a continual search by keys is in its cycle of cooling. Work counts down as in a budget.
type coolingCycle struct {
	work, end int64       // of the cycle
	next      int64       // the next settlement
	settles   bool        // whether plans must be settled
	seen      *place.Plan // the best plan at the last settlement, with rounded times
	start     *place.Plan
	settled   *place.Plan // the best one after settlement
	value     hare.Amount
}

// cool begins the first cycle of a search from start.
func (ks *keySearch) cool(start *place.Plan) {
	work := firstCycle * int64(max(1, len(ks.m.Jobs)))
	ks.cycle = coolingCycle{work: work, end: ks.cfg.Moves - work, next: ks.cfg.Moves, seen: ks.best, start: start,
		settles: ks.cfg.Continual && ks.rounded && start != nil, settled: start}
	if ks.cycle.settles {
		ks.cycle.value = start.Value(ks.fullModel)
	}
}

// cooled returns how far the search has cooled, from 0 to 1.
func (ks *keySearch) cooled() float64 {
	if !ks.cfg.Continual && ks.cfg.Elapsed == nil {
		return ks.budget.share()
	}
	c := &ks.cycle
	for ks.budget.left <= c.end {
		c.work *= 2
		c.end -= c.work
	}
	return 1 - float64(ks.budget.left-c.end)/float64(c.work)
}

// settle justifies the best plan to the true releases, where that is due.
func (ks *keySearch) settle() {
	c := &ks.cycle
	if !c.settles || ks.best == c.seen || ks.budget.left > c.next {
		return
	}
	c.seen, c.next = ks.best, ks.budget.left-c.work/settlements
	ks.budget.spend(int64(len(ks.m.Jobs)))
	if p := ks.bestPlan(c.start); p != nil {
		if v := p.Value(ks.fullModel); v.Cmp(c.value) < 0 {
			c.settled, c.value = p, v
		}
	}
}

// trial is one change of the state and its evaluation.
type trial struct {
	jobs   []int
	keys   [][]float64 // of the changed jobs
	lambda []float64
	placer
	buffer *place.Plan // the memory of plan
	plan   *place.Plan // nil if the state has no plan
	// raw is the value as decoded, value the one after one justification, and final the
	// value of plan.
	raw, value, final float64
}

// placer places the rounds of a state on a residual capacity of its own.
type placer struct {
	residual *place.Residual
	items    []place.Item
	fresh    []place.Item // scratch
	rows     [][]float64  // the keys by job
	prices   []float64    // the weights of the prices by job
	work     int64
}

func (t *trial) prepare(ks *keySearch) {
	if t.residual == nil {
		t.residual = ks.empty.NewLike()
	}
	t.work, t.plan = 0, nil
}

// evaluate places the state with the changes of t, and justifies it if its value is
// below limit.
func (t *trial) evaluate(ks *keySearch, limit float64) {
	t.prepare(ks)
	t.rows = append(t.rows[:0], ks.keys...)
	if ks.lambda != nil {
		t.prices = append(t.prices[:0], ks.lambda...)
	}
	for at, i := range t.jobs {
		t.rows[i], t.prices[i] = t.keys[at], t.lambda[at]
	}
	if t.decode(ks); t.plan != nil && t.value < limit {
		t.justifyWhileBetter(ks, 1)
		if t.value = t.final; t.value < ks.bestJustified {
			t.justifyWhileBetter(ks, maxJustifyPasses)
		}
	}
}

// decode places all rounds in the order of their keys.
func (t *trial) decode(ks *keySearch) {
	// Only the items of the changed jobs are sorted again.
	t.fresh = t.fresh[:0]
	for _, i := range t.jobs {
		t.fresh = ks.itemsOf(i, t.rows[i], t.fresh)
	}
	place.SortItems(t.fresh)
	t.items = t.items[:0]
	fresh := t.fresh
	for _, it := range ks.items {
		if slices.Contains(t.jobs, int(it.Job)) {
			continue
		}
		for len(fresh) > 0 && place.CompareItems(fresh[0], it) < 0 {
			t.items, fresh = append(t.items, fresh[0]), fresh[1:]
		}
		t.items = append(t.items, it)
	}
	t.items = append(t.items, fresh...)
	t.residual.Reset(ks.empty)
	if t.buffer == nil {
		t.buffer = &place.Plan{Jobs: make([][]room.Block, len(ks.m.Jobs)), EndUs: make([]int64, len(ks.m.Jobs))}
	}
	p := t.buffer
	for i := range ks.m.Jobs {
		p.Jobs[i], p.EndUs[i] = p.Jobs[i][:0], ks.m.Jobs[i].ReleaseUs
	}
	t.work += int64(len(ks.m.Jobs))
	for n, it := range t.items {
		if n%place.CheckEvery == 0 && ks.budget.ctx.Err() != nil {
			return
		}
		i := int(it.Job)
		ok := false
		if lambda := t.prices[i]; lambda > 0 && it.Round != place.Whole {
			p.EndUs[i], ok = t.residual.PlacePriceGuidedRound(ks.guide, lambda, i, it.Round, p.EndUs[i], &p.Jobs[i])
		} else {
			ok = t.residual.PlaceItem(it, p)
		}
		if !ok {
			return
		}
	}
	t.plan, t.value = p, room.Weighted(ks.m, p.EndUs)
	t.raw, t.final = t.value, t.value
}

// justifyWhileBetter justifies the plan, which the residual capacity holds, while that
// helps, at most passes times.
func (t *trial) justifyWhileBetter(ks *keySearch, passes int) {
	for ; passes > 0 && ks.budget.ctx.Err() == nil && !ks.cfg.leavesOut(justification); passes-- {
		t.work += 2 * int64(len(ks.m.Jobs))
		t.residual.Justify(ks.budget.ctx, t.plan)
		before := t.final
		t.final = room.Weighted(ks.m, t.plan.EndUs)
		if t.final >= before*(1-minJustifyGain) {
			return
		}
	}
}

// drawMove draws new keys, or a new weight of the prices, for one to four jobs.
func (ks *keySearch) drawMove(t *trial) {
	t.jobs, t.keys, t.lambda = t.jobs[:0], t.keys[:0], t.lambda[:0]
	kinds := 4
	if ks.guide != nil {
		kinds = 5
	}
	span := ks.span()
	for range 1 + ks.r.IntN(4) {
		i := ks.r.IntN(len(ks.keys))
		if slices.Contains(t.jobs, i) {
			continue
		}
		row, lambda := slices.Clone(ks.keys[i]), ks.lambda[i]
		switch ks.r.IntN(kinds) {
		case 0: // scale all keys
			f := math.Exp(0.25 * ks.r.NormFloat64())
			for r := range row {
				row[r] *= f
			}
		case 1: // shift all keys
			d := 0.04 * span * ks.r.NormFloat64()
			for r := range row {
				row[r] += d
			}
		case 2: // stretch the keys about the middle one
			mid, f := row[len(row)/2], math.Exp(0.4*ks.r.NormFloat64())
			for r := range row {
				row[r] = mid + (row[r]-mid)*f
			}
		case 3: // end where another job ends
			o := ks.keys[ks.r.IntN(len(ks.keys))]
			// Keys below 0 would reverse the order of the rounds.
			if last, other := row[len(row)-1], o[len(o)-1]; last > 0 && other >= 0 {
				f := other / last
				for r := range row {
					row[r] *= f
				}
			}
		case 4:
			if lambda = 0; ks.r.Float64() < pricedShare {
				lambda = maxPriceWeight * ks.r.Float64()
			}
		}
		t.jobs, t.keys, t.lambda = append(t.jobs, i), append(t.keys, row), append(t.lambda, lambda)
	}
}
