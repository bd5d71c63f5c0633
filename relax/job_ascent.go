package relax

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hare-sched/hare"
)

// jobAscent climbs in the prices of jobs. Prices are those of one GPU of the job.
type jobAscent struct {
	ev   *evaluator
	pr   *problem
	grid []float64
	cuts []jobCut
	// first is the first of cuts by cell.
	first []int
	rows  [][][]int // of jobs, by type and by number of GPUs
	sums  []float64
	norms []float64 // by block of rows
	// perTime is 1 over the length of a cell.
	perTime []float64
	sets    []jobSets // scratch by worker
}

// jobCut is a stretch of a cell with so many GPUs of a type.
type jobCut struct {
	kind, cell  int
	end, length float64
	free        int64
}

// pricedJob is a job by its row, and what it pays a second for all of its GPUs.
type pricedJob struct {
	row   int
	price float64
}

// jobSets is scratch memory for the dearest set of jobs.
type jobSets struct {
	in   []pricedJob
	best []float64
	take []bool
}

// newJobAscent prepares an ascent on so many cells of a grid at most.
func newJobAscent(pr *problem, points []int64, cells, workers int) *jobAscent {
	cells = min(cells, len(points)-1)
	a := &jobAscent{ev: newEvaluator(pr, workers), pr: pr, grid: make([]float64, cells+1)}
	for g := range a.grid {
		a.grid[g] = float64(points[g*(len(points)-1)/cells])
	}
	a.rows = make([][][]int, len(pr.caps))
	for k := range a.rows {
		bySize := map[int64][]int{}
		for r, to := range pr.rows {
			if to.job > 0 && to.kind == k {
				bySize[to.gpus] = append(bySize[to.gpus], r)
			}
		}
		for _, n := range slices.Sorted(maps.Keys(bySize)) {
			a.rows[k] = append(a.rows[k], bySize[n])
		}
	}
	a.sets = make([]jobSets, len(a.ev.oracles))
	a.sums, a.perTime = make([]float64, cells), make([]float64, cells)
	a.norms = make([]float64, (len(pr.rows)+rowBlock-1)/rowBlock)
	a.first = make([]int, cells+1)
	for g := range cells {
		a.perTime[g] = 1 / (a.grid[g+1] - a.grid[g])
		for k, steps := range pr.caps {
			for x, s := range steps {
				end := a.grid[g+1]
				if x+1 < len(steps) {
					end = min(end, float64(steps[x+1].FromUs))
				}
				if l := end - max(a.grid[g], float64(s.FromUs)); l > 0 && s.Count > 0 {
					a.cuts = append(a.cuts, jobCut{k, g, end, l, s.Count})
				}
			}
		}
		a.first[g+1] = len(a.cuts)
	}
	return a
}

// transfer returns the prices of a certificate on the grid of the ascent.
func (a *jobAscent) transfer(c *hare.Certificate) *prices {
	from := &prices{}
	for _, t := range c.GridUs {
		from.grid = append(from.grid, float64(t))
	}
	perGPU := map[row][]float64{}
	add := func(kind string, gpus int64, nanos []int64) {
		out := make([]float64, len(nanos))
		for g, x := range nanos {
			out[g] = float64(x) / float64(gpus)
		}
		perGPU[row{kind: slices.Index(a.pr.model.Types, kind), gpus: gpus}] = out
	}
	for _, p := range c.Prices {
		add(p.Type, 1, p.Nanos)
	}
	for _, p := range c.Sizes {
		add(p.Type, p.Tasks, p.Nanos)
	}
	for _, r := range a.pr.rows {
		at := perGPU[row{kind: r.kind, gpus: r.gpus}]
		if at == nil {
			at = perGPU[row{kind: r.kind, gpus: 1}]
		}
		if at == nil || r.job == 0 {
			at = make([]float64, len(c.GridUs)-1) // nobody pays for single GPUs
		}
		from.at = append(from.at, at)
	}
	return transfer(from, a.grid)
}

