// Package relax bounds an instance from below and orders its jobs by
// relaxations: the critical path, one fast machine, the paper's relaxation
// repaired (and as printed, for comparison), and the price bound, which is the
// dual of the configuration LP (docs/inside/design.md, section 2).
//
// Its files are layers, as README.md says: a problem and what compiles it, the oracle that answers prices for one job,
// the evaluation over all jobs, the ascents in prices, and the bounds, of which Run picks one.
package relax

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// Run relaxes the instance by one method. When ctx ends, price returns the
// best prices so far; the other methods return the context's error.
func Run(ctx context.Context, m *model.Model, cfg Config) (*hare.Relaxation, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Expected {
		return runExpected(ctx, m, cfg)
	}
	pr, ok := newPlanProblem(m, cfg.SyncAsCompute, cfg.IdleCharge)
	if !ok {
		return nil, pr.infeasible
	}
	switch {
	case cfg.NoSizes:
		pr.dropSizes()
	case cfg.Method == hare.MethodPrice && cfg.SyncAsCompute == 0:
		pr.addPools()
	}
	switch cfg.Method {
	case hare.MethodPrice:
		if m.Instance.Objective == hare.ObjectiveMakespan {
			return boundMakespan(ctx, pr, &cfg), nil
		}
		return boundByPrices(ctx, pr, &cfg), nil
	case hare.MethodCriticalPath:
		return pr.withFixed(boundByPath(pr)), nil
	case hare.MethodMachine:
		if m.Instance.Objective == hare.ObjectiveMakespan {
			return nil, fmt.Errorf("relax: the objective makespan has no bound by %s: use %s or %s", cfg.Method,
				hare.MethodPrice, hare.MethodCriticalPath)
		}
		rel, err := boundByMachine(ctx, pr)
		if err != nil {
			return nil, err
		}
		return pr.withFixed(rel), nil
	case MethodQueyranne, MethodPaper:
		if m.Instance.Objective != hare.ObjectiveWeightedJCT {
			return nil, fmt.Errorf("relax: %s does not go by the objective %s: use %s", cfg.Method,
				m.Instance.Objective, hare.MethodPrice)
		}
		if slices.ContainsFunc(m.Jobs, func(j model.Job) bool { return j.Shapes != nil }) {
			return nil, fmt.Errorf("relax: %s does not go by shapes: use %s, %s or %s", cfg.Method, hare.MethodPrice,
				hare.MethodMachine, hare.MethodCriticalPath)
		}
		if m.Placed {
			return nil, fmt.Errorf("relax: %s does not go by nodes: use %s, %s or %s", cfg.Method, hare.MethodPrice,
				hare.MethodMachine, hare.MethodCriticalPath)
		}
		return boundByGroups(ctx, pr, &cfg)
	}
	return nil, fmt.Errorf("relax: unknown method %.60q%s The methods are %s", cfg.Method,
		cmp.Or(hare.Guess(cfg.Method, Methods()), "."), strings.Join(Methods(), ", "))
}

// runExpected bounds the mean cost over what the durations of jobs may be (docs/reference/model.md,
// "Uncertain durations"): prices are common to all durations, and each job counts with the mean
// of its φ. What jobs need of each other, and when running work ends, is taken at the shortest
// durations.
func runExpected(ctx context.Context, m *model.Model, cfg Config) (*hare.Relaxation, error) {
	if m.Instance.Objective == hare.ObjectiveMakespan || cfg.Method != hare.MethodPrice || cfg.SyncAsCompute > 0 {
		return nil, fmt.Errorf("relax: the mean over durations is bounded by %s, for sums over jobs", hare.MethodPrice)
	}
	pr := &problem{model: model.New(shortest(m.Instance)), written: m}
	if !pr.compile() {
		return nil, pr.infeasible
	}
	if !cfg.NoSizes {
		pr.addPools()
	}
	cfg.Steps, cfg.WarmStart, cfg.Improved = 0, nil, nil
	rel := boundByPrices(ctx, pr, &cfg)
	rel.Certified, rel.Certificate, rel.Phi = false, nil, nil
	return rel, nil
}
