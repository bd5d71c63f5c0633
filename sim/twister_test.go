package sim_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hare-sched/hare/sim"
)

// The numbers are those of CPython 3.11's random.Random for the same seeds.
func TestTwisterFollowsPython(t *testing.T) {
	r := sim.NewTwister(5)
	var got [][]int
	for range 6 {
		x := []int{0, 1, 2}
		r.Shuffle(3, func(i, j int) { x[i], x[j] = x[j], x[i] })
		got = append(got, x)
	}
	if want := "[[0 1 2] [0 1 2] [1 0 2] [2 0 1] [1 0 2] [1 2 0]]"; fmt.Sprint(got) != want {
		t.Errorf("shuffles %v, Python %s", got, want)
	}
	r = sim.NewTwister(0)
	var draws []int
	for _, n := range []int{1, 2, 3, 7, 100, 5, 5} {
		draws = append(draws, r.Below(n))
	}
	if want := []int{0, 1, 0, 2, 65, 3, 3}; !slices.Equal(draws, want) {
		t.Errorf("randrange %v, Python %v", draws, want)
	}
	r = sim.NewTwister(0)
	draws = draws[:0]
	for _, n := range []int{2, 5, 21, 22, 60, 100} {
		a, b := r.Two(n)
		draws = append(draws, a, b)
	}
	if want := []int{1, 0, 0, 2, 16, 15, 12, 9, 30, 22, 74, 27}; !slices.Equal(draws, want) {
		t.Errorf("samples of two %v, Python %v", draws, want)
	}
	r = sim.NewTwister(1<<40 + 7) // the key has two words
	if a, b := r.Uint32(), r.Uint32(); a != 2635837658 || b != 3209733218 {
		t.Errorf("words %d, %d", a, b)
	}
	for range 2000 { // as many numbers refill the state three times
		r.Uint32()
	}
	if a := r.Uint32(); a != 801954231 {
		t.Errorf("word 2,002 is %d", a)
	}
}
