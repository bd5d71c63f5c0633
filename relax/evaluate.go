package relax

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// chunkOf is how many of n jobs are summed in one go: small instances are split
// finer, as their jobs may take longest. The split depends on the instance
// alone, so sums are the same bytes on any number of cores.
func chunkOf(n int) int {
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
	version int64     // of prices
	offers  []float64 // of each job's last answer
	mixer   *mixer    // of the grid seen last; nil without sizes
	Calls   int64     // φ_j evaluated
	// Of the last exact bound: φ by job, what rounds add to the fluid's, both in
	// 1e-15 weight-seconds, and δ where steps count.
	phi, gain []float64
	capacity  []float64 // price of all capacity by type, after exactBound
	stated    int64
	// Jobs that are bounded round by round as well, nil without steps.
	stepJobs   []*stepJob
	stepPrices stepPrices
	stepping   bool // dual bounds them so too
}

type chunk struct {
	phi float64
	use []float64
}

func newEvaluator(pr *problem, workers int) *evaluator {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	e := &evaluator{pr: pr, workers: workers, offers: make([]float64, len(pr.jobs))}
	for range workers {
		e.oracles = append(e.oracles, &oracle{})
	}
	size := chunkOf(len(pr.jobs))
	e.chunks = make([]chunk, (len(pr.jobs)+size-1)/size)
	return e
}

// each calls f for every chunk of jobs, on all workers.
func (e *evaluator) each(ctx context.Context, f func(o *oracle, c, lo, hi int)) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	size := chunkOf(len(e.pr.jobs))
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
	// A panic elsewhere than here would end the process: the caller gets it.
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

// dual is Σ φ_j − Σ w a − Σ ∫ M π, with the supergradient: grad[k·G+g] is the
// GPU-seconds of type k used in cell g less those there are. progress, when
// not nil, gets weight times the rounds that each job does in each cell added.
func (e *evaluator) dual(ctx context.Context, pi *prices, caps [][]float64, grad []float64, progress [][]float64, weight float64) (float64, error) {
	G := len(pi.grid) - 1
	full := e.compose(pi)
	full.integrate()
	e.loadRounded(full)
	version := e.next()
	cells := len(full.at) * G
	err := e.each(ctx, func(o *oracle, c, lo, hi int) {
		ch := &e.chunks[c]
		ch.phi = 0
		if len(ch.use) != cells {
			ch.use = make([]float64, cells)
		}
		clear(ch.use)
		o.at(full, version)
		var ans answer
		ans.uses, ans.strides = o.uses, o.strides
		for i := lo; i < hi && ctx.Err() == nil; i++ {
			e.answer(i, o, &ans)
			ch.phi += ans.phi
			for _, u := range ans.uses {
				ch.use[int(u.row)*G+int(u.cell)] += u.amount
			}
			if progress != nil {
				spread(progress[i], pi.grid, ans.strides, weight)
			}
		}
		o.uses, o.strides = ans.uses, ans.strides
	})
	if err != nil {
		return 0, err
	}
	e.Calls += int64(len(e.pr.jobs))
	value := -e.pr.wa
	for k := range caps {
		for g, c := range caps[k] {
			value -= c * pi.at[k][g]
			grad[k*G+g] = -c
		}
	}
	for c := range e.chunks {
		value += e.chunks[c].phi
		if e.mixer != nil {
			e.mixer.fold(e.pr, e.chunks[c].use, grad)
			continue
		}
		for i, u := range e.chunks[c].use {
			grad[i] += u
		}
	}
	return value, nil
}

// next tells new prices from those before.
func (e *evaluator) next() int64 {
	e.version++
	return e.version
}

// compose is the oracle's prices for those of the ascent, valid until the next
// call.
func (e *evaluator) compose(pi *prices) *prices {
	if len(e.pr.rows) == len(e.pr.caps) {
		return pi
	}
	if e.mixer == nil || !slices.Equal(e.mixer.grid, pi.grid) {
		e.mixer = e.pr.mix(pi.grid)
	}
	return e.mixer.compose(e.pr, pi)
}

// spread adds weight times the rounds of each stride to the cells it covers;
// the last entry takes what lies beyond the grid.
func spread(to, grid []float64, strides []stretch, weight float64) {
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
