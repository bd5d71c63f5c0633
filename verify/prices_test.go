package verify_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/verify"
)

// Prices, which keeps φ from instance to instance, gives the same bounds as the function
// Bound, whatever changes between the instances.
func TestPricesAreAsGoodAsNew(t *testing.T) {
	seeds := 600
	if testing.Short() {
		seeds = 100
	}
	compared, stepped, sized := 0, 0, 0
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		inst := brute.Random(r)
		for i := range inst.Jobs {
			inst.Jobs[i].Tasks = int64(1 + r.IntN(5)) // some jobs are wider than the cluster
		}
		rel, err := relax.Run(t.Context(), model.New(inst),
			relax.Config{Workers: 1, Cells: 12, Effort: 0.2, Steps: 2})
		if err != nil {
			continue
		}
		prices, err := verify.NewPrices(rel.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if rel.Certificate.StepUs > 0 {
			stepped++
		}
		if len(rel.Certificate.Sizes) > 0 {
			sized++
		}
		for n := range 8 {
			other := *inst
			other.Jobs = append([]hare.Job(nil), inst.Jobs...)
			j := &other.Jobs[r.IntN(len(other.Jobs))]
			switch r.IntN(6) {
			case 0:
				j.WeightMicro *= 3
			case 1:
				j.ReleaseUs += 500_000
			case 2:
				j.ID = "other"
			case 3:
				other.Jobs = append(other.Jobs, hare.Job{ID: "new", WeightMicro: 1e6, Rounds: 2, Tasks: 3,
					On: inst.Jobs[0].On})
			}
			for range r.IntN(4) {
				other = *verify.WithOneMore(&other, []string{"A", "B", "C"}[r.IntN(3)])
			}
			if r.IntN(3) == 0 && len(other.Cluster.Nodes) > 1 {
				other.Cluster.Nodes = other.Cluster.Nodes[1:]
			}
			fresh := *rel.Certificate
			fresh.Prices, fresh.Sizes = nil, nil
			has := map[string]bool{}
			for _, node := range other.Cluster.Nodes {
				for _, g := range node.GPUs {
					has[g.Type] = true
				}
			}
			for _, p := range rel.Certificate.Prices {
				if has[p.Type] {
					fresh.Prices = append(fresh.Prices, p)
				}
			}
			for _, p := range rel.Certificate.Sizes {
				if has[p.Type] {
					fresh.Sizes = append(fresh.Sizes, p)
				}
			}
			want, wantErr := verify.Bound(&other, &fresh)
			got, gotErr := prices.Bound(&other)
			if fmt.Sprint(wantErr) != fmt.Sprint(gotErr) || wantErr == nil && want.Cmp(got) != 0 {
				t.Fatalf("seed %d, %d: %v %v, anew %v %v", seed, n, got, gotErr, want, wantErr)
			}
			if wantErr == nil {
				compared++
			}
		}
		same, err := prices.Scaled(inst, 1e6)
		if want, _ := prices.Bound(inst); err != nil || same.Cmp(want) != 0 {
			t.Fatalf("seed %d: times one %v, %v", seed, same, err)
		}
	}
	if compared < 2*seeds || stepped == 0 || sized == 0 {
		t.Errorf("%d compared, %d with steps, %d with sizes", compared, stepped, sized)
	}
}

// One more GPU raises the price of capacity by Σ π·length.
func TestOneMore(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "more-0", GPUs: []hare.TypeCount{{Type: "A", Count: 3},
			{Type: "B", Count: 1}}}}},
		Jobs: []hare.Job{{ID: "x", WeightMicro: 1e6, Rounds: 1, Tasks: 1,
			On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}}}}
	c := &hare.Certificate{Method: hare.MethodPrice, Objective: hare.ObjectiveWeightedJCT,
		GridUs: []int64{0, 1e6, 3e6},
		Prices: []hare.TypePrices{{Type: "A", Nanos: []int64{5e8, 25e7}}}}
	got, err := verify.OneMore(inst, c)
	if err != nil || len(got) != 2 || got[0].Total.Cmp(big.NewRat(1, 1)) != 0 || got[1].Total.Sign() != 0 {
		t.Fatalf("%v, %v", got, err)
	}
	// A pair costs 3 a second: three GPUs hold a pair and a single GPU, four hold two pairs.
	c.Sizes = []hare.SizePrices{{Type: "A", Tasks: 2, Nanos: []int64{3e9, 0}}}
	if got, err = verify.OneMore(inst, c); err != nil || got[0].Total.Cmp(big.NewRat(3, 1)) != 0 {
		t.Fatalf("with sizes: %v, %v", got, err) // 6 − 3.5 = 2.5 in [0, 1) and 0.25 · 2 in [1, 3)
	}
	if _, err := verify.OneMore(inst, &hare.Certificate{Method: hare.MethodMachine}); err == nil {
		t.Error("prices of a machine bound")
	}
}
