package verify_test

import (
	"math/big"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/verify"
)

// The bound of one random relaxed job follows from the recursion V as docs/inside/bounds.md writes
// it. If the weight and the prices are scaled up, so that the verifier must count in 128
// bits, the bound is scaled by the same factor.
func TestStepsAreTheRecursion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(least, most int, what string) int64 { return int64(rapid.IntRange(least, most).Draw(t, what)) }
		delta := n(1, 3, "delta")
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
		cert := &hare.Certificate{Method: hare.MethodPrice, Path: rapid.Bool().Draw(t, "path"),
			Objective: hare.ObjectiveWeightedJCT, GridUs: []int64{0}}
		for range n(1, 6, "cells") {
			cert.GridUs = append(cert.GridUs, cert.GridUs[len(cert.GridUs)-1]+n(1, 5, "cell")*delta)
		}
		rows, counts, fixed := map[string][]int64{}, map[string]int64{}, int64(0)
		j := hare.Job{ID: "x", WeightMicro: n(0, 4, "weight"), ReleaseUs: n(0, 20, "release")*delta +
			n(0, int(delta)-1, "late"), Rounds: n(1, 4, "rounds"), Tasks: n(1, 9, "tasks")}
		for _, kind := range []string{"A", "B", "C"}[:n(1, 3, "types")] {
			counts[kind] = n(1, 3, "gpus")
			inst.Cluster.Nodes = append(inst.Cluster.Nodes,
				haretest.Node(kind, kind, int(counts[kind])))
			j.On = append(j.On, hare.Profile{Type: kind, ComputeUs: n(1, 4, "p") * delta,
				SyncUs: n(0, 5, "s") * delta})
			if n(0, 4, "priced") == 0 {
				continue
			}
			p := hare.TypePrices{Type: kind}
			for g := 1; g < len(cert.GridUs); g++ {
				x := n(0, 6, "price") * rapid.SampledFrom([]int64{1, 10, 100, 1000}).Draw(t, "factor")
				p.Nanos = append(p.Nanos, x)
				fixed += x * counts[kind] * (cert.GridUs[g] - cert.GridUs[g-1])
			}
			rows[kind] = p.Nanos
			cert.Prices = append(cert.Prices, p)
		}
		if rapid.Bool().Draw(t, "slow") { // rounds then have the lengths of levels alone
			counts["S"] = 1
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, haretest.Node("S", "S", 1))
			j.On = append(j.On, hare.Profile{Type: "S", ComputeUs: 1 << 25 * delta})
		}
		inst.Jobs = []hare.Job{j}
		fluid, err := verify.Bound(inst, cert)
		if err != nil {
			t.Fatal(err)
		}
		cert.StepUs = delta
		got, err := verify.Bound(inst, cert)
		if err != nil {
			t.Fatal(err)
		}
		tau := naiveTau(inst, &j)
		v := naiveV(&j, cert.GridUs, delta, rows, func(kind string) int64 { return counts[kind] }, cert.Path, tau, 1,
			reading{})
		want := rat(v - fixed - 1000*j.WeightMicro*j.ReleaseUs)
		want.Quo(want, rat(1e15))
		if fluid.Cmp(want) > 0 {
			want = fluid
		}
		if got.Cmp(want) != 0 {
			t.Fatalf("bound %v, want %v (fluid %v)", got, want, fluid)
		}
		most := j.WeightMicro
		for _, p := range cert.Prices {
			most = max(most, slices.Max(p.Nanos))
		}
		scale := int64(1) << (53 - bits.Len64(uint64(most)))
		inst.Jobs[0].WeightMicro *= scale
		for _, p := range cert.Prices {
			for g := range p.Nanos {
				p.Nanos[g] *= scale
			}
		}
		large, err := verify.Bound(inst, cert)
		if err != nil || large.Cmp(want.Mul(want, rat(scale))) != 0 {
			t.Fatalf("scaled up: bound %v %v, want %v", large, err, want)
		}
	})
}

// The job has two rounds of eight tasks of 1 s on two GPUs, so a round takes 4 s. The price
// is q on [0, 4). The first round either starts at 0 and pays 8 q, or starts at 1, so that
// the free slot at 4 is within its window. V is therefore the lesser of 8 + 8 q and 9. A fluid
// does all work for nothing in [4, 8). Capacity costs 8 q.
func TestStepsByHand(t *testing.T) {
	job := hare.Job{WeightMicro: 1e6, Rounds: 2, Tasks: 8, On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}}
	late, between := job, job
	late.ReleaseUs, between.ReleaseUs = 5e6, 5e5
	for _, c := range []struct {
		job         hare.Job
		price, step int64
		want        *big.Rat
	}{
		{job, 1e9, 0, new(big.Rat)},
		{job, 1e9, 1e6, big.NewRat(9-8, 1)},
		{job, 1e9, 5e5, big.NewRat(9-8, 1)},    // a start at 0.5 pays half for a slot, which costs 8.5 + 4
		{job, 1e9, 4e6, new(big.Rat)},          // a task is shorter than a step
		{job, 1e9 / 16, 1e6, big.NewRat(8, 1)}, // the bound 8.5 − 0.5 is the optimum
		{job, 1e9 / 16, 0, big.NewRat(15, 2)},
		{job, 0, 1e6, big.NewRat(8, 1)},
		{late, 0, 1e6, big.NewRat(8, 1)},            // the release is after the horizon
		{between, 1e9, 1e6, big.NewRat(18-1-16, 2)}, // the release is rounded down to 0
	} {
		cert := priced([]int64{0, 4e6}, "A", c.price)
		cert.StepUs = c.step
		wantBound(t, small(nodes("A", 2), c.job), cert, c.want)
	}
}

// The cluster has one GPU of type A, on which a task takes 2 s, and one of type B, on which a
// task takes 3 s and 1 s to synchronise. Of three tasks, two on A and one on B take 4 s, which
// is the first level; the next levels are 6, 7 and 10. At prices 1 and 1/2, slots cost 2 and
// 1.5 throughout, so V = 4 + 2·2 + 1.5.
func TestLevelsByHand(t *testing.T) {
	job := hare.Job{WeightMicro: 1e6, Rounds: 1, Tasks: 3, On: []hare.Profile{{Type: "A", ComputeUs: 2e6},
		{Type: "B", ComputeUs: 3e6, SyncUs: 1e6}}}
	cert := priced([]int64{0, 12e6}, "A", 1e9)
	cert.Prices = append(cert.Prices, hare.TypePrices{Type: "B", Nanos: []int64{5e8}})
	cert.StepUs = 1e6
	wantBound(t, small(append(nodes("A", 1), nodes("B", 1)...), job), cert, big.NewRat(19-36, 2))
}

// The test is TestStepsByHand with a free type B, which no round shorter than 7 s can use. At
// the first level, 4, A holds all tasks and B none. A slot on A must start at most 3 s after
// the start of the round, although the next level is 7, so the first round starts at 1.
func TestLevelOfWholeTypesByHand(t *testing.T) {
	job := hare.Job{WeightMicro: 1e6, Rounds: 2, Tasks: 8, On: []hare.Profile{{Type: "A", ComputeUs: 1e6},
		{Type: "B", ComputeUs: 1e6, SyncUs: 6e6}}}
	cert := priced([]int64{0, 4e6}, "A", 1e9)
	cert.StepUs = 1e6
	wantBound(t, small(append(nodes("A", 2), nodes("B", 8)...), job), cert, big.NewRat(9-8, 1))
}
