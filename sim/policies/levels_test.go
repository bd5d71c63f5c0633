package policies_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
)

// onLevels draws an instance with the rules of docs/reference/model.md, quotas, work that runs at time 0, a
// topology, jobs that keep together and times by spread, on which each job can run.
func onLevels(rng *rand.Rand) *hare.Instance {
	for {
		inst := onQuotas(rng)
		inst.Cluster.Topology = []string{"zone", "rack"}[:1+rng.IntN(2)]
		for n := range inst.Cluster.Nodes {
			node := &inst.Cluster.Nodes[n]
			for _, label := range inst.Cluster.Topology {
				node.Labels = append(node.Labels, hare.Label{Name: label, Value: fmt.Sprint(rng.IntN(2))})
			}
			slices.SortFunc(node.Labels, func(a, b hare.Label) int { return strings.Compare(a.Name, b.Name) })
		}
		for i := range inst.Jobs {
			if inst.Jobs[i].Sync != hare.Relaxed && rng.IntN(4) > 0 {
				drawLevels(rng, inst, &inst.Jobs[i])
			}
		}
		inst.Jobs = inOneDomain(inst)
		if len(inst.Jobs) > 0 && inst.Validate() == nil && inst.FirstRule(^hare.RuleLevels) != "" {
			return inst
		}
	}
}

// drawLevels lets a job keep together, and its times grow with the spread.
func drawLevels(rng *rand.Rand, inst *hare.Instance, j *hare.Job) {
	levels := append([]string{"node"}, inst.Cluster.Topology...)
	slices.Reverse(levels[1:])
	if rng.IntN(2) == 0 {
		j.Within = levels[rng.IntN(len(levels))]
	}
	for x := range j.On {
		if rng.IntN(2) == 0 {
			continue
		}
		p := &j.On[x]
		p.SyncAt = []hare.LevelSync{{Level: "node", SyncUs: 2e5 * rng.Int64N(3)}}
		for _, level := range append(levels[1:], "any") {
			if last := p.SyncAt[len(p.SyncAt)-1]; rng.IntN(2) == 0 || level == "any" {
				p.SyncAt = append(p.SyncAt, hare.LevelSync{Level: level, SyncUs: last.SyncUs + 3e5*(1+rng.Int64N(3))})
			}
		}
		p.SyncUs = p.SyncAt[len(p.SyncAt)-1].SyncUs
		slices.SortFunc(p.SyncAt, func(a, b hare.LevelSync) int { return strings.Compare(a.Level, b.Level) })
	}
}

// inOneDomain are the jobs of an instance that one domain of their level has room for.
func inOneDomain(inst *hare.Instance) (jobs []hare.Job) {
	alone := *inst // nothing of the model's room may depend on what runs
	alone.Jobs = slices.Clone(inst.Jobs)
	for i := range alone.Jobs {
		alone.Jobs[i].Progress = nil
	}
	lv := hare.NewLevels(&inst.Cluster)
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if j.Within == "" {
			jobs = append(jobs, *j)
			continue
		}
		within, _ := lv.Index(j.Within)
		for d := range lv.Domains(within) {
			part := alone
			part.Cluster.Nodes = nil
			for n := range inst.Cluster.Nodes {
				if lv.Domain(within, n) == d {
					part.Cluster.Nodes = append(part.Cluster.Nodes, inst.Cluster.Nodes[n])
				}
			}
			if j.Running() || slices.ContainsFunc(runnable(&part), func(o hare.Job) bool { return o.ID == j.ID }) {
				jobs = append(jobs, *j)
				break
			}
		}
	}
	return jobs
}

// Every policy of tasks runs instances with levels: no decision spreads a round farther than its job
// allows, all jobs end, and the schedules are feasible, with the times of their spread.
func TestPoliciesKeepLevels(t *testing.T) {
	runs := 20
	if testing.Short() {
		runs = 8
	}
	for _, info := range policies.All() {
		t.Run(info.Name, func(t *testing.T) {
			for seed := range uint64(runs) {
				inst := onLevels(rand.New(rand.NewPCG(seed, 31)))
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
				if out.Schedule != nil {
					checkFeasible(t, seed, inst, out)
				}
				for _, j := range out.Metrics(inst).Each {
					if j.Slowdown < 1-1e-9 {
						t.Fatalf("seed %d: job %s has a slowdown of %g", seed, j.ID, j.Slowdown)
					}
				}
			}
		})
	}
}

// Merged rounds take the times of their spread, too.
func TestMergedRoundsKeepLevels(t *testing.T) {
	for seed := range uint64(15) {
		inst := onLevels(rand.New(rand.NewPCG(seed, 32)))
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

// A job that needs a whole rack gets one although narrow jobs fill all racks for ever.
func TestGangsWithinARackDoNotStarve(t *testing.T) {
	inst := narrowAndWide()
	inst.Cluster = hare.Cluster{Topology: []string{"rack"}}
	for n := range 4 {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: fmt.Sprint("n", n),
			GPUs: []hare.TypeCount{{Type: "A", Count: 2}}, Labels: []hare.Label{{Name: "rack", Value: fmt.Sprint(n % 2)}}})
	}
	wide := &inst.Jobs[len(inst.Jobs)-1]
	wide.GPUsPerTask, wide.Tasks, wide.Within = 0, 4, "rack"
	guard := list.GuardConfig{Kappa: 2}
	cfg := policies.Config{HGittins: rolling.HGittinsConfig{Guard: guard},
		Rolling: rolling.Config{Guard: guard, Work: planner.Work{Moves: -1, Cells: 4, Effort: 0.1}}}
	for _, name := range []string{"fifo", "hlas", "hgittins", "rolling", "easy_backfill", "slurm", "kueue_strict"} {
		info, err := registry.FindTask(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := info.New(context.Background(), inst, cfg)
		if err != nil {
			t.Fatal(err)
		}
		out, err := sim.Run(context.Background(), inst, p, sim.Config{Name: name, NoSchedule: true})
		if err != nil {
			t.Fatal(err)
		}
		start := out.Jobs[len(out.Jobs)-1].StartUs
		waited := start - 60e6
		t.Logf("%s: the wide job waits %d s", name, waited/1e6)
		if waited > 60e6 && start > guardedBy(inst, out, 2) {
			t.Errorf("%s: the wide job waits %d s among jobs of 12 s", name, waited/1e6)
		}
	}
}
