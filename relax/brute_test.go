package relax

import (
	"context"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
)

// checkBounds compares the bounds of every certified method, and of random prices on random
// grids, with the optimum of a random tiny instance.
func checkBounds(t *testing.T, seed uint64) (gap float64, ok bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	inst := brute.Random(r)
	opt, found, done := brute.Optimum(inst, 300_000)
	if !found || !done {
		return 0, false
	}
	m := model.New(inst)
	optimum := hare.Product(1, opt)
	for _, method := range []string{hare.MethodPrice, hare.MethodCriticalPath, hare.MethodMachine} {
		rel, err := Run(context.Background(), m, Config{Method: method, Workers: 1, Cells: 24, Effort: 0.5, Steps: 2})
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, method, err)
		}
		if rel.Bound.Cmp(optimum) > 0 {
			t.Errorf("seed %d: %s bound %v above the optimum %v", seed, method, rel.Bound, optimum)
		}
		if method == hare.MethodPrice && opt > 0 {
			gap = 1 - rel.Bound.Float()/optimum.Float()
		}
	}
	pr, _ := newProblem(m, 0)
	grid, nanos := randomPrices(r, pr.rows)
	bound, err := newEvaluator(pr, 1).exactBound(context.Background(), grid, nanos, pr.step)
	if err != nil {
		t.Fatal(err)
	}
	if limit := new(big.Rat).SetInt(new(big.Int).Mul(optimum.Big(), big.NewInt(1000))); bound.Cmp(limit) > 0 {
		t.Errorf("seed %d: bound at random prices above the optimum", seed)
	}
	return gap, true
}

// randomPrices draws a grid and prices. The price of a size is sometimes that of its GPUs and
// sometimes arbitrary.
func randomPrices(r *rand.Rand, rows []row) (grid []int64, nanos [][]int64) {
	grid = []int64{0}
	for range 1 + r.IntN(8) {
		grid = append(grid, grid[len(grid)-1]+int64(1+r.IntN(8))*250_000)
	}
	for _, to := range rows {
		prices := make([]int64, len(grid)-1)
		for g := range prices {
			prices[g] = int64(r.IntN(4)) * 500_000_000
			if to.gpus > 1 && r.IntN(3) == 0 {
				prices[g] = to.gpus * nanos[to.kind][g]
			}
		}
		nanos = append(nanos, prices)
	}
	return grid, nanos
}

func TestBoundsNeverExceedTheOptimum(t *testing.T) {
	if testing.Short() {
		t.Skip("many instances, and no goroutines for the race detector")
	}
	n, sum := 0, 0.0
	for seed := range uint64(3000) {
		if gap, ok := checkBounds(t, seed); ok {
			n++
			sum += gap
		}
	}
	if n < 2000 {
		t.Errorf("only %d instances had an optimum", n)
	}
	if mean := sum / float64(n); mean > 0.25 {
		t.Errorf("the price bound lies %.1f %% below the optimum on average", 100*mean)
	} else {
		t.Logf("%d instances, mean gap of the optimum to the price bound %.2f %%", n, 100*mean)
	}
}
