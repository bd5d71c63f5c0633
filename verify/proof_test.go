package verify_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// A proof answers for its own certificate and instance and for no other. There is no
// proof of a certificate that states too much, or after the context has ended.
func TestProof(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{haretest.Node("a", "V100", 1)}}}
	for _, id := range []string{"a", "b", "c"} {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: id, WeightMicro: 1_000_000, Rounds: 3, Tasks: 2, Sync: hare.Relaxed,
			On: []hare.Profile{{Type: "V100", ComputeUs: 1_000_000, SyncUs: 100_000}}})
	}
	res, err := solver.Solve(t.Context(), inst, hare.Options{WorkLimit: 2000}, solver.Config{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	proof, err := verify.Prove(t.Context(), inst, res.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if rep := proof.Check(inst, res); !rep.OK || rep.Bound.Cmp(*verify.Check(inst, res).Bound) != 0 {
		t.Fatal(rep)
	}

	lie := *res
	cert := *res.Certificate
	cert.Bound = "1000000.000000"
	lie.Certificate = &cert
	if rep := proof.Check(inst, &lie); rep.OK {
		t.Error("a proof vouches for another certificate")
	}
	if _, err := verify.Prove(t.Context(), inst, &cert); err == nil {
		t.Error("a certificate that states more than it proves has a proof")
	}
	cert.Bound = "about 3"
	if _, err := verify.Prove(t.Context(), inst, &cert); err == nil {
		t.Error("a certificate without a number has a proof")
	}
	over := *res
	above := hare.Amount{}
	over.Value = &above
	if rep := proof.Check(inst, &over); rep.OK {
		t.Error("a proof vouches for a value")
	}

	// With half the compute time, the same certificate proves too much.
	other := *inst
	other.Jobs = append([]hare.Job(nil), inst.Jobs...)
	for i := range other.Jobs {
		other.Jobs[i].Rounds = 1
	}
	if rep := proof.Check(&other, &hare.Result{Objective: res.Objective, Schedule: res.Schedule, Value: res.Value,
		Bound: res.Bound, Certificate: res.Certificate}); rep.OK ||
		rep.Bound != nil && rep.Bound.Cmp(*res.Bound) >= 0 {
		t.Errorf("a proof vouches for another instance: %v", rep)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := verify.Prove(ended, inst, res.Certificate); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a proof whose context has ended", err)
	}
}
