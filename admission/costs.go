package admission

import (
	"math"
	"sync"
	"time"

	"github.com/hare-sched/hare"
)

// features is the number of what a prediction looks at.
const features = 7

// Costs predicts how long solves take, from those before: a linear model of
// the logarithm of the time, fitted by recursive least squares that forget
// slowly (Haykin, Adaptive Filter Theory, chapter 10). Safe for concurrent use.
type Costs struct {
	mu    sync.Mutex
	beta  [features]float64
	cov   [features][features]float64
	error float64 // mean of |ln(predicted/true)| lately
	seen  int64
}

// What is forgotten with each solve, how unsure the first model is, and how
// much the mean error follows the last one.
const (
	forget    = 0.998
	unsure    = 0.3
	errorRate = 0.05
	leastCost = 500e-6 // seconds
	// firstError is by how much the first model may be off on this machine.
	firstError = 20
)

// firstModel is a rough guess, which firstError allows for; what a server sees
// corrects it.
var firstModel = [features]float64{-4.2, 0.75, 0.15, -1.2, 0.15, 0.5, 0.5}

// NewCosts makes a predictor that knows nothing but the first model.
func NewCosts() *Costs {
	c := &Costs{beta: firstModel, error: math.Log(firstError)}
	for i := range features {
		c.cov[i][i] = unsure
	}
	return c
}

// NewCostsAt is NewCosts with another constant in the first model: the logarithm of
// the seconds that a solve of one job takes.
func NewCostsAt(begin float64) *Costs {
	c := NewCosts()
	c.beta[0] = begin
	return c
}

// Work is what the cost of a solve depends on.
type Work struct {
	Jobs, Tasks float64 // tasks of relaxed jobs, runs of the others
	Options     hare.Options
}

// WorkOf sizes a solve. O(jobs).
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

// Predict is the time that a solve is expected to run, its time limit at most.
func (c *Costs) Predict(w Work) time.Duration {
	x := w.vector()
	c.mu.Lock()
	log := dot(&c.beta, &x)
	c.mu.Unlock()
	// A day is more than any solve may take.
	took := time.Duration(math.Exp(min(log, math.Log(86400))) * float64(time.Second))
	took = max(took, time.Duration(leastCost*float64(time.Second)))
	if t := w.Options.TimeLimit; t > 0 {
		took = min(took, t)
	}
	return took
}

// Learn takes in how long a solve ran. One that was cut, by the clock or by its
// caller, says only that it would have taken longer; where it took its whole
// time limit, as predicted, predictions are to be trusted all the same.
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
	gain := forget + dot(&px, &x)
	for i := range features {
		c.beta[i] += px[i] / gain * miss
	}
	for i := range features {
		for j := range features {
			c.cov[i][j] = (c.cov[i][j] - px[i]*px[j]/gain) / forget
		}
		// What no solve shows would otherwise be forgotten without end.
		if c.cov[i][i] > 1 {
			c.calm(i)
		}
	}
}

// calm limits the variance of one coefficient to 1, its correlations kept.
func (c *Costs) calm(i int) {
	by := 1 / math.Sqrt(c.cov[i][i])
	for j := range features {
		c.cov[i][j] *= by
		c.cov[j][i] *= by
	}
}

// Error is the mean factor by which predictions miss, lately, and over how
// many solves: 1 is exact.
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
