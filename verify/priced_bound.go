package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/hare-sched/hare"
)

// priceBound returns Σ φ_j − Σ w a − the price of all capacity, for the jobs that are not fixed,
// plus what the weight that is moved along dependencies adds. Prices are in units of 1e-9,
// times in µs and weights in units of 1e-6, so sums are in 1e-15 weight-seconds.
func priceBound(ctx context.Context, inst *hare.Instance, s *supply, c *hare.Certificate) (*proved, error) {
	m, err := newPriceCertificate(inst, s, c)
	if err != nil {
		return nil, err
	}
	ds, err := s.demands(inst)
	if err != nil {
		return nil, err
	}
	moved, err := moveWeights(inst, ds, c.After)
	if err != nil {
		return nil, err
	}
	phis, err := eachDemand(ctx, ds, m.phi)
	if err != nil {
		return nil, err
	}
	if m.spent.Load() > maxPriceWork {
		return nil, errSteps
	}
	return m.total(ds, phis, moved), nil
}

// newPriceCertificate refuses a certificate that is not a grid with a price for each of
// its cells.
func newPriceCertificate(inst *hare.Instance, s *supply, c *hare.Certificate) (*priceCertificate, error) {
	m, work, err := readPrices(s, c)
	if err != nil {
		return nil, err
	}
	m.jobs = int64(max(1, len(inst.Jobs)))
	if err := m.addPools(inst, work); err != nil {
		return nil, err
	}
	modes := 0
	for i := range inst.Jobs {
		for _, shape := range shapesOf(&inst.Jobs[i]) {
			modes += len(shape.On)
			if s.rooms != nil {
				for _, p := range shape.On {
					modes += len(s.rooms.classes[p.Type])
				}
			}
		}
	}
	if hi, lo := bits.Mul64(uint64(modes), uint64(len(c.GridUs))); hi > 0 || lo > maxPriceWork {
		return nil, fmt.Errorf("a grid of %d cells is too fine to check for %d jobs", len(c.GridUs)-1, len(inst.Jobs))
	}
	return m, nil
}

// readPrices reads the grid, prices and sizes of a certificate; work is that of the knapsacks.
func readPrices(s *supply, c *hare.Certificate) (m *priceCertificate, work uint64, err error) {
	if len(c.GridUs) < 2 || c.GridUs[0] != 0 {
		return nil, 0, errors.New("grid_us must start with 0 and have at least one cell")
	}
	if c.StepUs < 0 {
		return nil, 0, errors.New("step_us must not be negative")
	}
	for i := 1; i < len(c.GridUs); i++ {
		if c.GridUs[i] <= c.GridUs[i-1] || c.GridUs[i] > hare.MaxExact {
			return nil, 0, fmt.Errorf("grid_us must rise, up to 2^53: entry %d does not", i)
		}
		if c.StepUs > 0 && c.GridUs[i]%c.StepUs != 0 {
			return nil, 0, fmt.Errorf("entry %d of grid_us is not a multiple of step_us", i)
		}
	}
	m = &priceCertificate{cert: c, supply: s, curves: map[resource]*priceCurve{}, sizes: map[string][]int64{},
		seconds: map[string]pricedSecond{}}
	for _, p := range c.Prices {
		if err := m.addPrices("prices", resource{p.Type, 1}, p.Nanos); err != nil {
			return nil, 0, err
		}
	}
	for _, p := range c.Sizes {
		if p.Tasks < 2 || p.Tasks > hare.MaxGPUs {
			return nil, 0, fmt.Errorf("sizes have %d GPUs: 2 to %d may be held together", p.Tasks, hare.MaxGPUs)
		}
		if err := m.addPrices("sizes", resource{p.Type, p.Tasks}, p.Nanos); err != nil {
			return nil, 0, err
		}
		// Each factor is at most 2^21, and the product at most 2^53 in any memory.
		if work += uint64(len(p.Nanos)) * uint64(s.capacities[p.Type].peak()+1); work > maxPriceWork {
			return nil, 0, fmt.Errorf("a grid of %d cells is too fine to check with %d sizes", len(c.GridUs)-1,
				len(c.Sizes))
		}
		m.sizes[p.Type] = append(m.sizes[p.Type], p.Tasks)
	}
	return m, work, nil
}

// phi returns the least weighted completion plus tardiness plus price of one job alone, in 1e-15
// weight-seconds.
func (pc *priceCertificate) phi(d *demand) (*big.Rat, error) {
	job := &d.job
	path := job.ReleaseUs
	if pc.cert.Path {
		path = d.earliest
	}
	if job.Shapes != nil {
		return pc.shapedPhi(d, path)
	}
	types := pc.supply.choices(job)
	cs, err := pc.pays(job, types)
	if err != nil {
		return nil, err
	}
	if job.Sync == hare.Rigid {
		return rigidPhi(job, cs, path, math.MaxInt64)
	}
	if job.Sync == hare.Relaxed && len(pc.own) > 0 {
		cs = pc.tightAndLoose(job, cs, d.least/job.Rounds)
	}
	phi := fluidPhi(job, cs, pc.cert.GridUs, path)
	if job.Sync == hare.Relaxed && pc.cert.StepUs > 0 {
		exact, err := pc.stepsPhi(job, types, cs, d.least/job.Rounds, d.earliest)
		if err != nil {
			return nil, err
		}
		if exact != nil && exact.Cmp(phi) > 0 {
			return exact, nil
		}
	}
	return phi, nil
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

// total returns Σ φ_j − Σ w a − the price of all capacity, and what moved weights add, in
// weight-seconds. moved is in 1e-12 weight-seconds.
func (pc *priceCertificate) total(ds []demand, phis []*big.Rat, moved *big.Int) *proved {
	fixed := pc.capacity()
	for i := range ds {
		if !ds[i].fixed {
			fixed.Add(fixed, times(ds[i].weight, 1000, ds[i].arrival))
		}
	}
	return addUp(phis, fixed.Sub(fixed, new(big.Int).Mul(moved, big.NewInt(1000))))
}
