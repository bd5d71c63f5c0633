package leases

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// analyticCenter finds the analytic centre of the optimal divisions of time: the optimum
// with the greatest product of the slacks that are positive in some optimum. An
// interior-point engine, such as ECOS, which Gavel uses, ends at the analytic centre,
// while the simplex method ends in a corner. For a program with many optima the two ends
// are two policies (docs/use/policies.md).
//
//	min ± z:  x ≥ 0,  Σ_k x_ik ≤ 1,  Σ_i width_i x_ik ≤ gpus_k,  each of rows ≥ 0
//
// The method is primal-dual path following with slacks of its own, so that no
// interior need exist (Boyd and Vandenberghe, Convex Optimization, 11.7; Wright,
// Primal-Dual Interior-Point Methods). A step costs O(jobs × (types + rows of a
// job)³): jobs meet only in the GPUs of a type and in z, which are eliminated
// last.
type analyticCenter struct {
	gpus  []float64 // by type
	width []float64 // by job
	rows  []constraint
	// greatest asks for the greatest z, and otherwise the least.
	greatest bool

	x      []float64
	z      float64
	slacks []slack
	step   []float64 // of x, then z
	of     [][]int   // by job, its rows

	matrix, sides, corner, low []float64
	solved                     [][]float64 // by job
}

// constraint is a·x_job + z·Z + d − curve/(a·x_job), which must not be negative;
// with a curve, the term a·x_job is only there below it. job −1 means no x.
type constraint struct {
	job         int
	a           []float64
	z, d, curve float64
	weight      float64 // of its logarithm in the centre; 0 means 1
}

// slack is the slack s of a row with its multiplier l and its weight w in the centre.
type slack struct {
	s, l, w    float64
	value      float64 // of the row; s in the end
	push, next float64 // see direction
	ds, dl     float64 // the step
}

const (
	endMeasure    = 1e-8 // the measure of the path at which it is left
	endMiss       = 1e-8 // of a row, relative
	evenTolerance = 1e-3 // of products of slack and multiplier, relative
	goodMeasure   = 1e-6 // the measure, where rounding stops the method before,
	goodMiss      = 1e-5 // and the miss
	maxSteps      = 100
	maxEvenSteps  = 8 // steps to become even once the rest is reached
)

var errNotConverged = errors.New("the interior-point method did not converge")

// almostNoGPU replaces a number of GPUs of 0, so that the shares of the type have an
// interior.
const almostNoGPU = 1e-7

// solve fills share, cut to 0 … 1.
func (ac *analyticCenter) solve(ctx context.Context, share []float64) error {
	ac.start()
	mu, miss, length := 1.0, 1.0, 1.0
	good, tries := false, 0 // good: share holds an answer
	for i := range maxSteps {
		if i%16 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		miss, mu = ac.evaluate(), ac.measure()
		if mu <= goodMeasure && miss <= goodMiss {
			good = true
			for i := range share {
				share[i] = min(max(ac.x[i], 0), 1)
			}
		}
		if mu <= endMeasure && miss <= endMiss {
			// If the rows leave no interior, the products never become even.
			if tries++; ac.even(mu) || tries > maxEvenSteps {
				break
			}
		}
		// The shorter the last step had to be, the less the measure is lowered.
		target := max(endMeasure*0.9, mu*min(0.8, max(0.05, 2*(1-length)*(1-length))))
		if mu <= endMeasure {
			target = mu
		}
		if !ac.direction(target) {
			break
		}
		length = ac.advance()
	}
	if !good {
		return fmt.Errorf("%w: measure %.2g, rows miss by %.2g", errNotConverged, mu, miss)
	}
	return nil
}

// even reports whether all products of slack and multiplier are near the measure.
func (ac *analyticCenter) even(mu float64) bool {
	for i := range ac.slacks {
		if q := ac.slacks[i].s * ac.slacks[i].l / (ac.slacks[i].w * mu); math.Abs(q-1) > evenTolerance {
			return false
		}
	}
	return true
}

