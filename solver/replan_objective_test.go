package solver_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// Each plan of a chain may have an objective of its own, and the verifier reads it from the options.
func TestReplanUnderAnotherObjective(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare":"instance/v1",
		"cluster":{"nodes":[{"name":"a","gpus":{"A":2}}]},"jobs":[
		{"id":"x","sync":"rigid","tasks":2,"rounds":4,"on":{"A":{"compute_s":10}}},
		{"id":"y","sync":"rigid","rounds":9,"weight":0.1,"on":{"A":{"compute_s":10}}},
		{"id":"z","sync":"rigid","weight":3,"deadline_s":5,"late_weight":2,"on":{"A":{"compute_s":10}}},
		{"id":"v","sync":"gang","rounds":3,"weight":3,"on":{"A":{"compute_s":10}}}]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	previous, err := solver.Solve(t.Context(), inst, hare.Options{WorkLimit: 500}, solver.Config{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	objectives := []string{hare.ObjectiveMakespan, "", hare.ObjectiveJCTAndTardiness, hare.ObjectiveMakespan}
	for i, objective := range objectives {
		req := hare.ReplanRequest{Previous: previous, AtUs: int64(5+7*i) * 1e6, HasAt: true,
			StabilityMicro: int64(i%2) * 1e6}
		opt := hare.Options{WorkLimit: 500, Objective: objective}
		if err := solver.CheckRequest(inst, req, opt, solver.Config{}); err != nil {
			t.Fatalf("plan %d: %v", i, err)
		}
		res, err := solver.Replan(t.Context(), inst, req, opt, solver.Config{Workers: 1})
		if err != nil {
			t.Fatalf("plan %d: %v", i, err)
		}
		want := objective
		if want == "" {
			want = hare.ObjectiveWeightedJCT
		}
		if rep := verify.CheckReplan(inst, res, &verify.Previous{Result: previous}); !rep.OK || res.Objective != want ||
			res.Replan.Rest.Objective != want {
			t.Errorf("plan %d: %s, objectives %s and %s", i, rep, res.Objective, res.Replan.Rest.Objective)
		}
		other := *res
		other.Options.Objective = hare.ObjectiveWeightedJCT
		if want != hare.ObjectiveWeightedJCT && verify.CheckReplan(inst, &other, &verify.Previous{Result: previous}).OK {
			t.Errorf("plan %d: accepted under another objective", i)
		}
		previous = res
	}
}
