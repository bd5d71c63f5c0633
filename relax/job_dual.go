package relax

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hare-sched/hare"
)

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
