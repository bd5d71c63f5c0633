package solver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// The search finds the optimum of each example of docs/reference/model.md.
func TestSolveExamplesOfRules(t *testing.T) {
	if testing.Short() {
		t.Skip("for the race detector, TestSolveWithRulesAgainstBruteForce has these fields")
	}
	for _, name := range []string{"placement", "running", "quota", "after", "deadlines", "makespan", "spread", "return",
		"switch", "together", "shapes"} {
		text, err := os.ReadFile("../verify/testdata/real/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var x struct {
			Instance, Optimum, Constant json.RawMessage
		}
		if err := json.Unmarshal(text, &x); err != nil {
			t.Fatal(err)
		}
		inst := decodeNodes(t, string(x.Instance))
		opt := hare.Options{Gap: 1e-9, WorkLimit: 40_000, Seed: 3}
		res, err := solver.Solve(context.Background(), inst, opt, solver.Config{})
		if err != nil || res.Value == nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := res.Value.String(); got != string(x.Optimum) {
			t.Errorf("%s: the search finds %s, the optimum is %s", name, got, x.Optimum)
		}
		constant := "0"
		if res.Constant != nil {
			constant = res.Constant.String()
		}
		if constant != string(x.Constant) {
			t.Errorf("%s: the constant is %s, want %s", name, constant, x.Constant)
		}
	}
}

// TestSolveWithRulesAgainstBruteForce solves tiny random instances with all rules mixed. Solve
// verifies each schedule and bound; no value may be below the optimum.
func TestSolveWithRulesAgainstBruteForce(t *testing.T) {
	n := 60
	if testing.Short() {
		n = 15
	}
	solved, optimal := 0, 0
	for seed := uint64(0); solved < n; seed++ {
		inst := brute.RandomMixed(rand.New(rand.NewPCG(seed, 4)))
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
		switch optimum := hare.Product(1, best); res.Value.Cmp(optimum) {
		case 0:
			optimal++
		case -1:
			t.Fatalf("seed %d: the search finds %s, less than the optimum %s", seed, res.Value, optimum)
		}
		if res.Bound != nil && res.Bound.Cmp(hare.Product(1, best)) > 0 {
			t.Fatalf("seed %d: the bound %s is above the optimum", seed, res.Bound)
		}
	}
	t.Logf("the search found the optimum of %d of %d instances", optimal, solved)
	if optimal < solved*9/10 {
		t.Errorf("the search found the optimum of %d of %d instances", optimal, solved)
	}
}

func TestSolveNamesItsObjective(t *testing.T) {
	inst := decodeNodes(t, `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":2}}]},"jobs":[
		{"id":"x","sync":"rigid","on":{"A":{"compute_s":3}},"deadline_s":2,"late_weight":5},
		{"id":"y","sync":"rigid","on":{"A":{"compute_s":2}}},
		{"id":"z","sync":"rigid","on":{"A":{"compute_s":2}},"deadline_s":4}]}`)
	for objective, want := range map[string]string{"": "9", hare.ObjectiveWeightedJCT: "9",
		hare.ObjectiveJCTAndTardiness: "14", hare.ObjectiveMakespan: "4"} {
		res, err := solver.Solve(context.Background(), inst, hare.Options{Objective: objective, WorkLimit: 5000,
			Gap: 1e-9}, solver.Config{})
		if err != nil || res.Value == nil {
			t.Fatalf("%q: %v", objective, err)
		}
		d := res.Metrics.Deadlines
		if res.Value.String() != want || d == nil || d.Jobs != 2 || d.MetShare != float64(d.Met)/2 ||
			objective == hare.ObjectiveJCTAndTardiness && (d.Met != 1 || d.TardinessSeconds != 1) {
			t.Errorf("%q: value %s, want %s; deadlines %+v", objective, res.Value, want, d)
		}
		if r := verify.Check(inst, res); !r.OK {
			t.Errorf("%q, with the instance's own objective: %s", objective, r)
		}
		whole := solver.WithObjective(inst, objective)
		if r := verify.Check(whole, res); !r.OK || res.Objective != whole.Objective ||
			res.InstanceSHA256 != wire.SHA256(whole) {
			t.Errorf("%q: %s", objective, r)
		}
	}
	_, err := solver.Solve(context.Background(), inst, hare.Options{Objective: "cost"}, solver.Config{})
	if err == nil || !strings.Contains(err.Error(), "/options/objective") {
		t.Errorf("an unknown objective: %v", err)
	}
}

