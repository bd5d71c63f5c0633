package leases

import (
	"context"
)

// gavelIsolated gives each of m jobs 1/m of the GPUs of every type: a share of
// W/(m s) of its time for a job that needs s of W GPUs, all scaled down where
// they sum to more than 1. It looks at no rate, and so gives a job time on types
// that it cannot use.
//
// Source: Gavel (OSDI 2020), its code at commit c4fa400.
type gavelIsolated struct{}

var _ SharePolicy = gavelIsolated{}

func (gavelIsolated) LeaseTraits() Traits { return Traits{ShuffleTypes: true} }

// Shares is O(jobs × types).
func (gavelIsolated) Shares(_ context.Context, s *State, out *Shares) error {
	n := len(s.Types)
	for i := range s.Jobs {
		equalShare(s, len(s.Jobs), s.Jobs[i].GPUs, out.Share[i*n:(i+1)*n])
	}
	return nil
}

// equalShare is the share of one of m users of whole GPUs.
func equalShare(s *State, m, gpus int, share []float64) {
	sum := 0.0
	for k, have := range s.GPUs {
		share[k] = float64(have) / float64(m) / float64(gpus)
		sum += share[k]
	}
	if sum > 1 {
		for k := range share {
			share[k] /= sum
		}
	}
}
