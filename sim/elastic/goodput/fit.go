package goodput

import (
	"errors"
	"math"
)

// Step is a measured configuration of a job.
type Step struct {
	Nodes, GPUs, Local int
	StepS              float64 // a pass with the exchange of gradients
	SyncS              float64 // the exchange of gradients alone, less than StepS
}

// The parameters in the order in which Fit searches them.
const (
	computeS = iota
	sampleS
	nodesS
	nodesGPUS
	localS
	localGPUS
	overlap
	parameters
)

type vector [parameters]float64

func (v *vector) params() Params {
	return Params{v[computeS], v[sampleS], v[nodesS], v[nodesGPUS], v[localS], v[localGPUS], v[overlap]}
}

// maxOverlap is the greatest Params.Overlap: it is close enough to the maximum of both times.
const maxOverlap = 10

// Fit fits Params to measured steps. It minimises
//
//	e(passes) + e(steps) + (Overlap − 1)² / 1000
//	  + ((NodesGPUS / NodesS)² + (LocalGPUS / LocalS)²) / 100
//
// where e is the root of the mean square error of the logarithms of times. What has not been
// measured is assumed to be good, so that schedulers try it: while only one batch of a pass
// was measured, ComputeS is half of the mean time of a pass; the exchange takes no time until it
// was measured, and does not grow with the GPUs until more than two were; and until several
// nodes were measured, their exchange takes 1.1 times that of one node.
//
// The search is a projected BFGS over the logarithms of the parameters. Pollux's simulator
// minimises the same function over the parameters themselves by SciPy's L-BFGS-B, and ends at
// other points of the same valley. Fit takes O(steps) an iteration, of which there are at most
// 200. Steps must have positive times and sizes; the errors are about these.
func Fit(steps []Step) (Params, error) {
	if len(steps) == 0 {
		return Params{}, errors.New("goodput: a fit needs a measured step")
	}
	meanS, distributed, local, wide, batches := 0., false, false, false, false
	for _, s := range steps {
		if s.Nodes < 1 || s.GPUs < s.Nodes || s.Local < 1 || !(s.SyncS >= 0 && s.SyncS < s.StepS) ||
			math.IsInf(s.StepS, 1) {
			return Params{}, errors.New("goodput: a measured step needs nodes, GPUs and samples, and a time that is " +
				"longer than that of its exchange")
		}
		meanS += (s.StepS - s.SyncS) / float64(len(steps))
		distributed = distributed || s.Nodes > 1
		local = local || s.Nodes == 1 && s.GPUs > 1
		wide = wide || s.GPUs > 2
		batches = batches || s.Local != steps[0].Local
	}
	p := problem{steps: steps}
	x := vector{.1, .01, .1, .01, .1, .01, 1.001}
	for k := range x {
		p.low[k], p.high[k] = math.Log(least), math.Inf(1)
		x[k] = math.Log(x[k])
	}
	p.high[overlap], p.low[overlap] = math.Log(maxOverlap), 0
	fix := func(k int, v float64) {
		x[k] = math.Log(v)
		p.low[k], p.high[k] = x[k], x[k]
	}
	if !batches {
		fix(computeS, meanS/2)
	}
	if !distributed {
		fix(nodesS, least)
	}
	if !local {
		fix(localS, least)
	}
	if !distributed || !wide {
		fix(nodesGPUS, least)
	}
	if !local || !wide {
		fix(localGPUS, least)
	}
	x = p.minimise(x)
	for k := range x {
		x[k] = math.Exp(x[k])
	}
	if !distributed {
		x[nodesS] = math.Max(x[nodesS], 1.1*x[localS])
		x[nodesGPUS] = math.Max(x[nodesGPUS], 1.1*x[localGPUS])
	}
	return x.params(), nil
}

// problem is the fit as a function of the logarithms of the parameters, with their bounds.
type problem struct {
	steps     []Step
	low, high vector
}

// value is the function that Fit minimises, and its gradient where grad is not nil.
func (pr *problem) value(logs *vector, grad *vector) float64 {
	var v vector
	for k, l := range logs {
		v[k] = math.Exp(l)
	}
	p := v.params()
	var squares [2]float64
	var slopes [2]vector // of half of squares, by the parameters
	for i := range pr.steps {
		s := &pr.steps[i]
		passS, exchangeS := p.PassS(s.Local), p.ExchangeS(s.Nodes, s.GPUs)
		e := math.Log(passS) - math.Log(s.StepS-s.SyncS)
		f := math.Log(p.overlapS(passS, exchangeS)) - math.Log(s.StepS)
		squares[0] += e * e
		squares[1] += f * f
		if grad == nil {
			continue
		}
		slopes[0][computeS] += e / passS
		slopes[0][sampleS] += e / passS * float64(s.Local)
		// With r = (exchange/pass)^γ, the logarithm of the time of both has the derivatives
		// 1/(pass·(1+r)) and r/(exchange·(1+r)).
		r := math.Pow(exchangeS/passS, p.Overlap)
		byPass, byExchange := 1/(passS*(1+r)), 1/(exchangeS*(1+1/r))
		if r == 0 {
			byExchange = 0
		}
		slopes[1][computeS] += f * byPass
		slopes[1][sampleS] += f * byPass * float64(s.Local)
		further := math.Max(float64(s.GPUs-2), least)
		switch {
		case s.Nodes > 1:
			slopes[1][nodesS] += f * byExchange
			slopes[1][nodesGPUS] += f * byExchange * further
		case s.GPUs > 1:
			slopes[1][localS] += f * byExchange
			slopes[1][localGPUS] += f * byExchange * further
		}
		byOverlap := -math.Log1p(r) / (p.Overlap * p.Overlap)
		if r > 0 {
			byOverlap += math.Log(exchangeS/passS) / (p.Overlap * (1 + 1/r))
		}
		slopes[1][overlap] += f * byOverlap
	}
	n := float64(len(pr.steps))
	nodesTerm, localTerm := p.NodesGPUS/p.NodesS, p.LocalGPUS/p.LocalS
	if grad != nil {
		*grad = vector{}
		for e := range squares {
			if squares[e] > 0 {
				scale := 1 / math.Sqrt(squares[e]*n)
				for k := range grad {
					grad[k] += scale * slopes[e][k] * v[k]
				}
			}
		}
		grad[overlap] += 2e-3 * (p.Overlap - 1) * p.Overlap
		grad[nodesGPUS] += 2e-2 * nodesTerm * nodesTerm
		grad[nodesS] -= 2e-2 * nodesTerm * nodesTerm
		grad[localGPUS] += 2e-2 * localTerm * localTerm
		grad[localS] -= 2e-2 * localTerm * localTerm
	}
	return math.Sqrt(squares[0]/n) + math.Sqrt(squares[1]/n) + 1e-3*(p.Overlap-1)*(p.Overlap-1) +
		1e-2*(nodesTerm*nodesTerm+localTerm*localTerm)
}

