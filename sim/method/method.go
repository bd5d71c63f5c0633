// Package method is the registry of what makes the plan of a batch in place of the engine's
// search: the policies that place tasks, each of which decides as in a simulation, and the
// schedulers of other papers. Their plans stand beside the engine's certified bound.
package method

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/solver"
)

// All lists the methods by name. wire.PlanMethods has the same names.
func All() []solver.Method { return slices.Clone(methods()) }

var methods = sync.OnceValue(func() (out []solver.Method) {
	for _, info := range registry.All() {
		if info.Engine == registry.Task {
			out = append(out, solver.Method{Name: info.Name, Plan: byPolicy(info)})
		}
	}
	slices.SortFunc(out, func(a, b solver.Method) int { return strings.Compare(a.Name, b.Name) })
	return out
})

// byPolicy plays the instance to a policy, which learns of each job at its release, and returns what
// it did. Its cost is that of sim.Run.
func byPolicy(info registry.Info) func(context.Context, *hare.Instance, solver.MethodInput) (*hare.Schedule, error) {
	return func(ctx context.Context, inst *hare.Instance, in solver.MethodInput) (*hare.Schedule, error) {
		p, err := info.NewTask(ctx, inst, policies.Config{LP: in.LP, Seed: in.Seed})
		switch {
		case errors.Is(err, greedy.ErrNoPlace), errors.Is(err, policies.ErrInfeasible):
			return nil, fmt.Errorf("%w: %w", solver.ErrNoPlan, err)
		case err != nil:
			return nil, err
		}
		out, err := sim.Run(ctx, inst, p, sim.Config{Name: info.Name})
		switch {
		case errors.Is(err, sim.ErrStalled):
			return nil, fmt.Errorf("%w: jobs wait forever", solver.ErrNoPlan)
		case err != nil:
			return nil, err
		case out.Schedule == nil:
			return nil, fmt.Errorf("%w: the job %.60q lost a round when its GPUs went out of service, and rounds of rigid "+
				"jobs follow each other on the same GPUs", solver.ErrNoPlan, out.Moved[0])
		}
		return out.Schedule, nil
	}
}
