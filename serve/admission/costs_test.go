package admission

import (
	"math"
	"math/rand"
	"testing"
	"time"

	"github.com/hare-sched/hare"
)

// A machine on which a solve takes 2 ms for each job and 3 µs for each task,
// give or take a fifth: nearly all predictions come within twice that after 100 solves.
func TestCostsLearn(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	c := NewCosts()
	draw := func() (Work, time.Duration) {
		jobs := math.Floor(math.Exp(1 + 6*rng.Float64()))
		tasks := jobs * float64(1+rng.Intn(300))
		truth := 2e-3*jobs + 3e-6*tasks
		return Work{Jobs: jobs, Tasks: tasks}, time.Duration(truth * (0.8 + 0.4*rng.Float64()) * 1e9)
	}
	for range 100 {
		w, took := draw()
		c.Learn(w, took, false)
	}
	off := 0
	for range 200 {
		w, took := draw()
		if got := c.Predict(w); got < took/2 || got > took*2 {
			off++
		}
		c.Learn(w, took, false)
	}
	if off > 4 {
		t.Errorf("%d of 200 predictions are off by more than twice", off)
	}
	if f, n := c.Error(); f > 1.6 || n != 300 {
		t.Errorf("off by %v over %d solves", f, n)
	}
}

// A solve that was cut off after a second would have taken longer than a second.
func TestCostsOfCutSolves(t *testing.T) {
	c := NewCosts()
	w := Work{Jobs: 1000, Tasks: 1e5}
	for range 50 {
		c.Learn(w, 20*time.Second, false)
	}
	before := c.Predict(w)
	for range 50 {
		c.Learn(w, time.Second, true)
	}
	if after := c.Predict(w); after != before {
		t.Errorf("%v, was %v", after, before)
	}
	c.Learn(w, time.Hour, true)
	if after := c.Predict(w); after <= before {
		t.Errorf("%v after an hour did not do, was %v", after, before)
	}
}

// However one-sided the solves of a server are, the predictions stay finite, and a time
// limit holds.
func TestCostsStayFinite(t *testing.T) {
	c := NewCosts()
	for range 200_000 {
		c.Learn(Work{Jobs: 20, Tasks: 20}, 3*time.Millisecond, false)
	}
	odd := Work{Jobs: 20_000, Tasks: 4e6, Options: hare.Options{WorkLimit: 1 << 40, TimeLimit: time.Minute}}
	if got := c.Predict(odd); got <= 0 || got > time.Minute {
		t.Error(got)
	}
	if got := c.Predict(Work{Jobs: 20, Tasks: 20}); got < 2*time.Millisecond || got > 4*time.Millisecond {
		t.Error(got)
	}
	c.Learn(odd, 50*time.Second, false)
	if got := c.Predict(Work{Jobs: 20, Tasks: 20}); got < time.Millisecond || got > 10*time.Millisecond {
		t.Errorf("one odd solve made it %v", got)
	}
}
