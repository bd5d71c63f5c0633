package verify

import (
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// openTimes returns the windows of GPU number of a node, without the time in which the
// GPU is busy.
func openTimes(n *hare.Node, number int) []hare.Window {
	windows := n.Windows
	if windows == nil {
		windows = []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
	}
	var until int64
	for _, b := range n.Busy {
		if b.GPU == number {
			until = max(until, b.UntilUs)
		}
	}
	var out []hare.Window
	for _, w := range windows {
		w.StartUs = max(w.StartUs, until)
		if w.StartUs < w.EndUs {
			out = append(out, w)
		}
	}
	return out
}

// typeCapacity is M_k(t), the number of GPUs of type k in service: level[i] from at[i] on.
type typeCapacity struct {
	at    []int64
	level []int64
	most  int64 // the greatest level
}

// capacitiesOf returns M_k(t) by type for the GPUs of some nodes.
func capacitiesOf(nodes []hare.Node) map[string]*typeCapacity {
	deltas := map[string]map[int64]int64{}
	for i := range nodes {
		n := &nodes[i]
		number := 0
		for _, g := range n.GPUs {
			d := deltas[g.Type]
			if d == nil {
				d = map[int64]int64{0: 0}
				deltas[g.Type] = d
			}
			plain := int64(g.Count)
			for _, b := range n.Busy {
				if b.GPU >= number && b.GPU < number+g.Count {
					plain--
					for _, w := range openTimes(n, b.GPU) {
						d[w.StartUs]++
						d[w.EndUs]--
					}
				}
			}
			// GPUs without a busy time share the windows of the node.
			windows := n.Windows
			if windows == nil {
				windows = []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
			}
			for _, w := range windows {
				d[w.StartUs] += plain
				d[w.EndUs] -= plain
			}
			number += g.Count
		}
	}
	out := map[string]*typeCapacity{}
	for kind, d := range deltas {
		out[kind] = newTypeCapacity(d)
	}
	return out
}

// newTypeCapacity sums changes by time up; there must be one at 0.
func newTypeCapacity(deltas map[int64]int64) *typeCapacity {
	tc := &typeCapacity{}
	for t := range deltas {
		if t != hare.Forever {
			tc.at = append(tc.at, t)
		}
	}
	slices.Sort(tc.at)
	var level int64
	for _, t := range tc.at {
		level += deltas[t]
		tc.level = append(tc.level, level)
		tc.most = max(tc.most, level)
	}
	return tc
}

// changes returns tc with only the times at which the level changes.
func (tc *typeCapacity) changes() *typeCapacity {
	out := &typeCapacity{most: tc.most}
	for i, t := range tc.at {
		if i == 0 || tc.level[i] != tc.level[i-1] {
			out.at, out.level = append(out.at, t), append(out.level, tc.level[i])
		}
	}
	return out
}

// peak returns the maximum over time.
func (tc *typeCapacity) peak() int64 {
	if tc == nil {
		return 0
	}
	return tc.most
}

// walk calls do for every part of a grid cell in which M_k is constant.
func (tc *typeCapacity) walk(grid []int64, do func(cell int, level, length int64)) {
	step := 0
	for g := range grid[1:] {
		for from := grid[g]; from < grid[g+1]; {
			for step+1 < len(tc.at) && tc.at[step+1] <= from {
				step++
			}
			to := grid[g+1]
			if step+1 < len(tc.at) {
				to = min(to, tc.at[step+1])
			}
			do(g, tc.level[step], to-from)
			from = to
		}
	}
}

// cost returns ∫ M_k π over the grid.
func (tc *typeCapacity) cost(grid, prices []int64) *big.Int {
	held := make([]sum128, len(prices)) // the GPU-time by cell
	tc.walk(grid, func(cell int, level, length int64) { held[cell].addProduct(length, level) })
	total := new(big.Int)
	for g, x := range prices {
		amount := held[g].big()
		total.Add(total, amount.Mul(amount, big.NewInt(x)))
	}
	return total
}