// start puts equal shares, half of what fits, and slacks to match.
func (ac *analyticCenter) start() {
	m, n := len(ac.width), len(ac.gpus)
	ac.x = make([]float64, m*n)
	all := 0.0
	for _, w := range ac.width {
		all += w
	}
	for i := range ac.x {
		ac.x[i] = 0.5 * min(1/float64(n), ac.gpus[i%n]/all)
	}
	ac.z = 0
	for r := range ac.rows { // towards rows that hold
		if row := &ac.rows[r]; row.z != 0 {
			if short := 1 - ac.value(row); short > 0 {
				ac.z += short / row.z
			}
		}
	}
	ac.slacks = make([]slack, m*n+m+n+len(ac.rows))
	ac.step, ac.corner, ac.low = make([]float64, m*n+1), make([]float64, (n+1)*(n+1)), make([]float64, n+1)
	ac.of, ac.solved = make([][]int, m), make([][]float64, m)
	for r := range ac.rows {
		if i := ac.rows[r].job; i >= 0 {
			ac.of[i] = append(ac.of[i], r)
		}
	}
	ac.values()
	for i := range ac.slacks {
		s := &ac.slacks[i]
		s.w = 1
		if r := i - (m*n + m + n); r >= 0 && ac.rows[r].weight > 0 {
			s.w = ac.rows[r].weight
		}
		if s.s = s.value; s.s < 1e-3 {
			s.s = max(1e-3, -s.value)
		}
		s.l = s.w / s.s
	}
}

// value is the value of a row.
func (ac *analyticCenter) value(r *constraint) float64 {
	v := r.z*ac.z + r.d
	if r.job < 0 {
		return v
	}
	ax := ac.dot(r)
	if r.curve > 0 {
		return v - r.curve/ax
	}
	return v + ax
}

func (ac *analyticCenter) dot(r *constraint) float64 {
	n, ax := len(ac.gpus), 0.0
	for k, a := range r.a {
		ax += a * ac.x[r.job*n+k]
	}
	return ax
}

// values computes all rows: x, jobs, types, then the others.
func (ac *analyticCenter) values() {
	m, n := len(ac.width), len(ac.gpus)
	for k, w := range ac.gpus {
		ac.slacks[m*n+m+k].value = w
	}
	for i := range m {
		sum := 0.0
		for k := range n {
			x := ac.x[i*n+k]
			ac.slacks[i*n+k].value = x
			ac.slacks[m*n+m+k].value -= ac.width[i] * x
			sum += x
		}
		ac.slacks[m*n+i].value = 1 - sum
	}
	for r := range ac.rows {
		ac.slacks[m*n+m+n+r].value = ac.value(&ac.rows[r])
	}
}

// evaluate computes all rows and returns the largest difference between a row and its
// slack, relative to the row's scale.
func (ac *analyticCenter) evaluate() float64 {
	ac.values()
	miss := 0.0
	for i := range ac.slacks {
		s := &ac.slacks[i]
		miss = max(miss, math.Abs(s.value-s.s)/(1+math.Abs(s.value)))
	}
	return miss
}

func (ac *analyticCenter) measure() float64 {
	sum, weights := 0.0, 0.0
	for i := range ac.slacks {
		sum += ac.slacks[i].s * ac.slacks[i].l
		weights += ac.slacks[i].w
	}
	return sum / weights
}

// direction solves for the Newton step towards the path's point of measure mu.
// Unknowns are the steps of x and z and the multipliers of rows after the step;
// those of x ≥ 0 are eliminated on paper, those of a job row by row in eliminate.
// Keeping a job's rows apart, rather than adding their products to the matrix of
// x, is what keeps digits where a row is tight.
func (ac *analyticCenter) direction(mu float64) bool {
	m, n := len(ac.width), len(ac.gpus)
	for i := range ac.slacks { // the multiplier after the step, if the row stayed
		s := &ac.slacks[i]
		s.push = s.l + (s.w*mu-s.s*s.l-s.l*(s.value-s.s))/s.s
	}
	size := n + 1
	corner, low := ac.corner, ac.low
	clear(corner)
	for k := range n {
		s := &ac.slacks[m*n+m+k]
		corner[k*size+k], low[k] = s.s/s.l, s.s/s.l*s.push
	}
	low[n] = 1
	if ac.greatest {
		low[n] = -1
	}
	for r := range ac.rows {
		if row := &ac.rows[r]; row.job < 0 {
			s := &ac.slacks[m*n+m+n+r]
			corner[n*size+n] -= s.l / s.s * row.z * row.z
			low[n] -= row.z * s.push
		}
	}
	return ac.eliminate(corner, low)
}

