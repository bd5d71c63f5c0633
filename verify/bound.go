package verify

import (
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

// maxPriceWork limits jobs × types × grid cells of a price certificate, so that
// a hostile grid costs minutes at most.
const maxPriceWork = 1 << 33

// Bound returns the lower bound on the weighted JCT that a certificate proves
// for an instance (DESIGN 2), exactly, or an error where it proves none. What
// the certificate itself says about its bound and instance plays no part.
// For price: O(jobs · pieces · types) for each of some tens of multipliers μ,
// on all cores; a piece is a grid cell, or a part of one.
func Bound(inst *hare.Instance, c *hare.Certificate) (*big.Rat, error) {
	if err := plausible(inst); err != nil {
		return nil, err
	}
	if c == nil {
		return nil, errors.New("there is no certificate")
	}
	if c.Objective != hare.ObjectiveWeightedJCT {
		return nil, fmt.Errorf("the certificate's objective %.40q is not %q", c.Objective, hare.ObjectiveWeightedJCT)
	}
	supply := supplies(inst)
	switch c.Method {
	case hare.MethodPrice:
		return priceBound(inst, supply, c)
	case hare.MethodCriticalPath, hare.MethodMachine:
		if len(c.GridUs) > 0 || len(c.Prices) > 0 || c.Path {
			return nil, fmt.Errorf("a %s certificate has no grid, prices or path", c.Method)
		}
		if c.Method == hare.MethodMachine {
			return machineBound(inst, supply)
		}
		return criticalPathBound(inst, supply)
	}
	return nil, fmt.Errorf("unknown certificate method %.40q", c.Method)
}

// choice is a GPU type that a job may use and that is in service at some time.
type choice struct {
	kind    string
	p, s, d int64
	count   int64   // max over t of M_k
	prices  []int64 // by cell; nil where free
}

func choices(job *hare.Job, supply map[string]*supply) []choice {
	out := make([]choice, 0, len(job.On))
	for _, p := range job.On {
		if n := supply[p.Type].peak(); n > 0 {
			out = append(out, choice{kind: p.Type, p: p.ComputeUs, s: p.SyncUs, d: p.ComputeUs + p.SyncUs, count: n})
		}
	}
	return out
}

// errNever refuses to bound what is infeasible: no finite figure is meant.
var errNever = errors.New("a job can never run on this cluster, so no finite bound is meant")

// leastRound is τ, the least time of one round on an empty cluster.
func leastRound(job *hare.Job, cs []choice) (int64, error) {
	tau := int64(math.MaxInt64)
	switch {
	case job.Sync == hare.Relaxed:
		// One GPU alone takes p·K + s, an upper end for the bisection.
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
		slices.SortFunc(byTime, func(a, b choice) int { return int(min(1, max(-1, a.d-b.d))) })
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

// holdsRound says whether all GPUs together do tasks tasks in t µs:
// Σ_k M_k ⌊(t − s)/p⌋ ≥ tasks.
func holdsRound(tasks int64, cs []choice, t int64) bool {
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

func criticalPathBound(inst *hare.Instance, supply map[string]*supply) (*big.Rat, error) {
	sum := new(big.Int)
	for i := range inst.Jobs {
		job := &inst.Jobs[i]
		tau, err := leastRound(job, choices(job, supply))
		if err != nil {
			return nil, err
		}
		sum.Add(sum, times(job.WeightMicro, job.Rounds, tau))
	}
	return new(big.Rat).SetFrac(sum, big.NewInt(1e12)), nil
}

// priceBound is Σ φ_j − Σ w a − Σ ∫ M π. Prices count 1e-9, times µs and
// weights 1e-6, so sums are kept in 1e-15 weight-seconds.
func priceBound(inst *hare.Instance, supply map[string]*supply, c *hare.Certificate) (*big.Rat, error) {
	prices, err := checkPrices(inst, supply, c)
	if err != nil {
		return nil, err
	}
	fixed := new(big.Int)
	for _, p := range c.Prices {
		fixed.Add(fixed, supply[p.Type].cost(c.GridUs, p.Nanos))
	}
	blocks := map[string]*tariff{}
	for _, p := range c.Prices {
		blocks[p.Type] = newTariff(c.GridUs, p.Nanos)
	}
	n := len(inst.Jobs)
	phis := make([]*big.Rat, n)
	errs := make([]error, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				phis[i], errs[i] = phi(&inst.Jobs[i], supply, c, prices, blocks)
			}
		})
	}
	wg.Wait()
	for i := range inst.Jobs {
		if errs[i] != nil {
			return nil, errs[i]
		}
		fixed.Add(fixed, times(inst.Jobs[i].WeightMicro, 1000, inst.Jobs[i].ReleaseUs))
	}
	total := sumDown(phis)
	total.Sub(total, new(big.Rat).SetInt(fixed))
	return total.Quo(total, new(big.Rat).SetInt64(1e15)), nil
}

// checkPrices refuses what is not a grid with a price for each of its cells.
func checkPrices(inst *hare.Instance, supply map[string]*supply, c *hare.Certificate) (map[string][]int64, error) {
	if len(c.GridUs) < 2 || c.GridUs[0] != 0 {
		return nil, errors.New("grid_us must start with 0 and have at least one cell")
	}
	for i := 1; i < len(c.GridUs); i++ {
		if c.GridUs[i] <= c.GridUs[i-1] || c.GridUs[i] > hare.MaxExact {
			return nil, fmt.Errorf("grid_us must rise, up to 2^53: entry %d does not", i)
		}
	}
	prices := make(map[string][]int64, len(c.Prices))
	for _, p := range c.Prices {
		if supply[p.Type] == nil {
			return nil, fmt.Errorf("prices name the unknown type %.40q", p.Type)
		}
		if _, twice := prices[p.Type]; twice {
			return nil, fmt.Errorf("prices name type %.40q twice", p.Type)
		}
		if len(p.Nanos) != len(c.GridUs)-1 {
			return nil, fmt.Errorf("type %.40q has %d prices for %d cells", p.Type, len(p.Nanos), len(c.GridUs)-1)
		}
		prices[p.Type] = p.Nanos
		for _, x := range p.Nanos {
			if x < 0 || x > hare.MaxExact {
				return nil, fmt.Errorf("type %.40q has a price outside 0 to 2^53", p.Type)
			}
		}
	}
	modes := 0
	for i := range inst.Jobs {
		modes += len(inst.Jobs[i].On)
	}
	if hi, lo := bits.Mul64(uint64(modes), uint64(len(c.GridUs))); hi > 0 || lo > maxPriceWork {
		return nil, fmt.Errorf("a grid of %d cells is too fine to check for %d jobs", len(c.GridUs)-1, len(inst.Jobs))
	}
	return prices, nil
}

// fewTerms is how many fractions are added as they are; of more, each is
// rounded down to 2^-48 units first, which only lowers the bound, by less than
// the number of terms times 4e-30.
const fewTerms = 300

func sumDown(xs []*big.Rat) *big.Rat {
	sum := new(big.Rat)
	if len(xs) <= fewTerms {
		for _, x := range xs {
			sum.Add(sum, x)
		}
		return sum
	}
	whole := new(big.Int)
	for _, x := range xs {
		y := new(big.Int).Lsh(x.Num(), 48)
		whole.Add(whole, y.Div(y, x.Denom()))
	}
	return sum.SetFrac(whole, new(big.Int).Lsh(big.NewInt(1), 48))
}

// phi is the least weighted completion plus price of one job alone, in 1e-15.
func phi(job *hare.Job, supply map[string]*supply, c *hare.Certificate, prices map[string][]int64, blocks map[string]*tariff) (*big.Rat, error) {
	cs := choices(job, supply)
	tau, err := leastRound(job, cs)
	if err != nil {
		return nil, err
	}
	path := job.ReleaseUs
	if c.Path {
		length, ok := mul(job.Rounds, tau)
		if !ok {
			return nil, fmt.Errorf("job %.40q takes longer than 2^53 µs", job.ID)
		}
		path += length
	}
	for i := range cs {
		cs[i].prices = prices[cs[i].kind]
	}
	if job.Sync == hare.Rigid {
		return rigidPhi(job, cs, blocks, path)
	}
	return fluidPhi(job, cs, c.GridUs, path), nil
}
