package experiment

import "math"

// Stat is a mean over instances.
type Stat struct {
	Mean float64
	// Half is half of the 95 % confidence interval of the mean, by Student's t;
	// 0 with fewer than two values, of which nothing is known.
	Half float64
	n    int
	m2   float64 // sum of squared differences from the mean
}

// add takes a value in (Welford 1962).
func (s *Stat) add(x float64) {
	s.n++
	d := x - s.Mean
	s.Mean += d / float64(s.n)
	s.m2 += d * (x - s.Mean)
	if s.n > 1 {
		s.Half = student(s.n-1) * math.Sqrt(s.m2/float64(s.n-1)/float64(s.n))
	}
}

// student is the 97.5 % point of Student's t for n degrees of freedom: its table
// up to 10, beyond that the first four terms of its expansion in 1/n about the
// normal distribution's (Fisher and Cornish 1960), which are right to 1e-5 there.
func student(n int) float64 {
	table := [...]float64{12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139}
	if n <= len(table) {
		return table[n-1]
	}
	const z = 1.959963984540054
	f := float64(n)
	z2 := z * z
	return z + z*(z2+1)/(4*f) + z*((5*z2+16)*z2+3)/(96*f*f) + z*(((3*z2+19)*z2+17)*z2-15)/(384*f*f*f) +
		z*((((79*z2+776)*z2+1482)*z2-1920)*z2-945)/(92160*f*f*f*f)
}