// eliminate takes jobs out of the equations, one after another, solves what is
// left for the types' multipliers and the step of z, and goes back.
func (ac *analyticCenter) eliminate(corner, low []float64) bool {
	m, n := len(ac.width), len(ac.gpus)
	size := n + 1
	for i := range m {
		sides := ac.block(i)
		if !solveGauss(ac.matrix, n+1+len(ac.of[i]), sides, size+1) {
			return false
		}
		for k := range n { // a type's row holds −width × step of x
			for q := range size {
				corner[k*size+q] += ac.width[i] * sides[k*(size+1)+q]
			}
			low[k] += ac.width[i] * sides[k*(size+1)+size]
		}
		for at, r := range ac.of[i] { // z's row holds its part of each multiplier
			side := sides[(n+1+at)*(size+1):]
			for q := range size {
				corner[n*size+q] -= ac.rows[r].z * side[q]
			}
			low[n] -= ac.rows[r].z * side[size]
		}
		ac.solved[i] = append(ac.solved[i][:0], sides...)
	}
	if !solveGauss(corner, size, low, 1) {
		return false
	}
	for i := range m {
		of := func(at int) float64 {
			side := ac.solved[i][at*(size+1):]
			v := side[size]
			for q := range size {
				v -= side[q] * low[q]
			}
			return v
		}
		for k := range n {
			ac.step[i*n+k] = of(k)
		}
		ac.slacks[m*n+i].next = of(n)
		for at, r := range ac.of[i] {
			ac.slacks[m*n+m+n+r].next = of(n + 1 + at)
		}
	}
	for k := range n {
		ac.slacks[m*n+m+k].next = low[k]
	}
	ac.step[m*n] = low[n]
	return !math.IsNaN(low[n])
}

// block sets the matrix of a job, for its steps of x, then the multipliers of its
// sum and rows, and gives its right sides: the columns of the types and z, then
// that of the equations.
func (ac *analyticCenter) block(i int) []float64 {
	m, n := len(ac.width), len(ac.gpus)
	b, columns := n+1+len(ac.of[i]), n+2
	ac.matrix = append(ac.matrix[:0], make([]float64, b*b)...)
	ac.sides = append(ac.sides[:0], make([]float64, b*columns)...)
	job := &ac.slacks[m*n+i]
	for k := range n {
		s := &ac.slacks[i*n+k]
		ac.matrix[k*b+k] = s.l / s.s
		ac.matrix[k*b+n], ac.matrix[n*b+k] = 1, -1
		ac.sides[k*columns+k] = ac.width[i]
		ac.sides[k*columns+n+1] = s.push
	}
	ac.matrix[n*b+n], ac.sides[n*columns+n+1] = job.s/job.l, job.s/job.l*job.push
	for at, r := range ac.of[i] {
		row, s, y := &ac.rows[r], &ac.slacks[m*n+m+n+r], n+1+at
		slope, bend := 1.0, 0.0
		if row.curve > 0 {
			ax := ac.dot(row)
			slope, bend = row.curve/(ax*ax), 2*row.curve/(ax*ax*ax)
		}
		for k, a := range row.a {
			ac.matrix[k*b+y], ac.matrix[y*b+k] = -slope*a, slope*a
			for q, o := range row.a {
				ac.matrix[k*b+q] += s.l * bend * a * o
			}
		}
		ac.matrix[y*b+y] = s.s / s.l
		ac.sides[y*columns+n], ac.sides[y*columns+n+1] = row.z, s.s/s.l*s.push
	}
	return ac.sides
}

// advance goes along the step as far as slacks and multipliers stay positive.
func (ac *analyticCenter) advance() float64 {
	m, n := len(ac.width), len(ac.gpus)
	move := func(at int, by float64) {
		s := &ac.slacks[at]
		s.ds, s.dl = by+s.value-s.s, s.next-s.l
	}
	gpus := make([]float64, n)
	for i := range m {
		sum := 0.0
		for k := range n {
			d, s := ac.step[i*n+k], &ac.slacks[i*n+k]
			s.next = s.push - s.l/s.s*d
			move(i*n+k, d)
			sum += d
			gpus[k] += ac.width[i] * d
		}
		move(m*n+i, -sum)
	}
	for k := range n {
		move(m*n+m+k, -gpus[k])
	}
	for r := range ac.rows {
		row, s := &ac.rows[r], &ac.slacks[m*n+m+n+r]
		by := row.z * ac.step[m*n]
		if row.job < 0 {
			s.next = s.push - s.l/s.s*by
		} else {
			ax, slope := 0.0, 1.0
			for k, a := range row.a {
				ax += a * ac.step[row.job*n+k]
			}
			if row.curve > 0 {
				at := ac.dot(row)
				slope = row.curve / (at * at)
			}
			by += slope * ax
		}
		move(m*n+m+n+r, by)
	}
	length := 1.0
	for i := range ac.slacks {
		s := &ac.slacks[i]
		if s.ds < 0 {
			length = min(length, -0.99*s.s/s.ds)
		}
		if s.dl < 0 {
			length = min(length, -0.99*s.l/s.dl)
		}
	}
	for i := range ac.x {
		ac.x[i] += length * ac.step[i]
	}
	ac.z += length * ac.step[m*n]
	for i := range ac.slacks {
		s := &ac.slacks[i]
		s.s += length * s.ds
		s.l += length * s.dl
	}
	return length
}
