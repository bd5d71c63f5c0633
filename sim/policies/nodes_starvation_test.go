package policies_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
)

// narrowAndWide is a stream of short jobs of one GPU on two nodes, which never leaves a whole
// node free by itself, and one job that needs a whole node.
func narrowAndWide() *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	for n := range 2 {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: fmt.Sprint("n", n),
			GPUs: []hare.TypeCount{{Type: "A", Count: 4}}})
	}
	on := func(s int64) []hare.Profile { return []hare.Profile{{Type: "A", ComputeUs: s * 1e6}} }
	for i := range 400 {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint("narrow-", i), WeightMicro: 1e6, Sync: hare.Gang, Rounds: 1,
			Tasks: 1, ReleaseUs: int64(i) * 1.3e6, On: on(8 + int64(i)%5)})
	}
	inst.Jobs = append(inst.Jobs, hare.Job{ID: "wide", WeightMicro: 1e6, Sync: hare.Gang, Rounds: 2, Tasks: 1,
		GPUsPerTask: 4, ReleaseUs: 60e6, On: on(10)})
	return inst
}

// guardedBy returns by when the guard with κ must have started the wide job of narrowAndWide, if no
// job is due before: within 3 L of when it is due by the definition (docs/inside/online.md, "When a job is due"
// and "Nodes and levels"). L is 12 s.
func guardedBy(inst *hare.Instance, out *sim.Outcome, kappa float64) (us int64) {
	const step = 100_000
	wide := len(inst.Jobs) - 1
	missed, round := 0.0, float64(inst.Jobs[wide].On[0].ComputeUs)
	for us = inst.Jobs[wide].ReleaseUs; missed <= kappa*8; us += step {
		work := 0.0
		for i := range inst.Jobs {
			if j := &inst.Jobs[i]; j.ReleaseUs <= us && out.Jobs[i].EndUs > us {
				work += float64(j.Tasks*j.TaskGPUs()) * float64(j.On[0].ComputeUs)
			}
		}
		const gpus = 8
		missed += step / max(work/gpus, round, 1e6)
	}
	return us + 3*12e6
}

// A job that needs a whole node gets one although jobs of one GPU fill all nodes for ever.
func TestWideJobsDoNotStarveOnNodes(t *testing.T) {
	inst := narrowAndWide()
	guard := list.GuardConfig{Kappa: 2}
	cfg := policies.Config{HGittins: rolling.HGittinsConfig{Guard: guard},
		Rolling: rolling.Config{Guard: guard, Work: planner.Work{Moves: -1, Cells: 4, Effort: 0.1}}}
	for _, name := range []string{"fifo", "hlas", "hgittins", "rolling", "easy_backfill", "kueue_strict"} {
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
		wide := out.Jobs[len(out.Jobs)-1]
		t.Logf("%s: the wide job waits %d s", name, (wide.StartUs-60e6)/1e6)
		if waited := wide.StartUs - 60e6; waited > 60e6 && wide.StartUs > guardedBy(inst, out, 2) {
			t.Errorf("%s: the wide job waits %d s among jobs of 12 s", name, waited/1e6)
		}
	}
}
