package verify_test

import (
	"fmt"
	"math/big"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
)

// V by the text of docs/bounds.md, on one random relaxed job. With weight and
// prices scaled up the verifier must count in 128 bits: the bound scales alike.
func TestStepsAreTheRecursion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(least, most int, what string) int64 { return int64(rapid.IntRange(least, most).Draw(t, what)) }
		delta := n(1, 2, "delta")
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
		cert := &hare.Certificate{Method: hare.MethodPrice, Path: rapid.Bool().Draw(t, "path"), Objective: hare.ObjectiveWeightedJCT, GridUs: []int64{0}}
		for range n(1, 6, "cells") {
			cert.GridUs = append(cert.GridUs, cert.GridUs[len(cert.GridUs)-1]+n(1, 5, "cell")*delta)
		}
		rows, counts, fixed := map[string][]int64{}, map[string]int64{}, int64(0)
		j := hare.Job{ID: "x", WeightMicro: n(0, 4, "weight"), ReleaseUs: n(0, 20, "release") * delta, Rounds: n(1, 4, "rounds"), Tasks: n(1, 9, "tasks")}
		for _, kind := range []string{"A", "B", "C"}[:n(1, 3, "types")] {
			counts[kind] = n(1, 3, "gpus")
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: kind, GPUs: []hare.TypeCount{{Type: kind, Count: int(counts[kind])}}})
			j.On = append(j.On, hare.Profile{Type: kind, ComputeUs: n(1, 4, "p") * delta, SyncUs: n(0, 5, "s") * delta})
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
		path := j.ReleaseUs
		if cert.Path {
			path += j.Rounds * tau
		}
		v := naiveV(&j, cert.GridUs, delta, rows, func(kind string) int64 { return counts[kind] }, path, tau, reading{})
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

// F by trying all patterns, for every M that a cell sees; with prices scaled up
// the tables must hold 128 bits.
func TestSizesAreTheKnapsack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(least, most int, what string) int64 { return int64(rapid.IntRange(least, most).Draw(t, what)) }
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
		for i := range n(1, 4, "nodes") {
			node := hare.Node{Name: fmt.Sprint(i), GPUs: []hare.TypeCount{{Type: "A", Count: int(n(1, 6, "gpus"))}}}
			if i > 0 {
				start := n(0, 8, "start")
				node.Windows = []hare.Window{{StartUs: start, EndUs: start + n(1, 8, "length")}}
			}
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
		}
		cert := &hare.Certificate{Method: hare.MethodPrice, Objective: hare.ObjectiveWeightedJCT, GridUs: []int64{0}}
		for range n(1, 5, "cells") {
			cert.GridUs = append(cert.GridUs, cert.GridUs[len(cert.GridUs)-1]+n(1, 5, "cell"))
		}
		row := func() (out []int64) {
			for range len(cert.GridUs) - 1 {
				out = append(out, n(0, 9, "price"))
			}
			return out
		}
		if n(0, 3, "priced") > 0 {
			cert.Prices = []hare.TypePrices{{Type: "A", Nanos: row()}}
		}
		for _, size := range []int64{2, 3, 5, 30} {
			if rapid.Bool().Draw(t, "size") {
				cert.Sizes = append(cert.Sizes, hare.SizePrices{Type: "A", Tasks: size, Nanos: row()})
			}
		}
		total := int64(0)
		for g := range len(cert.GridUs) - 1 {
			single, sizes := int64(0), map[int64]int64{}
			if len(cert.Prices) > 0 {
				single = cert.Prices[0].Nanos[g]
			}
			for _, s := range cert.Sizes {
				sizes[s.Tasks] = s.Nanos[g]
			}
			for at := cert.GridUs[g]; at < cert.GridUs[g+1]; at++ {
				m := int64(0)
				for _, node := range inst.Cluster.Nodes {
					if node.Windows == nil || node.Windows[0].StartUs <= at && at < node.Windows[0].EndUs {
						m += int64(node.GPUs[0].Count)
					}
				}
				total += naivePattern(m, single, sizes, reading{})
			}
		}
		for _, scale := range []int64{1, 1 << 49} {
			for _, p := range cert.Prices {
				for g := range p.Nanos {
					p.Nanos[g] *= scale
				}
			}
			for _, p := range cert.Sizes {
				for g := range p.Nanos {
					p.Nanos[g] *= scale
				}
			}
			want := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(-total), big.NewInt(scale)), big.NewInt(1e15))
			if got, err := verify.Bound(inst, cert); err != nil || got.Cmp(want) != 0 {
				t.Fatalf("bound %v %v, want %v", got, err, want)
			}
		}
	})
}
