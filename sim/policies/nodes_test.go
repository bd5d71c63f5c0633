package policies_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/verify"
)

// onNodes draws an instance with every rule of docs/reference/model.md, on which each job can run.
func onNodes(rng *rand.Rand) *hare.Instance {
	for {
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
		for n := range 2 + rng.IntN(4) {
			node := hare.Node{Name: fmt.Sprint("n", n), GPUs: []hare.TypeCount{{Type: "A", Count: 1 + rng.IntN(8)}},
				Labels: []hare.Label{{Name: "disk", Value: []string{"nvme", "ssd"}[rng.IntN(2)]}}}
			if rng.IntN(3) == 0 {
				node.GPUs = append(node.GPUs, hare.TypeCount{Type: "B", Count: 1 + rng.IntN(4)})
			}
			if rng.IntN(2) == 0 {
				node.CPUMilli = 4000 + rng.Int64N(12000)
			}
			if rng.IntN(3) == 0 {
				node.MemoryMiB = 8 + rng.Int64N(24)
			}
			if rng.IntN(4) == 0 {
				node.Windows = []hare.Window{{StartUs: rng.Int64N(5e6), EndUs: hare.Forever}}
			}
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
		}
		for j := range 3 + rng.IntN(12) {
			job := hare.Job{ID: fmt.Sprint("j", j), WeightMicro: 1e6 * (1 + rng.Int64N(3)), Sync: hare.Sync(rng.IntN(3)),
				Rounds: 1 + rng.Int64N(5), Tasks: 1 + rng.Int64N(4), ReleaseUs: rng.Int64N(20) * 1e6,
				GPUsPerTask: []int64{0, 0, 2, 3, 4}[rng.IntN(5)]}
			for _, kind := range []string{"A", "B"} {
				if kind == "A" || rng.IntN(2) == 0 {
					job.On = append(job.On, hare.Profile{Type: kind, ComputeUs: 1e6 * (1 + rng.Int64N(4)),
						SyncUs: 1e5 * rng.Int64N(3)})
				}
			}
			job.DistinctNodes = job.Sync != hare.Relaxed && rng.IntN(3) == 0
			job.Mix = job.Sync == hare.Gang && rng.IntN(4) == 0
			if rng.IntN(2) == 0 {
				job.CPUMilliPerTask = rng.Int64N(4000)
			}
			if rng.IntN(3) == 0 {
				job.MemoryMiBPerTask = rng.Int64N(8)
			}
			switch rng.IntN(6) {
			case 0:
				job.Only = []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}}
			case 1:
				job.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{"n0"}}}
			}
			inst.Jobs = append(inst.Jobs, job)
		}
		inst.Jobs = runnable(inst)
		if _, placed := inst.Placed(); placed && inst.Validate() == nil {
			return inst
		}
	}
}

// runnable are the jobs of an instance that GPUs which stay in service have room for.
func runnable(inst *hare.Instance) (jobs []hare.Job) {
	m := model.New(inst)
	for i := range m.Jobs {
		j := &m.Jobs[i]
		for _, md := range j.Modes {
			steps := m.TaskRoom(j, md.Type)
			last, together := steps[len(steps)-1].Count, j.Tasks
			if j.Sync == hare.Relaxed {
				together = 1
			}
			if last >= together && quotasLet(inst, i, m.Types[md.Type], together*j.GPUs) {
				jobs = append(jobs, inst.Jobs[i])
				break
			}
		}
	}
	return jobs
}

// quotasLet reports whether the quotas of a job let it hold so many GPUs of a type.
func quotasLet(inst *hare.Instance, job int, kind string, gpus int64) bool {
	return !slices.ContainsFunc(inst.Quota, func(q hare.Quota) bool {
		return q.Limits(&inst.Jobs[job], kind) && q.GPUs < gpus
	})
}

// Every policy of tasks runs instances with rules about nodes: no decision breaks a rule, all
// jobs end, and the schedules are feasible.
func TestPoliciesKeepTheRulesOfNodes(t *testing.T) {
	runs := 25
	if testing.Short() {
		runs = 8
	}
	for _, info := range policies.All() {
		t.Run(info.Name, func(t *testing.T) {
			for seed := range uint64(runs) {
				inst := onNodes(rand.New(rand.NewPCG(seed, 17)))
				p, err := info.New(context.Background(), inst, policies.Config{})
				var fault *hare.InvalidError
				if errors.As(err, &fault) && fault.Code == "not_supported" && info.Knows() == policies.Future {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				cfg := sim.Config{Name: info.Name}
				if seed%3 == 1 {
					cfg.Seed = seed
					cfg.FaultRate = sim.FaultRate{GPUMeanUs: 60e6, GPURepairUs: 2e6, NodeMeanUs: 50e6, NodeRepairUs: 3e6}
				}
				out, err := sim.Run(context.Background(), inst, p, cfg)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if out.Schedule == nil {
					continue
				}
				checkFeasible(t, seed, inst, out)
			}
		})
	}
}

func checkFeasible(t *testing.T, seed uint64, inst *hare.Instance, out *sim.Outcome) {
	t.Helper()
	res, err := out.Result(inst, nil)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if report := verify.Check(inst, res); !report.OK {
		t.Fatalf("seed %d: %s", seed, report)
	}
}

// Merged rounds become schedules that are feasible, too.
func TestMergedRoundsKeepTheRulesOfNodes(t *testing.T) {
	for seed := range uint64(15) {
		inst := onNodes(rand.New(rand.NewPCG(seed, 18)))
		merged := sim.Merge(inst, 6e6)
		for _, name := range []string{"srtf", "rolling", "tiresias"} {
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
				t.Fatalf("seed %d: %v", seed, err)
			}
			checkFeasible(t, seed, inst, out)
		}
	}
}

// TestRollingMixesTypesOnDistinctNodes checks that a gang starts that may mix types and whose tasks
// need distinct nodes, where plans find the sum of GPUs on one type whose nodes are too few.
func TestRollingMixesTypesOnDistinctNodes(t *testing.T) {
	node := func(name, kind string) hare.Node {
		return hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: kind, Count: 2}}}
	}
	on := func(a, b, c int64) []hare.Profile {
		return []hare.Profile{{Type: "A", ComputeUs: a}, {Type: "B", ComputeUs: b}, {Type: "C", ComputeUs: c}}
	}
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{node("a", "A"), node("b", "B"), node("c", "C")}},
		Jobs: []hare.Job{
			{ID: "single", WeightMicro: 1e6, Rounds: 1, Tasks: 1, Sync: hare.Rigid, On: on(26e6, 18e6, 6e6)},
			{ID: "wide", WeightMicro: 1e6, Rounds: 1, Tasks: 2, GPUsPerTask: 2, Sync: hare.Gang, Mix: true,
				DistinctNodes: true, On: on(2e6, 1.4e6, 2e6)},
			{ID: "spread", WeightMicro: 1e6, Rounds: 1, Tasks: 2, Sync: hare.Gang, Mix: true, DistinctNodes: true,
				On: on(1e6, 0.7e6, 1e6)},
		}}
	i := slices.IndexFunc(policies.All(), func(info policies.Info) bool { return info.Name == "rolling" })
	p, err := policies.All()[i].New(t.Context(), inst, policies.Config{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := sim.Run(t.Context(), inst, p, sim.Config{Name: "rolling"})
	if err != nil {
		t.Fatal(err)
	}
	checkFeasible(t, 0, inst, out)
}
