package solver_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/bench/brute"
	"github.com/hare-sched/hare/solver"
)

// TestSolveWithLevelsAgainstBruteForce solves tiny random instances with within and times by
// spread; the search finds the optimum of nearly all.
func TestSolveWithLevelsAgainstBruteForce(t *testing.T) {
	solveAgainstBruteForce(t, 95, brute.RandomLevels)
}

// TestSolveWithShapesAgainstBruteForce does so for jobs with shapes and setups. All rounds of a job
// that may change its shape get one shape, and each block a setup, which is not always best.
func TestSolveWithShapesAgainstBruteForce(t *testing.T) {
	solveAgainstBruteForce(t, 70, brute.RandomWithShapes)
}

// solveAgainstBruteForce solves tiny instances. Solve verifies each schedule and bound; the search
// must find the optimum of at least so many percent.
func solveAgainstBruteForce(t *testing.T, percent int, random func(*rand.Rand) *hare.Instance) {
	n := 80
	if testing.Short() {
		n = 20
	}
	solved, optimal := 0, 0
	for seed := uint64(0); solved < n; seed++ {
		inst := random(rand.New(rand.NewPCG(seed, 4)))
		best, plan, done := brute.OptimumOnNodes(inst, 20_000)
		if !done {
			continue
		}
		res, err := solver.Solve(context.Background(), inst, hare.Options{WorkLimit: 3000, Seed: int64(seed)},
			solver.Config{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if res.Value == nil {
			if plan != nil && res.Termination == hare.TerminationInfeasible {
				t.Fatalf("seed %d: %+v, but there is a schedule", seed, res.Reasons)
			}
			continue
		}
		if plan == nil {
			t.Fatalf("seed %d: brute force finds no schedule, the search one of value %s", seed, res.Value)
		}
		solved++
		switch c := res.Value.Cmp(hare.Product(1, best)); {
		case c < 0:
			t.Fatalf("seed %d: the search finds %s, which is below the optimum", seed, res.Value)
		case c == 0:
			optimal++
		default:
			optimum := hare.Product(1, best)
			t.Logf("seed %d: the search finds %s, the optimum is %s", seed, res.Value, optimum.String())
		}
	}
	t.Logf("the search finds the optimum of %d of %d instances", optimal, solved)
	if optimal*100 < percent*solved {
		t.Errorf("the search finds the optimum of %d of %d instances only", optimal, solved)
	}
}
