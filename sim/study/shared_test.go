package study_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/study"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// sharedInstance is two jobs of one GPU that take 100 and 90 s, of which the class of the second says that it is
// opportunistic.
func sharedInstance(kind string) *hare.Instance {
	job := func(id string, rounds int64, kind string) hare.Job {
		return hare.Job{ID: id, WeightMicro: 1e6, Rounds: rounds, Tasks: 1, Sync: hare.Gang,
			On:    []hare.Profile{{Type: "V100", ComputeUs: 9e6, SyncUs: 1e6}},
			Hints: &hare.JobHints{Class: []hare.ClassLabel{{Name: "antman", Value: kind}}}}
	}
	node := hare.Node{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}}
	return &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{node},
		GPUTypes: []hare.GPUType{{Type: "V100", MemoryMilliGiB: 16000}}},
		Jobs: []hare.Job{job("a", 10, "guaranteed"), job("b", 9, kind)}}
}

// The case that antman's tests work by hand, as instance and parameters: the guaranteed job is busy for all of the
// time but 0.2 of it, and so is the other.
func TestSharedByHand(t *testing.T) {
	for _, c := range []struct {
		kind, parameters string
		ends             [2]float64
	}{
		// b has 0.2 of the GPU, a quarter of what it needs, until 100 s, and has then done 25 of 90 s.
		{"opportunistic", `{"busy_least":0.8,"busy_most":0.8,"memory_most_gib":8}`, [2]float64{100, 165}},
		{"opportunistic", `{"busy_least":0.8,"busy_most":0.8,"memory_most_gib":8,"sharing":"exclusive"}`,
			[2]float64{100, 190}},
		{"guaranteed", `{}`, [2]float64{100, 190}},
	} {
		req := &simulatedoc.Request{Policies: []string{"antman", "fifo"}, Instance: sharedInstance(c.kind), Bound: "always",
			Parameters: map[string]json.RawMessage{"antman": json.RawMessage(c.parameters)}}
		rep, err := study.Simulate(t.Context(), req, study.Config{})
		if err != nil {
			t.Fatal(err)
		}
		run := rep.Runs[0]
		got := [2]float64{run.Figures[0].EndS, run.Figures[1].EndS}
		if got != c.ends || run.Engine != "shared" || run.Knows != "nothing" || run.Utilization != 1 || run.Verified ||
			run.TotalS != c.ends[1] || run.Switches != 1 {
			t.Errorf("%s %s: ends %v, by hand %v: %+v", c.kind, c.parameters, got, c.ends, run.Run)
		}
		if _, ok := rep.Bound.Above["antman"]; ok || rep.Bound.Above["fifo"] < 0 {
			t.Errorf("a gap of a run that shares GPUs: %+v", rep.Bound)
		}
		if notes := strings.Join(rep.Notes, "\n"); !strings.Contains(notes, "of 2 jobs are opportunistic") ||
			!strings.Contains(notes, "no bound holds") {
			t.Error(notes)
		}
	}
}

func TestSharedTraces(t *testing.T) {
	gpus := []hare.TypeCount{{Type: "V100", Count: 4}, {Type: "P100", Count: 4}, {Type: "K80", Count: 4}}
	play := func(seed, parallel int) []study.Run {
		req := &simulatedoc.Request{Policies: []string{"antman"}, Seed: int64(seed), Repeat: 2, GPUs: gpus,
			Trace: &simulatedoc.Trace{Name: "gavel_trace_small_test.csv"}}
		rep, err := study.Simulate(t.Context(), req, study.Config{Parallel: parallel})
		if err != nil {
			t.Fatal(err)
		}
		return rep.Runs
	}
	one, same, other := play(1, 1), play(1, 2), play(9, 1)
	if !reflect.DeepEqual(one, same) || one[0].MeanJCTS == other[0].MeanJCTS || one[1].MeanJCTS == one[0].MeanJCTS {
		t.Errorf("mean JCT with the seeds 1, 2 and 9: %v, %v, %v", one[0].MeanJCTS, one[1].MeanJCTS, other[0].MeanJCTS)
	}
	if n := len(one[0].Figures); n != 20 || one[0].Jobs != 20 {
		t.Errorf("%d jobs", n)
	}
}

func TestSharedRefusals(t *testing.T) {
	for _, c := range []struct {
		change     func(*simulatedoc.Request)
		at, detail string
	}{
		{func(r *simulatedoc.Request) { r.Stragglers = true }, "/stragglers", "share GPUs"},
		{func(r *simulatedoc.Request) { r.Instance.Cluster.Nodes[0].Windows = []hare.Window{{EndUs: 5e6}} },
			"/cluster/nodes/0", "share GPUs"},
		{func(r *simulatedoc.Request) { r.Instance = sharedInstance("best") }, "/instance/jobs/1/class/antman",
			"guaranteed"},
		{func(r *simulatedoc.Request) { r.Instance.Jobs[1].WeightMicro = 0 }, "/instance/jobs/1/weight", "weighs nothing"},
		{func(r *simulatedoc.Request) { r.Parameters = map[string]json.RawMessage{"antman": []byte(`{"x":1}`)} },
			"/parameters/antman/x", "no parameter"},
	} {
		req := &simulatedoc.Request{Policies: []string{"antman"}, Instance: sharedInstance("opportunistic")}
		c.change(req)
		_, err := study.Simulate(t.Context(), req, study.Config{})
		var all hare.InvalidErrors
		var fault *hare.InvalidError
		if errors.As(err, &all) {
			fault = all[0]
		} else if !errors.As(err, &fault) {
			t.Errorf("%s: %v", c.at, err)
			continue
		}
		if fault.Pointer != c.at || !strings.Contains(fault.Detail, c.detail) {
			t.Errorf("%s: %v", c.at, err)
		}
	}
}
