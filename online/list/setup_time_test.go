package list

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The median is that of the last numbers, also after a snapshot.
func TestSortedWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 14))
	mw, all := &sortedWindow{}, []int64{}
	for range 200 {
		x := rng.Int64N(50)
		all = append(all, x)
		mw.add(x, maxMedian)
		last := slices.Sorted(slices.Values(all[max(0, len(all)-maxMedian):]))
		if want := last[(len(last)-1)/2]; mw.median() != want {
			t.Fatalf("after %d numbers: median %d, want %d", len(all), mw.median(), want)
		}
		s := mw.snapshot()
		mw = &sortedWindow{}
		if !mw.restore(&s) {
			t.Fatalf("after %d numbers: %v is refused", len(all), s)
		}
	}
	for _, s := range []medianSnapshot{{Last: []int64{-1}}, {Last: []int64{1}, Oldest: 1}, {Oldest: -1},
		{Last: make([]int64, maxMedian+1)}, {Last: make([]int64, maxMedian), Oldest: maxMedian}} {
		if mw := (&sortedWindow{}); mw.restore(&s) {
			t.Errorf("%v is restored", s)
		}
	}
}

// What every round loses is no part of a switch.
func TestLatenciesAreNotSwitches(t *testing.T) {
	st := &SetupTime{}
	for range 5 {
		st.learn(7e6, true)
		st.learn(3e6, false)
	}
	if st.Us() != 4e6 {
		t.Errorf("a switch takes %d µs", st.Us())
	}
}
