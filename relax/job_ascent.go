package relax

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// jobAscent climbs in the prices of jobs. Prices are those of one GPU of the job.
type jobAscent struct {
	ev   *evaluator
	pr   *problem
	grid []float64
	cuts []jobCut
	// first is the first of cuts by type and cell.
	first     []int
	rows      [][]int   // of jobs, by type, by rising number of GPUs
	divisible []bool    // by type: whether each number of GPUs divides the next
	singles   int       // the rows of single GPUs, which come first, by type; 0 where no job pays them
	scale     []float64 // by row: its GPUs, or the most of the type for single GPUs
	// A job may run, and has prices and a direction, from cell lo to before hi alone, by row.
	lo, hi []int
	sums   []float64 // what the dearest sets pay by cell
	norms  []float64 // by block of rows
	tops   []float64 // the greatest price by block of rows
	// perTime is 1 over the length of a cell.
	perTime []float64
	sets    []jobSets // scratch by worker
	best    *prices
	bound   float64             // the value at best
	delta   float64             // how far the target lies above the bound, as a share of it
	missed  bool                // whether a target was ever too far
	report  func(bound float64) // gets the bound in weight-seconds when it rises; may be nil
}

// jobCut is a stretch of a cell with so many GPUs of a type.
type jobCut struct {
	end, length float64
	free        int64
}

// newJobAscent prepares an ascent on so many cells of a grid at most.
func newJobAscent(pr *problem, points []int64, cells, workers int) *jobAscent {
	cells = min(cells, len(points)-1)
	a := &jobAscent{ev: newChunkedEvaluator(pr, workers, jobBlock), pr: pr, grid: make([]float64, cells+1)}
	for g := range a.grid {
		a.grid[g] = float64(points[g*(len(points)-1)/cells])
	}
	a.rows, a.divisible = make([][]int, len(pr.caps)), make([]bool, len(pr.caps))
	a.lo, a.hi = make([]int, len(pr.rows)), make([]int, len(pr.rows))
	for i := range pr.jobs {
		for m := range pr.jobs[i].modes {
			if pr.rows[pr.jobs[i].modes[m].row].job == 0 {
				a.singles = len(pr.caps)
			}
		}
	}
	for r, to := range pr.rows {
		a.scale = append(a.scale, float64(to.gpus))
		if r < a.singles {
			a.hi[r], a.scale[r] = cells, float64(max(1, model.MostRoom(pr.caps[to.kind])))
		}
		if to.job > 0 {
			a.rows[to.kind] = append(a.rows[to.kind], r)
			a.lo[r] = min(cells, cellOf(a.grid, pr.jobs[to.job-1].a))
			a.hi[r] = a.lo[r]
		}
	}
	for k, rows := range a.rows {
		slices.SortStableFunc(rows, func(x, y int) int { return cmp.Compare(pr.rows[x].gpus, pr.rows[y].gpus) })
		a.divisible[k] = true
		for i := range rows {
			if i > 0 && pr.rows[rows[i]].gpus%pr.rows[rows[i-1]].gpus > 0 {
				a.divisible[k] = false
			}
		}
	}
	a.sets = make([]jobSets, len(a.ev.oracles))
	a.sums, a.perTime = make([]float64, cells), make([]float64, cells)
	blocks := (len(pr.rows) + rowBlock - 1) / rowBlock
	a.norms, a.tops = make([]float64, blocks), make([]float64, blocks)
	for g := range cells {
		a.perTime[g] = 1 / (a.grid[g+1] - a.grid[g])
	}
	for _, steps := range pr.caps {
		for g := range cells {
			a.first = append(a.first, len(a.cuts))
			for x, s := range steps {
				end := a.grid[g+1]
				if x+1 < len(steps) {
					end = min(end, float64(steps[x+1].FromUs))
				}
				if l := end - max(a.grid[g], float64(s.FromUs)); l > 0 && s.Count > 0 {
					a.cuts = append(a.cuts, jobCut{end, l, s.Count})
				}
			}
		}
	}
	a.first = append(a.first, len(a.cuts))
	return a
}

