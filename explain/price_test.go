package explain_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// Whatever rules an instance has, no job costs and pays less than its least, and what jobs cost and pay beyond their
// leasts adds up to the gap at most. No job costs less where it may use less.
func TestPricesOnMixedInstances(t *testing.T) {
	priced, placed, moved := 0, 0, 0
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 83))
		inst := brute.RandomMixed(rng)
		switch seed % 3 {
		case 1:
			inst = brute.RandomWithShapes(rng)
		case 2:
			inst = brute.RandomLevels(rng)
		}
		if inst.Objective == hare.ObjectiveMakespan || inst.Validate() != nil {
			continue
		}
		res, err := direct(context.Background(), inst, hare.Options{WorkLimit: 20})
		if err != nil || res.Schedule == nil {
			continue
		}
		rel, err := solver.Bound(context.Background(), inst, hare.MethodPrice, solver.Config{Workers: 1})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		res.Certificate = rel.Certificate // that of the result may have no prices
		bound, err := verify.Bound(inst, rel.Certificate)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		low, _ := bound.Float64()
		gap := res.Value.Float() - low
		sum := 0.0
		for i := range inst.Jobs {
			id := inst.Jobs[i].ID
			a, err := explain.Static(inst, res, explain.Request{Job: id})
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, id, err)
			}
			p := a.Price
			if p == nil {
				continue
			}
			priced++
			if len(inst.Jobs[i].After) > 0 && p.Weight != nil {
				moved++
			}
			over := p.Cost.Float() + p.Paid - p.Least
			if tolerance := 1e-5 * (1 + p.Least); over < -tolerance || over > p.Reduced+tolerance {
				t.Errorf("seed %d, %s: costs %s and pays %g, at least %g", seed, id, p.Cost, p.Paid, p.Least)
			}
			sum += p.Reduced
			for _, x := range a.Elsewhere {
				if x.Label != "" {
					placed++
				}
				if x.Least != nil && *x.Least < p.Least-1e-5*(1+p.Least) {
					t.Errorf("seed %d, %s: costs %g on %s of %s %s alone, and at least %g", seed, id, *x.Least, x.Type, x.Label,
						x.Place, p.Least)
				}
			}
		}
		if sum > gap+1e-5*(1+res.Value.Float()) {
			t.Errorf("seed %d: jobs are %g above their leasts, and the gap is %g", seed, sum, gap)
		}
	}
	t.Log(priced, placed, moved)
	if priced < 50 || placed < 50 || moved == 0 {
		t.Errorf("%d jobs have prices, %d places do, %d jobs have moved weight", priced, placed, moved)
	}
}
