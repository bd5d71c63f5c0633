package greedy

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// searchRelaxed searches over random keys: a key for each round, and for each job a
// weight of the prices. A state is decoded by placing the rounds in the order of their
// keys, each early and by price, and is then justified. Big jobs have one key and are
// placed as whole items.
func searchRelaxed(ctx context.Context, m *model.Model, rel *hare.Relaxation, start *Plan, cfg ImproveConfig,
	big []bool) (*Plan, Stats, error) {
	ks := newKeySearch(ctx, m, start, &cfg)
	ks.chooseResidual(start, big)
	return ks.search(rel, start)
}

// searchRelaxedBeside is searchRelaxed on the capacity that the blocks of held leave, up
// to about horizon.
func searchRelaxedBeside(ctx context.Context, m *model.Model, rel *hare.Relaxation, start, fixed *Plan, horizon int64,
	cfg ImproveConfig) (*Plan, Stats, error) {
	ks := newKeySearch(ctx, m, start, &cfg)
	ks.chooseResidualBeside(start, fixed, horizon, bigJobs(m, maxTasksByRound))
	return ks.search(rel, start)
}

func newKeySearch(ctx context.Context, m *model.Model, start *Plan, cfg *ImproveConfig) *keySearch {
	return &keySearch{fullModel: m, m: m, unit: 1, best: start, r: rand.New(rand.NewPCG(uint64(cfg.Seed), 0x68617265)),
		budget: budget{ctx: ctx, cfg: cfg, left: cfg.Moves}, cfg: cfg, bestValue: math.Inf(1)}
}