// climb makes up to so many deflected, preconditioned supergradient steps of Polyak's length, and leaves the best
// prices in best; nil without a step. It returns the number of steps. The dual is also taken at averages of the
// prices, which swing about their best less than they do. Prices may be trimmed in the first step.
func (a *jobAscent) climb(ctx context.Context, cur *prices, target float64, most int, trim bool) (steps int) {
	rows := len(a.pr.rows)
	grad, dir := newPrices(a.grid, rows).at, newPrices(a.grid, rows).at
	other, mean := newPrices(a.grid, rows), newPrices(a.grid, rows)
	for _, pi := range []*prices{cur, other, mean} {
		pi.integrate()
	}
	since, fresh := 0, true
	for ; steps < most; steps++ {
		at, averaged := cur, steps%meanSteps == meanSteps-1
		if averaged {
			at = mean
		}
		v, err := a.value(ctx, at, grad, trim && steps == 0)
		if err != nil {
			break
		}
		better := a.best == nil || v > a.bound
		if better {
			if a.bound, since = v, 0; a.report != nil {
				a.report(v * unit)
			}
		}
		if averaged {
			if better {
				a.copyPrices(a.best, mean)
				if !a.missed {
					a.delta = min(farthestTarget, jobFarther*a.delta)
				}
			}
			continue
		}
		a.average(mean, cur, fresh)
		switch {
		case a.best == nil:
			if a.delta == 0 {
				a.delta = min(mostAmbition, max(leastAmbition, jobAmbition/float64(len(a.pr.jobs))))
			}
			a.best, cur = cur, other
		case better:
			a.best, cur = cur, a.best
		default:
			if since++; since >= jobPatience {
				a.missed = true
				if a.delta *= jobNearer; a.delta < minDelta {
					return steps + 1
				}
				since, fresh = 0, true
				a.copyPrices(cur, a.best)
				continue
			}
		}
		if a.bound >= target {
			return steps + 1
		}
		a.turn(dir, grad, at, fresh)
		fresh = false
		if !a.step(cur, at, dir, a.bound+a.delta*math.Abs(a.bound)-v+1) {
			return steps + 1
		}
	}
	return steps
}

// refined goes on from a coarser ascent: it returns its best prices on the grid of this one.
func (a *jobAscent) refined(coarse *jobAscent) *prices {
	a.delta, a.missed = max(coarse.delta, leastRefined), coarse.missed
	out := newPrices(a.grid, len(a.pr.rows))
	for r, row := range coarse.best.at {
		g := 0
		for x := range out.at[r] {
			for g+1 < len(row) && coarse.grid[g+1] <= a.grid[x] {
				g++
			}
			if out.at[r][x] = row[g]; row[g] > 0 && x >= a.lo[r] {
				a.hi[r] = x + 1
			}
		}
		clear(out.at[r][:a.lo[r]])
	}
	a.closeCells(out)
	return out
}

// copyPrices copies prices within what jobs may use.
func (a *jobAscent) copyPrices(to, from *prices) {
	for r := range to.at {
		copy(to.at[r][a.lo[r]:a.hi[r]], from.at[r][a.lo[r]:a.hi[r]])
	}
}

// average moves mean towards prices, or begins it with them.
func (a *jobAscent) average(mean, pi *prices, first bool) {
	share := meanShare
	if first {
		share = 1
	}
	a.each(len(mean.at), rowBlock, func(_, from, to int) {
		for r := from; r < to; r++ {
			row := mean.at[r]
			for g := a.lo[r]; g < a.hi[r]; g++ {
				row[g] += share * (pi.at[r][g] - row[g])
			}
		}
	})
}

// turn turns the direction towards a supergradient, or makes it the direction.
func (a *jobAscent) turn(dir, grad [][]float64, at *prices, fresh bool) {
	share := jobDeflect
	if fresh {
		share = 1
	}
	a.each(len(dir), rowBlock, func(_, from, to int) {
		top := 0.0
		for r := from; r < to; r++ {
			row := dir[r]
			for g := a.lo[r]; g < a.hi[r]; g++ {
				if row[g] += share * (grad[r][g] - row[g]); row[g] != 0 {
					top = max(top, at.at[r][g]) // prohibitive prices never move, and do not count
				}
			}
		}
		a.tops[from/rowBlock] = top
	})
}

