package solver

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// Prices are the prices at which a price certificate charges jobs for GPU time, as floats
// for reports. The bound that the certificate proves is computed by package verify.
type Prices struct {
	model   *model.Model
	tariffs *priceCurves
	path    bool
}

// NewPrices reads a certificate that verify.Bound accepts for the instance of m. It
// returns nil if the certificate has no prices.
func NewPrices(m *model.Model, c *hare.Certificate) *Prices {
	if c == nil || !c.HasPrices() {
		return nil
	}
	return &Prices{m, newPriceCurves(m, c), c.Path}
}

// End returns the end of the job in its cheapest schedule on GPUs of one type alone, where
// the cost is w C + the price of the GPUs. A rigid job runs as one block, and any other job
// as a fluid (docs/inside/design.md, section 2.2). Of several cheapest schedules, the one with the
// earliest end counts. peak is the greatest number of GPUs of the type over time. End returns
// false if the job has no profile for the type, or if there are never enough GPUs for a
// round. End takes O(cells²).
func (pr *Prices) End(job, kind int, peak int64) (endUs int64, ok bool) {
	j := &pr.model.Jobs[job]
	x := slices.IndexFunc(j.Modes, func(md model.Mode) bool { return md.Type == kind })
	if x < 0 || peak < 1 || j.Sync != hare.Relaxed && peak < j.Tasks {
		return 0, false
	}
	md := j.Modes[x]
	tau := md.DurationUs()
	if j.Sync == hare.Relaxed {
		tau = (j.Tasks+peak-1)/peak*md.ComputeUs + md.SyncUs
	}
	earliest := j.ReleaseUs
	if pr.path {
		earliest += j.Rounds * tau
	}
	t := pr.tariffs.ofJob(kind, j)
	if j.Sync == hare.Rigid {
		endUs, _ = t.block(j, j.Rounds*md.DurationUs(), earliest)
		return endUs, true
	}
	endUs, _ = t.fluid(j, md, earliest)
	return endUs, true
}

// block returns the end, and w C + price, of the cheapest block of a rigid job that ends
// at earliest or later. An end of the block is at a grid point, or the block begins at
// the earliest possible time.
func (pc *priceCurve) block(j *model.Job, length, earliest int64) (endUs int64, cost float64) {
	w := float64(j.WeightMicro) * 1e-12
	first := max(j.ReleaseUs, earliest-length)
	at := func(start int64) float64 {
		return w*float64(start+length) + float64(j.Tasks)*(pc.cumulativeAt(start+length)-pc.cumulativeAt(start))
	}
	best, least := first, at(first)
	for _, g := range pc.grid {
		for _, start := range [2]int64{g - length, g} {
			if c := at(max(start, first)); start > first && (c < least || c == least && start < best) {
				best, least = start, c
			}
		}
	}
	return best + length, least
}

// fluid returns the end, and w C + price, of the cheapest fluid of a job that ends at
// earliest or later: for each possible last piece of time, the cheapest time before that
// piece and in it.
func (pc *priceCurve) fluid(j *model.Job, md model.Mode, earliest int64) (endUs int64, cost float64) {
	w := float64(j.WeightMicro) * 1e-12
	need := float64(j.Rounds * md.DurationUs())
	held, window := float64(j.Tasks), int64(0)
	if j.Sync == hare.Relaxed {
		held *= float64(md.ComputeUs) / float64(md.DurationUs())
		window = md.SyncUs
	}
	at := []int64{j.ReleaseUs, earliest}
	for _, g := range pc.grid {
		at = append(at, g, g+window)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	at = at[slices.Index(at, j.ReleaseUs):]
	n := len(at)
	rate, long := make([]float64, n), make([]float64, n) // the last piece is endless
	order := make([]int, n)
	for i, b := range at {
		least := pc.rate[pc.cell(b)]
		for g := pc.cell(max(j.ReleaseUs, b-window)); g < len(pc.rate) && pc.grid[g] <= b; g++ {
			least = min(least, pc.rate[g])
		}
		rate[i], long[i], order[i] = least*held, need, i
		if i+1 < n {
			long[i] = float64(at[i+1] - b)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rate[a], rate[b]) })
	best, least := int64(-1), 0.0
	for last := range n {
		if at[last] < earliest {
			continue
		}
		// Time in the last piece costs w beside its price.
		cost, left, inLast := w*float64(at[last]), need, 0.0
		own := rate[last] + w
		pay := func(rate, most float64) float64 {
			x := min(left, most)
			cost += rate * x
			left -= x
			return x
		}
		done := false
		for _, i := range order {
			if !done && rate[i] >= own {
				inLast, done = pay(own, long[last]), true
			}
			if i < last {
				pay(rate[i], long[i])
			}
		}
		if !done {
			inLast = pay(own, long[last])
		}
		if left == 0 && (best < 0 || cost < least) {
			best, least = at[last]+int64(inLast), cost
		}
	}
	return best, least
}

// PriceCurve is a price over time.
type PriceCurve struct{ curve priceCurve }

// NewPriceCurve takes a price by cells of a grid, in units of 1e-9 weight-seconds a second, which several tasks or
// GPUs share equally. nil prices are 0.
func NewPriceCurve(gridUs, nanos []int64, shares int64) *PriceCurve {
	return &PriceCurve{newPriceCurve(gridUs, nanos, shares)}
}

// Paid returns the price, in weight-seconds, of one share that is held rounds times for holdUs, first at startUs and
// then every periodUs. Paid takes at most O(cells), whatever the number of rounds.
func (pc *PriceCurve) Paid(startUs, periodUs, rounds, holdUs int64) float64 {
	return pc.curve.ofRuns(startUs, periodUs, rounds, holdUs)
}
