package policy_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/planner"
	"github.com/hare-sched/hare/policy"
	"github.com/hare-sched/hare/policy/task"
	"github.com/hare-sched/hare/sim"
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

// A job that needs a whole node gets one although jobs of one GPU fill all nodes for ever.
func TestWideJobsDoNotStarveOnNodes(t *testing.T) {
	inst := narrowAndWide()
	guard := task.GuardConfig{Kappa: 2}
	cfg := task.Config{HGittins: task.HGittinsConfig{Guard: guard},
		Rolling: task.RollingConfig{Guard: guard, Work: planner.Work{Moves: -1, Cells: 4, Effort: 0.1}}}
	for _, name := range []string{"fifo", "hlas", "hgittins", "rolling", "easy_backfill", "kueue_strict"} {
		info, err := policy.FindTask(name)
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
		if waited := wide.StartUs - 60e6; waited > 400e6 {
			t.Errorf("%s: the wide job waits %d s among jobs of 12 s", name, waited/1e6)
		}
	}
}
