package search

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
)

// tinyCases is a random instance of up to three jobs, one of them relaxed.
func tinyCases(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B", "C"}[:1+r.IntN(3)]
	for _, t := range types {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes,
			hare.Node{Name: "n" + t, GPUs: []hare.TypeCount{{Type: t, Count: 1 + r.IntN(3)}}})
	}
	for i := range 2 + r.IntN(2) {
		j := hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: int64(r.IntN(5)) * 250_000, Rounds: int64(1 + r.IntN(2)),
			Tasks: int64(1 + r.IntN(3)), Sync: hare.Sync(r.IntN(3))}
		if i == 0 {
			j.Sync = hare.Relaxed
		}
		if r.IntN(3) == 0 {
			j.ReleaseUs = int64(r.IntN(5)) * 500_000
		}
		for k, t := range types {
			if k > 0 && r.IntN(4) == 0 {
				continue
			}
			j.On = append(j.On, hare.Profile{Type: t, ComputeUs: int64(1+r.IntN(4)) * 1_000_000,
				SyncUs: int64(r.IntN(4)) * 500_000})
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// exactSeeds is the number of tiny instances.
const exactSeeds = 1500

// The search case by case ends with the optimum of brute force, from a poor plan.
func TestCasesEndWithTheOptimum(t *testing.T) {
	compared, better := 0, 0
	for seed := range uint64(exactSeeds) {
		r := rand.New(rand.NewPCG(seed, 61))
		inst := tinyCases(r)
		if inst.Validate() != nil {
			continue
		}
		m := model.New(inst)
		if !fewCases(m) || place.Infeasible(m) != nil {
			continue
		}
		start, err := place.Assign(t.Context(), m, place.Order(m, nil, "arrival"), place.EarliestAvailable)
		if err != nil {
			continue
		}
		want, ok, done := brute.Optimum(inst, 200_000)
		if !ok || !done {
			continue
		}
		rq := &request{m: m, start: start, cfg: ImproveConfig{Moves: 1 << 30}}
		ep := newExactProblem(m, start.EndUs[0]+1)
		if ep == nil {
			t.Fatalf("seed %d: no problem", seed)
		}
		if seed%3 == 0 && !ep.divide(2) {
			ep.divide(1)
		}
		p, all := ep.improve(t.Context(), rq, start)
		if got := p.Value(m); !all || got.Cmp(hare.Product(1, want)) != 0 {
			t.Fatalf("seed %d: %v, all cases %t, the optimum is %v", seed, got, all, hare.Product(1, want))
		}
		compared++
		if p != start {
			better++
			accept(t, m, p, fmt.Sprint("seed ", seed))
		}
	}
	t.Logf("%d compared, %d better than the start", compared, better)
	if compared < exactSeeds/3 || better < exactSeeds/10 {
		t.Errorf("%d compared, %d better than the start", compared, better)
	}
}