// Limits of the search: iterations, halvings of a stride, the gain below which it ends (a
// fraction of the value), and the fraction of the gain that a gradient promises and that a stride
// must reach.
const (
	fitIterations = 200
	fitHalvings   = 40
	fitGain       = 1e-9
	fitArmijo     = 1e-4
)

// minimise descends from x by BFGS steps in the parameters that are not at a bound which they
// would cross.
func (pr *problem) minimise(x vector) vector {
	var grad vector
	value := pr.value(&x, &grad)
	hessian := identity() // the inverse of the Hessian, as far as it is known
	small, fresh := 0, true
	for range fitIterations {
		free := pr.free(&x, &grad)
		direction, slope := descent(&hessian, &grad, &free)
		if !(slope < 0) {
			if fresh {
				break
			}
			hessian, fresh = identity(), true
			continue
		}
		next, nextValue, ok := pr.search(&x, &direction, slope, value)
		if !ok {
			if fresh {
				break
			}
			hessian, fresh = identity(), true
			continue
		}
		var nextGrad vector
		pr.value(&next, &nextGrad)
		fresh = !update(&hessian, &x, &next, &grad, &nextGrad, &free) && fresh
		if value-nextValue <= fitGain*math.Max(value, fitGain) {
			small++
		} else {
			small = 0
		}
		x, grad, value = next, nextGrad, nextValue
		if small == 3 {
			break
		}
	}
	return x
}

// free says which parameters may move along the negative gradient.
func (pr *problem) free(x, grad *vector) (free [parameters]bool) {
	for k := range x {
		free[k] = pr.low[k] < pr.high[k] && !(x[k] <= pr.low[k] && grad[k] > 0) &&
			!(x[k] >= pr.high[k] && grad[k] < 0)
	}
	return free
}

type matrix [parameters][parameters]float64

func identity() (m matrix) {
	for k := range m {
		m[k][k] = 1
	}
	return m
}

// descent returns the negative product of the matrix and the gradient over the free
// parameters, and its product with the gradient.
func descent(hessian *matrix, grad *vector, free *[parameters]bool) (direction vector, slope float64) {
	for i := range direction {
		if !free[i] {
			continue
		}
		for k := range direction {
			if free[k] {
				direction[i] -= hessian[i][k] * grad[k]
			}
		}
		slope += direction[i] * grad[i]
	}
	return direction, slope
}

// search halves the stride until the value falls enough. Strides move no parameter by more
// than a factor of e².
func (pr *problem) search(x, direction *vector, slope, value float64) (next vector, nextValue float64, ok bool) {
	longest := 0.
	for _, d := range direction {
		longest = math.Max(longest, math.Abs(d))
	}
	stride := math.Min(1, 2/longest)
	for range fitHalvings {
		for k := range next {
			next[k] = math.Min(math.Max(x[k]+stride*direction[k], pr.low[k]), pr.high[k])
		}
		if nextValue = pr.value(&next, nil); nextValue <= value+fitArmijo*stride*slope {
			return next, nextValue, true
		}
		stride /= 2
	}
	return *x, value, false
}

// update adds what two points say of the curvature to the inverse Hessian. It does nothing and
// returns false where the function does not curve upwards between them.
func update(hessian *matrix, x, next, grad, nextGrad *vector, free *[parameters]bool) bool {
	var step, turn, turned vector
	product := 0.
	for k := range step {
		if free[k] {
			step[k], turn[k] = next[k]-x[k], nextGrad[k]-grad[k]
			product += step[k] * turn[k]
		}
	}
	if !(product > 1e-14) {
		return false
	}
	curvature := 0.
	for i := range turned {
		for k := range turn {
			turned[i] += hessian[i][k] * turn[k]
		}
		curvature += turned[i] * turn[i]
	}
	for i := range step {
		for k := range step {
			hessian[i][k] += (1+curvature/product)*step[i]*step[k]/product -
				(turned[i]*step[k]+step[i]*turned[k])/product
		}
	}
	return true
}
