package admission

import (
	"math"
	"sync"
	"time"

	"github.com/hare-sched/hare"
)

// features is the number of features of the model.
const features = 7

// Costs predicts how long a solve takes from the times of earlier solves. The
// model is linear in the logarithm of the time and is fitted by recursive least
// squares with a forgetting factor (Haykin, Adaptive Filter Theory, chapter 10).
// Safe for concurrent use.
type Costs struct {
	mu    sync.Mutex
	beta  [features]float64
	cov   [features][features]float64
	error float64 // moving mean of |ln(predicted/true)|
	seen  int64
}

const (
	forgetting    = 0.998  // forgetting factor of the recursive least squares
	firstVariance = 0.3    // variance of each coefficient of the first model
	errorRate     = 0.05   // weight of the last error in the moving mean
	leastCost     = 500e-6 // seconds
	// firstError is the factor by which the first model may be wrong on this machine.
	firstError = 20
)

// firstModel is a rough guess, which firstError allows for. The solves of a server
// correct the guess.
var firstModel = [features]float64{-4.2, 0.75, 0.15, -1.2, 0.15, 0.5, 0.5}

// NewCosts makes a predictor that knows nothing but the first model.
func NewCosts() *Costs {
	c := &Costs{beta: firstModel, error: math.Log(firstError)}
	for i := range features {
		c.cov[i][i] = firstVariance
	}
	return c
}

// NewCostsAt is NewCosts with another intercept of the first model: the logarithm
// of the seconds that a solve of one job takes.
func NewCostsAt(intercept float64) *Costs {
	c := NewCosts()
	c.beta[0] = intercept
	return c
}

// Work describes a solve by what its cost depends on.
type Work struct {
	Jobs, Tasks float64 // Tasks counts each round of a relaxed job, but the other jobs' tasks only once
	Options     hare.Options
}

// WorkOf returns the Work of a solve. O(jobs).
func WorkOf(inst *hare.Instance, opt hare.Options) Work {
	w := Work{Options: opt}
	if inst == nil {
		return w
	}
	w.Jobs = float64(len(inst.Jobs))
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if j.Sync == hare.Relaxed {
			w.Tasks += float64(j.Rounds) * float64(j.Tasks)
		} else {
			w.Tasks += float64(j.Tasks)
		}
	}
	return w
}

func (w Work) vector() (x [features]float64) {
	x[0], x[1], x[2] = 1, math.Log1p(w.Jobs), math.Log1p(w.Tasks)
	if n := w.Options.WorkLimit; n > 0 {
		x[3], x[4] = 1, math.Log1p(float64(n))
	}
	if t := w.Options.TimeLimit; t > 0 {
		x[5], x[6] = 1, math.Log(t.Seconds())
	}
	return x
}

// Predict returns the time that a solve is expected to run, at most its time
// limit.
func (c *Costs) Predict(w Work) time.Duration {
	x := w.vector()
	c.mu.Lock()
	log := dot(&c.beta, &x)
	c.mu.Unlock()
	// No solve may take a day.
	took := time.Duration(math.Exp(min(log, math.Log(86400))) * float64(time.Second))
	took = max(took, time.Duration(leastCost*float64(time.Second)))
	if t := w.Options.TimeLimit; t > 0 {
		took = min(took, t)
	}
	return took
}

// Learn fits the model to a solve that took this time. A solve that was cut short,
// by the clock or by its caller, shows only that the whole solve would have taken
// longer. Where such a solve used up its time limit, as predicted, the prediction
// counts as correct.
func (c *Costs) Learn(w Work, took time.Duration, cut bool) {
	x, y := w.vector(), math.Log(max(took.Seconds(), leastCost))
	c.mu.Lock()
	defer c.mu.Unlock()
	miss := y - dot(&c.beta, &x)
	if cut && miss <= 0 {
		if t := w.Options.TimeLimit; t > 0 && 2*took > t {
			c.error -= errorRate * c.error
		}
		return
	}
	c.seen++
	c.error += errorRate * (math.Abs(miss) - c.error)
	var px [features]float64
	for i := range features {
		px[i] = dot(&c.cov[i], &x)
	}
	gain := forgetting + dot(&px, &x)
	for i := range features {
		c.beta[i] += px[i] / gain * miss
	}
	for i := range features {
		for j := range features {
			c.cov[i][j] = (c.cov[i][j] - px[i]*px[j]/gain) / forgetting
		}
		// The variance of a feature that no solve has would grow without limit.
		if c.cov[i][i] > 1 {
			c.limitVariance(i)
		}
	}
}

// limitVariance limits the variance of one coefficient to 1 and keeps its
// correlations.
func (c *Costs) limitVariance(i int) {
	by := 1 / math.Sqrt(c.cov[i][i])
	for j := range features {
		c.cov[i][j] *= by
		c.cov[j][i] *= by
	}
}

// Error returns the recent mean factor by which predictions are wrong, where 1 is
// exact, and the number of solves that the model has learned from.
func (c *Costs) Error() (factor float64, solves int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return math.Exp(c.error), c.seen
}

func dot(a, b *[features]float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
