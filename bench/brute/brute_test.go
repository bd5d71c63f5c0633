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
