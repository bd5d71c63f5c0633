package sim

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Stat is a mean over repeats or instances, with its 95 % confidence interval. It assumes
// that the values are independent and that their mean is about normal. The zero value
// holds no values.
type Stat struct {
	Mean float64
	// Half is half the width of the interval: t s/√n, t the 0.975 quantile of
	// Student's distribution with n − 1 degrees of freedom and s the standard
	// deviation of the sample; 0 with fewer than two values.
	Half float64
	N    int     // number of values
	m2   float64 // sum of squared differences from the mean
}

// Add adds a value (Welford 1962).
func (s *Stat) Add(x float64) {
	s.N++
	d := x - s.Mean
	s.Mean += d / float64(s.N)
	s.m2 += d * (x - s.Mean)
	if s.N > 1 {
		s.Half = student(s.N-1) * math.Sqrt(s.m2/float64(s.N-1)/float64(s.N))
	}
}

// student is the 0.975 quantile of Student's distribution with n degrees of
// freedom.
func student(n int) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n)}.Quantile(0.975)
}
