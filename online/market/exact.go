package market

import (
	"errors"
	"math"
)

// ErrTooLarge says that Exact would take too long.
var ErrTooLarge = errors.New("market: too large for an exact placement")

// exactSteps limits Exact to some seconds.
const exactSteps = 1 << 31

// Exact is the best of all placements that give out any number of workers, with its Score. It looks
// at every division of the workers of each class by dynamic programming over the jobs, so that it
// takes O(n Π_c (M_c + 1)²) for n jobs and M_c workers of class c; it returns ErrTooLarge where that
// is above 2³¹. It shares with Sample only Problem.JCT.
func Exact(p *Problem) ([][]int, float64, error) {
	if err := p.Check(); err != nil {
		return nil, 0, err
	}
	states, stride := 1, make([]int, len(p.Classes))
	for c := range p.Classes {
		stride[c] = states
		states *= p.Classes[c].Workers + 1
		if states*states*max(1, len(p.Jobs)) > exactSteps {
			return nil, 0, ErrTooLarge
		}
	}
	counts := func(state int) []int {
		held := make([]int, len(p.Classes))
		for c := range held {
			held[c] = state / stride[c] % (p.Classes[c].Workers + 1)
		}
		return held
	}
	bundles := make([][]int, states)
	for x := range bundles {
		bundles[x] = counts(x)
	}
	least := make([]float64, states) // the least Score of the jobs so far on what is used
	for x := 1; x < states; x++ {
		least[x] = math.Inf(1)
	}
	chosen := make([][]int32, len(p.Jobs))
	jct := make([]float64, states)
	for i := range p.Jobs {
		j := &p.Jobs[i]
		for x, held := range bundles {
			k := 0
			for _, n := range held {
				k += n
			}
			if jct[x] = math.Inf(1); k >= j.least() && (j.Most == 0 || k <= j.Most) {
				jct[x] = j.Weight * p.JCT(i, held)
			}
		}
		next := make([]float64, states)
		chosen[i] = make([]int32, states)
		for x := range next {
			next[x] = math.Inf(1)
		}
		for from := range states {
			if math.IsInf(least[from], 1) {
				continue
			}
		bundle:
			for x, held := range bundles {
				score := least[from] + jct[x]
				if from+x >= states || score >= next[from+x] {
					continue
				}
				for c, n := range held {
					if bundles[from][c]+n > p.Classes[c].Workers {
						continue bundle
					}
				}
				next[from+x], chosen[i][from+x] = score, int32(x)
			}
		}
		least = next
	}
	best := 0
	for x := range least {
		if least[x] < least[best] {
			best = x
		}
	}
	placed := make([][]int, len(p.Jobs))
	for i, x := len(p.Jobs)-1, best; i >= 0; i-- {
		placed[i] = bundles[chosen[i][x]]
		x -= int(chosen[i][x])
	}
	if math.IsInf(least[best], 1) {
		return nil, 0, errors.New("market: the classes are too small for all jobs")
	}
	return placed, least[best], nil
}
