package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// A tree of one leaf keeps nothing of the starts of jobs, so that it also bounds gang jobs, and jobs on GPUs that
// leave (docs/inside/bounds.md#branch-prices-of-jobs-and-trees, "One leaf").

// ownKey names a price of a job on a type.
type ownKey struct{ job, kind string }

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

// tightAndLoose returns the modes of a relaxed job: tight and loose rounds on the types on which it has a price of its
// own, and the usual ones on the others (docs/inside/bounds.md#branch-prices-of-jobs-and-trees, "Relaxed jobs in one
// leaf"). No round takes less than tau. The names are those of the page.
//
// Proof that a schedule of the job pays and takes no less. Let a round last from its first start x to the end e of
// its last synchronisation. Call it tight if all K tasks run on one type k with a price of its own, and all overlap.
// Let y < p_k be the last start minus the first of a tight round. From the last start z = x + y until z + p_k − y
// all K tasks run: there the job pays ρ. Before and after, and in other rounds, it pays for single GPUs.
//
//  1. A round that is not tight, with a task on a type k with a price of its own, lasts at least D_k: τ by its
//     definition; p_k max(2, ⌈K/m_k⌉) + s_k if all tasks are on k, since m_k GPUs do K tasks in no less than p_k
//     ⌈K/m_k⌉, and tasks that do not all overlap take 2 p_k; max(d_k, d_l) with a task on another type l. A task of
//     it that starts at u on k gets the window from u' = min(u, e − D_k) for D_k, which lies in the round; u − (D_k
//     − d_k) ≤ u' ≤ u. It counts as the share 1/K of a loose round there. With t = u' + θ D_k and v = u + θ p_k, v
//     ≥ a and −(D_k − d_k) ≤ t − v ≤ D_k − p_k, so that the mode pays no more than the task. A task on a type
//     without a price of its own keeps its window of d_k from u on. So the K windows are in the round, and the
//     shares at an instant sum to 1 at most.
//  2. A tight round counts as 1 − y/p_k tight rounds from z until z + (p_k − y) d_k/p_k, and as y/p_k loose ones in
//     the rest of [x, e), which is y seconds before z and y + y s_k/p_k behind, (2 p_k + s_k) y/p_k in all; D_k ≤ 2
//     p_k + s_k, as K ≤ m_k gives τ ≤ d_k. With t = z + θ d_k/p_k and v = z + θ, 0 ≤ θ < p_k − y, t − v lies
//     between 0 and s_k: the tight mode pays no more than the job pays from z on. Each task pays y seconds as a
//     single GPU: those from its start u until z, and those from z + p_k − y until u + p_k. Spread them in their
//     order, evenly, over the rest of [x, e) in its order. Then −p_k ≤ t − v ≤ p_k + s_k, by four cases: with A = z
//     − u and θ from 0 to 1, v is u + θ y until z, and then z + p_k − y + θ y − A; t is x + θ (2 + s_k/p_k) y until
//     z, and then z + (p_k − y) d_k/p_k + θ (2 + s_k/p_k) y − y; and 0 ≤ A ≤ y.
//  3. Both kinds of rounds do one round, lie between a and C, and do not overlap with other rounds. ∎
func (pc *priceCertificate) tightAndLoose(job *hare.Job, cs []typeChoice, tau int64) []typeChoice {
	var out []typeChoice
	for i := range cs {
		c := cs[i]
		if pc.own[ownKey{job.ID, c.kind}] == nil {
			out = append(out, c)
			continue
		}
		if c.count >= job.Tasks {
			out = append(out, c)
		}
		if job.Tasks == 1 {
			continue
		}
		least := int64(math.MaxInt64)
		if all, ok := mul(c.p, max(2, (job.Tasks+c.count-1)/c.count)); ok && all <= math.MaxInt64-c.s {
			least = all + c.s
		}
		for y := range cs {
			if y != i {
				least = min(least, max(c.d, cs[y].d))
			}
		}
		l := typeChoice{kind: c.kind, p: c.p, s: c.s, d: max(c.d, tau, least), count: c.count, units: job.Tasks,
			curve: pc.curves[resource{c.kind, 1}]}
		l.back, l.ahead = max(c.d, l.d-c.p), max(c.p, l.d-c.d)
		out = append(out, l)
	}
	return out
}
