package highs_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/hare-sched/hare/internal/lp/highs"
)

func TestMain(m *testing.M) {
	if _, err := highs.Version(); err != nil {
		fmt.Println("skipped:", err)
		return
	}
	m.Run()
}

// random returns a model that is feasible (x = 1 everywhere) and bounded (by a box).
func random(rng *rand.Rand, n, m int, maximize bool) highs.Model {
	p := highs.Model{Maximize: maximize, Start: []int32{0}}
	for range n {
		p.Cost = append(p.Cost, rng.Float64()*10-3)
		p.ColLower = append(p.ColLower, 0)
		p.ColUpper = append(p.ColUpper, 5+rng.Float64())
	}
	for range m {
		sum := 0.0
		for j := range n {
			if rng.IntN(2) == 0 {
				v := rng.Float64()*4 - 1
				p.Index, p.Value = append(p.Index, int32(j)), append(p.Value, v)
				sum += v
			}
		}
		p.Start = append(p.Start, int32(len(p.Index)))
		p.RowLower = append(p.RowLower, math.Inf(-1))
		p.RowUpper = append(p.RowUpper, sum+rng.Float64())
	}
	return p
}

// The dual of a row is the gain of the objective for one more unit on the row's right
// side, for both senses. The test compares it with two solves nearby.
func TestRowDualIsADerivative(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := random(rng, 4+rng.IntN(6), 3+rng.IntN(6), seed%2 == 0)
		at, err := highs.Solve(p)
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.RowUpper {
			// The step is small against the random data and large against HiGHS's tolerance of 1e-7.
			const step = 1e-5
			side := func(d float64) float64 {
				was := p.RowUpper[i]
				p.RowUpper[i] += d
				s, err := highs.Solve(p)
				p.RowUpper[i] = was
				if err != nil {
					t.Fatal(err)
				}
				return s.Objective
			}
			if got := (side(step) - side(-step)) / (2 * step); math.Abs(got-at.RowDual[i]) > 1e-6*(1+math.Abs(got)) {
				t.Errorf("seed %d row %d: derivative %v, dual %v", seed, i, got, at.RowDual[i])
			}
		}
	}
}

func TestSolutionIsBasicAndRepeats(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	p := random(rng, 60, 40, true)
	first, err := highs.Solve(p)
	if err != nil {
		t.Fatal(err)
	}
	between := 0
	for j, x := range first.X {
		if x > p.ColLower[j]+1e-9 && x < p.ColUpper[j]-1e-9 {
			between++
		}
	}
	if between > len(p.RowLower) {
		t.Errorf("%d columns between their bounds with %d rows", between, len(p.RowLower))
	}
	if first.Iterations == 0 {
		t.Error("no iterations counted")
	}
	for range 50 {
		again, err := highs.Solve(p)
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC() // a model that is freed while it is read would crash
		for j := range first.X {
			if math.Float64bits(again.X[j]) != math.Float64bits(first.X[j]) {
				t.Fatalf("column %d is %v, then %v", j, first.X[j], again.X[j])
			}
		}
	}
}

// Empty rows, tiny entries (dropped with a warning) and zero costs are not errors.
func TestOddModels(t *testing.T) {
	inf := math.Inf(1)
	s, err := highs.Solve(highs.Model{
		Cost: []float64{0, 1}, ColLower: []float64{0, -inf}, ColUpper: []float64{inf, inf},
		RowLower: []float64{-1, 3, -inf}, RowUpper: []float64{1, inf, 9},
		Start: []int32{0, 0, 2, 3}, Index: []int32{0, 1, 0}, Value: []float64{1e-12, 1, 1},
	})
	if err != nil || math.Abs(s.Objective-3) > 1e-9 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := highs.Solve(highs.Model{}); err == nil {
		t.Error("an empty model is solved")
	}
	var status *highs.StatusError
	_, err = highs.Solve(highs.Model{
		Cost: []float64{1}, ColLower: []float64{0}, ColUpper: []float64{1},
		RowLower: []float64{2}, RowUpper: []float64{inf}, Start: []int32{0, 1}, Index: []int32{0}, Value: []float64{1},
	})
	if !errors.As(err, &status) || status.Status != highs.Infeasible {
		t.Errorf("infeasible: %v", err)
	}
	if v, err := highs.Version(); err != nil || v == "" {
		t.Errorf("version %q, %v", v, err)
	}
}
