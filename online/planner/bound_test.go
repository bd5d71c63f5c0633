package planner_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/planner"
)

// tiny draws a question whose best plan can be found by trying all: no more than four
// busy GPUs of a type, so that none are grouped, and no rounds that mix types.
func tiny(rng *rand.Rand) *planner.Question {
	q := &planner.Question{Seed: rng.Int64N(9), Prove: true}
	if rng.IntN(3) == 0 {
		q.Work.Moves = -1
	}
	for range 1 + rng.IntN(2) {
		q.Types = append(q.Types, string(rune('A'+len(q.Types))))
		free := make([]int64, 1+rng.IntN(3))
		for i := range free {
			free[i] = max(0, rng.Int64N(12)-6) * 1e6
		}
		q.FreeUs = append(q.FreeUs, free)
	}
	rounds := int64(0)
	for range 1 + rng.IntN(4) {
		j := planner.Job{WeightMicro: rng.Int64N(4) * 1e6, Tasks: 1 + rng.Int64N(2), Sync: hare.Gang,
			ReadyUs: max(0, rng.Int64N(8)-4) * 1e6, Rounds: 1 + rng.Int64N(3)}
		if rng.IntN(3) == 0 {
			j.Sync = hare.Rigid
		}
		if rounds += j.Rounds; rounds > 6 {
			break
		}
		for t := range q.Types {
			if t == 0 || rng.IntN(3) > 0 {
				j.On = append(j.On, planner.Mode{Type: t, DurationUs: (1 + rng.Int64N(9)) * 1e6})
			}
		}
		q.Jobs = append(q.Jobs, j)
	}
	return q
}

// best is the least weighted sum of completion times of the jobs of which the plan has
// rows, by all orders of rounds and all choices of types: each round starts as early as it
// can on the GPUs of its type that are free first. Some order is that of the starts of an
// optimal plan.
func best(q *planner.Question, rows [][]planner.Row) float64 {
	free := make([][]int64, len(q.FreeUs))
	for t := range free {
		free[t] = slices.Clone(q.FreeUs[t])
		slices.Sort(free[t])
	}
	left, readyUs := make([]int64, len(q.Jobs)), make([]int64, len(q.Jobs))
	for i := range q.Jobs {
		if readyUs[i] = q.Jobs[i].ReadyUs; len(rows[i]) > 0 {
			left[i] = q.Jobs[i].Rounds
		}
	}
	least := math.Inf(1)
	var try func(value float64)
	try = func(value float64) {
		done := true
		for i := range q.Jobs {
			if left[i] == 0 {
				continue
			}
			done = false
			j := &q.Jobs[i]
			rounds := int64(1)
			if j.Sync == hare.Rigid {
				rounds = left[i]
			}
			for _, md := range j.On {
				if int64(len(free[md.Type])) < j.Tasks {
					continue
				}
				before, ready := slices.Clone(free[md.Type]), readyUs[i]
				endUs := max(ready, before[j.Tasks-1]) + rounds*md.DurationUs
				for k := range j.Tasks {
					free[md.Type][k] = endUs
				}
				slices.Sort(free[md.Type])
				left[i], readyUs[i] = left[i]-rounds, endUs
				more := 0.0
				if left[i] == 0 {
					more = float64(j.WeightMicro) * float64(endUs) / 1e12
				}
				try(value + more)
				left[i], readyUs[i], free[md.Type] = left[i]+rounds, ready, before
			}
		}
		if done {
			least = min(least, value)
		}
	}
	try(0)
	return least
}

// The bound is never above the value of the best plan, nor that above the plan's, and
// mostly not far below.
func TestBoundAgainstAllPlans(t *testing.T) {
	runs := uint64(400)
	if testing.Short() {
		runs = 60
	}
	bounds, values, counted := 0.0, 0.0, 0
	for seed := range runs {
		q := tiny(rand.New(rand.NewPCG(seed, 3)))
		p, err := planner.Make(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		least := best(q, p.Rows)
		bound, value := p.Bound.Float(), p.Value.Float()
		if bound > least+1e-9 || value < least-1e-9 {
			t.Fatalf("seed %d: bound %v, best %v, value %v of %+v", seed, bound, least, value, q)
		}
		if least > 0 {
			bounds, values, counted = bounds+bound/least, values+value/least, counted+1
		}
	}
	n := float64(counted)
	if bounds/n < 0.85 || values/n > 1.02 {
		t.Errorf("of the best plan's value, the bounds are %.3f and the plans %.3f in the mean", bounds/n, values/n)
	}
	t.Logf("bounds %.3f, plans %.3f", bounds/n, values/n)
}

// The value is that of the plan's rows.
func TestValueIsOfTheRows(t *testing.T) {
	for seed := range uint64(100) {
		q := random(rand.New(rand.NewPCG(seed, 4)))
		q.Prove = seed%2 == 0
		p, err := planner.Make(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var sum hare.Amount
		for i, rows := range p.Rows {
			if len(rows) == 0 {
				continue
			}
			last, longUs := rows[len(rows)-1], int64(0)
			for _, c := range last.Types {
				for _, md := range q.Jobs[i].On {
					if md.Type == c.Type {
						longUs = max(longUs, md.DurationUs)
					}
				}
			}
			sum = sum.Add(hare.Product(q.Jobs[i].WeightMicro, last.StartUs+(last.Rounds-1)*last.PeriodUs+longUs))
		}
		if sum != p.Value || p.Bound.Cmp(p.Value) > 0 || (p.Bound != hare.Amount{}) && !q.Prove {
			t.Fatalf("seed %d: value %s of rows with %s, bound %s", seed, p.Value, sum, p.Bound)
		}
	}
}
