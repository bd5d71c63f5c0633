package relax

import (
	"math"
	"slices"
)

// horizon guesses the time after which capacity is worth nothing: the end of the last
// path plus the time that the whole cluster needs for all work. longest is the end of
// the last path, or of the first run of a job that waits for running work of its quota.
func (pr *problem) horizon() (guess, longest float64) {
	last, work := 0.0, 0.0
	peak := make([]float64, len(pr.caps))
	for k, steps := range pr.caps {
		for _, s := range steps {
			peak[k] = max(peak[k], float64(s.Count))
		}
	}
	for i := range pr.jobs {
		j := &pr.jobs[i]
		last = max(last, j.path)
		for s := range j.scenarios {
			last = max(last, j.scenarios[s].path)
		}
		speed := 0.0 // in rounds per microsecond on the whole cluster
		for _, md := range j.modes {
			speed += peak[md.kind] / (md.held * md.each)
		}
		work += j.rounds / speed
	}
	last = max(last, pr.addMarks())
	return math.Ceil(last + 1.3*work), last
}

// geometric returns a grid of cells over [0, end] that widen towards the end. Points are
// multiples of step.
func geometric(cells int, end, step float64) []float64 {
	grid := make([]float64, 0, cells+1)
	for g := range cells + 1 {
		x := float64(g) / float64(cells)
		grid = append(grid, math.Round(end*(0.3*x+0.7*x*x)/step)*step)
	}
	return slices.Compact(grid)
}

// even returns a grid of equal cells over [0, end]. Points are multiples of step.
func even(cells int, end, step float64) []float64 {
	grid := make([]float64, 0, cells+1)
	for g := range cells + 1 {
		grid = append(grid, math.Ceil(end*float64(g)/float64(cells)/step)*step)
	}
	return slices.Compact(grid)
}

// refine returns a grid of about cells cells up to the last positive price of pi, and at
// least to the time least. Each cell has about the same share of time and of change in
// priced capacity. Points are multiples of step.
func refine(pi *prices, caps [][]float64, cells int, least, step float64) []float64 {
	G := len(pi.grid) - 1
	last := 0
	for _, row := range pi.at {
		top := slices.Max(row)
		for g, x := range row {
			if x > 0.002*top {
				last = max(last, g+1)
			}
		}
	}
	if last == 0 {
		// No cell lacks capacity on average. Finer cells may, in which jobs run while nothing
		// has a price.
		return even(cells, max(least, step), step)
	}
	last = min(G, last+1)
	for last < G && pi.grid[last] < least {
		last++
	}
	end := math.Ceil(pi.grid[last]/step) * step
	// change becomes the change of M·π in each old cell; half of a cell's mass is by time
	// and half by change.
	change := make([]float64, last)
	total := 0.0
	for g := range change {
		for k, row := range pi.at {
			mean := caps[k][g] / (pi.grid[g+1] - pi.grid[g])
			next := 0.0
			if g+1 < G {
				next = row[g+1]
			}
			prev := row[g]
			if g > 0 {
				prev = row[g-1]
			}
			change[g] += mean * (math.Abs(row[g]-next) + math.Abs(row[g]-prev))
		}
		total += change[g]
	}
	mass := make([]float64, last)
	sum := 0.0
	for g := range mass {
		mass[g] = 0.5 * (pi.grid[g+1] - pi.grid[g]) / end
		if total > 0 {
			mass[g] += 0.5 * change[g] / total
		}
		sum += mass[g]
	}
	grid := []float64{0}
	acc, want := 0.0, 1
	for g := range mass {
		for want < cells && acc+mass[g] >= sum*float64(want)/float64(cells) {
			share := (sum*float64(want)/float64(cells) - acc) / mass[g]
			grid = append(grid, math.Round((pi.grid[g]+share*(pi.grid[g+1]-pi.grid[g]))/step)*step)
			want++
		}
		acc += mass[g]
	}
	grid = append(grid, end)
	return slices.Compact(grid)
}

// transfer reads pi at the middles of grid's cells, where pi is interpolated linearly
// between the middles of its own cells.
func transfer(pi *prices, grid []float64) *prices {
	out := newPrices(grid, len(pi.at))
	out.moved = slices.Clone(pi.moved)
	G := len(pi.grid) - 1
	mid := make([]float64, G+1)
	for g := range G {
		mid[g] = (pi.grid[g] + pi.grid[g+1]) / 2
	}
	mid[G] = pi.grid[G]
	for k, row := range pi.at {
		level := func(g int) float64 {
			if g >= G {
				return 0
			}
			return row[g]
		}
		for c := range out.at[k] {
			t := (grid[c] + grid[c+1]) / 2
			g := cellOf(mid, t)
			switch {
			case t <= mid[0]:
				// The first slope is extrapolated, since prices mostly fall from 0 on.
				x := level(0)
				if G > 1 && mid[1] > mid[0] {
					x += (level(0) - level(1)) * (mid[0] - t) / (mid[1] - mid[0])
				}
				out.at[k][c] = max(0, x)
			case g >= G:
				out.at[k][c] = 0
			default:
				share := (t - mid[g]) / (mid[g+1] - mid[g])
				out.at[k][c] = level(g) + share*(level(g+1)-level(g))
			}
		}
	}
	return out
}
