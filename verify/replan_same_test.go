package verify_test

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// sameRests returns two replans of a plan that leaves its GPU idle for ten seconds, at 5 s and
// then at atUs. At 5 s nothing has started, so that the rest is the same instance on a later clock.
func sameRests(t testing.TB, atUs int64) (first, second *replanCase) {
	t.Helper()
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{haretest.Node("n", "A", 1)}}}
	for i, name := range []string{"x", "y"} {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: name, WeightMicro: 3e6, Rounds: 1, Tasks: 1,
			On: []hare.Profile{{Type: "A", ComputeUs: int64(1+i) * 1_000_000}}})
	}
	idle := &hare.Result{Objective: inst.Objective, Schedule: &hare.Schedule{Jobs: []string{"x", "y"},
		Lanes: []hare.Lane{{GPU: "n/0", Job: []int32{0, 1}, StartUs: []int64{10_000_000, 11_000_000}}}}}
	replan := func(prev *hare.Result, at int64) *replanCase {
		req := hare.ReplanRequest{Previous: prev, AtUs: at, HasAt: true, StabilityMicro: 1e9}
		res, err := solver.Replan(t.Context(), inst, req, quickly, solver.Config{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		return &replanCase{inst: inst, before: inst, prev: prev, res: decoded(t, res)}
	}
	first = replan(idle, 5_000_000)
	return first, replan(first.res, atUs)
}

// A replan whose rest is the same instance as the whole is checked as a replan, and the work
// that had started is read on the clock of the whole.
func TestRestThatIsTheWhole(t *testing.T) {
	first, second := sameRests(t, 10_500_000)
	if sha := wire.SHA256(first.inst); first.res.InstanceSHA256 != sha || first.res.Replan.InstanceSHA256 != sha {
		t.Fatal("the rest is another instance")
	}
	for _, x := range []*replanCase{first, second} {
		for _, prev := range []*verify.Previous{x.previous(), nil} {
			if rep := verify.CheckReplan(x.inst, x.res, prev); !rep.OK || rep.Constant == nil {
				t.Errorf("at %d: %s", x.res.Replan.AtUs, rep)
			}
		}
	}
	if s := second.res.Replan.Started; len(s) != 1 || s[0].Job != "x" || s[0].UntilUs != 11_000_000 {
		t.Errorf("at 10.5 s the job x has run since 10 s, not %+v", s)
	}
	forged := decoded(t, first.res)
	forged.Replan.Constant = *plus(&forged.Replan.Constant, one)
	if rep := verify.Check(first.inst, forged); rep.OK {
		t.Errorf("a false constant: %s", rep)
	}
	forged = decoded(t, first.res)
	forged.Replan.Whole.Lanes[0].StartUs[1] += longAfter
	if rep := verify.Check(first.inst, forged); rep.OK {
		t.Errorf("a false schedule of the whole: %s", rep)
	}
}
