package verify

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hare-sched/hare"
)

// Bound returns the lower bound on the weighted JCT that a certificate proves
// for an instance (DESIGN 2), exactly, or an error where it proves none.
// For price: O(jobs · pieces²) at worst, in integers of any size.
func Bound(inst *hare.Instance, c *hare.Certificate) (*big.Rat, error) {
	if c.Objective != hare.ObjectiveWeightedJCT {
		return nil, fmt.Errorf("the certificate's objective %.40q is not %q", c.Objective, hare.ObjectiveWeightedJCT)
	}
	supply := supplies(inst)
	switch c.Method {
	case hare.MethodPrice:
		return priceBound(inst, supply, c)
	case hare.MethodCriticalPath, hare.MethodMachine:
		if c.GridUs != nil || c.Prices != nil || c.Path {
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
	count   int64 // max over t of M_k
	prices  []int64
}

func choices(job *hare.Job, supply map[string]*supply) []choice {
	var out []choice
	for _, p := range job.On {
		if n := supply[p.Type].peak(); n > 0 {
			out = append(out, choice{kind: p.Type, p: p.ComputeUs, s: p.SyncUs, d: p.ComputeUs + p.SyncUs, count: n})
		}
	}
	return out
}

var errNever = errors.New("a job can never run on this cluster, so no finite bound is meant")

// leastRound is τ, the least time of one round on an empty cluster.
func leastRound(job *hare.Job, cs []choice) (int64, error) {
	if job.Sync == hare.Relaxed {
		// Tasks done by time t, all types counted.
		done := func(t int64) bool {
			sum := new(big.Int)
			for _, c := range cs {
				if t >= c.s+c.p {
					sum.Add(sum, new(big.Int).Mul(big.NewInt(c.count), big.NewInt((t-c.s)/c.p)))
				}
			}
			return sum.Cmp(big.NewInt(job.Tasks)) >= 0
		}
		if len(cs) == 0 {
			return 0, errNever
		}
		top := int64(1)
		for !done(top) {
			if top > hare.MaxExact {
				return 0, errNever
			}
			top *= 2
		}
		low := top / 2
		for low+1 < top {
			if mid := (low + top) / 2; done(mid) {
				top = mid
			} else {
				low = mid
			}
		}
		return top, nil
	}
	if !job.Mix {
		best := int64(math.MaxInt64)
		for _, c := range cs {
			if c.count >= job.Tasks && c.d < best {
				best = c.d
			}
		}
		if best == math.MaxInt64 {
			return 0, errNever
		}
		return best, nil
	}
	byTime := slices.Clone(cs)
	slices.SortFunc(byTime, func(a, b choice) int { return int(min(1, max(-1, a.d-b.d))) })
	need := job.Tasks
	for _, c := range byTime {
		if need -= c.count; need <= 0 {
			return c.d, nil
		}
	}
	return 0, errNever
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

// times multiplies integers of any size.
func times(xs ...int64) *big.Int {
	p := big.NewInt(1)
	for _, x := range xs {
		p.Mul(p, big.NewInt(x))
	}
	return p
}

// priceBound is Σ φ_j − Σ w a − Σ ∫ M π. Prices count 1e-9, times µs and
// weights 1e-6, so sums are kept in 1e-15 weight-seconds.
func priceBound(inst *hare.Instance, supply map[string]*supply, c *hare.Certificate) (*big.Rat, error) {
	if len(c.GridUs) < 2 || c.GridUs[0] != 0 {
		return nil, errors.New("grid_us must start with 0 and have at least one cell")
	}
	for i := 1; i < len(c.GridUs); i++ {
		if c.GridUs[i] <= c.GridUs[i-1] || c.GridUs[i] > hare.MaxExact {
			return nil, fmt.Errorf("grid_us must rise, up to 2^53: entry %d does not", i)
		}
	}
	prices := map[string][]int64{}
	fixed := new(big.Int)
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
		for g, x := range p.Nanos {
			if x < 0 {
				return nil, fmt.Errorf("type %.40q has a negative price", p.Type)
			}
			fixed.Add(fixed, new(big.Int).Mul(big.NewInt(x), supply[p.Type].between(c.GridUs[g], c.GridUs[g+1])))
		}
	}
	zero := make([]int64, len(c.GridUs)-1)
	n := len(inst.Jobs)
	phis := make([]*big.Rat, n)
	errs := make([]error, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				phis[i], errs[i] = phi(&inst.Jobs[i], supply, c, prices, zero)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errNever
	}
	total := sumDown(phis)
	for i := range inst.Jobs {
		fixed.Add(fixed, times(inst.Jobs[i].WeightMicro, 1000, inst.Jobs[i].ReleaseUs))
	}
	total.Sub(total, new(big.Rat).SetInt(fixed))
	return total.Quo(total, new(big.Rat).SetFrac(times(1e15), big.NewInt(1))), nil
}

// fewTerms is how many fractions are added as they are; of more, each is
// rounded down to 2^-48 first, which only lowers the bound.
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

// between is ∫ M_k over [from, to).
func (s *supply) between(from, to int64) *big.Int {
	sum := new(big.Int)
	for i := range s.at {
		a, b := max(from, s.at[i]), to
		if i+1 < len(s.at) {
			b = min(b, s.at[i+1])
		}
		if a < b {
			sum.Add(sum, times(s.level[i], b-a))
		}
	}
	return sum
}

// phi is the least weighted completion plus price of one job alone, in 1e-15.
func phi(job *hare.Job, supply map[string]*supply, c *hare.Certificate, prices map[string][]int64, zero []int64) (*big.Rat, error) {
	cs := choices(job, supply)
	tau, err := leastRound(job, cs)
	if err != nil {
		return nil, err
	}
	path := job.ReleaseUs
	if c.Path {
		path += job.Rounds * tau
	}
	for i := range cs {
		cs[i].prices = zero
		if p, ok := prices[cs[i].kind]; ok {
			cs[i].prices = p
		}
	}
	if job.Sync == hare.Rigid {
		return new(big.Rat).SetInt(rigidPhi(job, cs, c.GridUs, path)), nil
	}
	return fluidPhi(job, cs, c.GridUs, path), nil
}

// rigidPhi tries each type at each start where the price of the block may turn.
func rigidPhi(job *hare.Job, cs []choice, grid []int64, path int64) *big.Int {
	var best *big.Int
	for i := range cs {
		length := job.Rounds * cs[i].d
		least := max(job.ReleaseUs, path-length)
		starts := []int64{least}
		for _, t := range grid {
			if t > least {
				starts = append(starts, t)
			}
			if t-length > least {
				starts = append(starts, t-length)
			}
		}
		cum := make([]*big.Int, len(grid))
		cum[0] = new(big.Int)
		for g, x := range cs[i].prices {
			cum[g+1] = new(big.Int).Add(cum[g], times(x, grid[g+1]-grid[g]))
		}
		upTo := func(t int64) *big.Int {
			g, _ := slices.BinarySearch(grid, t)
			if g == len(grid) || grid[g] > t {
				g--
			}
			if g == len(grid)-1 {
				return cum[g]
			}
			return new(big.Int).Add(cum[g], times(cs[i].prices[g], t-grid[g]))
		}
		for _, s := range starts {
			v := new(big.Int).Sub(upTo(s+length), upTo(s))
			v.Mul(v, big.NewInt(job.Tasks))
			v.Add(v, times(job.WeightMicro, 1000, s+length))
			if best == nil || v.Cmp(best) < 0 {
				best = v
			}
		}
	}
	return best
}
