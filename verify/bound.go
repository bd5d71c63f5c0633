package verify

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/hare-sched/hare"
)

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
	case hare.MethodSearch:
		return searchBound(ctx, inst, newSupply(inst, nil), c)
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
