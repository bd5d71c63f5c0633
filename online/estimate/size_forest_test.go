package estimate_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare/online/estimate"
)

func labels(user, name string) []estimate.Label {
	return []estimate.Label{{Name: "name", Value: name}, {Name: "user", Value: user}}
}

// history has jobs of which the name tells the size within a tenth, and the user nothing.
func history(sf *estimate.SizeForest, rng *rand.Rand, n int) {
	for range n {
		name, user := rng.IntN(8), rng.IntN(5)
		size := int64(float64(int64(100)<<name) * (.9 + .2*rng.Float64()))
		sf.Ended(labels(fmt.Sprint("u", user), fmt.Sprint("n", name)), []int64{int64(1 + user)}, size)
	}
}

// Sizes that follow from the name are learned, unseen labels get the median, and no job at all gives 0.
func TestSizeForestLearns(t *testing.T) {
	var sf estimate.SizeForest
	if got := sf.Predict(labels("u0", "n0"), []int64{1}); got != 0 {
		t.Errorf("with no job %d", got)
	}
	sf.Ended(labels("u0", "n0"), []int64{1}, 50)
	if got := sf.Predict(labels("u0", "n0"), []int64{1}); got < 49 || got > 50 { // logarithms are rounded down
		t.Errorf("after one job of 50: %d", got)
	}
	sf = estimate.SizeForest{}
	history(&sf, rand.New(rand.NewPCG(1, 1)), 400)
	for name := range 8 {
		want := float64(int64(100) << name)
		if got := float64(sf.Predict(labels("u1", fmt.Sprint("n", name)), []int64{2})); got < .85*want || got > 1.15*want {
			t.Errorf("name %d: %v, want about %v", name, got, want)
		}
	}
	median := sf.Median()
	if median < 700 || median > 1800 {
		t.Errorf("the median is %d", median)
	}
	for _, l := range [][]estimate.Label{labels("new", "unknown"), nil, {{Name: "queue", Value: "q"}}} {
		if got := sf.Predict(l, []int64{1}); got != median {
			t.Errorf("%v: %d, and the median is %d", l, got, median)
		}
	}
}

// A restored forest predicts as the one before and learns as it does, also beyond what it keeps.
func TestSizeForestRestores(t *testing.T) {
	for _, n := range []int{0, 5, 8, 100, 900} {
		var a, b estimate.SizeForest
		rng := rand.New(rand.NewPCG(2, uint64(n)))
		history(&a, rng, n)
		text, err := json.Marshal(a.Snapshot())
		var s estimate.SizeForestSnapshot
		if err != nil || json.Unmarshal(text, &s) != nil || !b.Restore(&s) {
			t.Fatalf("%d jobs: not restored", n)
		}
		for range 2 {
			for name := range 9 {
				l := labels("u2", fmt.Sprint("n", name))
				if x, y := a.Predict(l, []int64{3}), b.Predict(l, []int64{3}); x != y {
					t.Errorf("%d jobs, name %d: %d and %d", n, name, x, y)
				}
			}
			seed := rng.Uint64()
			history(&a, rand.New(rand.NewPCG(seed, 0)), 300)
			history(&b, rand.New(rand.NewPCG(seed, 0)), 300)
		}
	}
	var sf estimate.SizeForest
	for _, bad := range []estimate.SizeForestSnapshot{{Grown: 1}, {Grown: -1}, {Rows: []estimate.SizeRow{{Size: -1}}},
		{Rows: []estimate.SizeRow{{Numbers: []int64{1}}, {}}}} {
		if sf.Restore(&bad) {
			t.Errorf("%+v is restored", bad)
		}
	}
}

func BenchmarkSizeForest(b *testing.B) {
	var sf estimate.SizeForest
	history(&sf, rand.New(rand.NewPCG(1, 1)), 512)
	s := *sf.Snapshot()
	s.Grown = len(s.Rows)
	b.Run("grow", func(b *testing.B) {
		for b.Loop() {
			var again estimate.SizeForest
			again.Restore(&s)
		}
	})
	b.Run("predict", func(b *testing.B) {
		l := labels("u1", "n3")
		for b.Loop() {
			sf.Predict(l, []int64{2})
		}
	})
}
