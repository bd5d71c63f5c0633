package relax

import (
	"context"
	"math"
	"math/big"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hare-sched/hare"
)

// chunkSize returns how many of n jobs are summed in one chunk. Small instances have
// smaller chunks, as their jobs may take longest. The size depends on the instance
// alone, so the sums have the same bytes on any number of cores.
func chunkSize(n int) int {
	if n <= 64 {
		return 4
	}
	return 32
}

// evaluator computes the dual function in floats, in parallel over jobs.
type evaluator struct {
	pr      *problem
	workers int
	oracles []*oracle
	chunks  []chunk
	size    int       // the number of jobs of a chunk
	version int64     // of the prices
	cutoffs []float64 // of each job's last answer
	rows    *rowMap   // of the last grid; nil without sizes
	// composed are the oracle's prices of the last grid; nil without pools.
	composed   *prices
	prohibited [][]float64 // on the same grid, by composite
	Calls      int64       // the number of φ_j evaluated
	// These fields describe the last exact bound: φ by job and the gain of bounding round by
	// round, both in 1e-15 weight-seconds, and δ if that gain counts.
	phi, gain  []float64
	capacity   []float64 // the price of all capacity by type, after exactBound
	statedStep int64
	// stepJobs are the jobs that are also bounded round by round; nil without steps.
	stepJobs   []*stepJob
	stepPrices stepPrices
	moved      *big.Int  // what moved weights add to an exact bound; nil means nothing
	ends       []float64 // C by job in the last dual, where weights may move
	withSteps  bool      // whether dual also bounds them round by round
}

type chunk struct {
	phi float64
	use []float64
}

func newEvaluator(pr *problem, workers int) *evaluator {
	return newChunkedEvaluator(pr, workers, chunkSize(len(pr.jobs)))
}

// newChunkedEvaluator is newEvaluator with chunks of so many jobs.
func newChunkedEvaluator(pr *problem, workers, size int) *evaluator {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	e := &evaluator{pr: pr, workers: workers, cutoffs: make([]float64, len(pr.jobs))}
	for range workers {
		e.oracles = append(e.oracles, &oracle{})
	}
	e.size = size
	e.chunks = make([]chunk, (len(pr.jobs)+size-1)/size)
	return e
}

// each calls f for every chunk of jobs, on all workers.
func (e *evaluator) each(ctx context.Context, f func(o *oracle, c, lo, hi int)) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	size := e.size
	run := func(o *oracle) {
		for ctx.Err() == nil {
			c := int(next.Add(1)) - 1
			if c >= len(e.chunks) {
				return
			}
			lo := c * size
			f(o, c, lo, min(lo+size, len(e.pr.jobs)))
		}
	}
	// A panic in a goroutine would end the process, so the panic is raised in the caller
	// instead.
	var failed atomic.Pointer[any]
	for _, o := range e.oracles[1:] {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					failed.Store(&p)
				}
			}()
			run(o)
		})
	}
	run(e.oracles[0])
	wg.Wait()
	if p := failed.Load(); p != nil {
		panic(*p)
	}
	return ctx.Err()
}

