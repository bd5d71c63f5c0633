package policies_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
)

// onQuotas draws an instance with the rules of docs/reference/model.md, quotas and work that runs at time 0,
// on which each job can run.
func onQuotas(rng *rand.Rand) *hare.Instance {
	for {
		inst := onNodes(rng)
		for _, user := range []string{"ann", "bob", "vision"} {
			if rng.IntN(3) > 0 {
				q := hare.Quota{User: user, GPUs: 1 + rng.Int64N(10)}
				if rng.IntN(3) == 0 {
					q.Types = []string{[]string{"A", "B"}[rng.IntN(2)]}
				}
				inst.Quota = append(inst.Quota, q)
			}
		}
		for i := range inst.Jobs {
			inst.Jobs[i].Users = [][]string{nil, {"ann"}, {"bob"}, {"ann", "vision"}, {"bob", "vision"}}[rng.IntN(5)]
		}
		inst.Jobs = runnable(inst)
		free := map[string]bool{}
		m := model.New(inst)
		for _, g := range m.GPUs {
			free[g.ID] = true
		}
		for i := range inst.Jobs {
			if rng.IntN(3) == 0 {
				continue
			}
			j := &inst.Jobs[i]
			before := *j
			j.Progress = &hare.Progress{RoundsDone: rng.Int64N(j.Rounds)}
			if j.Sync != hare.Relaxed && rng.IntN(4) > 0 {
				j.ReleaseUs = 0
				runSomewhere(rng, m, j, free)
			}
			if inst.Validate() != nil {
				for _, g := range j.Progress.GPUs {
					free[g] = true
				}
				*j = before
			}
		}
		if len(inst.Jobs) > 0 && inst.Validate() == nil {
			return inst
		}
	}
}

// runSomewhere lets a job run on free GPUs, whole tasks on each node.
func runSomewhere(rng *rand.Rand, m *model.Model, j *hare.Job, free map[string]bool) {
	type place struct{ node, gpuType int }
	at, n := map[place][]string{}, int(j.TaskGPUs())
	kind := rng.IntN(2)
	for _, g := range m.GPUs {
		p := place{g.Node, g.Type}
		if !free[g.ID] || g.Type != kind && !j.Mix || int64(len(j.Progress.GPUs)) == j.Tasks*int64(n) {
			continue
		}
		if at[p] = append(at[p], g.ID); len(at[p]) == n {
			for _, id := range at[p] {
				free[id] = false
			}
			j.Progress.GPUs = append(j.Progress.GPUs, at[p]...)
			at[p] = nil
		}
	}
	rng.Shuffle(len(j.Progress.GPUs), func(a, b int) {
		j.Progress.GPUs[a], j.Progress.GPUs[b] = j.Progress.GPUs[b], j.Progress.GPUs[a]
	})
	j.Progress.ElapsedUs = rng.Int64N(2e6)
}

// Every policy of tasks runs instances with quotas and running work: no decision breaks a quota,
// all jobs end, and the schedules are feasible.
func TestPoliciesKeepQuotas(t *testing.T) {
	runs := 40
	if testing.Short() {
		runs = 10
	}
	for _, info := range policies.All() {
		t.Run(info.Name, func(t *testing.T) {
			running := 0
			for seed := range uint64(runs) {
				inst := onQuotas(rand.New(rand.NewPCG(seed, 23)))
				p, err := info.New(context.Background(), inst, policies.Config{})
				var fault *hare.InvalidError
				if errors.As(err, &fault) && fault.Code == "not_supported" && info.Knows() == policies.Future {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				cfg := sim.Config{Name: info.Name}
				if seed%4 == 1 {
					cfg.Seed = seed
					cfg.FaultRate = sim.FaultRate{GPUMeanUs: 60e6, GPURepairUs: 2e6, NodeMeanUs: 50e6, NodeRepairUs: 3e6}
				}
				out, err := sim.Run(context.Background(), inst, p, cfg)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for i := range inst.Jobs {
					if inst.Jobs[i].Running() {
						running++
					}
				}
				if out.Schedule == nil {
					continue
				}
				checkFeasible(t, seed, inst, out)
			}
			if running < runs/4 && !testing.Short() {
				t.Errorf("only %d jobs ran at the start", running)
			}
		})
	}
}

// Merged rounds of jobs that run at the start become schedules that are feasible, too.
func TestMergedRoundsKeepProgress(t *testing.T) {
	for seed := range uint64(15) {
		inst := onQuotas(rand.New(rand.NewPCG(seed, 24)))
		merged := sim.Merge(inst, 6e6)
		for _, name := range []string{"fifo", "srtf", "rolling"} {
			info, err := registry.FindTask(name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := info.New(context.Background(), merged.Inst, policies.Config{})
			if err != nil {
				t.Fatal(err)
			}
			out, err := merged.Run(context.Background(), p, sim.Config{Name: name})
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, name, err)
			}
			checkFeasible(t, seed, inst, out)
		}
	}
}