// search runs the search and returns the best plan in µs.
func (ks *keySearch) search(rel *hare.Relaxation, start *Plan) (*Plan, Stats, error) {
	if ks.best != nil {
		ks.bestValue = weighted(ks.m, ks.best.EndUs)
	}
	first := ks.best
	ks.checkpoint = func() *Plan {
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
func (ks *keySearch) bestPlan(start *Plan) *Plan {
	best := ks.best.fromUnits(ks.unit)
	if ks.rounded {
		ks.justifyToTrueReleases(best)
	}
	if start != nil && ks.rounded && weighted(ks.fullModel, start.EndUs) <= weighted(ks.fullModel, best.EndUs) {
		return nil
	}
	return best
}

// roundedTimeShare is the share of the time after which a plan for rounded times is
// justified to the true times.
const roundedTimeShare = 0.93

// justifyToTrueReleases shifts the jobs of p left, one after another, because the search
// used releases that were rounded up. It stops when time is over.
func (ks *keySearch) justifyToTrueReleases(p *Plan) {
	res := newRunResidual(ks.fullModel, make([]bool, len(ks.fullModel.Jobs)))
	if ks.fixed != nil {
		res.reservePlan(ks.fixed)
	}
	res.reservePlan(p)
	res.justifyAllLeft(ks.budget.ctx, p)
}

// chooseResidual chooses between step functions and time grids for the residual
// capacity.
func (ks *keySearch) chooseResidual(start *Plan, big []bool) {
	horizon := int64(0)
	if start != nil {
		horizon = slices.Max(append(start.EndUs, 0))
	}
	ks.chooseResidualBeside(start, nil, horizon, big)
}

// chooseResidualBeside is chooseResidual without the GPUs of held.
func (ks *keySearch) chooseResidualBeside(start, fixed *Plan, horizon int64, big []bool) {
	if (start != nil || fixed != nil) && !slices.Contains(big, true) {
		if m, unit := coarsen(ks.m, horizon); m != nil {
			p, exact := planInUnits(start, unit)
			h, too := planInUnits(fixed, unit)
			if too {
				ks.m, ks.unit, ks.best, ks.fixed = m, unit, p, fixed
				for i := range m.Jobs {
					j := &ks.fullModel.Jobs[i]
					ks.releaseDelay += float64(j.WeightMicro) * float64(m.Jobs[i].ReleaseUs*unit-j.ReleaseUs)
				}
				for i := range m.Jobs {
					exact = exact && ks.fullModel.Jobs[i].DeadlineUs%unit == 0
				}
				if ks.rounded = !exact || ks.releaseDelay > 0; ks.rounded {
					ks.budget.timeShare = roundedTimeShare
				}
				if start != nil {
					ks.horizon = horizon / unit
				}
				ks.empty = newGridResidual(m, 4*horizon/unit+64)
				if h != nil {
					ks.empty.reservePlan(h)
				}
				return
			}
		}
	}
	ks.empty = newRunResidual(ks.m, big)
	if fixed != nil {
		ks.empty.reservePlan(fixed)
	}
	if start != nil {
		ks.horizon = slices.Max(append(start.EndUs, 0))
	}
}

// planInUnits is p.toUnits(unit), and nil for a nil plan.
func planInUnits(p *Plan, unit int64) (*Plan, bool) {
	if p == nil {
		return nil, true
	}
	p = p.toUnits(unit)
	return p, p != nil
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
	fixed         *Plan        // the plan of other jobs, in µs; nil without
	horizon       int64        // the horizon of a plan of these jobs in m; 0 without a plan
	empty         *residual
	r             *rand.Rand
	budget        budget
	cfg           *ImproveConfig
	stats         Stats
	best          *Plan
	bestValue     float64
	cycle         coolingCycle
	checkpoint    func() *Plan // returns the best plan in µs, nil while that is the start
	bestJustified float64      // the least value after one justification
	guide         *priceGuide  // nil without prices
	keys          [][]float64
	items         []Item    // the items of keys, sorted
	lambda        []float64 // by job: the weight of the prices; 0 places as early as possible
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
	ks.guide = newPriceGuide(ks.m, ks.unit, rel, ks.empty.big, ks.horizon+ks.horizon/10, ks.cfg.Workers)
	for i := range ks.m.Jobs {
		ks.keys = append(ks.keys, ks.keysOf(i, rel))
	}
	ks.sort()
}

// justifyStart justifies the start plan.
func (ks *keySearch) justifyStart() {
	t := &ks.trials[0]
	t.prepare(ks)
	t.residual.reset(ks.empty)
	t.plan = ks.best.fromUnits(1)
	for i := range t.plan.Jobs {
		for x := range t.plan.Jobs[i] {
			t.residual.reserve(&t.plan.Jobs[i][x])
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
		order[i], ratios[i] = i, smithRatio(&ks.m.Jobs[i])
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
	runParallel(ks.cfg.Workers, n, do)
	for x := range n {
		ks.budget.spend(ks.trials[x].work)
	}
}

// updateIncumbent keeps the plan of a trial if it is the best so far.
func (ks *keySearch) updateIncumbent(t *trial) {
	if t.plan == nil || t.final >= ks.bestValue || ks.cfg.Continual && t.final >= ks.bestValue*(1-sureGain) {
		return
	}
	ks.best, ks.bestValue = t.plan.fromUnits(1), t.final
	if ks.cfg.Report != nil {
		ks.cfg.Report((&Plan{Jobs: make([][]Block, len(ks.m.Jobs)),
			EndUs: ks.best.EndUs}).fromUnits(ks.unit).Value(ks.fullModel))
	}
}

// sort makes the sorted items of all keys.
func (ks *keySearch) sort() {
	ks.items = ks.items[:0]
	for i, row := range ks.keys {
		ks.items = ks.itemsOf(i, row, ks.items)
	}
	sortItems(ks.items)
}

// itemsOf appends the items of job i.
func (ks *keySearch) itemsOf(i int, row []float64, items []Item) []Item {
	if ks.m.Jobs[i].Sync != hare.Relaxed || ks.empty.big[i] {
		return append(items, Item{int32(i), Whole, row[0]})
	}
	for r, k := range row {
		items = append(items, Item{int32(i), int64(r), k})
	}
	return items
}

// keysOf returns the keys of the items of job i.
func (ks *keySearch) keysOf(i int, rel *hare.Relaxation) []float64 {
	j := &ks.m.Jobs[i]
	if j.Sync != hare.Relaxed || ks.empty.big[i] {
		return []float64{timeOf(rel.Progress[i], float64(j.Rounds)/2)}
	}
	keys := make([]float64, j.Rounds)
	at := 0
	for r := range keys {
		keys[r] = advanceTo(rel.Progress[i], &at, float64(r)+0.5)
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
