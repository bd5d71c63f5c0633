package lp_test

import (
	"context"
	"fmt"
	"math"

	"github.com/hare-sched/hare/internal/lp"
)

// A pool runs its own program again as a worker; main, here TestMain, calls
// lp.ServeIfWorker first.
func ExamplePool_Solve() {
	pool, err := lp.NewPool(lp.PoolConfig{Size: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	inf := math.Inf(1)
	solution, err := pool.Solve(context.Background(), &lp.Problem{
		Maximize: true,
		Cost:     []float64{3, 2},
		ColLower: []float64{0, 0}, ColUpper: []float64{3, inf},
		RowLower: []float64{-inf, -inf}, RowUpper: []float64{4, 7},
		Start: []int32{0, 2, 4}, Index: []int32{0, 1, 0, 1}, Value: []float64{1, 1, 1, 3},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(solution.Objective, solution.X, solution.RowDual[0])
	// Output: 11 [3 1] 2
}
