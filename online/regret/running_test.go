package regret_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/regret"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

// shared draws a cluster of two racks with quotas, jobs that run at the start, and times by spread.
func shared(rng *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Topology: []string{"rack"}},
		Quota: []hare.Quota{{User: "ann", GPUs: 4 + rng.Int64N(3)}}}
	for n := range 4 {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: fmt.Sprint("n", n),
			GPUs: []hare.TypeCount{{Type: "A", Count: 2}}, Labels: []hare.Label{{Name: "rack", Value: fmt.Sprint(n / 2)}}})
	}
	for i := range 8 {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6 * (1 + rng.Int64N(3)), Sync: hare.Gang + hare.Sync(i%2),
			Rounds: 2 + rng.Int64N(4), Tasks: 1 + rng.Int64N(4), ReleaseUs: 1e6 * rng.Int64N(9),
			On: []hare.Profile{{Type: "A", ComputeUs: 1e6 * (1 + rng.Int64N(3)), SyncUs: 8e5,
				SyncAt: []hare.LevelSync{{Level: "any", SyncUs: 8e5}, {Level: "node", SyncUs: 1e5}}}}}
		if rng.IntN(2) == 0 {
			j.Users = []string{"ann"}
		}
		if rng.IntN(2) == 0 {
			j.Within = "rack"
		}
		if i < 2 {
			j.Tasks, j.ReleaseUs = 2, 0
			j.Progress = &hare.Progress{RoundsDone: rng.Int64N(2), ElapsedUs: rng.Int64N(1e6),
				GPUs: []string{fmt.Sprintf("n%d/0", 2*i), fmt.Sprintf("n%d/1", 2*i)}}
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// Sessions with quotas, running work and levels are not better than the bound in hindsight, and a replay
// under the session's own policy gives what happened.
func TestRegretOfSharedClusters(t *testing.T) {
	fixed := 0
	for seed := range uint64(6) {
		inst := shared(rand.New(rand.NewPCG(seed, 41)))
		if err := inst.Validate(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"fifo", "hlas", "tiresias"} {
			p := play(t, inst, name, sim.Config{})
			r := p.report
			if r.Counted == 0 || r.Instance == nil || len(r.Instance.Quota) != 1 || r.Achieved.Cmp(r.Bound) < 0 ||
				r.Bound.Sign() <= 0 {
				t.Fatalf("seed %d, %s: %d jobs, achieved %v, bound %v", seed, name, r.Counted, r.Achieved, r.Bound)
			}
			fixed += len(inst.Jobs) - r.Counted
			for i := range r.Instance.Jobs {
				if j := &r.Instance.Jobs[i]; j.Progress != nil && len(j.Progress.GPUs) != 2 {
					t.Fatalf("seed %d, %s: %+v", seed, name, j.Progress)
				}
			}
			if err := r.Against(t.Context(), p.h, name, nil, registry.OpenSession); err != nil {
				t.Fatalf("seed %d, %s: %v", seed, name, err)
			}
			if got, want := r.Replay.Figures.WeightedJCT, r.Replay.Session.WeightedJCT; got.Cmp(want) != 0 ||
				want.Cmp(r.Achieved) != 0 {
				t.Errorf("seed %d, %s: the replay has %v, the session %v, and %v was achieved", seed, name, got, want,
					r.Achieved)
			}
		}
	}
	if fixed == 0 {
		t.Error("no job ended with what ran at the start")
	}
}

// Quotas are as loose as they were; what cannot be known in hindsight is refused.
func TestRegretOfQuotasThatChange(t *testing.T) {
	arrives := func(seq, atUs int64, j hare.Job) wire.Record {
		j.WeightMicro, j.Tasks, j.Sync, j.Users = 1e6, 1, hare.Gang, []string{"ann"}
		j.On = []hare.Profile{{Type: "A", ComputeUs: 1e6}}
		return wire.Record{Event: hare.Event{Seq: seq, AtUs: atUs, Type: hare.EventJobArrived, Job: j.ID, Arrived: &j}}
	}
	quota := func(seq int64, user string, gpus int64) wire.Record {
		return wire.Record{Event: hare.Event{Seq: seq, AtUs: seq, Type: hare.EventSetQuota,
			Change: &hare.Change{Quota: &hare.Quota{User: user, GPUs: gpus}}}}
	}
	h := regret.NewHindsight(&hare.Cluster{
		Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 4}}}}})
	start := arrives(3, 3, hare.Job{ID: "x"})
	start.Decisions = []hare.Decision{{Job: "x", GPU: "a/0", AtUs: 3}}
	ended := wire.Record{Event: hare.Event{Seq: 6, AtUs: 1e6, Type: hare.EventTaskEnded, Job: "x", GPU: "a/0",
		ComputeUs: 1e6}}
	for _, r := range []wire.Record{quota(1, "ann", 9), quota(2, "ann", 2), start, quota(4, "ann", 3),
		quota(5, "bob", 1), ended, {Event: hare.Event{Seq: 7, AtUs: 1e6, Type: hare.EventJobEnded, Job: "x"}}} {
		if err := h.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	r, err := regret.Of(t.Context(), h, bound)
	if err != nil || len(r.Instance.Quota) != 1 || r.Instance.Quota[0].GPUs != 3 ||
		!strings.Contains(strings.Join(r.Notes, "\n"), "quotas were set while tasks ran") {
		t.Fatalf("%v: %+v", err, r)
	}
	err = r.Against(t.Context(), h, "fifo", nil, registry.OpenSession)
	if err == nil || !strings.Contains(err.Error(), "/quota") {
		t.Errorf("a replay: %v", err)
	}
	if err := h.Add(arrives(8, 2e6, hare.Job{ID: "late", Progress: &hare.Progress{GPUs: []string{"a/0"}}})); err != nil {
		t.Fatal(err)
	}
	if _, err := regret.Of(t.Context(), h, bound); err == nil || !strings.Contains(err.Error(), `"late"`) {
		t.Errorf("work that runs later: %v", err)
	}
}
