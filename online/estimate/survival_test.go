package estimate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare/online/estimate"
)

// leukemia are the times of remission under 6-MP in weeks, of Freireich et al. (Blood
// 1963), the usual example of the Kaplan-Meier estimate.
var (
	leukemiaEnded    = []int64{6, 6, 6, 7, 10, 13, 16, 22, 23}
	leukemiaCensored = []int64{6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35}
)

func TestSurvivalOfTheTextbook(t *testing.T) {
	s := estimate.NewSurvival(leukemiaEnded, leukemiaCensored)
	want := []struct{ at, alive float64 }{{6, .8571}, {7, .8067}, {10, .7529}, {13, .6902}, {16, .6275}, {22, .5378},
		{23, .4482}}
	if len(s.At) != len(want) {
		t.Fatalf("%d points, want %d", len(s.At), len(want))
	}
	for i, w := range want {
		if s.At[i] != w.at || math.Abs(s.Alive[i]-w.alive) > 5e-5 {
			t.Errorf("point %d: %.4f live beyond %v, want %.4f beyond %v", i, s.Alive[i], s.At[i], w.alive, w.at)
		}
	}
	if !s.Valid() {
		t.Error("the curve is not valid")
	}
}

// Without censored jobs, the mean residual is the mean over the jobs that are longer, and
// the index the best ratio over their sizes.
func TestSurvivalAgreesWithCounting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 60; n++ {
		var ended []int64
		for range n {
			ended = append(ended, 1+rng.Int64N(40))
		}
		s := estimate.NewSurvival(ended, nil)
		for a := int64(0); a < 45; a++ {
			var longer []int64
			sum := 0.0
			for _, v := range ended {
				if v > a {
					longer = append(longer, v)
					sum += float64(v - a)
				}
			}
			rest, index := float64(a), 1/math.Max(1, float64(a))
			if len(longer) > 0 {
				rest, index = sum/float64(len(longer)), 0
			}
			for _, horizon := range longer {
				ends, spent := 0.0, 0.0
				for _, v := range longer {
					spent += float64(min(v, horizon) - a)
					if v <= horizon {
						ends++
					}
				}
				index = math.Max(index, ends/spent)
			}
			if got := s.MeanResidual(a); math.Abs(got-rest) > 1e-9*rest {
				t.Fatalf("%v after %d: mean residual %v, want %v", ended, a, got, rest)
			}
			if got := s.Gittins(a); math.Abs(got-index) > 1e-9*index {
				t.Fatalf("%v after %d: index %v, want %v", ended, a, got, index)
			}
		}
	}
}

// Many sizes are merged to few points, which changes the mean residual little.
func TestManySizesAreMerged(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var ended []int64
	sum := 0.0
	for range 20_000 {
		v := 1 + int64(1e6*rng.ExpFloat64())
		ended = append(ended, v)
		sum += float64(v)
	}
	s := estimate.NewSurvival(ended, nil)
	if len(s.At) > 256 {
		t.Errorf("%d points", len(s.At))
	}
	if mean := sum / float64(len(ended)); math.Abs(s.MeanResidual(0)/mean-1) > 0.01 {
		t.Errorf("mean %v, want %v", s.MeanResidual(0), mean)
	}
	// An exponential distribution has no memory.
	if r := s.MeanResidual(1e6) / s.MeanResidual(0); math.Abs(r-1) > 0.05 {
		t.Errorf("the mean residual after the mean is %.3f of the mean", r)
	}
}

func TestUnknownSizes(t *testing.T) {
	var s estimate.Survival
	if s.Known() || s.MeanResidual(7) != 7 || s.Gittins(8) != 1.0/8 {
		t.Errorf("without jobs: known %v, rest %v, index %v", s.Known(), s.MeanResidual(7), s.Gittins(8))
	}
	for _, bad := range []estimate.Survival{
		{At: []float64{1}},
		{At: []float64{2, 1}, Alive: []float64{.5, .2}, Area: []float64{1, 2}},
		{At: []float64{1, 2}, Alive: []float64{.5, .6}, Area: []float64{1, 2}},
		{At: []float64{1}, Alive: []float64{math.NaN()}, Area: []float64{1}},
		{At: []float64{1}, Alive: []float64{-1}, Area: []float64{1}},
	} {
		if bad.Valid() {
			t.Errorf("%+v is said to be valid", bad)
		}
	}
}

func ExampleSurvival_MeanResidual() {
	// Three jobs ended after 10, 20 and 90 minutes; one has run for 30 minutes so far.
	s := estimate.NewSurvival([]int64{10, 20, 90}, []int64{30})
	for _, attained := range []int64{0, 30} {
		fmt.Printf("a job that has run for %d minutes is expected to run for %.0f more\n", attained,
			s.MeanResidual(attained))
	}
	// Output:
	// a job that has run for 0 minutes is expected to run for 52 more
	// a job that has run for 30 minutes is expected to run for 60 more
}
