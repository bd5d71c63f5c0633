package verify_test

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// reading is one way to read the definition of the price bound. The zero value is the right
// reading, and each field makes it false in one point.
type reading struct {
	noTail        bool // no piece after the horizon
	releaseUp     bool // release rounded up to the grid
	endOfInterval bool // C at the end of the interval
	oneType       bool // one type an interval, no mixing
	noIdle        bool // hull without the idle point
	priceD        bool // d priced under relaxed
	leftCapacity  bool // M at the cell's left end for all of it
	dropNarrow    bool // types with fewer GPUs than K dropped
	noTrailing    bool // no trailing minimum
	oneCell       bool // trailing minimum over one cell only
	tauAtZero     bool // τ from the GPUs in service at time 0
	absentDear    bool // a type absent from the prices is infinitely dear
	noSingles     bool // F without GPUs alone
	greedyPattern bool // F by the dearest good first
	sizesMixing   bool // sizes for gangs that mix types
	sizesRelaxed  bool // sizes for relaxed jobs
	largestLevel  bool // F of the largest M of a cell for the whole cell
	ownAtZero     bool // a relaxed job's own GPUs are those in service at time 0
	noLast        bool // rounds shorter than the last level alone
	levelWindow   bool // slots of a level within its own length
	noSharing     bool // rounds of one type alone
	wholeAlone    bool // no sharing at levels at which some type holds all tasks
	stepUp        bool // release rounded up to the step
	noPath        bool // path is false, so C may be before P; this reading is not false
	deadlineDown  bool // the deadline rounded down to the step
	// endsBy is a time by which all work ends at no cost of its own, or 0; not a false reading.
	endsBy int64

	path int64 // P of the job where P goes by the room on nodes, else 0
}

// naiveEnd returns f(end) = w end + v max(0, end − d) of a job.
func naiveEnd(job *hare.Job, end int64) float64 {
	late := 0.0
	if job.LateWeightMicro > 0 {
		late = float64(job.LateWeightMicro) * 1e-12 * float64(max(0, end-job.DeadlineUs))
	}
	return float64(job.WeightMicro)*1e-12*float64(end) + late
}

// naive evaluates the price bound of a certificate in floats by the knapsack, piece by
// piece. It is slow and obvious, and it has every false reading built in.
func naive(inst *hare.Instance, c *hare.Certificate, r reading) float64 {
	grid := c.GridUs
	prices := map[string][]int64{}
	for _, p := range c.Prices {
		prices[p.Type] = p.Nanos
	}
	count := func(kind string, t int64) int64 {
		var n int64
		for _, node := range inst.Cluster.Nodes {
			number := 0
			for _, g := range node.GPUs {
				for range g.Count {
					busy := int64(0)
					for _, b := range node.Busy {
						if b.GPU == number {
							busy = b.UntilUs
						}
					}
					open := node.Windows == nil
					for _, w := range node.Windows {
						open = open || w.StartUs <= t && t < w.EndUs
					}
					if g.Type == kind && open && t >= busy {
						n++
					}
					number++
				}
			}
		}
		return n
	}
	var events []int64
	events = append(events, 0)
	for _, node := range inst.Cluster.Nodes {
		for _, w := range node.Windows {
			events = append(events, w.StartUs, w.EndUs)
		}
		for _, b := range node.Busy {
			events = append(events, b.UntilUs)
		}
	}
	events = append(events, grid...)
	slices.Sort(events)
	peak := func(kind string) int64 {
		var n int64
		for _, t := range events {
			n = max(n, count(kind, t))
		}
		return n
	}
	sizes := map[string]map[int64][]int64{}
	for _, p := range c.Sizes {
		if sizes[p.Type] == nil {
			sizes[p.Type] = map[int64][]int64{}
		}
		sizes[p.Type][p.Tasks] = p.Nanos
		if prices[p.Type] == nil {
			prices[p.Type] = make([]int64, len(grid)-1)
		}
	}
	total := 0.0
	for kind, row := range prices {
		for g, x := range row {
			goods := map[int64]int64{}
			for size, row := range sizes[kind] {
				goods[size] = row[g]
			}
			pays := func(m, from, to int64) {
				total -= float64(naivePattern(m, x, goods, r)) * 1e-15 * float64(to-from)
			}
			if r.leftCapacity {
				pays(count(kind, grid[g]), grid[g], grid[g+1])
				continue
			}
			most := int64(0)
			for _, t := range events {
				if t >= grid[g] && t < grid[g+1] {
					most = max(most, count(kind, t))
				}
			}
			if r.largestLevel {
				pays(most, grid[g], grid[g+1])
				continue
			}
			for i, t := range events {
				if t >= grid[g] && t < grid[g+1] && (i == 0 || events[i-1] != t) {
					end := grid[g+1]
					if at, _ := slices.BinarySearch(events, t+1); at < len(events) {
						end = min(end, events[at])
					}
					pays(count(kind, t), t, end)
				}
			}
		}
	}
	for i := range inst.Jobs {
		job := &inst.Jobs[i]
		round := naiveRound(job, peak)
		if r.tauAtZero {
			if early := naiveRound(job, func(kind string) int64 { return count(kind, 0) }); early > 0 {
				round = early
			}
		}
		rows, units := map[string][]int64{}, map[string]int64{}
		for kind, row := range prices {
			rows[kind], units[kind] = row, job.Tasks
			if own := sizes[kind][job.Tasks]; own != nil && (job.Sync != hare.Relaxed || r.sizesRelaxed) &&
				(!job.Mix || r.sizesMixing) {
				rows[kind], units[kind] = own, 1
			}
		}
		phi := naivePhi(job, grid, rows, units, peak, round, r)
		if job.Sync == hare.Relaxed && c.StepUs > 0 {
			own := peak
			if r.ownAtZero {
				own = func(kind string) int64 { return count(kind, 0) }
			}
			tau := naiveRound(job, own)
			phi = max(phi, float64(naiveV(job, grid, c.StepUs, prices, own, c.Path, tau, len(inst.Jobs), r))*1e-15)
		}
		total += phi - float64(job.WeightMicro)*1e-12*float64(job.ReleaseUs)
	}
	return total
}

