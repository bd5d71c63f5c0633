package relax

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/trace"
)

// Jobs of 3, 6 and 8 GPUs leave GPUs of nodes of 8 idle, which only prices by node can see.
// Widths that divide 8 leave none, and then the certificate has no pools.
func TestNodePoolsRaiseBounds(t *testing.T) {
	gpus, err := trace.ParseGPUs("V100=16,T4=16")
	if err != nil {
		t.Fatal(err)
	}
	bounds := func(widths []int64) (sums, nodes *hare.Relaxation) {
		inst, err := trace.PhillyNodes(trace.PhillyNodesConfig{Jobs: 40, GPUs: gpus, Widths: widths, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Workers: 1, Cells: 24, NoSizes: true, MaxLPs: -1}
		sums = mustPrice(t, inst, cfg)
		cfg.NoSizes = false
		return sums, mustPrice(t, inst, cfg)
	}
	sums, nodes := bounds([]int64{3, 6, 8})
	if nodes.Bound.Float() < 1.04*sums.Bound.Float() || len(nodes.Certificate.Pools) == 0 {
		t.Errorf("widths 3, 6, 8: %v by nodes with %d pools, %v by sums", nodes.Bound, len(nodes.Certificate.Pools),
			sums.Bound)
	}
	if _, nodes = bounds([]int64{1, 2, 4, 8, 16}); len(nodes.Certificate.Pools) > 0 {
		t.Errorf("widths of powers of two: %d pools", len(nodes.Certificate.Pools))
	}
}

// Ten jobs must use two of eight GPUs; ten tasks want all CPUs of a node with four GPUs. Pools of
// the set and of the CPUs see that the GPUs cannot be shared out evenly.
func TestPoolsOfSetsAndCPUs(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	inst.Cluster.Nodes = []hare.Node{
		{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 2}}, Labels: []hare.Label{{Name: "disk", Value: "nvme"}}},
		{Name: "b", GPUs: []hare.TypeCount{{Type: "A", Count: 6}}}}
	for i := range 10 {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: string(rune('a' + i)), WeightMicro: 1e6, Rounds: 1, Tasks: 1,
			Sync: hare.Rigid, On: []hare.Profile{{Type: "A", ComputeUs: 1e6}},
			Only: []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}}})
	}
	// Two jobs end each second: 2 · (1 + 2 + 3 + 4 + 5) = 30.
	if b := mustPrice(t, inst, Config{Workers: 1}).Bound.Float(); b < 25 || b > 30 {
		t.Errorf("the bound is %v of 30", b)
	}
	inst.Cluster.Nodes[1].CPUMilli, inst.Cluster.Nodes[0].CPUMilli = 1000, 1000
	for i := range inst.Jobs {
		inst.Jobs[i].Only, inst.Jobs[i].CPUMilliPerTask = nil, 1000
	}
	rel := mustPrice(t, inst, Config{Workers: 1})
	if b := rel.Bound.Float(); b < 25 || b > 30 || rel.Certificate.Pools[0].Resource != hare.PoolCPUs {
		t.Errorf("the bound is %v of 30, by %+v", b, rel.Certificate.Pools)
	}
}

// Tighter rules of a job never make its path shorter, and new names of nodes change no price.
func TestTighterRulesOnNodes(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 12))
		inst := randomPlaced(r)
		path := func() (hare.Amount, bool) {
			rel, err := Run(t.Context(), model.New(inst), Config{Method: hare.MethodCriticalPath})
			if err != nil {
				if !errors.Is(err, ErrInfeasible) {
					t.Fatal(err)
				}
				return hare.Amount{}, false
			}
			return rel.Bound, true
		}
		before, ran := path()
		j := &inst.Jobs[r.IntN(len(inst.Jobs))]
		change := []string{"gpus", "cpus", "node", "distinct", "exclude"}[r.IntN(5)]
		switch change {
		case "gpus":
			j.GPUsPerTask = j.TaskGPUs() + 1
		case "cpus":
			j.CPUMilliPerTask += 500
		case "node":
			if n := &inst.Cluster.Nodes[0]; n.CPUMilli > 500 {
				n.CPUMilli -= 500
			}
		case "distinct":
			j.DistinctNodes = j.Sync != hare.Relaxed
		case "exclude":
			if len(j.Exclude) == 0 {
				j.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{"n1"}}}
			}
		}
		if after, runs := path(); runs && (!ran || after.Cmp(before) < 0) {
			t.Errorf("seed %d, %s: the path is %v and was %v (%t)", seed, change, after, before, ran)
		}
	}
	var inst *hare.Instance
	for seed := uint64(0); ; seed++ {
		inst = randomPlaced(rand.New(rand.NewPCG(seed, 13)))
		named := slices.ContainsFunc(inst.Jobs, func(j hare.Job) bool { return len(j.Only)+len(j.Exclude) > 0 })
		if _, err := Run(t.Context(), model.New(inst), Config{Workers: 1, Cells: 12}); err == nil && !named {
			break
		}
	}
	before := mustPrice(t, inst, Config{Workers: 1, Cells: 12})
	for i := range inst.Cluster.Nodes {
		inst.Cluster.Nodes[i].Name = "z" + inst.Cluster.Nodes[i].Name
	}
	after := mustPrice(t, inst, Config{Workers: 1, Cells: 12})
	if before.Bound.Cmp(after.Bound) != 0 || !slices.Equal(before.GridUs, after.GridUs) {
		t.Errorf("the bound is %v with other names of nodes, and was %v", after.Bound, before.Bound)
	}
}

func TestWhyJobsFindNoRoom(t *testing.T) {
	for name, c := range map[string]struct {
		change func(j *hare.Job)
		want   string
	}{
		"wider than a node": {func(j *hare.Job) { j.GPUsPerTask = 3 }, "none of the 2 nodes"},
		"no node": {func(j *hare.Job) { j.Only = []hare.LabelValues{{Label: "disk", Values: []string{"x"}}} },
			"no node matches"},
		"too many nodes": {func(j *hare.Job) { j.Tasks, j.DistinctNodes = 3, true }, "at most 2 at once on distinct nodes"},
		"CPUs":           {func(j *hare.Job) { j.CPUMilliPerTask, j.GPUsPerTask = 9000, 2 }, "9 CPUs"},
	} {
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
		for _, name := range []string{"a", "b"} {
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: name, CPUMilli: 4000,
				GPUs: []hare.TypeCount{{Type: "A", Count: 2}}})
		}
		inst.Jobs = []hare.Job{{ID: "x", WeightMicro: 1e6, Rounds: 1, Tasks: 1, Sync: hare.Gang,
			On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}}}
		c.change(&inst.Jobs[0])
		_, err := Run(t.Context(), model.New(inst), Config{})
		if !errors.Is(err, ErrInfeasible) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
