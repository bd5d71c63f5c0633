package trace

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

func TestOpenbLike(t *testing.T) {
	draw := func(cfg OpenbLikeConfig) *hare.Instance {
		t.Helper()
		inst, err := OpenbLike(cfg)
		if err != nil {
			t.Fatal(err)
		}
		decodes(t, inst)
		return inst
	}
	a := draw(OpenbLikeConfig{Seed: 1})
	if d := cmp.Diff(a, draw(OpenbLikeConfig{Seed: 1})); d != "" {
		t.Error("same seed, another instance")
	}
	if cmp.Equal(a, draw(OpenbLikeConfig{Seed: 2, Name: a.Name})) {
		t.Error("another seed, the same instance")
	}
	if len(a.Cluster.Nodes) != 64 || len(a.Jobs) != 300 {
		t.Errorf("%d nodes, %d jobs", len(a.Cluster.Nodes), len(a.Jobs))
	}
	wide := 0
	for seed := range uint64(5) {
		inst := draw(OpenbLikeConfig{Seed: seed, Nodes: 8, Jobs: 200, Shared: "whole"})
		for _, n := range inst.Cluster.Nodes {
			if n.CPUMilli == 0 || n.MemoryMiB == 0 {
				t.Fatalf("node %+v", n)
			}
		}
		// Every job finds room on an empty cluster.
		m := model.New(inst)
		for i := range m.Jobs {
			if len(m.Jobs[i].Modes) == 0 {
				t.Errorf("seed %d: job %d cannot run", seed, i)
			}
			if m.Jobs[i].GPUs > 1 {
				wide++
			}
		}
	}
	if wide == 0 {
		t.Error("no job of several GPUs")
	}
	all := draw(OpenbLikeConfig{Nodes: 1213, Jobs: 2000})
	if len(all.Cluster.Nodes) != 1213 || all.Cluster.Nodes[0].Name != "openb-node-0000" ||
		all.Cluster.Nodes[0].CPUMilli != 64000 || all.Cluster.Nodes[0].MemoryMiB != 262144 {
		t.Errorf("the first node is %+v", all.Cluster.Nodes[0])
	}
	loaded := draw(OpenbLikeConfig{Seed: 3, Load: 2, Sync: "gang"})
	var work, gpus float64
	for _, j := range loaded.Jobs {
		work += float64(j.TaskGPUs()*j.Rounds) * float64(j.On[0].ComputeUs)
	}
	for _, n := range loaded.Cluster.Nodes {
		gpus += float64(n.GPUs[0].Count)
	}
	if load := work / (gpus * float64(loaded.Jobs[299].ReleaseUs)); math.Abs(load-2) > 1e-3 {
		t.Errorf("load %v", load)
	}
	for name, cfg := range map[string]OpenbLikeConfig{
		"nodes": {Nodes: 1214}, "no nodes": {Nodes: -1}, "shared": {Shared: "half"}, "sync": {Sync: "relaxed"},
		"arrivals and load": {Load: 1, Arrivals: "none"}, "jobs": {Jobs: -1},
	} {
		if _, err := OpenbLike(cfg); err == nil {
			t.Error(name)
		}
	}
}