// naiveRate is how a job may do rounds: each takes d, and pays units for p of it, at the least price from s before
// until ahead.
type naiveRate struct {
	p, s, d, ahead int64
	row            []int64
	units          float64
}

// naivePhi returns φ of one job, which pays units of the price of a type at a time. Modes replace its usual ones.
func naivePhi(job *hare.Job, grid []int64, prices map[string][]int64, units map[string]int64, peak func(string) int64,
	tau int64, r reading, modes ...naiveRate) float64 {
	release := job.ReleaseUs
	path := release
	if !r.noPath {
		path = max(path+job.Rounds*tau, r.path)
	}
	if r.releaseUp {
		at, _ := slices.BinarySearch(grid, release)
		if at < len(grid) {
			release = grid[at]
		}
		path = max(path, release)
	}
	var kinds, wide []naiveRate
	for _, p := range job.On {
		row := prices[p.Type]
		if peak(p.Type) == 0 || r.absentDear && row == nil {
			continue
		}
		if row == nil {
			row = make([]int64, len(grid)-1)
		}
		kinds = append(kinds, naiveRate{p: p.ComputeUs, s: p.SyncUs, d: p.DurationUs(), row: row,
			units: float64(units[p.Type])})
		if peak(p.Type) >= job.Tasks {
			wide = append(wide, kinds[len(kinds)-1])
		}
	}
	if r.dropNarrow && len(wide) > 0 {
		kinds = wide // if some type is wide enough
	}
	if len(modes) > 0 {
		kinds = modes
	}
	price := func(row []int64, t int64) float64 {
		at, found := slices.BinarySearch(grid, t)
		if !found {
			at--
		}
		if at < 0 || at >= len(row) {
			return 0
		}
		return float64(row[at]) * 1e-9
	}
	if job.Sync == hare.Rigid {
		best := math.Inf(1)
		for _, k := range kinds {
			length := job.Rounds * k.d
			least := max(release, path-length)
			starts := []int64{least}
			for _, g := range grid {
				starts = append(starts, max(least, g), max(least, g-length))
			}
			starts = append(starts, max(least, job.DeadlineUs-length))
			for _, s := range starts {
				if r.endsBy > 0 && s+length > r.endsBy {
					continue
				}
				cost := naiveEnd(job, s+length)
				for g, x := range k.row {
					if l := min(grid[g+1], s+length) - max(grid[g], s); l > 0 {
						cost += k.units * float64(x) * 1e-9 * float64(l) / 1e6
					}
				}
				best = min(best, cost)
			}
		}
		return best
	}
	cuts := []int64{release, path}
	if job.LateWeightMicro > 0 {
		cuts = append(cuts, job.DeadlineUs)
	}
	cuts = append(cuts, grid...)
	for _, g := range grid {
		for _, k := range kinds {
			if job.Sync == hare.Relaxed {
				cuts = append(cuts, g+k.s, max(release, g-k.ahead))
			}
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	at, _ := slices.BinarySearch(cuts, release)
	cuts = cuts[at:]
	horizon := grid[len(grid)-1]
	type point struct{ rate, cost float64 }
	points := func(i int, extra float64) []point {
		var out []point
		for _, k := range kinds {
			t := cuts[i]
			cost := price(k.row, t)
			held := float64(k.d)
			if job.Sync == hare.Relaxed {
				if !r.priceD {
					held = float64(k.p)
				}
				if !r.noTrailing {
					from := max(t-k.s, release)
					cell, found := slices.BinarySearch(grid, t)
					if !found {
						cell--
					}
					for g := range k.row {
						if r.oneCell {
							if k.s == 0 && g != cell || g != cell && g != cell-1 {
								continue
							}
						} else if grid[g+1] <= from || grid[g] > t+k.ahead {
							continue
						}
						cost = min(cost, float64(k.row[g])*1e-9)
					}
					if t+k.ahead >= horizon {
						cost = 0
					}
				}
			}
			out = append(out, point{1e6 / float64(k.d), k.units*cost*held/float64(k.d) + extra})
		}
		return out
	}
	type part struct{ slope, rounds, key float64 }
	parts := func(i int, length, extra float64) []part {
		from := point{}
		pts := points(i, extra)
		var out []part
		if r.oneType {
			best := -1
			for x := range pts {
				// The round of least price comes first; of equal prices, the fastest round.
				if best < 0 || pts[x].cost*pts[best].rate < pts[best].cost*pts[x].rate ||
					pts[x].cost*pts[best].rate == pts[best].cost*pts[x].rate && pts[x].rate > pts[best].rate {
					best = x
				}
			}
			slope := pts[best].cost / pts[best].rate
			return []part{{slope, length * pts[best].rate, slope}}
		}
		for {
			best, slope := -1, math.Inf(1)
			for x, p := range pts {
				if p.rate > from.rate {
					if s := (p.cost - from.cost) / (p.rate - from.rate); s <= slope {
						best, slope = x, s
					}
				}
			}
			if best < 0 {
				return out
			}
			key := slope
			if r.noIdle && from.rate == 0 && extra == 0 {
				key = math.Inf(-1) // time cannot be left unused
			}
			out = append(out, part{slope, length * (pts[best].rate - from.rate), key})
			from = pts[best]
		}
	}
	best := math.Inf(1)
	for L := range cuts {
		if cuts[L] < path {
			continue
		}
		if r.noTail && cuts[L] >= horizon {
			break
		}
		length := math.Inf(1)
		if L+1 < len(cuts) {
			length = float64(cuts[L+1]-cuts[L]) / 1e6
		}
		extra, cost := float64(job.WeightMicro)*1e-6, naiveEnd(job, cuts[L])
		if job.LateWeightMicro > 0 && cuts[L] >= job.DeadlineUs {
			extra += float64(job.LateWeightMicro) * 1e-6
		}
		if r.endOfInterval && !math.IsInf(length, 1) {
			extra, cost = 0, naiveEnd(job, cuts[L+1])
		}
		if r.endsBy > 0 {
			if cuts[L] != r.endsBy {
				continue
			}
			length = 0
		}
		var all []part
		for i := range L {
			all = append(all, parts(i, float64(cuts[i+1]-cuts[i])/1e6, 0)...)
		}
		all = append(all, parts(L, length, extra)...)
		slices.SortFunc(all, func(a, b part) int {
			switch {
			case a.key < b.key:
				return -1
			case a.key > b.key:
				return 1
			}
			return 0
		})
		left := float64(job.Rounds)
		for _, x := range all {
			n := min(left, x.rounds)
			cost += n * x.slope
			if left -= n; left <= 0 {
				break
			}
		}
		if left <= 1e-12 {
			best = min(best, cost)
		}
	}
	return best
}

// naiveRound returns τ by counting up the ends of tasks; 0 if the job does not fit.
func naiveRound(job *hare.Job, peak func(string) int64) int64 {
	var ends []int64
	for _, p := range job.On {
		n := peak(p.Type)
		if job.Sync == hare.Relaxed {
			for x := range job.Tasks {
				for range min(n, job.Tasks) {
					ends = append(ends, (x+1)*p.ComputeUs+p.SyncUs)
				}
			}
		} else if job.Mix || n >= job.Tasks {
			for range min(n, job.Tasks) {
				ends = append(ends, p.DurationUs())
			}
		}
	}
	if int64(len(ends)) < job.Tasks {
		return 0
	}
	slices.Sort(ends)
	return ends[job.Tasks-1]
}

// naivePattern returns F for m GPUs in 1e-9 by trying every number of every resource.
// sizes holds prices by the number of GPUs that are held together.
func naivePattern(m, single int64, sizes map[int64]int64, r reading) int64 {
	best := m * single
	if r.noSingles {
		best = 0
	}
	if r.greedyPattern {
		// The resource of the greatest price per GPU comes first, as often as it fits.
		at, each := int64(1), single
		for k, x := range sizes {
			if k <= m && (x*at > each*k || x*at == each*k && k > at) {
				at, each = k, x
			}
		}
		if at == 1 {
			return m * single
		}
		return each + naivePattern(m-at, single, sizes, r)
	}
	for k, x := range sizes {
		if k <= m {
			best = max(best, x+naivePattern(m-k, single, sizes, r))
		}
	}
	return best
}
