package leases

import (
	"context"
	"slices"

	"github.com/hare-sched/hare/sim"
)

// gavelGandiva divides GPUs as gavelIsolated does while all jobs fit. Otherwise
// it pairs jobs of equal width at random, which then share their GPUs, keeps
// pairs as long as sharing pays, and divides GPUs among pairs and the rest.
//
// Source: Gavel's rendering of Gandiva (OSDI 2018), its code at commit c4fa400.
// A pair pays where the rates of its jobs over those alone sum to at least 1
// over all types, and both run on every type. Draws follow Python's sample.
type gavelGandiva struct {
	draws *sim.Twister
	pairs [][2]int // numbers of jobs
}

var _ SharePolicy = (*gavelGandiva)(nil)

func (gg *gavelGandiva) LeaseTraits() Traits { return Traits{Pairs: true} }

// Shares is O(jobs × types + jobs × pairs).
func (gg *gavelGandiva) Shares(_ context.Context, s *State, out *Shares) error {
	gg.pairs = slices.DeleteFunc(gg.pairs, func(pair [2]int) bool {
		a, here := indexOf(s, pair[0])
		b, there := indexOf(s, pair[1])
		return !here || !there || !pays(s, a, b)
	})
	n, have, need := len(s.Types), 0, 0
	for _, w := range s.GPUs {
		have += w
	}
	for i := range s.Jobs {
		need += s.Jobs[i].GPUs
	}
	if need <= have {
		for i := range s.Jobs {
			equalShare(s, len(s.Jobs), s.Jobs[i].GPUs, out.Share[i*n:(i+1)*n])
		}
		return nil
	}
	alone := gg.pair(s)
	users := len(alone) + len(gg.pairs)
	for _, i := range alone {
		equalShare(s, users, s.Jobs[i].GPUs, out.Share[i*n:(i+1)*n])
	}
	for _, pair := range gg.pairs {
		a, _ := indexOf(s, pair[0])
		b, _ := indexOf(s, pair[1])
		share := make([]float64, n)
		equalShare(s, users, s.Jobs[a].GPUs, share)
		out.Pairs = append(out.Pairs, PairShare{A: a, B: b, Share: share})
	}
	return nil
}

// pair draws as many couples as there are jobs without a partner; those of equal
// width become pairs. It gives the jobs that stay alone.
func (gg *gavelGandiva) pair(s *State) (alone []int) {
	for i := range s.Jobs {
		if !slices.ContainsFunc(gg.pairs, func(pair [2]int) bool {
			return pair[0] == s.Jobs[i].Number ||
				pair[1] == s.Jobs[i].Number
		}) {
			alone = append(alone, i)
		}
	}
	for range len(alone) {
		if len(alone) < 2 {
			break
		}
		x, y := gg.draws.Two(len(alone))
		if s.Jobs[alone[x]].GPUs != s.Jobs[alone[y]].GPUs {
			continue
		}
		x, y = min(x, y), max(x, y)
		gg.pairs = append(gg.pairs, [2]int{s.Jobs[alone[x]].Number, s.Jobs[alone[y]].Number})
		alone = slices.Delete(slices.Delete(alone, y, y+1), x, x+1)
	}
	return alone
}

// pays reports whether two jobs progress faster by sharing GPUs than by taking turns.
func pays(s *State, a, b int) bool {
	sum := 0.0
	for k := range s.Types {
		x, y := s.PairRates(s.Jobs[a].Job, s.Jobs[b].Job, k)
		if x <= 0 || y <= 0 {
			return false
		}
		sum += x/s.Jobs[a].Rate[k] + y/s.Jobs[b].Rate[k]
	}
	return sum >= 1
}
