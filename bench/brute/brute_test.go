package brute

import (
	"math/rand/v2"
	"testing"
)

func TestOptimumEndsOnRandomInstances(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	solved := 0
	for range 500 {
		_, ok, done := Optimum(Random(r), 200_000)
		if ok && done {
			solved++
		}
	}
	if solved < 400 {
		t.Errorf("solved %d of 500 instances", solved)
	}
}

// Both searches agree where nodes do not matter.
func TestSearchesAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for i := range 150 {
		inst := Random(r)
		want, ok, done := Optimum(inst, 100_000)
		got, plan, doneToo := OptimumOnNodes(inst, 100_000)
		if done && doneToo && (ok != (plan != nil) || ok && got != want) {
			t.Fatalf("instance %d: %d (%v), on nodes %d (%v)", i, want, ok, got, plan != nil)
		}
	}
}

// Optimal schedules of instances with rules about nodes exist often enough to be of use.
func TestOptimumOnNodesEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	found, given := 0, 0
	for range 300 {
		_, plan, done := OptimumOnNodes(RandomOnNodes(r), 30_000)
		if !done {
			given++
		} else if plan != nil {
			found++
		}
	}
	t.Logf("%d solved, %d given up", found, given)
	if found < 80 || given > 30 {
		t.Errorf("%d solved, %d given up of 300", found, given)
	}
}