// value returns the dual at prices, and its supergradient in grad. A job counts in all of the cell
// in which it comes, so that the value may be less than what the prices prove.
func (a *jobAscent) value(ctx context.Context, pi *prices, grad [][]float64) (float64, error) {
	pr, e := a.pr, a.ev
	pi.integrate()
	for r := range grad {
		clear(grad[r])
	}
	version := e.nextVersion()
	err := e.each(ctx, func(o *oracle, c, lo, hi int) {
		ch := &e.chunks[c]
		ch.phi = 0
		o.setPrices(pi, version)
		var ans answer
		ans.uses, ans.progress = o.uses, o.progress
		for i := lo; i < hi && ctx.Err() == nil; i++ {
			e.answer(i, o, &ans)
			ch.phi += ans.phi
			for _, u := range ans.uses {
				grad[u.row][u.cell] += u.amount // of this job alone
			}
		}
		o.uses, o.progress = ans.uses, ans.progress
	})
	if err != nil {
		return 0, err
	}
	a.each(len(a.sums), cellBlock, func(w, from, to int) {
		for g := from; g < to; g++ {
			a.sums[g] = 0
			for x := a.first[g]; x < a.first[g+1]; x++ {
				a.sums[g] += a.sets[w].dearest(a, &a.cuts[x], pi, grad)
			}
		}
	})
	v := -pr.wa
	for c := range e.chunks {
		v += e.chunks[c].phi
	}
	for _, x := range a.sums {
		v -= x
	}
	return v, nil
}

