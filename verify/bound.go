package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hare-sched/hare"
)

// maxPriceWork limits three products, so that a hostile document costs minutes at most: the
// jobs × types × grid cells of a price certificate, the GPUs × sizes × grid cells of its
// knapsacks, and the steps of its jobs.
const maxPriceWork = 1 << 33

// Bound returns the exact lower bound on the objective that a certificate proves for an
// instance (docs/inside/design.md, section 2; docs/reference/model.md), or an error if the certificate proves
// no bound. Bound ignores the bound and the instance that the certificate itself states. The method price takes O(jobs
// · pieces · types) for each of some tens of multipliers μ, on all cores; a piece is a grid cell or a part of one.
func Bound(inst *hare.Instance, c *hare.Certificate) (*big.Rat, error) {
	p, err := prove(context.Background(), inst, c)
	if err != nil {
		return nil, err
	}
	return p.low, nil
}

// prove is Bound. Its result has no meaning once ctx has ended.
func prove(ctx context.Context, inst *hare.Instance, c *hare.Certificate) (*proved, error) {
	if err := plausible(inst); err != nil {
		return nil, err
	}
	if c == nil {
		return nil, errors.New("there is no certificate")
	}
	if c.Objective != inst.Objective {
		return nil, fmt.Errorf("the certificate's objective %.40q is not the instance's %q", c.Objective, inst.Objective)
	}
	if c.Method != hare.MethodBranch && len(c.Tree)+len(c.PriceSets) > 0 {
		return nil, fmt.Errorf("a %.40q certificate has no tree and no price sets", c.Method)
	}
	switch c.Method {
	case hare.MethodBranch:
		return branchBound(ctx, inst, newSupply(inst, nil), c)
	case hare.MethodPrice:
		if inst.Objective == hare.ObjectiveMakespan {
			return makespanBound(ctx, inst, newSupply(inst, c.Pools), c)
		}
		return priceBound(ctx, inst, newSupply(inst, c.Pools), c)
	case hare.MethodCriticalPath, hare.MethodMachine:
		if len(c.GridUs) > 0 || len(c.Prices) > 0 || c.Path || len(c.Sizes) > 0 || c.StepUs != 0 {
			return nil, fmt.Errorf("a %s certificate has no grid, prices, path, sizes or step", c.Method)
		}
		if len(c.Pools)+len(c.After) > 0 {
			return nil, fmt.Errorf("a %s certificate has no pools and moves no weight", c.Method)
		}
		if c.Method == hare.MethodMachine {
			return machineBound(inst, newSupply(inst, nil))
		}
		return criticalPathBound(inst, newSupply(inst, nil))
	}
	return nil, fmt.Errorf("unknown certificate method %.40q", c.Method)
}

// typeChoice is a GPU type that a job may use and that is in service at some time.
type typeChoice struct {
	kind    string
	p, s, d int64
	level   int         // the level of which one domain has a round
	count   int64       // the maximum of M_k over time, or of the tasks that find room
	units   int64       // what a round holds, in units of its price: K GPUs or one size
	curve   *priceCurve // the price of one unit; nil if the type is free
	setup   int64       // the setup of a GPU
	does    int64       // the units of the job that a round does; 0 means 1
	// A loose round (docs/inside/bounds.md#branch-prices-of-jobs-and-trees, "Relaxed jobs in one leaf") takes d, and pays
	// the least price from back before until ahead. Back is 0 for other rounds.
	back, ahead int64
}

// errNever is returned for infeasible jobs, because no finite bound has a meaning then.
var errNever = errors.New("a job can never run on this cluster, so no finite bound is meant")

// leastRound returns τ, the least time of one round on an empty cluster.
func leastRound(job *hare.Job, cs []typeChoice) (int64, error) {
	tau := int64(math.MaxInt64)
	switch {
	case job.Sync == hare.Relaxed:
		// One GPU alone takes p·K + s, which is an upper end for the bisection.
		for _, c := range cs {
			if work, ok := mul(c.p, job.Tasks); ok {
				tau = min(tau, work+c.s)
			}
		}
		low := int64(0)
		for tau != math.MaxInt64 && low+1 < tau {
			if mid := low + (tau-low)/2; holdsRound(job.Tasks, cs, mid) {
				tau = mid
			} else {
				low = mid
			}
		}
	case job.Mix:
		byTime := slices.Clone(cs)
		slices.SortFunc(byTime, func(a, b typeChoice) int { return int(min(1, max(-1, a.d-b.d))) })
		need := job.Tasks
		for _, c := range byTime {
			if need -= c.count; need <= 0 {
				return c.d, nil
			}
		}
	default:
		for _, c := range cs {
			if c.count >= job.Tasks {
				tau = min(tau, c.d)
			}
		}
	}
	if tau == math.MaxInt64 {
		return 0, errNever
	}
	return tau, nil
}

