package relax

import (
	"math/big"

	"github.com/hare-sched/hare/model"
)

// capacityIn returns ∫ M over [from, to) in GPU-microseconds, at most 2^20 · 2^53.
func capacityIn(steps []model.Step, from, to int64) *big.Int {
	sum := new(big.Int)
	for i, s := range steps {
		end := to
		if i+1 < len(steps) {
			end = min(end, steps[i+1].FromUs)
		}
		if l := end - max(s.FromUs, from); l > 0 {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(s.Count), big.NewInt(l)))
		}
	}
	return sum
}

// maxCapacity returns max M over each cell.
func maxCapacity(steps []model.Step, grid []float64) []int64 {
	out := make([]int64, len(grid)-1)
	i := 0
	for g := range out {
		for i+1 < len(steps) && float64(steps[i+1].FromUs) <= grid[g] {
			i++
		}
		for n := i; n < len(steps) && (n == i || float64(steps[n].FromUs) < grid[g+1]); n++ {
			out[g] = max(out[g], steps[n].Count)
		}
	}
	return out
}

// capacity returns, for each row of the ascent and each cell of grid, what a unit of
// price charges for capacity, in GPU-microseconds: ∫ M_k, or max M_k of the cell times
// its length for a dual feasible function.
func (pr *problem) capacity(grid []float64) [][]float64 {
	out := make([][]float64, len(pr.caps), pr.ascentRows())
	for k, steps := range pr.caps {
		out[k] = make([]float64, len(grid)-1)
		i := 0
		for g := range out[k] {
			t, end := grid[g], grid[g+1]
			for t < end {
				for i+1 < len(steps) && float64(steps[i+1].FromUs) <= t {
					i++
				}
				next := end
				if i+1 < len(steps) {
					next = min(next, float64(steps[i+1].FromUs))
				}
				out[k][g] += (next - t) * float64(steps[i].Count)
				t = next
			}
		}
	}
	for _, p := range pr.dualFeasible {
		cells := make([]float64, len(grid)-1)
		for g, c := range maxCapacity(pr.caps[p.kind], grid) {
			cells[g] = float64(c) * (grid[g+1] - grid[g])
		}
		out = append(out, cells)
	}
	return append(out, pr.pools.capacity(grid)...)
}

// capacity returns the cells of capacity of the pools' functions.
func (ps *pools) capacity(grid []float64) [][]float64 {
	var out [][]float64
	for f := range ps.functions {
		steps := ps.functions[f].cost
		cells := make([]float64, len(grid)-1)
		i := 0
		for g := range cells {
			for t := grid[g]; t < grid[g+1]; {
				for i+1 < len(steps) && steps[i+1].from <= t {
					i++
				}
				next := grid[g+1]
				if i+1 < len(steps) {
					next = min(next, steps[i+1].from)
				}
				if len(steps) > 0 && steps[i].from <= t {
					cells[g] += (next - t) * steps[i].price
				} else if len(steps) > 0 {
					next = min(next, steps[i].from)
				}
				t = next
			}
		}
		out = append(out, cells)
	}
	return out
}
