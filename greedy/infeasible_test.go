package greedy_test

import (
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
)

func TestGangsThatAreNeverTogether(t *testing.T) {
	const s = 1_000_000
	job := func(sync hare.Sync, tasks int64) hare.Job {
		return hare.Job{ID: "j", WeightMicro: 1e6, Rounds: 2, Tasks: tasks, Sync: sync,
			On: []hare.Profile{{Type: "A", ComputeUs: 4 * s, SyncUs: s}, {Type: "B", ComputeUs: 4 * s, SyncUs: s}}}
	}
	mixing, late := job(hare.Gang, 2), job(hare.Gang, 2)
	mixing.Mix = true
	late.ReleaseUs = 10 * s
	node := func(name, kind string, from, to int64) hare.Node {
		return hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: kind, Count: 1}},
			Windows: []hare.Window{{StartUs: from * s, EndUs: to * s}}}
	}
	for _, c := range []struct {
		name  string
		job   hare.Job
		nodes []hare.Node
		code  string
	}{
		{"apart", job(hare.Gang, 2), []hare.Node{node("a", "A", 0, 20), node("b", "A", 20, 40)}, "never_together"},
		{"together for less than a round", job(hare.Gang, 2),
			[]hare.Node{node("a", "A", 0, 14), node("b", "A", 10, 40)},
			"never_together"},
		{"together for a round", job(hare.Gang, 2), []hare.Node{node("a", "A", 0, 15), node("b", "A", 10, 40)}, ""},
		{"rigid, for a round", job(hare.Rigid, 2), []hare.Node{node("a", "A", 0, 19), node("b", "A", 10, 40)},
			"never_together"},
		{"rigid, for all", job(hare.Rigid, 2), []hare.Node{node("a", "A", 0, 20), node("b", "A", 10, 40)}, ""},
		{"before the release", late, []hare.Node{node("a", "A", 0, 14), node("b", "A", 0, 40)}, "never_together"},
		{"two types", job(hare.Gang, 2), []hare.Node{node("a", "A", 0, 20), node("b", "B", 0, 20)}, "too_wide"},
		{"two types mixed", mixing, []hare.Node{node("a", "A", 0, 20), node("b", "B", 0, 20)}, ""},
		{"mixed, apart", mixing, []hare.Node{node("a", "A", 0, 20), node("b", "B", 16, 36)}, "never_together"},
		{"relaxed", job(hare.Relaxed, 2), []hare.Node{node("a", "A", 0, 20), node("b", "A", 20, 40)}, ""},
	} {
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: c.nodes},
			Jobs: []hare.Job{c.job}}
		if err := inst.Validate(); err != nil {
			t.Fatal(err)
		}
		code := ""
		if reasons := greedy.Infeasible(model.New(inst)); len(reasons) > 0 {
			code = reasons[0].Code
		}
		if code != c.code {
			t.Errorf("%s: %q, want %q", c.name, code, c.code)
		}
	}
}

// A job that is said to be infeasible has no schedule.
func TestInfeasibleIsProved(t *testing.T) {
	said := map[string]int{}
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 3))
		inst := brute.Random(r)
		for i := range inst.Cluster.Nodes {
			from := int64(r.IntN(6)) * 1_000_000
			inst.Cluster.Nodes[i].Windows = []hare.Window{{StartUs: from, EndUs: from + int64(1+r.IntN(12))*1_000_000}}
		}
		reasons := greedy.Infeasible(model.New(inst))
		if len(reasons) == 0 {
			continue
		}
		said[reasons[0].Code]++
		if value, ok, _ := brute.Optimum(inst, 100_000); ok {
			t.Fatalf("seed %d: %+v, but there is a schedule of value %d", seed, reasons, value)
		}
	}
	if said["never_together"] < 20 || said["too_wide"] < 20 || said["window_too_short"] < 20 {
		t.Errorf("the reasons %v show too little", said)
	}
}

// A job is not called infeasible because a job before it would end too late in one of its shapes.
func TestInfeasibleWhateverTheShapesBefore(t *testing.T) {
	const s = 1_000_000
	on := func(seconds int64) []hare.Profile { return []hare.Profile{{Type: "A", ComputeUs: seconds * s}} }
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "n",
		GPUs: []hare.TypeCount{{Type: "A", Count: 2}}, Windows: []hare.Window{{EndUs: 6 * s}}, CPUMilli: 1000}}},
		Jobs: []hare.Job{
			{ID: "first", Rounds: 3, Sync: hare.Gang, Shapes: []hare.Shape{{Tasks: 1, Counts: 1, On: on(2)},
				{Tasks: 2, Counts: 2, On: on(3)}}},
			{ID: "then", Rounds: 1, Tasks: 1, CPUMilliPerTask: 1000, On: on(1),
				After: []hare.Predecessor{{Job: "first"}}}}}
	for reshape, want := range map[bool]int{false: 1, true: 0} {
		inst.Jobs[0].Reshape = reshape
		if got := greedy.Infeasible(model.New(inst)); len(got) != want {
			t.Errorf("with a change of shape %v: %v, want %d reasons", reshape, got, want)
		}
		_, plan, _ := brute.OptimumOnNodes(inst, 10_000)
		if (plan != nil) != (want == 0) {
			t.Errorf("with a change of shape %v brute force finds %v", reshape, plan)
		}
	}
	inst.Jobs[0].Rounds = 4 // one shape needs 8 s, the other 6 s
	inst.Jobs[0].Shapes[1].On = on(2)
	if got := greedy.Infeasible(model.New(inst)); len(got) != 0 {
		t.Errorf("the second shape ends in time, and the reasons are %v", got)
	}
}