// step sets prices to those at from, moved along dir so far that the value would rise by gain if it were linear. It
// returns false if the prices are the best ones.
func (a *jobAscent) step(to, at *prices, dir [][]float64, gain float64) bool {
	floor := jobFloor*slices.Max(a.tops) + 1
	// A price moves by length · (price + floor) · dir / (scale · length of the cell).
	a.each(len(dir), rowBlock, func(_, first, end int) {
		sum := 0.0
		for r := first; r < end; r++ {
			part, row := 0.0, at.at[r]
			for g := a.lo[r]; g < a.hi[r]; g++ {
				if p, x := row[g], dir[r][g]; p > 0 || x > 0 {
					part += (p + floor) * a.perTime[g] * x * x
				}
			}
			sum += part / a.scale[r]
		}
		a.norms[first/rowBlock] = sum
	})
	norm := 0.0
	for _, x := range a.norms {
		norm += x
	}
	if norm <= 0 {
		return false
	}
	a.each(len(dir), rowBlock, func(_, first, end int) {
		for r := first; r < end; r++ {
			length := gain / norm / a.scale[r]
			row, out := at.at[r], to.at[r]
			for g := a.lo[r]; g < a.hi[r]; g++ {
				p, x := row[g], dir[r][g]
				if p > 0 || x > 0 {
					p = max(0, p+length*(p+floor)*a.perTime[g]*x)
				}
				out[g] = p
			}
		}
	})
	return true
}

