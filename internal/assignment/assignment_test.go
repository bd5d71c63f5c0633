package assignment_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare/internal/assignment"
)

// The solver finds the least of all assignments.
func TestSolverIsExact(t *testing.T) {
	var s assignment.Solver
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 7))
		rows := 1 + r.IntN(4)
		columns := rows + r.IntN(3)
		cost := make([][]float64, rows)
		for i := range cost {
			for range columns {
				cost[i] = append(cost[i], float64(r.IntN(10)))
			}
		}
		s.Begin(rows, columns)
		sum := 0.0
		used := map[int]bool{}
		for i, c := range s.Solve(func(row int, to []float64) { copy(to, cost[row]) }) {
			sum += cost[i][c]
			if used[c] {
				t.Fatalf("seed %d: column %d twice", seed, c)
			}
			used[c] = true
		}
		if best := cheapest(cost, map[int]bool{}); sum != best {
			t.Fatalf("seed %d: %v, the best is %v", seed, sum, best)
		}
	}
}

func cheapest(cost [][]float64, used map[int]bool) float64 {
	if len(cost) == 0 {
		return 0
	}
	best := math.Inf(1)
	for c, v := range cost[0] {
		if !used[c] {
			used[c] = true
			best = min(best, v+cheapest(cost[1:], used))
			used[c] = false
		}
	}
	return best
}
