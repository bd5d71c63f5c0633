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

// Optimal schedules of instances with all rules exist often enough to be of use, and all rules
// are met.
func TestOptimumOfMixedInstances(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	found, given := 0, 0
	met := map[string]int{}
	for range 600 {
		inst := RandomMixed(r)
		_, plan, done := OptimumOnNodes(inst, 30_000)
		if !done {
			given++
		}
		if !done || plan == nil {
			continue
		}
		found++
		met[inst.Objective]++
		met["reservations"] += len(inst.Cluster.Reservations)
		met["quota"] += len(inst.Quota)
		for i := range inst.Jobs {
			j := &inst.Jobs[i]
			if end, rounds := running(inst, j); end > 0 {
				met["runs"]++
				if rounds == j.Rounds {
					met["fixed"]++
				}
			} else if j.Progress != nil {
				met["rounds done"]++
			}
			met["after"] += len(j.After)
			if j.LateWeightMicro > 0 {
				met["deadline"]++
			}
		}
	}
	t.Logf("%d solved, %d given up, %v", found, given, met)
	if found < 180 || given > 60 {
		t.Errorf("%d solved, %d given up of 600", found, given)
	}
	for _, what := range []string{"weighted_jct", "jct_and_tardiness", "makespan", "reservations", "quota", "runs",
		"fixed", "rounds done", "after", "deadline"} {
		if met[what] < 15 {
			t.Errorf("%d times %s", met[what], what)
		}
	}
}
