// Package estimate learns how long jobs take from jobs that have ended and from how
// long those that run have run so far. It has no clock and nothing random: the same
// observations give the same estimates.
package estimate

import (
	"slices"
)

// maxPoints limits the points of a survival curve: more ends are merged.
const maxPoints = 256

// Survival is the Kaplan-Meier estimate (1958) of the distribution of job sizes, from
// jobs that ended and jobs that still run, which are censored at what they have
// attained. Sizes are in any unit of work, such as microseconds on the job's fastest
// GPU type. The zero value knows nothing.
//
// Products are rounded before they are added, so that the values do not depend on
// whether a machine fuses the two.
type Survival struct {
	At    []float64 `json:"at"`    // sizes at which jobs ended, ascending
	Alive []float64 `json:"alive"` // the share of jobs that are longer than At[i]
	Area  []float64 `json:"area"`  // the integral of the share of longer jobs from 0 to At[i]
}

// Valid reports whether a curve that was read is one: as many of each, sizes that rise
// from 0 on, shares that fall.
func (s *Survival) Valid() bool {
	n := len(s.At)
	if len(s.Alive) != n || len(s.Area) != n || n > maxPoints+1 {
		return false
	}
	last, share, area := 0.0, 1.0, 0.0
	for i := range n {
		if !(s.At[i] >= last) || !(s.Alive[i] <= share) || !(s.Alive[i] >= 0) || !(s.Area[i] >= area) {
			return false
		}
		last, share, area = s.At[i], s.Alive[i], s.Area[i]
	}
	return true
}

// NewSurvival estimates the distribution from the sizes of the jobs that ended and from
// what the others have attained. Neither slice is changed. It takes O(n log n).
func NewSurvival(ended, running []int64) *Survival {
	if len(ended) == 0 {
		return &Survival{}
	}
	ended, running = slices.Clone(ended), slices.Clone(running)
	slices.Sort(ended) // numbers alone sort faster than pairs of a number and what happened
	slices.Sort(running)
	sizes := 1
	for i := range len(ended) - 1 {
		if ended[i] != ended[i+1] {
			sizes++
		}
	}
	each := (sizes + maxPoints - 1) / maxPoints // every each-th point and the last one are kept
	s := &Survival{At: make([]float64, 0, sizes/each+1), Alive: make([]float64, 0, sizes/each+1),
		Area: make([]float64, 0, sizes/each+1)}
	share, last, area := 1.0, 0.0, 0.0
	censored := 0 // how many of running have attained less than the size at hand
	for i, points := 0, 1; i < len(ended); points++ {
		first, size := i, ended[i]
		for i < len(ended) && ended[i] == size {
			i++
		}
		for censored < len(running) && running[censored] < size { // one that is censored at a size is at risk there
			censored++
		}
		n := len(ended) - first + len(running) - censored
		area += float64(share * (float64(size) - last))
		last = float64(size)
		share = share * float64(n-(i-first)) / float64(n)
		if points%each == 0 || points == sizes {
			s.At, s.Alive, s.Area = append(s.At, last), append(s.Alive, share), append(s.Area, area)
		}
	}
	return s
}

// Known reports whether any job has ended.
func (s *Survival) Known() bool { return s != nil && len(s.At) > 0 }

// after is the index of the first end later than a.
func (s *Survival) after(a float64) int {
	i, found := slices.BinarySearch(s.At, a)
	if found {
		i++
	}
	return i
}

// since returns the share of jobs longer than a and the integral of that share from 0
// to a.
func (s *Survival) since(a float64) (share, area float64) {
	i := s.after(a)
	if i == 0 {
		return 1, a
	}
	return s.Alive[i-1], s.Area[i-1] + float64(s.Alive[i-1]*(a-s.At[i-1]))
}

// MeanResidual is the expected rest of a job that has attained a, E[S − a | S > a].
// Beyond the longest job that ended nothing is known, and a job there is expected to
// take as long again, as under a Pareto distribution of index 2. It takes O(log n).
func (s *Survival) MeanResidual(attained int64) float64 {
	a := float64(attained)
	n := len(s.At)
	if n == 0 || a >= s.At[n-1] {
		return a
	}
	share, area := s.since(a)
	rest := s.Area[n-1] - area + float64(s.Alive[n-1]*s.At[n-1])
	return rest / share
}

// Quantile is the least size by which a share of the jobs that are longer than attained
// have ended; attained where no longer job has ended. It takes O(n).
func (s *Survival) Quantile(attained int64, share float64) int64 {
	a := float64(attained)
	alive, _ := s.since(a)
	most := float64((1 - share) * alive)
	for i := s.after(a); i < len(s.At); i++ {
		if s.Alive[i] <= most {
			return int64(s.At[i])
		}
	}
	return attained
}

// Gittins is the index of a job that has attained a: the greatest ratio, over all
// horizons, of the chance that the job ends within the horizon to the expected work
// until then (Gittins 1979; Aalto, Ayesta and Righter 2009 for sizes). It is 1/a beyond
// the longest job that ended. It takes O(n).
func (s *Survival) Gittins(attained int64) float64 {
	a := float64(attained)
	n := len(s.At)
	i := s.after(a)
	if i == n {
		return 1 / max(1, a)
	}
	share, area := s.since(a)
	best := 0.0
	for ; i < n; i++ {
		if spent := s.Area[i] - area; spent > 0 {
			best = max(best, (share-s.Alive[i])/spent)
		}
	}
	if best == 0 {
		return 1 / max(1, a)
	}
	return best
}
