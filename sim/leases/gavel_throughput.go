package leases

import (
	"context"

	"github.com/hare-sched/hare/internal/lp"
)

// gavelThroughput maximises Σ_i Σ_k r_ik x_ik, the steps a second of all jobs
// together, whatever a step of each is worth: jobs with short steps win.
//
// Source: Gavel (OSDI 2020), its code at commit c4fa400, without costs and SLOs.
type gavelThroughput struct{ solver lp.Solver }

var _ SharePolicy = (*gavelThroughput)(nil)

func (gt *gavelThroughput) LeaseTraits() Traits { return Traits{} }

// Shares solves a program with a column for each job and type.
func (gt *gavelThroughput) Shares(ctx context.Context, s *State, out *Shares) error {
	b := shareProgram(s)
	n := len(s.Types)
	for i := range s.Jobs {
		for k, r := range s.Jobs[i].Rate {
			b.prob.Cost[i*n+k] = -r
		}
	}
	return b.solve(ctx, gt.solver, out.Share)
}
