package sim_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/verify"
)

func play(t *testing.T, name string, inst *hare.Instance,
	run func(context.Context, *hare.Instance, policies.Info) (*sim.Outcome, error)) *sim.Outcome {
	t.Helper()
	info, err := registry.FindTask(name)
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(t.Context(), inst, info)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

func merged(t *testing.T, name string, inst *hare.Instance, quantumUs int64, cfg sim.Config) *sim.Outcome {
	m := sim.Merge(inst, quantumUs)
	return play(t, name, m.Inst, func(ctx context.Context, inst *hare.Instance, info policies.Info) (*sim.Outcome,
		error) {
		p, err := info.New(ctx, inst, policies.Config{ThresholdUs: 3e6})
		if err != nil {
			return nil, err
		}
		return m.Run(ctx, p, cfg)
	})
}

func plain(t *testing.T, name string, inst *hare.Instance, cfg sim.Config) *sim.Outcome {
	return play(t, name, inst, func(ctx context.Context, inst *hare.Instance, info policies.Info) (*sim.Outcome, error) {
		p, err := info.New(ctx, inst, policies.Config{ThresholdUs: 3e6})
		if err != nil {
			return nil, err
		}
		return sim.Run(ctx, inst, p, cfg)
	})
}

// uneven draws an instance in which two events hardly ever have the same time, so there are no
// ties to break.
func uneven(r *rand.Rand) *hare.Instance {
	inst := random(r, false)
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		j.ReleaseUs += r.Int64N(10_000_000)
		j.Rounds = 1 + r.Int64N(40)
		for k := range j.On {
			j.On[k].ComputeUs += r.Int64N(400_000)
			j.On[k].SyncUs += r.Int64N(100_000)
		}
	}
	return inst
}

// A run of a random instance with merged rounds gives a schedule of the instance. Under
// policies that neither preempt nor know sizes, and if all jobs are rigid under every policy,
// the schedule is that of a run without merging.
func TestMerged(t *testing.T) {
	for _, c := range []struct {
		policy    string
		quantumUs int64
		same      bool
	}{
		{"gavel_fifo", 5e6, true}, {"easy_backfill", 5e6, false}, {"kueue", 5e6, true}, {"slurm", 3e6,
			false}, {"sched_homo", 5e6, false},
		{"hlas", 1, false}, {"hlas", 5e6, false}, {"fifo", 5e6, false}, {"srtf", 4e6, false}, {"tiresias", 6e6, false},
	} {
		t.Run(c.policy, func(t *testing.T) {
			entries := 0
			for seed := range seeds(100) {
				r := rand.New(rand.NewPCG(seed, 10))
				inst := uneven(r)
				for i := range inst.Jobs {
					if j := &inst.Jobs[i]; seed%5 == 4 {
						j.Sync, j.Mix, j.Tasks = hare.Rigid, false, 1
					}
				}
				cfg := sim.Config{SwitchUs: int64(seed%3) * 700_000}
				got := merged(t, c.policy, inst, c.quantumUs, cfg)
				res, err := got.Result(inst, nil)
				if err != nil {
					t.Fatal(err)
				}
				if rep := verify.Check(inst, res); !rep.OK {
					t.Fatalf("seed %d: %v", seed, rep)
				}
				want := plain(t, c.policy, inst, cfg)
				if (c.same || seed%5 == 4) && !slices.Equal(got.Jobs, want.Jobs) {
					t.Fatalf("seed %d: merged %+v, plain %+v", seed, got.Jobs, want.Jobs)
				}
				if c.same && got.Events >= want.Events && len(inst.Jobs) > 3 {
					entries++
				}
			}
			if entries > 5 {
				t.Errorf("%d runs had no fewer events", entries)
			}
		})
	}
}

// The schedule of three jobs, of which one mixes types, is computed by hand.
func TestMergedByHand(t *testing.T) {
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 1}}},
			{Name: "b", GPUs: []hare.TypeCount{{Type: "B", Count: 1}}}}},
		Jobs: []hare.Job{
			// A round takes 3 s, as long as its task on B. The rounds run as two pairs of merged rounds
			// and one single round.
			{ID: "mixed", Rounds: 5, Tasks: 2, Sync: hare.Gang, Mix: true,
				On: []hare.Profile{{Type: "A", ComputeUs: 2e6}, {Type: "B", ComputeUs: 2e6, SyncUs: 1e6}}},
			// The job waits from 1 s on until a merged round ends at 6 s; then srtf starts it first,
			// with 2 rounds of 1 s.
			{ID: "short", ReleaseUs: 1e6, Rounds: 2, Tasks: 1, Sync: hare.Rigid,
				On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}},
		},
	}
	got := merged(t, "srtf", inst, 4e6, sim.Config{})
	want := []hare.Lane{
		{GPU: "a/0", Job: []int32{0, 1, 0}, Round: []int64{0, 0, 2}, Rounds: []int64{2, 2, 3},
			Tasks: []int64{1, 1, 1}, PeriodUs: []int64{3e6, 1e6, 3e6}, StartUs: []int64{0, 6e6, 8e6}},
		{GPU: "b/0", Job: []int32{0, 0}, Round: []int64{0, 2}, Rounds: []int64{2, 3}, Tasks: []int64{1, 1},
			PeriodUs: []int64{3e6, 3e6}, StartUs: []int64{0, 8e6}},
	}
	for i, l := range got.Schedule.Lanes {
		if !slices.Equal(l.Round, want[i].Round) || !slices.Equal(l.Rounds, want[i].Rounds) ||
			!slices.Equal(l.PeriodUs, want[i].PeriodUs) || !slices.Equal(l.StartUs, want[i].StartUs) ||
			!slices.Equal(l.Job, want[i].Job) {
			t.Errorf("lane %+v, want %+v", l, want[i])
		}
	}
	res, err := got.Result(inst, nil)
	if err != nil {
		t.Fatal(err)
	}
	if rep := verify.Check(inst, res); !rep.OK {
		t.Error(rep)
	}
}

// Jobs of a hundred million rounds are simulated as merged rounds.
func TestMergedLongJobs(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 4}}}}}}
	for i, sync := range []hare.Sync{hare.Rigid, hare.Gang, hare.Gang} {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: string(rune('a' + i)), WeightMicro: 1e6, ReleaseUs: int64(i) * 7e6,
			Rounds: 100_000_000 + int64(i), Tasks: 2, Sync: sync, On: []hare.Profile{{Type: "A", ComputeUs: 1100,
				SyncUs: 77}}})
	}
	if err := inst.Validate(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	out := merged(t, "hlas", inst, 0, sim.Config{})
	res, err := out.Result(inst, nil)
	if err != nil {
		t.Fatal(err)
	}
	if rep := verify.Check(inst, res); !rep.OK {
		t.Fatal(rep)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	t.Logf("%d events", out.Events)
}
