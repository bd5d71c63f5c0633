package solver_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/solver"
)

// TestSolveWithLevelsAgainstBruteForce solves tiny random instances with within and times by
// spread; the search finds the optimum of nearly all.
func TestSolveWithLevelsAgainstBruteForce(t *testing.T) {
	solveAgainstBruteForce(t, 95, brute.RandomLevels)
}

// TestSolveWithShapesAgainstBruteForce does so for jobs with shapes and setups. All rounds of a job
// that may change its shape get one shape, which is not always best.
func TestSolveWithShapesAgainstBruteForce(t *testing.T) {
	solveAgainstBruteForce(t, 90, brute.RandomWithShapes)
}

// Jobs that stay on their GPUs are set up once, also where their tasks wait for each other to synchronise, or
// where they run at time 0.
func TestSolveSetsUpOnce(t *testing.T) {
	for _, x := range []struct{ about, jobs, value string }{
		{"relaxed, two tasks one after another",
			`{"id":"x","rounds":10,"tasks":2,"on":{"A":{"compute_s":1,"sync_s":1,"switch_s":5}}}`, "35"},
		{"relaxed, beside a job that fits into its pauses but would cost a setup",
			`{"id":"x","rounds":2,"weight":9,"on":{"A":{"compute_s":1,"sync_s":3,"switch_s":5}}},
			{"id":"y","sync":"rigid","weight":0.5,"on":{"A":{"compute_s":1}}}`, "122.5"},
		{"running", `{"id":"x","sync":"gang","rounds":3,"progress":{"gpus":["a/0"],"elapsed_s":1},
			"on":{"A":{"compute_s":2,"switch_s":9}}}`, "5"},
	} {
		inst := decodeNodes(t, `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":1}}]},
			"jobs":[`+x.jobs+`]}`)
		opt := hare.Options{Gap: 1e-9, WorkLimit: 2000}
		res, err := solver.Solve(context.Background(), inst, opt, solver.Config{})
		if err != nil || res.Value == nil || res.Value.String() != x.value {
			t.Errorf("%s: %v, %v, want %s", x.about, res.Value, err, x.value)
		}
	}
}

// solveAgainstBruteForce solves tiny instances. Solve verifies each schedule and bound; the search
// must find the optimum of at least so many percent.
func solveAgainstBruteForce(t *testing.T, percent int, random func(*rand.Rand) *hare.Instance) {
	n := 80
	if testing.Short() {
		n = 5 // the goroutines are the same for each instance
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
		warm, err := solver.Solve(context.Background(), inst, hare.Options{WorkLimit: 1, Seed: int64(seed)},
			solver.Config{Start: plan})
		if err != nil {
			t.Fatalf("seed %d: from the optimum: %v", seed, err)
		}
		reshapes := slices.ContainsFunc(inst.Jobs, func(j hare.Job) bool { return j.Reshape })
		if warm.Value == nil || warm.Value.Cmp(hare.Product(1, best)) != 0 && !reshapes {
			t.Errorf("seed %d: the search from a schedule of value %d finds %v", seed, best, warm.Value)
		}
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