func TestSolveSaysWhyRulesForbidAJob(t *testing.T) {
	const job = `"jobs":[{"id":"x","sync":"gang","tasks":2,"user":"ann","on":{"A":{"compute_s":3}}}]}`
	for code, head := range map[string]string{
		"quota_too_small": `"cluster":{"nodes":[{"name":"a","gpus":{"A":2}}]},"quota":[{"user":"ann","gpus":1}],`,
		"window_too_short": `"cluster":{"nodes":[{"name":"a","gpus":{"A":2},"in_service_s":[[0,6]]}],"reservations":[
			{"from_s":2,"until_s":4,"users":["ops"]}]},`,
		"reserved": `"cluster":{"nodes":[{"name":"a","gpus":{"A":2},"in_service_s":[[0,6]]}],"reservations":[
			{"until_s":9}]},`,
	} {
		inst := decodeNodes(t, `{"hare":"instance/v1",`+head+job)
		res, err := solver.Solve(context.Background(), inst, hare.Options{WorkLimit: 100}, solver.Config{})
		if err != nil || res.Termination != hare.TerminationInfeasible || res.Reasons[0].Code != code {
			t.Errorf("%s: %v, %s", code, err, fmt.Sprint(res))
		}
	}
}

// A gang that may mix types can never run where these never have room for it at the same time, although each has some
// at one time: the bound finds it.
func TestSolveSaysThatTypesHaveNoRoomAtOnce(t *testing.T) {
	inst := decodeNodes(t, `{"hare":"instance/v1","cluster":{"nodes":[
		{"name":"a","gpus":{"A":2},"cpus":2,"busy":[{"gpu":0,"until_s":3},{"gpu":1,"until_s":3}]},
		{"name":"b","gpus":{"B":1},"cpus":2,"in_service_s":[[0,3]]}]},"jobs":[
		{"id":"x","sync":"gang","mix":true,"rounds":1,"tasks":3,"cpus_per_task":1,
		"on":{"A":{"compute_s":1},"B":{"compute_s":1}}}]}`)
	res, err := solver.Solve(context.Background(), inst, hare.Options{WorkLimit: 100}, solver.Config{})
	if err != nil || res.Termination != hare.TerminationInfeasible || len(res.Reasons) != 1 ||
		res.Reasons[0].Pointer != "/jobs/0/tasks" || res.Reasons[0].Code != "never_together" {
		t.Errorf("%v, %+v", err, res)
	}
}

// A job whose rounds all fit a window, though not together, can never run: the bound finds it.
func TestSolveSaysThatRoundsDoNotFit(t *testing.T) {
	inst := decodeNodes(t, `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":2},"cpus":2,
		"in_service_s":[[0,3]]}]},"jobs":[
		{"id":"x","sync":"gang","rounds":2,"cpus_per_task":1,"on":{"A":{"compute_s":2}}}]}`)
	res, err := solver.Solve(context.Background(), inst, hare.Options{WorkLimit: 100}, solver.Config{})
	if err != nil || res.Termination != hare.TerminationInfeasible || len(res.Reasons) != 1 ||
		res.Reasons[0].Pointer != "/jobs/0" || res.Reasons[0].Code != "window_too_short" {
		t.Errorf("%v, %+v", err, res)
	}
}
