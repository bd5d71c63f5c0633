package lp

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// growing calls each with a problem that it changes as callers of chains do: with more rows and other bounds and
// costs. Each is feasible where all columns are 1.
func growing(seed uint64, problems int, each func(i int, p *Problem)) {
	rng := rand.New(rand.NewPCG(seed, 5))
	const n = 12
	p := &Problem{Maximize: true, Start: []int32{0}, ColLower: make([]float64, n), ColUpper: make([]float64, n)}
	for range n {
		p.Cost = append(p.Cost, 0.5+rng.Float64())
	}
	for i := range problems {
		for range rng.IntN(4) + 1 {
			sum := 0.0
			for j := range n {
				if rng.IntN(3) > 0 {
					v := rng.Float64()*3 - 1
					p.Index, p.Value = append(p.Index, int32(j)), append(p.Value, v)
					sum += v
				}
			}
			p.Start = append(p.Start, int32(len(p.Index)))
			p.RowLower, p.RowUpper = append(p.RowLower, math.Inf(-1)), append(p.RowUpper, sum+0.1)
		}
		for j := range n {
			p.ColLower[j], p.ColUpper[j] = rng.Float64(), 1+2*rng.Float64()
		}
		if i%5 == 4 {
			p.Cost[rng.IntN(n)] += 0.1
		}
		each(i, p)
	}
}

// answers solves growing problems by a chain; between is called before each.
func answers(t *testing.T, c Chain, problems int, between func(i int)) (all []*Solution) {
	t.Helper()
	ctx := within(t, time.Minute)
	growing(1, problems, func(i int, p *Problem) {
		between(i)
		s, err := c.Solve(ctx, p)
		if err != nil {
			t.Fatalf("problem %d: %v", i, err)
		}
		all = append(all, s)
	})
	return all
}

func nothing(int) {}

// A chain finds the optima that single solves find, in fewer iterations, also after it has begun again.
func TestChainSolvesAsSingleSolvesDo(t *testing.T) {
	const problems = chainLength + 20
	p := testPool(t, "sound", PoolConfig{Size: 1})
	ctx := within(t, time.Minute)
	var single []*Solution
	growing(1, problems, func(i int, q *Problem) {
		s, err := p.Solve(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		single = append(single, s)
	})
	c := p.Chain()
	defer c.Close()
	cold, warm := int64(0), int64(0)
	for i, s := range answers(t, c, problems, nothing) {
		if math.Abs(s.Objective-single[i].Objective) > 1e-6*math.Abs(s.Objective) {
			t.Errorf("problem %d: %v in the chain, %v alone", i, s.Objective, single[i].Objective)
		}
		if i > 0 {
			cold, warm = cold+single[i].Iterations, warm+s.Iterations
		}
	}
	if warm >= cold {
		t.Errorf("%d iterations in the chain, %d alone", warm, cold)
	}
}

// Workers that are killed, or fail, in the middle of a chain change no bit of its answers, and neither do problems
// that others solve meanwhile.
func TestChainSurvivesItsWorkers(t *testing.T) {
	const problems = chainLength + 10
	calm := testPool(t, "sound", PoolConfig{Size: 1})
	c := calm.Chain()
	want := answers(t, c, problems, nothing)
	c.Close()
	check := func(name string, p *Pool, between func(int)) {
		c := p.Chain()
		defer c.Close()
		if d := cmp.Diff(want, answers(t, c, problems, between)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	check("again", calm, nothing)
	p := testPool(t, "sound", PoolConfig{Size: 2})
	check("killed", p, func(i int) {
		if i%13 == 7 {
			kill(p)
		}
		if i%3 == 0 {
			s, err := p.Solve(within(t, time.Minute), small())
			checkSmall(t, s, err)
		}
	})
	if st := p.Stats(); st.Restarts == 0 {
		t.Errorf("no worker was killed: %+v", st)
	}
	p = testPool(t, "crash:~40", PoolConfig{Size: 1, Attempts: 1000, FailureLimit: 1000})
	check("crashed", p, nothing)
}

// kill kills all workers.
func kill(p *Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.live {
		w.kill()
	}
}

// A chain goes on after problems that none has an answer for, and gives back its worker.
func TestChainBeginsAgain(t *testing.T) {
	p := testPool(t, "sound", PoolConfig{Size: 1})
	ctx := within(t, time.Minute)
	c := p.Chain()
	for range 3 {
		s, err := c.Solve(ctx, small())
		checkSmall(t, s, err)
		q := small()
		q.ColUpper[0] = 2
		q.RowLower = []float64{9, 0}
		q.RowUpper = []float64{9, 8}
		q.Start, q.Index, q.Value = append(q.Start, 5), append(q.Index, 0), append(q.Value, 1)
		q.RowLower, q.RowUpper = append(q.RowLower, 3), append(q.RowUpper, 4) // x ≥ 3 against x ≤ 2
		if _, err := c.Solve(ctx, q); err == nil {
			t.Error("a contradiction has a solution")
		}
		q = small() // fewer rows than before
		s, err = c.Solve(ctx, q)
		checkSmall(t, s, err)
		q.Maximize, q.Cost = false, []float64{-3, -2}
		if s, err = c.Solve(ctx, q); err != nil || math.Abs(s.Objective+11) > 1e-9 {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if _, err := c.Solve(ctx, &Problem{Cost: []float64{1}, ColLower: []float64{2}, ColUpper: []float64{3}}); err != nil {
		t.Error(err)
	}
	c.Close()
	s, err := p.Solve(ctx, small()) // the only worker is there again
	checkSmall(t, s, err)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Solve(ended, small()); err == nil {
		t.Error("solved after the end of its context")
	}
	if st := p.Stats(); st.Starts != 1 || st.Failures != 0 {
		t.Errorf("stats %+v", st)
	}
}

// A chain of a solver without chains solves one problem after another.
func TestChainOfSimplex(t *testing.T) {
	c := NewChain(&Simplex{})
	defer c.Close()
	if s, err := c.Solve(t.Context(), small()); err != nil || math.Abs(s.Objective-11) > 1e-9 {
		t.Errorf("%+v, %v", s, err)
	}
}
