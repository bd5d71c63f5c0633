package verify

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hare-sched/hare"
)

// maxPriceWork limits three products, so that a hostile document costs minutes at most: the
// jobs × types × grid cells of a price certificate, the GPUs × sizes × grid cells of its
// knapsacks, and the steps of its jobs.
const maxPriceWork = 1 << 33

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
	jobs   int64                  // of the instance, at least one
	// quotaPools are the numbers of the pools of quotas.
	quotaPools []int32

	mu      sync.Mutex
	seconds map[string]pricedSecond // what a second of a round costs where nodes or pools matter
}

// eachDemand returns what of returns for each demand that is not fixed, and 0 for the others, on
// all cores.
func eachDemand(ctx context.Context, ds []demand, of func(*demand) (*big.Rat, error)) ([]*big.Rat, error) {
	n := len(ds)
	phis := make([]*big.Rat, n)
	errs := make([]error, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
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

// ownKey names a price of a job on a type.
type ownKey struct{ job, kind string }

// fitCells checks that there is a price for each cell.
func fitCells(nanos []int64, cells int) error {
	if len(nanos) != cells {
		return fmt.Errorf("%d prices for %d cells", len(nanos), cells)
	}
	for _, x := range nanos {
		if x < 0 || x > hare.MaxExact {
			return errors.New("a price outside 0 to 2^53")
		}
	}
	return nil
}

// pricedSecond is a price of a second of a round, or the error that it is too dear.
type pricedSecond struct {
	curve *priceCurve
	err   error
}

var errSteps = errors.New("step_us is too fine to check for this many jobs")
