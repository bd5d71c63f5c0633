package solver_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// TestSetupsWaitForOwnRounds checks that a gang does not set up GPUs that its own rounds hold. The
// gang begins on two nodes at 5 s, and could go on on node a alone from 15 s on, which was found
// before the first rounds took three of the four GPUs there.
func TestSetupsWaitForOwnRounds(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1", "cluster": {"nodes": [
	  {"name": "a", "gpus": {"A": 4}, "busy": [{"gpu": 3, "until_s": 10}]}, {"name": "b", "gpus": {"A": 1}}]},
	  "jobs": [{"id": "g", "sync": "gang", "rounds": 40, "tasks": 4,
	    "on": {"A": {"compute_s": 1, "sync_s": {"node": 0, "any": 1}, "switch_s": 5}}}]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := solver.Solve(t.Context(), inst, hare.Options{WorkLimit: 1000}, solver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if rep := verify.Check(inst, res); !rep.OK {
		t.Error(rep)
	}
}

// A gang goes on on the GPUs on which it runs without a setup, and in the window of node b there is
// no time for one. The job is not infeasible.
func TestRunningGangNeedsNoSetups(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1", "cluster": {"nodes": [
	  {"name": "a", "gpus": {"A": 1}}, {"name": "b", "gpus": {"A": 1}, "in_service_s": [[0, 4]]}]},
	  "jobs": [{"id": "g", "sync": "gang", "rounds": 2, "tasks": 2, "progress": {"gpus": ["a/0", "b/0"], "elapsed_s": 3},
	    "on": {"A": {"compute_s": 3, "sync_s": {"node": 0, "any": 0.5}, "switch_s": 0.5}}}]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := solver.Solve(t.Context(), inst, hare.Options{WorkLimit: 1000}, solver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Termination != hare.TerminationOptimal || res.Value.Float() != 4 {
		t.Errorf("value %v, %s, %v", res.Value, res.Termination, res.Reasons)
	}
}

// A gang goes on, as planned, on the GPU on which its first round runs until the node leaves service. The
// blocks of the plan hold the GPU from the end of that round on, before its next window opens.
func TestReplanStaysAcrossWindows(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1", "cluster": {"nodes": [
	  {"name": "a", "gpus": {"A": 1}, "in_service_s": [[0, 3], [5, null]]}]},
	  "jobs": [{"id": "g", "sync": "gang", "rounds": 2, "tasks": 1, "on": {"A": {"compute_s": 2, "switch_s": 1}}}]}`),
		wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	opt := hare.Options{WorkLimit: 1000}
	prev, err := solver.Solve(t.Context(), inst, opt, solver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := solver.Replan(t.Context(), inst, hare.ReplanRequest{Previous: prev, AtUs: 2_000_000, HasAt: true,
		StabilityMicro: 50_000}, opt, solver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if rep := verify.CheckReplan(inst, res, &verify.Previous{Result: prev, Instance: inst}); !rep.OK {
		t.Error(rep)
	}
	if p := res.Replan; p.Rest.Jobs[0].Progress == nil || !p.Rest.Jobs[0].Running() || len(p.Moved) > 0 {
		t.Errorf("the gang does not run at 2 s, or it moves: %+v", p)
	}
}
