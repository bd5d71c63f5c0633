package hare_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
)

func valid() *hare.Instance {
	return &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{
			{Name: "a", GPUs: []hare.TypeCount{{Type: "K80", Count: 1}, {Type: "V100", Count: 2}},
				Windows: []hare.Window{{StartUs: 0, EndUs: 5}, {StartUs: 7, EndUs: hare.Forever}},
				Busy:    []hare.Busy{{GPU: 0, UntilUs: 3}, {GPU: 2, UntilUs: 4}}},
			haretest.Node("b", "T4", 4),
		}},
		Jobs: []hare.Job{
			{ID: "x", WeightMicro: 1e6, Rounds: 2, Tasks: 3, On: []hare.Profile{{Type: "K80", ComputeUs: 1},
				{Type: "T4", ComputeUs: 2, SyncUs: 1}}},
			{ID: "y", Rounds: 1, Tasks: 1, Sync: hare.Gang, Mix: true,
				On: []hare.Profile{{Type: "V100", ComputeUs: 1}}},
		},
	}
}

func TestBuiltInstancesAreValidated(t *testing.T) {
	const a, x = "/cluster/nodes/0", "/jobs/0"
	for name, c := range map[string]struct {
		change func(*hare.Instance)
		want   string
	}{
		"nothing": {func(*hare.Instance) {}, ""},
		"all": {func(i *hare.Instance) { *i = hare.Instance{} },
			"unknown_value /objective; no_gpus /cluster/nodes"},
		"name": {func(i *hare.Instance) { i.Name = "\xff" }, "bad_name /name"},
		"same node": {func(i *hare.Instance) { i.Cluster.Nodes[1].Name = "a" },
			"duplicate_id /cluster/nodes/1/name"},
		"slash":          {func(i *hare.Instance) { i.Cluster.Nodes[0].Name = "a/b" }, "bad_name " + a + "/name"},
		"node not utf-8": {func(i *hare.Instance) { i.Cluster.Nodes[0].Name = "\xff" }, "bad_name " + a + "/name"},
		"no gpus": {func(i *hare.Instance) { i.Cluster.Nodes[1].GPUs = nil },
			"missing_field /cluster/nodes/1/gpus"},
		"negative gpus": {func(i *hare.Instance) { i.Cluster.Nodes[1].GPUs[0].Count = -1 },
			"out_of_range /cluster/nodes/1/gpus/T4"},
		"gpus beyond": {func(i *hare.Instance) { i.Cluster.Nodes[1].GPUs[0].Count = math.MaxInt },
			"out_of_range /cluster/nodes/1/gpus/T4; too_large /cluster/nodes/1"},
		"types unordered": {func(i *hare.Instance) { g := i.Cluster.Nodes[0].GPUs; g[0], g[1] = g[1], g[0] },
			"unordered " + a + "/gpus"},
		"types twice": {func(i *hare.Instance) { i.Cluster.Nodes[0].GPUs[1].Type = "K80" }, "unordered " + a +
			"/gpus"},
		"no windows": {func(i *hare.Instance) { i.Cluster.Nodes[0].Windows = []hare.Window{} }, "bad_window " + a +
			"/in_service_s"},
		"windows touch": {func(i *hare.Instance) { i.Cluster.Nodes[0].Windows[1].StartUs = 5 }, "unordered " + a +
			"/in_service_s/1"},
		"windows overlap": {func(i *hare.Instance) { i.Cluster.Nodes[0].Windows[1].StartUs = 4 }, "bad_window " + a +
			"/in_service_s/1"},
		"window negative": {func(i *hare.Instance) { i.Cluster.Nodes[0].Windows[0].StartUs = math.MinInt64 },
			"bad_window " + a + "/in_service_s/0"},
		"window far": {func(i *hare.Instance) { i.Cluster.Nodes[0].Windows[1].EndUs = hare.Forever - 1 },
			"bad_window " + a + "/in_service_s/1; too_large /jobs/0"},
		"busy unordered": {func(i *hare.Instance) { b := i.Cluster.Nodes[0].Busy; b[0], b[1] = b[1], b[0] },
			"unordered " + a + "/busy"},
		"busy twice": {func(i *hare.Instance) { i.Cluster.Nodes[0].Busy[1].GPU = 0 }, "duplicate_id " + a +
			"/busy/1/gpu"},
		"busy nobody": {func(i *hare.Instance) { i.Cluster.Nodes[0].Busy[1].GPU = 3 }, "out_of_range " + a +
			"/busy/1/gpu"},
		"busy negative": {func(i *hare.Instance) { i.Cluster.Nodes[0].Busy[1].UntilUs = -1 }, "out_of_range " + a +
			"/busy/1/until_s"},
		"no id":        {func(i *hare.Instance) { i.Jobs[0].ID = "" }, "missing_field " + x + "/id"},
		"same id":      {func(i *hare.Instance) { i.Jobs[1].ID = "x" }, "duplicate_id /jobs/1/id"},
		"id not utf-8": {func(i *hare.Instance) { i.Jobs[0].ID = "\xff" }, "bad_name " + x + "/id"},
		"weight":       {func(i *hare.Instance) { i.Jobs[0].WeightMicro = -1 }, "out_of_range " + x + "/weight"},
		"release": {func(i *hare.Instance) { i.Jobs[0].ReleaseUs = hare.MaxExact + 1 }, "out_of_range " + x +
			"/release_s"},
		"rounds":     {func(i *hare.Instance) { i.Jobs[0].Rounds = 0 }, "out_of_range " + x + "/rounds"},
		"tasks":      {func(i *hare.Instance) { i.Jobs[0].Tasks = 1 << 31 }, "out_of_range " + x + "/tasks"},
		"gang tasks": {func(i *hare.Instance) { i.Jobs[1].Tasks = hare.MaxGPUs + 1 }, "out_of_range /jobs/1/tasks"},
		"sync":       {func(i *hare.Instance) { i.Jobs[0].Sync = 3 }, "unknown_value " + x + "/sync"},
		"mix":        {func(i *hare.Instance) { i.Jobs[0].Mix = true }, "not_allowed " + x + "/mix"},
		"no profile": {func(i *hare.Instance) { i.Jobs[0].On = nil }, "missing_field " + x + "/on"},
		"profile": {func(i *hare.Instance) { i.Jobs[0].On[1] = hare.Profile{Type: "T4", SyncUs: -1} },
			"out_of_range " + x + "/on/T4/compute_s; out_of_range " + x + "/on/T4/sync_s"},
		"profile of no one": {func(i *hare.Instance) { i.Jobs[1].On[0].Type = "" }, "bad_name /jobs/1/on/"},
		"profiles twice":    {func(i *hare.Instance) { i.Jobs[0].On[1].Type = "K80" }, "unordered " + x + "/on"},
		"too long": {func(i *hare.Instance) {
			i.Jobs[1].ReleaseUs, i.Jobs[1].Rounds = hare.MaxExact/2,
				hare.MaxExact/2
		}, "too_large /jobs/1"},
		"too heavy": {func(i *hare.Instance) {
			for n := range 600 {
				i.Jobs = append(i.Jobs, hare.Job{ID: strings.Repeat("z", n+1), WeightMicro: hare.MaxExact, Rounds: 1,
					Tasks: 1,
					On:    i.Jobs[0].On})
			}
		}, "too_large /jobs/513/weight"},
	} {
		t.Run(name, func(t *testing.T) {
			inst, same := valid(), valid()
			c.change(inst)
			c.change(same)
			err := inst.Validate()
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && haretest.Faults(err) != c.want:
				t.Errorf("got  %s\nwant %s", haretest.Faults(err), c.want)
			}
			if diff := cmp.Diff(same, inst); diff != "" {
				t.Errorf("validation changed the instance: %s", diff)
			}
		})
	}
}

func TestValidationEnds(t *testing.T) {
	inst := valid()
	inst.Jobs = make([]hare.Job, 1e5)
	if got := strings.Count(haretest.Faults(inst.Validate()), ";"); got > 120 {
		t.Errorf("got %d faults", got)
	}
}