// transfer returns the prices of a certificate on the grid of the ascent.
func (a *jobAscent) transfer(c *hare.Certificate) *prices {
	grid := make([]float64, len(c.GridUs))
	for g, t := range c.GridUs {
		grid[g] = float64(t)
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
	room := make([][]int64, len(a.pr.caps)) // the most GPUs in each cell of the certificate
	for k, steps := range a.pr.caps {
		room[k] = maxCapacity(steps, grid)
	}
	out := newPrices(a.grid, len(a.pr.rows))
	for r, to := range a.pr.rows {
		at := perGPU[row{kind: to.kind, gpus: to.gpus}]
		if at == nil {
			at = perGPU[row{kind: to.kind, gpus: 1}]
		}
		if at == nil || to.job == 0 && a.singles == 0 {
			continue
		}
		a.hi[r] = len(out.at[r])
		means(out.at[r], a.grid, at, grid, func(g int) bool { return room[to.kind][g] >= to.gpus })
	}
	a.closeCells(out)
	return out
}

// means sets each price of out to the mean, over time, of the prices in the open cells of another grid; without such
// cells the price stays.
func means(out, outGrid, at, grid []float64, open func(g int) bool) {
	g := 0
	for c := range out {
		from, to := outGrid[c], outGrid[c+1]
		for g > 0 && grid[g] > from {
			g--
		}
		sum, length := 0.0, 0.0
		for ; g < len(at) && grid[g] < to; g++ {
			if l := min(grid[g+1], to) - max(grid[g], from); l > 0 && open(g) {
				sum, length = sum+l*at[g], length+l
			}
		}
		g = min(g, len(at)-1)
		if length > 0 {
			out[c] = sum / length
		}
	}
}

// closeCells raises the prices of jobs to prohibitive ones in the cells where they have no room, which costs nothing.
func (a *jobAscent) closeCells(pi *prices) {
	for k, rows := range a.rows {
		room := maxCapacity(a.pr.caps[k], a.grid)
		for _, r := range rows {
			price := a.pr.prohibitivePrice(r, a.grid[len(a.grid)-1])
			for g := a.lo[r]; g < a.hi[r]; g++ {
				if room[g] < a.pr.rows[r].gpus {
					pi.at[r][g] = price
				}
			}
		}
	}
}

// value returns the dual at prices, and its supergradient in grad. A job counts in all of the cell
// in which it comes, so that the value may be less than what the prices prove. Prices may be trimmed first, which
// leaves φ as it is.
func (a *jobAscent) value(ctx context.Context, pi *prices, grad [][]float64, trim bool) (float64, error) {
	pr, e := a.pr, a.ev
	version := e.nextVersion()
	cells := len(a.sums)
	for k := range a.singles {
		pi.integrateRow(k)
	}
	err := e.each(ctx, func(o *oracle, c, from, to int) {
		ch := &e.chunks[c]
		ch.phi = 0
		ch.use = slices.Grow(ch.use[:0], a.singles*cells)[:a.singles*cells]
		clear(ch.use)
		o.setPrices(pi, version)
		var ans answer
		ans.uses, ans.progress = o.uses, o.progress
		for i := from; i < to && ctx.Err() == nil; i++ {
			for m := range pr.jobs[i].modes {
				if r := pr.jobs[i].modes[m].row; r >= a.singles {
					pi.integrateRow(r)
					clear(grad[r][a.lo[r]:a.hi[r]])
				}
			}
			e.answer(i, o, &ans)
			ch.phi += ans.phi
			if trim {
				a.trim(i, pi, ans.phi)
			}
			for _, u := range ans.uses {
				if int(u.row) < a.singles {
					ch.use[int(u.row)*cells+int(u.cell)] += u.amount
					continue
				}
				grad[u.row][u.cell] += u.amount // of this job alone
				a.hi[u.row] = max(a.hi[u.row], int(u.cell)+1)
			}
		}
		o.uses, o.progress = ans.uses, ans.progress
	})
	if err != nil {
		return 0, err
	}
	for k := range a.singles {
		clear(grad[k])
		for c := range e.chunks {
			for g, u := range e.chunks[c].use[k*cells : (k+1)*cells] {
				grad[k][g] += u
			}
		}
	}
	clear(a.sums)
	a.each(len(a.sums), cellBlock, func(w, from, to int) { a.dearest(&a.sets[w], from, to, pi, grad) })
	v := -pr.wa
	for c := range e.chunks {
		v += e.chunks[c].phi
	}
	for _, x := range a.sums {
		v -= x
	}
	return v, nil
}

// dearest adds to sums what the dearest sets of jobs and single GPUs pay in the cells of a block, and takes the sets
// off grad.
func (a *jobAscent) dearest(js *jobSets, from, to int, pi *prices, grad [][]float64) {
	for k, rows := range a.rows {
		for g := range js.cells {
			js.cells[g] = js.cells[g][:0]
		}
		for _, r := range rows {
			n := a.pr.rows[r].gpus
			for g := max(from, a.lo[r]); g < min(to, a.hi[r]); g++ {
				if p := pi.at[r][g] - pi.at[k][g]; p > 0 {
					js.cells[g-from] = append(js.cells[g-from], pricedJob{p * float64(n), int32(r), int32(n)})
				}
			}
		}
		for g := from; g < to; g++ {
			x := k*len(a.sums) + g
			for _, c := range a.cuts[a.first[x]:a.first[x+1]] {
				in := js.in[:0]
				for _, y := range js.cells[g-from] {
					if c.end >= a.grid[g+1] || a.pr.jobs[a.pr.rows[y.row].job-1].a < c.end {
						in = append(in, y)
					}
				}
				js.in = in
				a.sums[g] += c.length * (js.choose(in, c.free, a.divisible[k]) + float64(c.free)*pi.at[k][g])
				left := float64(c.free)
				for _, r := range js.chosen {
					n := float64(a.pr.rows[r].gpus)
					grad[r][g] -= c.length * n
					left -= n
				}
				if k < a.singles {
					grad[k][g] -= c.length * left
				}
			}
		}
	}
}

// each calls f for blocks of the numbers below n, on all workers, or on one where there are few rows; w is the
// worker's number.
func (a *jobAscent) each(n, block int, f func(w, from, to int)) {
	if len(a.pr.rows) <= rowBlock {
		for from := 0; from < n; from += block {
			f(0, from, min(from+block, n))
		}
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

// trim takes back the prices of job i, whose best schedule costs phi, from when on it costs more just to end: there
// they keep no other schedule from being the best one.
func (a *jobAscent) trim(i int, pi *prices, phi float64) {
	j := &a.pr.jobs[i]
	for m := range j.modes {
		r := j.modes[m].row
		if r < a.singles {
			continue
		}
		row := pi.at[r]
		clear(row[:a.lo[r]])
		for hi := len(row); ; hi-- {
			if hi == a.lo[r] || row[hi-1] > 0 && j.cost(a.grid[hi-1]) < phi {
				a.hi[r] = hi
				break
			}
			row[hi-1] = 0
		}
	}
}