// dual returns Σ φ_j − Σ w a − Σ ∫ M π and its supergradient: grad[k·G+g] is the
// GPU-seconds of type k used in cell g minus those available. If progress is not nil,
// weight times the rounds that each job does in each cell is added to it.
func (e *evaluator) dual(ctx context.Context, pi *prices, caps [][]float64, grad []float64, progress [][]float64,
	weight float64) (float64, error) {
	G := len(pi.grid) - 1
	full := e.compose(pi)
	full.integrate()
	gain := 0.0
	if len(e.pr.edges) > 0 {
		gain = e.pr.setWeights(pi.moved)
		if e.ends == nil {
			e.ends = make([]float64, len(e.pr.jobs))
		}
	}
	e.loadRounded(full)
	version := e.nextVersion()
	cells := e.useRows() * G
	err := e.each(ctx, func(o *oracle, c, lo, hi int) {
		ch := &e.chunks[c]
		ch.phi = 0
		if len(ch.use) != cells {
			ch.use = make([]float64, cells)
		}
		clear(ch.use)
		o.setPrices(full, version)
		var ans answer
		ans.uses, ans.progress = o.uses, o.progress
		for i := lo; i < hi && ctx.Err() == nil; i++ {
			e.answer(i, o, &ans)
			ch.phi += ans.phi
			if e.ends != nil {
				e.ends[i] = ans.end
			}
			if len(e.pr.pools.composites) == 0 {
				for _, u := range ans.uses {
					ch.use[int(u.row)*G+int(u.cell)] += u.amount
				}
			} else {
				for _, u := range ans.uses {
					e.addUse(ch.use, u, G)
				}
			}
			if progress != nil {
				spread(progress[i], pi.grid, ans.progress, weight)
			}
		}
		o.uses, o.progress = ans.uses, ans.progress
	})
	if err != nil {
		return 0, err
	}
	e.Calls += int64(len(e.pr.jobs))
	value := gain - e.pr.wa
	for k := range caps {
		for g, c := range caps[k] {
			value -= c * pi.at[k][g]
			grad[k*G+g] = -c
		}
	}
	for c := range e.chunks {
		value += e.chunks[c].phi
		e.fold(e.chunks[c].use, grad)
	}
	return value, nil
}

// slope returns the supergradient of the last dual by the weight that moves along an edge.
func (e *evaluator) slope(x int) float64 {
	edge := &e.pr.edges[x]
	return edge.gain + e.ends[edge.before] - e.ends[edge.job]
}

// useRows returns the number of rows of what jobs use: those of prices of types and sizes,
// then those of the functions of pools.
func (e *evaluator) useRows() int { return len(e.pr.rows) + len(e.pr.pools.functions) }

// addUse adds what a job uses at the oracle's prices to use.
func (e *evaluator) addUse(use []float64, u use, cells int) {
	ps := &e.pr.pools
	if len(ps.composites) == 0 {
		use[int(u.row)*cells+int(u.cell)] += u.amount
		return
	}
	use[ps.composites[u.row].top*cells+int(u.cell)] += u.amount
	for _, t := range ps.flat[u.row] {
		use[(len(e.pr.rows)+t.function)*cells+int(u.cell)] += u.amount * t.perGPU
	}
}

// fold adds what jobs use to grad, the supergradient by rows of the ascent.
func (e *evaluator) fold(use, grad []float64) {
	functions := len(e.pr.pools.functions)
	cells := len(use) / e.useRows()
	tops := use[:len(use)-functions*cells]
	if e.rows != nil {
		e.rows.fold(e.pr, tops, grad)
	} else {
		for i, u := range tops {
			grad[i] += u
		}
	}
	if functions > 0 {
		rest := grad[len(grad)-functions*cells:]
		for i, u := range use[len(tops):] {
			rest[i] += u
		}
	}
}

// nextVersion returns a number that tells new prices from those before.
func (e *evaluator) nextVersion() int64 {
	e.version++
	return e.version
}

// compose returns the oracle's prices for those of the ascent; they are valid until the
// next call.
func (e *evaluator) compose(pi *prices) *prices {
	top := e.composeTop(pi)
	if len(e.pr.pools.composites) == 0 {
		return top
	}
	if e.composed == nil || !slices.Equal(e.composed.grid, pi.grid) {
		e.composed = newPrices(pi.grid, len(e.pr.pools.composites))
		e.prohibited = e.pr.prohibited(pi.grid)
	}
	e.pr.pools.composeInto(e.composed, top, pi, e.prohibited)
	return e.composed
}

// composeTop returns the prices of types and sizes for those of the ascent; they are valid
// until the next call.
func (e *evaluator) composeTop(pi *prices) *prices {
	if len(e.pr.rows) == len(e.pr.caps) {
		return pi
	}
	if e.rows == nil || !slices.Equal(e.rows.grid, pi.grid) {
		e.rows = e.pr.newRowMap(pi.grid)
	}
	return e.rows.compose(e.pr, pi)
}

