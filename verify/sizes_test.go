package verify_test

import (
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/verify"
)

// nodes returns a node with so many GPUs of a type.
func nodes(kind string, count int, windows ...hare.Window) []hare.Node {
	return []hare.Node{{Name: fmt.Sprint(kind, len(windows)), GPUs: []hare.TypeCount{{Type: kind, Count: count}},
		Windows: windows}}
}

func small(nodes []hare.Node, jobs ...hare.Job) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: nodes}}
	for i, j := range jobs {
		j.ID = fmt.Sprint(i)
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// brief returns a job of weight 1 with one round of 1 s on A.
func brief(sync hare.Sync, tasks int64) hare.Job {
	return hare.Job{WeightMicro: 1e6, Rounds: 1, Tasks: tasks, Sync: sync,
		On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}}
}

func priced(grid []int64, kind string, nanos ...int64) *hare.Certificate {
	return &hare.Certificate{Method: hare.MethodPrice, Path: true, Objective: hare.ObjectiveWeightedJCT, GridUs: grid,
		Prices: []hare.TypePrices{{Type: kind, Nanos: nanos}}}
}

func sized(c *hare.Certificate, kind string, tasks int64, nanos ...int64) *hare.Certificate {
	c.Sizes = append(c.Sizes, hare.SizePrices{Type: kind, Tasks: tasks, Nanos: nanos})
	return c
}

func wantBound(t *testing.T, inst *hare.Instance, cert *hare.Certificate, want *big.Rat) {
	t.Helper()
	if got, err := verify.Bound(inst, cert); err != nil || got.Cmp(want) != 0 {
		t.Errorf("bound %v %v, want %v", got, err, want)
	}
}

// Six GPUs hold only one gang of four at a time, so the optimum of two gangs is 1 + 2. A
// price of 1 for four GPUs together proves 3; prices of single GPUs prove at most 2.5.
func TestSizesByHand(t *testing.T) {
	grid := []int64{0, 1e6}
	six, gang := nodes("A", 6), brief(hare.Gang, 4)
	two := small(six, gang, gang)
	wantBound(t, two, priced(grid, "A", 25e7), big.NewRat(5, 2))
	wantBound(t, two, sized(priced(grid, "A", 0), "A", 4, 1e9), big.NewRat(3, 1))
	// Four GPUs at 1 and two at 1/4 cost as much as six at 1/4.
	wantBound(t, two, sized(priced(grid, "A", 25e7), "A", 4, 1e9), big.NewRat(5, 2))
	// A relaxed job of two tasks uses the two GPUs beside a gang. The bound rises by 1 + 0.5, to
	// the optimum 1 + 1 + 2.
	wantBound(t, small(six, gang, gang, brief(hare.Relaxed, 2)), sized(priced(grid, "A", 25e7), "A", 4, 1e9),
		big.NewRat(4, 1))
	// A rigid block of two rounds pays for two seconds of [0, 3), or waits until 3.
	rigid := brief(hare.Rigid, 2)
	rigid.Rounds = 2
	for price, phi := range map[int64]int64{1e9: 4, 4e9: 5} {
		wantBound(t, small(nodes("A", 3), rigid), sized(priced([]int64{0, 3e6}, "A", 0), "A", 2, price),
			big.NewRat(phi-3*price/1e9, 1))
	}
	// 2^20 GPUs hold 349,525 groups of three and one single GPU, whose price exceeds 64 bits.
	wantBound(t, small(nodes("A", 1<<20)), sized(priced([]int64{0, 1}, "A", 1<<51), "A", 3, 1<<53),
		new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(-(349525*4+1)), big.NewInt(1<<51)), big.NewInt(1e15)))
}

// F equals the greatest price of all patterns, for every M of a cell. If prices are scaled
// up, the tables must hold 128 bits.
func TestSizesAreTheKnapsack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(least, most int, what string) int64 { return int64(rapid.IntRange(least, most).Draw(t, what)) }
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
		for i := range n(1, 4, "nodes") {
			node := haretest.Node(fmt.Sprint(i), "A", int(n(1, 6, "gpus")))
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
