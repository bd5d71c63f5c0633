package relax

import (
	"context"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// level is one grid of the multigrid ascent.
type level struct {
	cells, iters int
	delta        float64
}

var levels = []level{
	{cells: 12, iters: 70, delta: 0.1},
	{cells: 24, iters: 60, delta: 0.01},
	{cells: 48, iters: 60, delta: 0.003},
	{cells: 96, iters: 100, delta: 0.001},
	{cells: 192, iters: 80, delta: 0.0005},
	{cells: 384, iters: 60, delta: 0.0003},
	{cells: 768, iters: 50, delta: 0.0002},
}

// minAveragedSteps is the number of steps from which on the averaged progress of a grid
// is used.
const minAveragedSteps = 8

// guessPrices guesses prices up to a factor: the price of each type falls to 0 at the
// end of the grid, from the weight of the work that needs one second of its GPUs.
func guessPrices(pr *problem, grid []float64) *prices {
	pi := newPrices(grid, pr.ascentRows())
	end := grid[len(grid)-1]
	for k := range pi.at {
		weight, held := 0.0, 0.0
		for i := range pr.jobs {
			j := &pr.jobs[i]
			for _, md := range j.modes {
				if md.kind == k {
					weight += j.w + j.late
					held += md.held * md.each * j.rounds
				}
			}
		}
		if held == 0 {
			continue
		}
		top := weight / held * end
		for g := range pi.at[k] {
			x := 1 - (grid[g]+grid[g+1])/2/end
			pi.at[k][g] = top * x * x
		}
	}
	return pi
}

// warmLevels are the grids of an ascent that starts from prices near the best.
var warmLevels = []level{
	{cells: 48, iters: 30, delta: 0.002},
	{cells: 96, iters: 60, delta: 0.001},
	{cells: 192, iters: 50, delta: 0.0005},
	{cells: 384, iters: 40, delta: 0.0003},
	{cells: 768, iters: 30, delta: 0.0002},
}

// minGainCells is the grid to whose steps Config.MinGain refers.
const minGainCells = 96

// pricesFrom reads the prices of a relaxation; it returns nil if they are not for these
// types.
func pricesFrom(pr *problem, rel *hare.Relaxation) *prices {
	if rel == nil || len(rel.GridUs) < 2 || len(rel.Prices) != len(pr.caps) {
		return nil
	}
	grid := make([]float64, len(rel.GridUs))
	for g, t := range rel.GridUs {
		grid[g] = float64(t)
	}
	pi := newPrices(grid, pr.ascentRows())
	for k, row := range rel.Prices {
		for g := range pi.at[k] {
			pi.at[k][g] = row[g] * 1e9
		}
	}
	return pi
}

// multigridAscent runs the ascent on finer and finer grids.
func multigridAscent(ctx context.Context, ev *evaluator, cfg *Config, report func(float64)) *ascent {
	pr := ev.pr
	horizon, longest := pr.horizon()
	step := float64(max(1, pr.step))
	plan, best := levels, pricesFrom(pr, cfg.WarmStart)
	if best != nil {
		plan = warmLevels
	}
	var a *ascent
	for n, l := range plan {
		if n > 0 && l.cells > cfg.Cells {
			break
		}
		var grid []float64
		var from *prices
		if best == nil {
			grid = pr.withMarks(geometric(l.cells, math.Ceil(horizon/step)*step, step), step)
			from = guessPrices(pr, grid)
		} else {
			grid = pr.withMarks(refine(best, pr.capacity(best.grid), min(l.cells, cfg.Cells), longest, step), step)
			from = transfer(best, grid)
		}
		next := &ascent{ev: ev, grid: grid, caps: pr.capacity(grid), cur: from, best: newPrices(grid, pr.ascentRows()),
			delta: l.delta}
		next.best.moved = pr.share(0) // for when the context ends before a first step
		next.minGain = cfg.MinGain * float64(l.cells) / defaultCells
		next.progress = make([][]float64, len(pr.jobs))
		flat := make([]float64, len(pr.jobs)*len(grid))
		for i := range next.progress {
			next.progress[i], flat = flat[:len(grid):len(grid)], flat[len(grid):]
		}
		if len(pr.edges) > 0 && (best == nil || len(best.moved) == 0) {
			next.startMoved(ctx, cfg.WarmStart, best == nil)
		} else if best == nil {
			next.scaleDown(ctx)
		}
		most := max(3, int(cfg.Effort*float64(l.iters)))
		next.patience = usualPatience
		steps := next.climb(ctx, most, report)
		if next.nearZero() {
			// The dual has a kink at prices of zero: jobs with time to spare may run anywhere. Only
			// few steps from there rise at once.
			next.patience, next.delta = zeroPatience, l.delta
			steps += next.climb(ctx, most, report)
		}
		next.tooShort = steps < minAveragedSteps
		if a != nil && (next.tooShort || next.minGain > 0) && next.value <= a.value {
			break
		}
		if next.tooShort {
			next.coarser = a // too few steps for an average, so the coarser grid's average is used
		}
		gain := math.Inf(1)
		if a != nil {
			gain = (next.value - a.value) / math.Abs(next.value)
		}
		a, best = next, next.best
		if ctx.Err() != nil {
			break
		}
		if cfg.Improved != nil && cfg.SyncAsCompute == 0 && n+1 < len(plan) &&
			(cfg.WantImproved == nil || cfg.WantImproved()) {
			rel := a.relaxation()
			a.certify(ctx, cfg, rel, 0)
			cfg.Improved(rel)
		}
		// Twice as many cells bring about half the gain.
		if n+1 < len(plan) && gain/2 < cfg.MinGain*lookback*float64(plan[n+1].cells)/minGainCells {
			break
		}
	}
	return a
}

// loadWork is the work of preparing one step of a type's prices.
const loadWork = 10

// stepWork returns the greatest work of the recursions of all jobs at prices up to end; 0 where no job is
// bounded so.
func (pr *problem) stepWork(end float64) (work float64) {
	for _, j := range pr.stepJobs(pr.step, int64(end)) {
		if j != nil {
			moves := float64(len(j.modes) + len(j.levels))
			work += float64(j.rounds+len(j.modes)) * moves * end / float64(pr.step)
		}
	}
	if work > 0 {
		work += loadWork * float64(len(pr.caps)) * end / float64(pr.step)
	}
	return work
}

// climbWithSteps continues from the best prices with jobs bounded round by round, if the
// instance is so small that some steps take moderate work and the bound rises at these
// prices; then on the finest grid. It returns the better ascent of both.
func (a *ascent) climbWithSteps(ctx context.Context, cfg *Config, report func(float64)) *ascent {
	pr := a.ev.pr
	if pr.step == 0 {
		return a
	}
	first, all := firstStepWork, cfg.Effort*stepAscentWork
	if cfg.StepWork > 0 {
		first, all = min(first, cfg.StepWork), min(all, stepWorkFactor*cfg.StepWork)
	}
	steps := a.chooseLengths(ctx, first, all)
	if a.ev.withSteps = steps > 0; steps == 0 {
		return a
	}
	progress := a.progress // the progress of the fluids guides schedules
	a.progress, a.delta, a.minGain, a.patience = nil, stepDelta, 0, usualPatience
	a.cur.copyFrom(a.best)
	steps -= a.climb(ctx, steps, report)
	a.progress = progress
	fine := a.onSteps()
	if fine == nil || steps < minStepIters {
		return a
	}
	if fine.climb(ctx, steps, report); fine.value <= a.value {
		return a
	}
	return fine
}

// chooseLengths chooses every length of a round, or few, and returns how many steps of the ascent are to be made; 0
// where bounding round by round takes too much work, or raises the bound at the best prices too little. The first step
// may take so much work, and all steps together. Few lengths are for ascents of which every length allows few steps,
// unless these bring much.
func (a *ascent) chooseLengths(ctx context.Context, first, all float64) (steps int) {
	every := math.Inf(-1)
	for _, few := range []bool{false, true} {
		a.ev.setLengths(few)
		if !a.ev.affordsSteps(a.grid, first) {
			continue
		}
		v, work, err := a.firstStep(ctx)
		if err != nil || v-a.value < math.Abs(a.value)/minStepGain {
			return 0
		}
		if steps > 0 && every-v > math.Abs(v)*leastByLength {
			a.ev.setLengths(false)
			break
		}
		if n := min(maxStepIters, int(all/work)); n >= minStepIters {
			steps, every = n, v
		}
		if steps >= manyStepIters {
			break
		}
	}
	return steps
}

// setLengths chooses the lengths of rounds, and forgets the jobs that were prepared for others.
func (e *evaluator) setLengths(few bool) { e.pr.fewLengths, e.stepJobs = few, nil }

// affordsSteps reports whether bounding round by round takes no more than so much work.
func (e *evaluator) affordsSteps(grid []float64, most float64) bool {
	work := e.pr.stepWork(grid[len(grid)-1])
	return work > 0 && work <= most
}

// firstStep bounds round by round at the best prices. It returns the value and the work; most starts are cut off.
func (a *ascent) firstStep(ctx context.Context) (v, work float64, err error) {
	for _, o := range a.ev.oracles {
		o.steps.work = 0
	}
	a.keepWeights()
	a.ev.withSteps = true
	v, err = a.ev.dual(ctx, a.best, a.caps, make([]float64, len(a.best.at)*(len(a.grid)-1)), nil, 0)
	a.ev.withSteps = false
	work = 1
	for _, o := range a.ev.oracles {
		work += float64(o.steps.work)
	}
	return v, work, err
}

// onSteps returns an ascent from the best prices on a grid of single steps, or of as few as maxStepCells allow; nil
// where the grid is no finer.
func (a *ascent) onSteps() *ascent {
	pr := a.ev.pr
	end, step := a.grid[len(a.grid)-1], float64(pr.step)
	width := step * math.Ceil(end/step/maxStepCells)
	grid := pr.withMarks(even(int(math.Ceil(end/width)), math.Ceil(end/width)*width, width), step)
	if len(grid) <= len(a.grid) {
		return nil
	}
	fine := &ascent{ev: a.ev, grid: grid, caps: pr.capacity(grid), cur: transfer(a.best, grid),
		best: newPrices(grid, pr.ascentRows()), delta: stepDelta, patience: usualPatience, tooShort: true, coarser: a}
	fine.best.moved, fine.cur.moved = slices.Clone(a.best.moved), slices.Clone(a.best.moved)
	return fine
}

// dropPools lowers the prices of pools to 0 that raise the value of the best prices by less
// than a share of usefulPool.
func (a *ascent) dropPools(ctx context.Context) {
	ps := &a.ev.pr.pools
	if len(ps.list) == 0 {
		return
	}
	first := len(a.caps) - len(ps.functions)
	grad := make([]float64, len(a.caps)*(len(a.grid)-1))
	for p := range ps.list {
		a.cur.copyFrom(a.best)
		priced := false
		for f := range ps.functions {
			if ps.functions[f].pool == p {
				priced = priced || slices.Max(a.cur.at[first+f]) > 0
				clear(a.cur.at[first+f])
			}
		}
		if !priced {
			continue
		}
		v, err := a.ev.dual(ctx, a.cur, a.caps, grad, nil, 0)
		if err != nil {
			return
		}
		if v >= a.value-usefulPool*math.Abs(a.value) {
			a.best.copyFrom(a.cur)
			a.value = v
		}
	}
	a.cur.copyFrom(a.best)
}

// boundByPrices runs the multigrid ascent and evaluates its best prices exactly.
func boundByPrices(ctx context.Context, pr *problem, cfg *Config) *hare.Relaxation {
	if len(pr.jobs) == 0 {
		rel := pr.withFixed(&hare.Relaxation{Method: hare.MethodPrice, Progress: [][]hare.Point{}})
		return pr.certified(rel, &hare.Certificate{GridUs: []int64{0, 1}}, new(big.Rat))
	}
	if cfg.Steps > 0 && cfg.SyncAsCompute == 0 {
		if pr.step = pr.chooseStep(); pr.model.Placed && !pr.stepsPay() {
			pr.step = 0
		}
	}
	ev := newEvaluator(pr, cfg.Workers)
	report := func(v float64) {
		if cfg.Report != nil {
			cfg.Report(v * unit)
		}
	}
	a := multigridAscent(ctx, ev, cfg, report)
	if cfg.SyncAsCompute == 0 {
		if cfg.Steps > 1 {
			a = a.climbWithSteps(ctx, cfg, report)
		}
		a = a.polish(ctx, cfg, report)
		a.dropPools(ctx)
	}
	rel := a.relaxation()
	switch {
	case cfg.SyncAsCompute > 0:
	case cfg.Rounded:
		rel.Bound = a.roundedBound()
	default:
		step, most := pr.step, math.Inf(1)
		if cfg.StepWork > 0 {
			most = cfg.StepWork
		}
		if ev.setLengths(false); step > 0 && !ev.affordsSteps(a.grid, most) {
			if ev.setLengths(true); !ev.affordsSteps(a.grid, most) {
				step = 0
			}
		}
		a.certify(ctx, cfg, rel, step)
	}
	if a.averaged().tooShort && cfg.WarmStart != nil && len(cfg.WarmStart.Progress) == len(pr.model.Jobs) {
		rel.Progress = cfg.WarmStart.Progress
	}
	return rel
}

// averaged returns the ascent whose averaged progress is used: a, or one on a coarser grid where a took too few steps.
func (a *ascent) averaged() *ascent {
	for a.tooShort && a.coarser != nil {
		a = a.coarser
	}
	return a
}

// relaxation returns the fractional schedule and the prices, without a bound.
func (a *ascent) relaxation() *hare.Relaxation {
	pr := a.ev.pr
	rel := &hare.Relaxation{Method: hare.MethodPrice, Prices: pr.mean(a.best)}
	for _, t := range a.best.grid {
		rel.GridUs = append(rel.GridUs, int64(t))
	}
	for _, row := range rel.Prices {
		for g := range row {
			row[g] *= 1e-9
		}
	}
	from := a.averaged()
	for i := range pr.jobs {
		rel.Progress = append(rel.Progress, pr.polyline(i, from.grid, from.progress))
	}
	return pr.withFixed(rel)
}

// roundedMargin is how much a bound in floats is lowered, as a share of the terms that it
// is made of. The cost of a job is wrong by at most 1e-9 of itself; see exactMargin.
const roundedMargin = 1e-7

// roundedBound is what the best prices prove, by floats.
func (a *ascent) roundedBound() hare.Amount {
	terms := math.Abs(a.value) + 2*a.ev.pr.wa + 2*a.ev.pr.setWeights(a.best.moved)
	for k, row := range a.best.at {
		for g, price := range row {
			terms += 2 * a.caps[k][g] * price
		}
	}
	bound := new(big.Rat)
	if v := a.value - roundedMargin*terms; v > 0 && !math.IsInf(v, 0) {
		bound.SetFloat64(v)
	}
	return ratAmount(bound)
}

// certify completes rel with what the best prices prove; relaxed jobs are bounded round
// by round at the given step if that pays. The evaluation is short and continues after
// the end of ctx, because without it there is no bound at all; only Quit ends it.
func (a *ascent) certify(ctx context.Context, cfg *Config, rel *hare.Relaxation, step int64) {
	ctx, cancel := evaluation(ctx, cfg)
	defer cancel()
	if ctx.Err() != nil {
		return
	}
	ev, pr := a.ev, a.ev.pr
	nanos := pr.integerPrices(ev, a.best)
	micro, gain := pr.setExactWeights(a.best.moved)
	ev.moved = gain
	bound, err := ev.exactBound(ctx, rel.GridUs, nanos, step)
	if err != nil {
		return
	}
	cert := pr.certificateOf(rel.GridUs, nanos)
	cert.StepUs, cert.After = ev.statedStep, pr.afterWeights(micro)
	for i := range pr.jobs {
		if len(cert.After) > 0 || pr.model.Instance.Objective != hare.ObjectiveWeightedJCT {
			break // Phi explains the gap of w C alone
		}
		rel.Phi = append(rel.Phi, (ev.phi[i]-pr.jobs[i].w*pr.jobs[i].a)*unit)
	}
	for _, c := range ev.capacity {
		rel.Capacity = append(rel.Capacity, c*unit)
	}
	pr.certified(rel, cert, bound)
}

// evaluation returns a context that ends with Quit alone, and at once where Quit has ended.
func evaluation(ctx context.Context, cfg *Config) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	select {
	case <-cfg.Quit: // never where Quit is nil
		cancel()
	default:
	}
	if cfg.Quit != nil {
		go func() {
			select {
			case <-cfg.Quit:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

// polyline turns the averaged rounds of each cell into progress over time.
func (pr *problem) polyline(i int, grid []float64, cells [][]float64) []hare.Point {
	j := &pr.jobs[i]
	points := []hare.Point{{TimeUs: j.a}}
	if cells == nil || len(cells[i]) == 0 {
		return append(points, hare.Point{TimeUs: j.path, Rounds: j.rounds})
	}
	sum := 0.0
	for _, x := range cells[i] {
		sum += x
	}
	if sum <= 0 {
		return append(points, hare.Point{TimeUs: j.path, Rounds: j.rounds})
	}
	done := 0.0
	for g, x := range cells[i] {
		if x <= 1e-9*sum {
			continue
		}
		// The rounds of a cell are done evenly in the part of the cell after the release.
		start := max(grid[g], j.a)
		end := start
		if g+1 < len(grid) {
			end = grid[g+1]
		} else {
			end += j.rounds * j.modes[len(j.modes)-1].each
		}
		if last := &points[len(points)-1]; start > last.TimeUs {
			points = append(points, hare.Point{TimeUs: start, Rounds: last.Rounds})
		}
		done += x
		points = append(points, hare.Point{TimeUs: end, Rounds: min(j.rounds, done/sum*j.rounds)})
	}
	points[len(points)-1].Rounds = j.rounds
	return points
}