// spread adds weight times the rounds of each interval to the cells that the interval
// covers. The last entry takes what lies beyond the grid.
func spread(to, grid []float64, strides []progressInterval, weight float64) {
	G := len(grid) - 1
	for _, s := range strides {
		if s.to <= s.from {
			to[min(cellOf(grid, s.from), G)] += weight * s.rounds
			continue
		}
		density := weight * s.rounds / (s.to - s.from)
		for g, t := cellOf(grid, s.from), s.from; t < s.to; g++ {
			end := s.to
			if g < G {
				end = min(end, grid[g+1])
			}
			to[g] += density * (end - t)
			t = end
		}
	}
}

// loadSteps prepares the recursions for prices of the oracle's rows on a grid of multiples of
// step. A step of 0 means none.
func (e *evaluator) loadSteps(step int64, grid []int64, nanos [][]int64) {
	end := grid[len(grid)-1]
	onGrid := step > 0 && !slices.ContainsFunc(grid, func(t int64) bool { return t%step != 0 })
	if !onGrid || end/step > stepTerms {
		e.stepJobs = nil
		return
	}
	if e.stepJobs == nil || int64(e.stepPrices.cells) != end/step || e.stepPrices.step != step {
		e.stepJobs = e.pr.stepJobs(step, end)
	}
	if !e.pr.model.Placed {
		nanos = nanos[:len(e.pr.caps)]
	}
	e.stepPrices.load(step, grid, nanos)
}

// stepPhi returns φ of job i round by round if it is more than phi, that of the fluid,
// else phi.
func (e *evaluator) stepPhi(i int, phi *big.Rat, o *oracle) *big.Rat {
	if e.stepJobs == nil || e.stepJobs[i] == nil {
		return phi
	}
	o.steps.prices, o.steps.keepChoices = &e.stepPrices, false
	guess, _ := phi.Float64()
	v, ok := o.steps.phi(e.stepJobs[i], guess*stepGuess/float64(e.stepPrices.step))
	x := new(big.Rat).SetInt(product(1, v, e.stepPrices.step))
	if !ok || x.Cmp(phi) <= 0 {
		return phi
	}
	return x
}

// loadRounded prepares the recursions for float prices if e.withSteps.
func (e *evaluator) loadRounded(pi *prices) {
	if !e.withSteps {
		return
	}
	grid := make([]int64, len(pi.grid))
	for g, t := range pi.grid {
		grid[g] = int64(t)
	}
	rows := e.pr.rows[:len(e.pr.caps)]
	if e.pr.model.Placed {
		rows = e.pr.oracleRows()
	}
	nanos := make([][]int64, len(rows))
	for k := range nanos {
		nanos[k] = make([]int64, len(pi.at[k]))
		for g, x := range pi.at[k] {
			nanos[k][g] = int64(math.Round(min(x*float64(rows[k].gpus), hare.MaxExact)))
		}
	}
	e.loadSteps(e.pr.step, grid, nanos)
}

// answer is solve for job i at the prices of o, or the job's schedule round by round if
// that costs more.
func (e *evaluator) answer(i int, o *oracle, ans *answer) {
	ans.cutoff = e.cutoffs[i]
	o.solve(&e.pr.jobs[i], ans, true)
	e.cutoffs[i] = ans.cutoff
	if !e.withSteps || e.stepJobs == nil || e.stepJobs[i] == nil {
		return
	}
	o.steps.prices, o.steps.keepChoices = &e.stepPrices, true
	step := float64(e.stepPrices.step)
	v, ok := o.steps.phi(e.stepJobs[i], ans.phi*stepGuess/step)
	if ok && float64(v)*step > ans.phi {
		ans.phi, ans.uses, ans.progress = float64(v)*step, ans.uses[:0], ans.progress[:0]
		o.steps.trace(e.stepJobs[i], ans, o.pi.grid)
	}
}

// bestStep returns δ if bounding round by round gains enough for the cost of checking
// it, else 0.
func (e *evaluator) bestStep(gain, value *big.Rat) int64 {
	least := new(big.Rat).Mul(value, big.NewRat(1, minStepGain))
	if e.stepJobs == nil || gain.Cmp(least) < 0 || gain.Sign() <= 0 {
		return 0
	}
	return e.stepPrices.step
}