// holdsRound reports whether all GPUs together do tasks tasks in t µs: Σ_k M_k ⌊(t −
// s)/p⌋ ≥ tasks.
func holdsRound(tasks int64, cs []typeChoice, t int64) bool {
	for _, c := range cs {
		if t < c.s+c.p {
			continue
		}
		each := (t - c.s) / c.p
		if each > tasks/c.count {
			return true
		}
		if tasks -= each * c.count; tasks <= 0 {
			return true
		}
	}
	return false
}

// criticalPathBound lets each job that is not fixed end at P. A makespan is at least the greatest
// P of all jobs.
func criticalPathBound(inst *hare.Instance, s *supply) (*proved, error) {
	ds, err := s.demands(inst)
	if err != nil {
		return nil, err
	}
	sum, last := new(big.Int), int64(0)
	for i := range ds {
		d := &ds[i]
		if last = max(last, d.earliest); !d.fixed {
			sum.Add(sum, times(d.weight, d.earliest-d.arrival))
			sum.Add(sum, d.tardiness(d.earliest))
		}
	}
	if inst.Objective == hare.ObjectiveMakespan {
		return &proved{low: big.NewRat(last, 1e6)}, nil
	}
	return &proved{low: new(big.Rat).SetFrac(sum, big.NewInt(1e12))}, nil
}

// resource is what has a price: a number of GPUs of one type that a job holds together, or a
// single GPU.
type resource struct {
	kind string
	gpus int64
}

// priceCertificate is a price certificate that has passed its checks, for one instance.
type priceCertificate struct {
	cert   *hare.Certificate
	supply *supply
	curves map[resource]*priceCurve
	sizes  map[string][]int64     // by type: the numbers of GPUs with a price of their own
	own    map[ownKey]*priceCurve // what a job pays that has prices of its own
	spent  atomic.Int64           // the steps counted against maxPriceWork
	// quotaPools are the numbers of the pools of quotas.
	quotaPools []int32

	mu      sync.Mutex
	seconds map[string]pricedSecond // what a second of a round costs where nodes or pools matter
}

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

// eachDemand returns what of returns for each demand that is not fixed, and 0 for the others, on
// all cores.
func eachDemand(ctx context.Context, ds []demand, of func(*demand) (*big.Rat, error)) ([]*big.Rat, error) {
	n := len(ds)
	phis := make([]*big.Rat, n)
	errs := make([]error, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if phis[i] = new(big.Rat); !ds[i].fixed {
					phis[i], errs[i] = of(&ds[i])
				}
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err // some φ are missing
	}
	// Which jobs have too many steps depends on the order in which the cores come to them.
	for _, err := range errs {
		if err != nil && !errors.Is(err, errSteps) {
			return nil, err
		}
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return phis, nil
}

// newPriceCertificate refuses a certificate that is not a grid with a price for each of
// its cells.
func newPriceCertificate(inst *hare.Instance, s *supply, c *hare.Certificate) (*priceCertificate, error) {
	m, work, err := readPrices(s, c)
	if err != nil {
		return nil, err
	}
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
			return nil, 0, fmt.Errorf("entry %d of grid_us is no multiple of step_us", i)
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

// addPrices adds the prices of a resource; field is their field in the document.
func (pc *priceCertificate) addPrices(field string, g resource, nanos []int64) error {
	if pc.supply.capacities[g.kind] == nil {
		return fmt.Errorf("%s name the unknown type %.40q", field, g.kind)
	}
	if _, twice := pc.curves[g]; twice {
		return fmt.Errorf("%s name %d of type %.40q twice", field, g.gpus, g.kind)
	}
	cells := len(pc.cert.GridUs) - 1
	if err := fitCells(nanos, cells); err != nil {
		return fmt.Errorf("%d of type %.40q have %w", g.gpus, g.kind, err)
	}
	pc.curves[g] = newPriceCurve(pc.cert.GridUs, nanos)
	return nil
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

// pays returns what a job pays by type, or by type and class; types are its types.
func (pc *priceCertificate) pays(job *hare.Job, types []typeChoice) ([]typeChoice, error) {
	if pc.supply.rooms != nil {
		return pc.offers(job, types)
	}
	pc.payByType(job, types)
	return types, nil
}

// payByType sets what a job pays by type, where neither nodes nor pools matter.
func (pc *priceCertificate) payByType(job *hare.Job, cs []typeChoice) {
	for i := range cs {
		c := &cs[i]
		c.units, c.curve = job.Tasks, pc.curves[resource{c.kind, 1}]
		// Relaxed tasks and parts of mixing gangs use single GPUs.
		if own := pc.curves[resource{c.kind, job.Tasks}]; own != nil && job.Sync != hare.Relaxed && !job.Mix {
			c.units, c.curve = 1, own
		}
		if own := pc.own[ownKey{job.ID, c.kind}]; own != nil {
			c.units, c.curve = 1, own
		}
	}
}

func errLong(job *hare.Job) error {
	return fmt.Errorf("job %.40q takes longer than 2^53 µs", job.ID)
}
