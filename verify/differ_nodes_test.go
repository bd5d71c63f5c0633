package verify_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
)

// placedSeeds may be raised for a longer search.
var placedSeeds = flag.Uint64("placed", 60, "how many instances in which nodes matter TestVerifiersAgree draws")

// placedDocuments returns results of the solver for instances in which nodes matter.
func placedDocuments(t *testing.T) (out []documents) {
	pools := 0
	for seed := range *placedSeeds {
		r := rand.New(rand.NewPCG(seed+otherDocuments(), 41))
		inst := randomPlacedInstance(r)
		opt := quickly
		opt.Bound = []string{hare.MethodPrice, hare.MethodPrice, hare.MethodMachine}[r.IntN(3)]
		res, err := solver.Solve(t.Context(), inst, opt, solver.Config{Workers: 1})
		if err != nil {
			var bad *solver.InfeasibleError
			if errors.As(err, &bad) {
				continue
			}
			t.Fatal(err)
		}
		if res.Schedule == nil {
			continue
		}
		if res.Certificate != nil && len(res.Certificate.Pools) > 0 {
			pools++
		}
		out = append(out, documents{name: fmt.Sprintf("on nodes %d", seed), instance: instanceText(t, inst),
			result: resultText(t, res)})
	}
	if len(out) < 30 || pools < 2 {
		t.Errorf("only %d results on nodes, %d of them with pools", len(out), pools)
	}
	return out
}

// randomPlacedInstance makes a small instance with all rules about nodes, whose jobs mostly
// fit.
func randomPlacedInstance(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	kinds := []string{"A", "B"}[:1+r.IntN(2)]
	disks := []string{"hdd", "ssd"}
	limited := r.IntN(3) == 0
	for i := range 2 + r.IntN(3) {
		n := hare.Node{Name: fmt.Sprint("n", i)}
		for _, k := range kinds {
			n.GPUs = append(n.GPUs, hare.TypeCount{Type: k, Count: 2 + r.IntN(4)})
		}
		if limited {
			n.CPUMilli, n.MemoryMiB = 4000+500*r.Int64N(5), 8+r.Int64N(5)
		}
		n.Labels = []hare.Label{{Name: "disk", Value: disks[r.IntN(2)]}}
		if r.IntN(6) == 0 {
			n.Windows = []hare.Window{{EndUs: 5e6}, {StartUs: 8e6, EndUs: hare.Forever}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	for i := range 4 + r.IntN(9) {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6 * (1 + r.Int64N(3)), Rounds: 1 + r.Int64N(3),
			Tasks: 1 + r.Int64N(2), Sync: hare.Sync(r.IntN(3)), ReleaseUs: 5e5 * r.Int64N(4),
			GPUsPerTask: []int64{0, 0, 2, 3}[r.IntN(4)]}
		j.Mix = j.Sync == hare.Gang && r.IntN(4) == 0
		j.DistinctNodes = j.Sync != hare.Relaxed && r.IntN(4) == 0
		if limited {
			j.CPUMilliPerTask, j.MemoryMiBPerTask = 250*r.Int64N(10), r.Int64N(4)
		}
		switch r.IntN(6) {
		case 0:
			j.Only = []hare.LabelValues{{Label: "disk", Values: slices.Clone(disks[r.IntN(2):][:1])}}
		case 1:
			j.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{"n0"}}}
		}
		for _, k := range kinds {
			j.On = append(j.On, hare.Profile{Type: k, ComputeUs: 5e5 * (1 + r.Int64N(4)), SyncUs: 25e4 * r.Int64N(3)})
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}
