package trace

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	hare "github.com/hare-sched/hare"
)

func TestPhillyNodes(t *testing.T) {
	draw := func(cfg PhillyNodesConfig) *hare.Instance {
		t.Helper()
		inst, err := PhillyNodes(cfg)
		if err != nil {
			t.Fatal(err)
		}
		decodes(t, inst)
		return inst
	}
	a := draw(PhillyNodesConfig{Seed: 1})
	if d := cmp.Diff(a, draw(PhillyNodesConfig{Seed: 1})); d != "" {
		t.Error("same seed, another instance")
	}
	if len(a.Cluster.Nodes) != 32 || len(a.Jobs) != 300 || a.Jobs[299].ReleaseUs != 0 {
		t.Errorf("%d nodes, %d jobs, last release %d", len(a.Cluster.Nodes), len(a.Jobs), a.Jobs[299].ReleaseUs)
	}
	shapes := map[[2]int64]bool{}
	for _, j := range draw(PhillyNodesConfig{Seed: 2, Widths: []int64{1, 6, 8, 11, 12, 32}}).Jobs {
		shapes[[2]int64{j.Tasks, j.GPUsPerTask}] = true
	}
	if want := map[[2]int64]bool{{1, 0}: true, {1, 6}: true, {1, 8}: true, {11, 0}: true, {2, 6}: true,
		{4, 8}: true}; !cmp.Equal(shapes, want) {
		t.Errorf("tasks and GPUs of a task are %v", shapes)
	}
	loaded := draw(PhillyNodesConfig{Seed: 3, Load: 2, Sync: "gang",
		GPUs: []hare.TypeCount{{Type: "GPU", Count: 64}}})
	var work float64
	for _, j := range loaded.Jobs {
		work += float64(j.Tasks*j.TaskGPUs()*j.Rounds) * float64(j.On[0].ComputeUs)
	}
	if load := work / (64 * float64(loaded.Jobs[299].ReleaseUs)); math.Abs(load-2) > 1e-3 {
		t.Errorf("load %v", load)
	}
	if last := draw(PhillyNodesConfig{Arrivals: "uniform:86400"}).Jobs[7].ReleaseUs; last == 0 || last > 86400e6 {
		t.Errorf("release %d", last)
	}
	for name, cfg := range map[string]PhillyNodesConfig{
		"half a node": {GPUs: []hare.TypeCount{{Type: "GPU", Count: 12}}}, "too wide": {Widths: []int64{129}},
		"width 0": {Widths: []int64{0}}, "arrivals and load": {Load: 1, Arrivals: "none"}, "sync": {Sync: "relaxed"},
		"no room for whole tasks": {Widths: []int64{7 * 17}}, "per node": {PerNode: -1},
	} {
		if _, err := PhillyNodes(cfg); err == nil {
			t.Error(name)
		}
	}
}

func TestPhillyNodesRunning(t *testing.T) {
	for _, sync := range []string{"rigid", "gang"} {
		inst, err := PhillyNodes(PhillyNodesConfig{Jobs: 400, Running: 0.9, Load: 1, Sync: sync, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := inst.Validate(); err != nil {
			t.Fatal(err)
		}
		running, begun, gpus := 0, 0, 0
		for i := range inst.Jobs {
			if p := inst.Jobs[i].Progress; p != nil && p.GPUs != nil {
				running++
				gpus += len(p.GPUs)
			} else if p != nil {
				begun++
			}
		}
		if gpus < 215 || gpus > 230 || running == 400 || (begun > 0) != (sync == "gang") {
			t.Errorf("%s: %d jobs run on %d GPUs, and %d waiting ones have begun", sync, running, gpus, begun)
		}
	}
}

func TestPhillyNodesRacks(t *testing.T) {
	inst, err := PhillyNodes(PhillyNodesConfig{Jobs: 50, PerRack: 3, Widths: []int64{8, 16, 32}, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := inst.Validate(); err != nil {
		t.Fatal(err)
	}
	for i := range inst.Jobs {
		// A rack of three nodes has room for three tasks of 8 GPUs.
		if j := &inst.Jobs[i]; (j.Within == "rack") != (j.Tasks == 2) {
			t.Errorf("job %s of %d tasks has within %q", j.ID, j.Tasks, j.Within)
		}
	}
}
