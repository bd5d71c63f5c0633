package verify

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// A tree of one leaf keeps nothing of the starts of jobs, so that it also bounds gang jobs, and jobs on GPUs that
// leave (docs/inside/bounds.md#branch-prices-of-jobs-and-trees, "One leaf").

// once is a job with a price of its own on a type: it counts once, from opens until ends, and not in its core.
type once struct {
	tasks       int64
	opens, ends int64
	from, to    int64 // its core
	prices      []int64
}

// divisible says why the schedules of an instance cannot be divided into cases; nil where they can.
func divisible(inst *hare.Instance, s *supply) error {
	for kind, tc := range s.capacities {
		if !slices.IsSorted(tc.level) {
			return fmt.Errorf("a tree of several nodes is for GPUs that stay: some of type %.40q leave", kind)
		}
	}
	for i := range inst.Jobs {
		if job := &inst.Jobs[i]; job.Sync != hare.Rigid || !plain(job) {
			return fmt.Errorf("a tree of several nodes is for rigid jobs without further rules, which job %.40q is not",
				job.ID)
		}
	}
	return nil
}

// plain says that a job has no rules beside its profiles, rounds and tasks.
func plain(job *hare.Job) bool {
	if job.Shapes != nil || len(job.After)+len(job.Durations) > 0 {
		return false
	}
	if p := job.Progress; p != nil && (p.RoundsDone > 0 || len(p.GPUs) > 0) {
		return false
	}
	return !slices.ContainsFunc(job.On, func(p hare.Profile) bool { return p.SwitchUs > 0 })
}

// leafBound returns what the prices of the only leaf of a tree prove: Σ φ − Σ w a − the price of all capacity, where
// capacity costs what the dearest set of jobs pays that fits. (Cells + C_k + jobs) · (1 + max_t M_k(t)) · (1 + rows of
// jobs and sizes), summed over the types k with rows of jobs, is at most 2^33.
//
// Proof. At t the parts of type k are all K GPUs of one job, none twice or before its release, or single GPUs of
// relaxed jobs; so the jobs pay at most F_k(M_k(t)), and the proof of the method price goes through. ∎
func leafBound(ctx context.Context, inst *hare.Instance, s *supply, c *hare.Certificate) (*proved, error) {
	t := &branchTree{byID: map[string]int{}}
	t.addKinds(s)
	for i := range inst.Jobs {
		job := &inst.Jobs[i]
		if job.Mix || !plain(job) {
			return nil, fmt.Errorf("a branch certificate is for jobs without further rules, which job %.40q is not", job.ID)
		}
		t.jobs = append(t.jobs, rigidJob{spec: job})
		t.byID[job.ID] = i
	}
	at := c.Tree[0].Prices
	sets := priceSets(c)
	if at < 0 || at >= len(sets) {
		return nil, fmt.Errorf("entry 0 of tree has prices %d of %d", at, len(sets))
	}
	var chosen *priceCertificate
	for x := range sets {
		set := &sets[x]
		pc, err := newPriceCertificate(inst, s, &hare.Certificate{GridUs: set.GridUs, Prices: set.Prices,
			Sizes: set.Sizes, Path: true})
		if err != nil {
			return nil, fmt.Errorf("prices %d: %w", x, err)
		}
		own, err := t.ownPrices(set)
		if err != nil {
			return nil, fmt.Errorf("prices %d: %w", x, err)
		}
		pc.own = map[ownKey]*priceCurve{}
		for at, curve := range own {
			pc.own[ownKey{t.jobs[at/len(t.kinds)].spec.ID, t.kinds[at%len(t.kinds)]}] = curve
		}
		if x == at {
			chosen = pc
		}
	}
	ds, err := s.demands(inst)
	if err != nil {
		return nil, err
	}
	fixed, err := t.leafCapacity(ctx, chosen)
	if err != nil {
		return nil, err
	}
	phis, err := eachDemand(ctx, ds, chosen.phi)
	if err != nil {
		return nil, err
	}
	for i := range ds {
		fixed.Add(fixed, times(ds[i].weight, 1000, ds[i].arrival))
	}
	return addUp(phis, fixed), nil
}

// priceSets returns the prices that leaves may name, by number.
func priceSets(c *hare.Certificate) []hare.PriceSet {
	return append([]hare.PriceSet{{GridUs: c.GridUs, Prices: c.Prices, Sizes: c.Sizes}}, c.PriceSets...)
}

// leafCapacity returns the price of all GPUs in service.
func (t *branchTree) leafCapacity(ctx context.Context, pc *priceCertificate) (*big.Int, error) {
	total, work := new(big.Int), new(big.Int)
	for k, kind := range t.kinds {
		var listed []once
		for i := range t.jobs {
			if curve := pc.own[ownKey{t.jobs[i].spec.ID, kind}]; curve != nil {
				listed = append(listed, once{tasks: t.jobs[i].spec.Tasks, opens: t.jobs[i].spec.ReleaseUs, ends: hare.Forever,
					prices: curve.prices})
			}
		}
		if len(listed) == 0 {
			total.Add(total, pc.costOf(kind, t.supply[k]))
			continue
		}
		cuts, goods := len(pc.cert.GridUs)-1+len(t.supply[k].at)+len(t.jobs), len(listed)+len(pc.sizes[kind])
		work.Add(work, times(int64(cuts), 1+t.supply[k].most, int64(goods)+1))
		if work.Cmp(big.NewInt(maxPriceWork)) > 0 {
			return nil, errors.New("the prices of jobs take too long to check")
		}
		total.Add(total, pc.dearestSets(ctx, kind, t.supply[k], listed))
	}
	return total, ctx.Err()
}

// dearestSets returns the price of some GPUs of a type where jobs have prices of their own: at each instant, that of
// the dearest of what fits into these GPUs.
func (pc *priceCertificate) dearestSets(ctx context.Context, kind string, free *typeCapacity, listed []once) *big.Int {
	grid := pc.cert.GridUs
	cuts := slices.Concat(grid, free.at)
	for _, j := range listed {
		cuts = append(cuts, j.opens, j.ends, j.from, j.to)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	total, step := new(big.Int), 0
	var best []int64
	for c, from := range cuts[:len(cuts)-1] {
		if ctx.Err() != nil {
			break
		}
		if from < 0 || from >= grid[len(grid)-1] {
			continue
		}
		for step+1 < len(free.at) && free.at[step+1] <= from {
			step++
		}
		cell, exact := slices.BinarySearch(grid, from)
		if !exact {
			cell--
		}
		best = cleared(best, free.level[step]+1)
		raise := func(gpus, price int64, n int64) {
			if n >= gpus {
				best[n] = max(best[n], best[n-gpus]+price)
			}
		}
		for n := range int64(len(best)) {
			if curve := pc.curves[resource{kind, 1}]; curve != nil {
				raise(1, curve.prices[cell], n)
			}
			for _, gpus := range pc.sizes[kind] {
				raise(gpus, pc.curves[resource{kind, gpus}].prices[cell], n)
			}
			if n > 0 {
				best[n] = max(best[n], best[n-1])
			}
		}
		for _, j := range listed {
			if from < j.opens || from >= j.ends || j.from <= from && from < j.to {
				continue
			}
			for n := int64(len(best)) - 1; n >= j.tasks; n-- {
				raise(j.tasks, j.prices[cell], n)
			}
		}
		total.Add(total, times(best[len(best)-1], cuts[c+1]-from))
	}
	return total
}
