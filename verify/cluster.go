package verify

import (
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// openTimes are the windows of GPU number of a node, less what it is busy.
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

// supply is M_k(t) of one type: level[i] from at[i] on.
type supply struct {
	at    []int64
	level []int64
}

// supplies returns M_k(t) by type.
func supplies(inst *hare.Instance) map[string]*supply {
	deltas := map[string]map[int64]int64{}
	for i := range inst.Cluster.Nodes {
		n := &inst.Cluster.Nodes[i]
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
			// GPUs without a busy time share the node's windows.
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
	out := map[string]*supply{}
	for kind, d := range deltas {
		s := &supply{}
		for t := range d {
			if t != hare.Forever {
				s.at = append(s.at, t)
			}
		}
		slices.Sort(s.at)
		var level int64
		for _, t := range s.at {
			level += d[t]
			s.level = append(s.level, level)
		}
		out[kind] = s
	}
	return out
}

// peak is max over t.
func (s *supply) peak() int64 {
	if s == nil {
		return 0
	}
	return slices.Max(s.level)
}

// walk calls do for every stretch of a grid cell in which M_k stands still:
// both are steps, walked side by side.
func (s *supply) walk(grid []int64, do func(cell int, level, length int64)) {
	step := 0
	for g := range grid[1:] {
		for from := grid[g]; from < grid[g+1]; {
			for step+1 < len(s.at) && s.at[step+1] <= from {
				step++
			}
			to := grid[g+1]
			if step+1 < len(s.at) {
				to = min(to, s.at[step+1])
			}
			do(g, s.level[step], to-from)
			from = to
		}
	}
}

// cost is ∫ M_k π over the grid.
func (s *supply) cost(grid, prices []int64) *big.Int {
	held := make([]sum128, len(prices)) // GPU-time by cell
	s.walk(grid, func(cell int, level, length int64) { held[cell].addProduct(length, level) })
	total := new(big.Int)
	for g, x := range prices {
		amount := held[g].big()
		total.Add(total, amount.Mul(amount, big.NewInt(x)))
	}
	return total
}
