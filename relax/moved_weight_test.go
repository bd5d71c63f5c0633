package relax

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
)

// randomPipelines draws two chains of two or three jobs whose last jobs have weight.
func randomPipelines(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	gpus := 1 + r.IntN(3)
	inst.Cluster.Nodes = []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: gpus}}}}
	for c := range 2 {
		length := 2 + r.IntN(2)
		for k := range length {
			j := hare.Job{ID: fmt.Sprintf("%d-%d", c, k), Rounds: 1, Tasks: int64(1 + r.IntN(gpus)),
				Sync: hare.Sync(1 + r.IntN(2)), On: []hare.Profile{{Type: "A", ComputeUs: int64(1+r.IntN(4)) * 1e6}}}
			if k > 0 {
				j.After = []hare.Predecessor{{Job: fmt.Sprintf("%d-%d", c, k-1)}}
			}
			if k == length-1 {
				j.WeightMicro = int64(1+r.IntN(3)) * 1e6
			}
			inst.Jobs = append(inst.Jobs, j)
		}
	}
	return inst
}

// Weight that moves along dependencies closes more than half of the gap of small pipelines.
func TestMovedWeightClosesTheGap(t *testing.T) {
	gap, gapWithout := 0.0, 0.0
	for seed := range uint64(24) {
		inst := randomPipelines(rand.New(rand.NewPCG(seed, 5)))
		optimum, plan, done := brute.OptimumOnNodes(inst, 100_000)
		if !done || plan == nil {
			continue
		}
		gapOf := func(moves bool) float64 {
			pr, ok := newProblem(model.New(inst), 0)
			if !ok {
				t.Fatal(pr.infeasible)
			}
			if !moves {
				pr.edges = nil
			}
			rel := boundByPrices(t.Context(), pr, &Config{Workers: 1, Effort: 1, Cells: 24})
			if rel.Bound.Cmp(hare.Product(1, optimum)) > 0 {
				t.Errorf("seed %d: bound %v above the optimum %v", seed, rel.Bound, hare.Product(1, optimum))
			}
			return hare.Product(1, optimum).Float()/rel.Bound.Float() - 1
		}
		gap += gapOf(true)
		gapWithout += gapOf(false)
	}
	t.Logf("sums of gaps: %.3f, and %.3f without", gap, gapWithout)
	if gap > gapWithout/2 {
		t.Errorf("sums of gaps: %.3f, and %.3f without moved weights", gap, gapWithout)
	}
}

// endsAfter is a context that ends when Err has been called a number of times.
type endsAfter struct {
	context.Context
	left *atomic.Int64
}

func (c endsAfter) Err() error {
	if c.left.Add(-1) < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// The prices of jobs with predecessors can be asked for whenever the context ends, also before a first step.
func TestContextEndsWithPredecessors(t *testing.T) {
	inst := randomPipelines(rand.New(rand.NewPCG(1, 5)))
	for calls := range int64(60) {
		ctx := endsAfter{t.Context(), new(atomic.Int64)}
		ctx.left.Store(calls)
		_, err := Run(ctx, model.New(inst), Config{Workers: 1, Cells: 24})
		if err != nil {
			t.Fatalf("after %d calls: %v", calls, err)
		}
	}
}
