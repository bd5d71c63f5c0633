package relax

// prices are piecewise constant on grid, one row for each type, and zero from the last
// grid point on.
type prices struct {
	grid []float64 // in seconds, G+1 points from 0
	at   [][]float64
	// moved are the weights that move along the problem's edges, in 1e-9.
	moved []float64
	// cum[k][g] is ∫_0^grid[g] of row k.
	cum [][]float64
}

func (pi *prices) integrate() {
	if pi.cum == nil {
		pi.cum = make([][]float64, len(pi.at))
	}
	for k, row := range pi.at {
		if len(pi.cum[k]) != len(row)+1 {
			pi.cum[k] = make([]float64, len(row)+1)
		}
		pi.integrateRow(k)
	}
}

// integrateRow is integrate for a row that had been integrated before.
func (pi *prices) integrateRow(k int) {
	c, cum := 0.0, pi.cum[k]
	for g, x := range pi.at[k] {
		c += x * (pi.grid[g+1] - pi.grid[g])
		cum[g+1] = c
	}
}

// use is what one job takes: priced GPU-seconds in a cell of a row.
type use struct {
	row, cell int32
	amount    float64
}

// progressInterval is progress of one job at a constant rate between two times.
type progressInterval struct {
	from, to, rounds float64
}

// answer is the best schedule of one job alone at given prices.
type answer struct {
	phi      float64 // w C + price, at most the least
	end      float64 // C
	slope    float64 // of the dearest rounds; only relaxed and gang jobs
	scale    float64 // of the terms that cancelled in phi
	cutoff   float64 // see fluid; 0 in the first answer for a job, then carried to the next
	uses     []use
	progress []progressInterval
}

func cellOf(grid []float64, t float64) int {
	lo, hi := 0, len(grid) // the cell g with grid[g] ≤ t < grid[g+1]
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if grid[mid] <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// cellFrom is cellOf where t is not before the cell from.
func cellFrom(grid []float64, from int, t float64) int {
	for from+1 < len(grid) && grid[from+1] <= t {
		from++
	}
	return from
}

// integralTo returns ∫_0^t of the row, where t lies in cell g.
func integralTo(grid, cum, row []float64, g int, t float64) float64 {
	if g >= len(row) {
		return cum[len(row)]
	}
	return cum[g] + (t-grid[g])*row[g]
}

func newPrices(grid []float64, types int) *prices {
	p := &prices{grid: grid, at: make([][]float64, types)}
	for k := range p.at {
		p.at[k] = make([]float64, len(grid)-1)
	}
	return p
}

func (pi *prices) copyFrom(q *prices) {
	for k := range pi.at {
		copy(pi.at[k], q.at[k])
	}
	pi.moved = append(pi.moved[:0], q.moved...)
}