// each calls f for blocks of the numbers below n, on all workers, or at once where there are few rows; w is the
// worker's number.
func (a *jobAscent) each(n, block int, f func(w, from, to int)) {
	if len(a.pr.rows) <= rowBlock {
		f(0, 0, n)
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range a.sets {
		wg.Go(func() {
			for {
				from := int(next.Add(int64(block))) - block
				if from >= n {
					return
				}
				f(w, from, min(from+block, n))
			}
		})
	}
	wg.Wait()
}

// dearest returns what the dearest set of jobs pays that fits into the GPUs of a cut, and takes the set off grad.
func (js *jobSets) dearest(a *jobAscent, c *jobCut, pi *prices, grad [][]float64) float64 {
	in := js.in[:0]
	held, sum := int64(0), 0.0
	for _, rows := range a.rows[c.kind] {
		n, from := a.pr.rows[rows[0]].gpus, len(in)
		if n > c.free {
			break
		}
		for _, r := range rows {
			if p := pi.at[r][c.cell]; p > 0 && a.pr.jobs[a.pr.rows[r].job-1].a < c.end {
				in = append(in, pricedJob{r, p * float64(n)})
				sum += p * float64(n)
			}
		}
		// Of jobs of one size only the dearest can be in the set.
		held += n * int64(len(in)-from)
		if most := int(c.free / n); len(in)-from > most {
			dearestFirst(in[from:], most)
			in = in[:from+most]
		}
	}
	js.in = in
	if held <= c.free {
		for _, x := range in {
			grad[x.row][c.cell] -= c.length * float64(a.pr.rows[x.row].gpus)
		}
		return c.length * sum
	}
	n := int(c.free) + 1
	js.best = slices.Grow(js.best[:0], n)[:n]
	best := js.best
	clear(best)
	if len(js.take) < len(in)*n {
		js.take = make([]bool, len(in)*n)
	}
	for y := range in {
		z, p := int(a.pr.rows[in[y].row].gpus), in[y].price
		take := js.take[y*n : (y+1)*n]
		for x := n - 1; x >= z; x-- {
			if v := best[x-z] + p; v > best[x] {
				best[x], take[x] = v, true
			} else {
				take[x] = false
			}
		}
	}
	x := n - 1
	for y := len(in) - 1; y >= 0; y-- {
		z := int(a.pr.rows[in[y].row].gpus)
		if x >= z && js.take[y*n+x] {
			grad[in[y].row][c.cell] -= c.length * float64(z)
			x -= z
		}
	}
	return c.length * best[n-1]
}

// dearestFirst moves the dearest n jobs to the front, in expected time O(jobs).
func dearestFirst(in []pricedJob, n int) {
	for lo, hi := 0, len(in)-1; lo < hi; {
		pivot := in[(lo+hi)/2].price
		x, y := lo, hi
		for x <= y {
			for in[x].price > pivot {
				x++
			}
			for in[y].price < pivot {
				y--
			}
			if x <= y {
				in[x], in[y] = in[y], in[x]
				x, y = x+1, y-1
			}
		}
		switch {
		case n-1 <= y:
			hi = y
		case n-1 >= x:
			lo = x
		default:
			return
		}
	}
}

// climb makes deflected, preconditioned supergradient steps of Polyak's length, and returns the best prices; nil
// without a step.
func (a *jobAscent) climb(ctx context.Context, cur *prices, cfg JobPricesConfig) (best *prices) {
	rows := len(a.pr.rows)
	grad, dir := newPrices(a.grid, rows).at, newPrices(a.grid, rows).at
	target := cfg.Target / unit
	value, delta, since, fresh := math.Inf(-1), 0.0, 0, true
	for n := 0; cfg.Steps == 0 || n < cfg.Steps; n++ {
		v, err := a.value(ctx, cur, grad)
		if err != nil {
			break
		}
		if v > value {
			value, since = v, 0
			if best == nil {
				best = newPrices(a.grid, rows)
				delta = min(mostAmbition, max(leastAmbition, jobAmbition/float64(len(a.pr.jobs))))
			}
			best.copyFrom(cur)
			if v >= target {
				break
			}
		} else if since++; since >= jobPatience {
			if delta *= jobNearer; delta < minDelta {
				break
			}
			since, fresh = 0, true
			cur.copyFrom(best)
			continue
		}
		a.turn(dir, grad, fresh)
		fresh = false
		if !a.step(cur, dir, value+delta*math.Abs(value)-v+1) {
			break
		}
	}
	return best
}

// turn turns the direction towards a supergradient, or makes it the direction.
func (a *jobAscent) turn(dir, grad [][]float64, fresh bool) {
	share := jobDeflect
	if fresh {
		share = 1
	}
	a.each(len(dir), rowBlock, func(_, from, to int) {
		for r := from; r < to; r++ {
			row := dir[r]
			for g, x := range grad[r] {
				row[g] += share * (x - row[g])
			}
		}
	})
}

// step moves prices along dir so far that the value would rise by gain if it were linear. It returns false if the
// prices are the best ones.
func (a *jobAscent) step(cur *prices, dir [][]float64, gain float64) bool {
	dearest := 0.0
	for r := range cur.at {
		dearest = max(dearest, slices.Max(cur.at[r]))
	}
	floor := jobFloor*dearest + 1
	// A price moves by length · (price + floor) · dir / (GPUs · length of the cell).
	a.each(len(dir), rowBlock, func(_, from, to int) {
		sum := 0.0
		for r := from; r < to; r++ {
			part := 0.0
			for g, x := range dir[r] {
				if p := cur.at[r][g]; p > 0 || x > 0 {
					part += (p + floor) * a.perTime[g] * x * x
				}
			}
			sum += part / float64(a.pr.rows[r].gpus)
		}
		a.norms[from/rowBlock] = sum
	})
	norm := 0.0
	for _, x := range a.norms {
		norm += x
	}
	if norm <= 0 {
		return false
	}
	a.each(len(dir), rowBlock, func(_, from, to int) {
		for r := from; r < to; r++ {
			length := gain / norm / float64(a.pr.rows[r].gpus)
			row := cur.at[r]
			for g, x := range dir[r] {
				if p := row[g]; p > 0 || x > 0 {
					row[g] = max(0, p+length*(p+floor)*a.perTime[g]*x)
				}
			}
		}
	})
	return true
}
