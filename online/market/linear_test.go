package market_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/hare-sched/hare/internal/lp"
	_ "github.com/hare-sched/hare/internal/lp/highs"
	"github.com/hare-sched/hare/online/market"
)

func TestMain(m *testing.M) {
	lp.ServeIfWorker()
	os.Exit(m.Run())
}

// program is the linear program of one category: column (i, b) says that job i has the bundle b of
// category[i] workers. Each job has one bundle, and no class gives out more workers than it has.
func program(p *market.Problem, category []int) *lp.Problem {
	prob := &lp.Problem{Start: []int32{0}}
	var held [][]int
	for i, k := range category {
		divisions(p, k, func(counts []int) {
			prob.Cost = append(prob.Cost, p.Jobs[i].Weight*p.JCT(i, counts))
			prob.ColLower, prob.ColUpper = append(prob.ColLower, 0), append(prob.ColUpper, 1)
			held = append(held, append([]int(nil), counts...))
			prob.Index, prob.Value = append(prob.Index, int32(len(held)-1)), append(prob.Value, 1)
		})
		prob.Start = append(prob.Start, int32(len(prob.Index)))
		prob.RowLower, prob.RowUpper = append(prob.RowLower, 1), append(prob.RowUpper, 1)
	}
	for c := range p.Classes {
		for column, counts := range held {
			if counts[c] > 0 {
				prob.Index, prob.Value = append(prob.Index, int32(column)), append(prob.Value, float64(counts[c]))
			}
		}
		prob.Start = append(prob.Start, int32(len(prob.Index)))
		prob.RowLower = append(prob.RowLower, math.Inf(-1))
		prob.RowUpper = append(prob.RowUpper, float64(p.Classes[c].Workers))
	}
	return prob
}

// The least value of the linear programs of all categories, which HiGHS solves, is never above the
// value of Exact. A whole solution of a program is a placement and is never below Exact. Where the
// least program has a whole solution, both values are the optimum.
func TestExactAgainstLinearPrograms(t *testing.T) {
	pool, err := lp.NewPool(lp.PoolConfig{Size: 1, Command: []string{os.Args[0]}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	rng := rand.New(rand.NewPCG(9, 10))
	problems, equal := 0, 0
	for range 40 {
		p := draw(rng, 1+rng.IntN(3), 1+rng.IntN(3), 3)
		if workers(p) < len(p.Jobs) {
			continue
		}
		_, exact, err := market.Exact(p)
		if err != nil {
			t.Fatal(err)
		}
		least, whole := math.Inf(1), false
		categories(len(p.Jobs), workers(p), false, func(category []int) {
			got, err := pool.Solve(t.Context(), program(p, category))
			if errors.Is(err, lp.ErrUnavailable) {
				t.Skip("this build has no HiGHS")
			}
			if err != nil {
				t.Fatalf("%+v %v: %v", p, category, err)
			}
			integral := true
			for _, x := range got.X {
				integral = integral && math.Abs(x-math.Round(x)) < 1e-7
			}
			if integral && got.Objective < exact*(1-1e-9) {
				t.Fatalf("%+v %v: a placement of %v, and Exact has %v", p, category, got.Objective, exact)
			}
			if got.Objective < least {
				least, whole = got.Objective, integral
			}
		})
		if least > exact*(1+1e-9) || whole && least < exact*(1-1e-9) {
			t.Fatalf("%+v: the linear programs have %v (whole: %t), and Exact has %v", p, least, whole, exact)
		}
		if problems++; whole {
			equal++
		}
	}
	t.Logf("%d of %d problems have a whole solution", equal, problems)
	if problems < 20 || equal < problems/2 {
		t.Errorf("%d of %d problems have a whole solution", equal, problems)
	}
}
