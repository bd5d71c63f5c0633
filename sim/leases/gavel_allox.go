package leases

import (
	"context"
	"fmt"
	"slices"

	"github.com/hare-sched/hare/internal/assignment"
)

// gavelAlloX places single-GPU jobs so that the sum of completion times is
// least: a job that is the p-th from last on a GPU costs p × its time there. The
// assignment of jobs to (GPU, position) is solved exactly; the first job of each
// GPU gets the GPU's whole type, and keeps it until it ends. It knows sizes.
//
// Source: AlloX (EuroSys 2020) as in Gavel's code at commit c4fa400, α = 1 (all
// waiting jobs take part). Many assignments are equally good; which is found
// depends on the order of the search, which is rows by arrival and columns by
// position, then type by name, then GPU, as there.
type gavelAlloX struct {
	assigned []assigned // by number of the job
	match    assignment.Solver
}

var _ SharePolicy = (*gavelAlloX)(nil)

func (ga *gavelAlloX) LeaseTraits() Traits { return Traits{} }

// maxCells limits what is matched at a time: 1 GiB of costs.
const maxCells = 1 << 27

// noRate is the rate that stands for none: the cost is then beyond all others.
const noRate = 1e-10

// Shares is O(jobs³ × free GPUs) at worst, with the jobs that wait.
func (ga *gavelAlloX) Shares(ctx context.Context, s *State, out *Shares) error {
	free := slices.Clone(s.GPUs)
	ga.assigned = slices.DeleteFunc(ga.assigned, func(g assigned) bool {
		_, there := indexOf(s, g.number)
		if there {
			free[g.kind]--
		}
		return !there
	})
	var waiting []int
	for i := range s.Jobs {
		if s.Jobs[i].GPUs != 1 {
			return fmt.Errorf("job %.60q needs %d GPUs; AlloX places jobs of one GPU only", s.Jobs[i].ID,
				s.Jobs[i].GPUs)
		}
		if !slices.ContainsFunc(ga.assigned, func(g assigned) bool { return g.number == s.Jobs[i].Number }) {
			waiting = append(waiting, i)
		}
	}
	var kinds []int // of the free GPUs
	for k, n := range free {
		for range n {
			kinds = append(kinds, k)
		}
	}
	if n := len(waiting); n > 0 && len(kinds) > maxCells/n/n {
		return fmt.Errorf("%w: %d jobs wait for %d GPUs, and AlloX matches all of them to all places in line",
			ErrTooLarge,
			n, len(kinds))
	}
	ga.match.Stop = func() bool { return ctx.Err() != nil }
	ga.assigned = append(ga.assigned, ga.assign(s, waiting, kinds)...)
	if err := ctx.Err(); err != nil {
		return err
	}
	slices.SortFunc(ga.assigned, func(a, b assigned) int { return a.number - b.number })
	for _, g := range ga.assigned {
		i, _ := indexOf(s, g.number)
		out.Share[i*len(s.Types)+g.kind] = 1
	}
	return nil
}

// assign gives the first job of each free GPU.
func (ga *gavelAlloX) assign(s *State, waiting, kinds []int) []assigned {
	if len(waiting) == 0 || len(kinds) == 0 {
		return nil
	}
	gpus := len(kinds)
	ga.match.Begin(len(waiting), gpus*len(waiting))
	column := ga.match.Solve(func(row int, cost []float64) {
		j := &s.Jobs[waiting[row]]
		waitS := s.NowS - j.ArrivalS
		for g, k := range kinds {
			rate := j.Rate[k]
			if rate == 0 {
				rate = noRate
			}
			timeS := float64(j.StepsLeft) / rate
			for c, at := g, 1.0; c < len(cost); c, at = c+gpus, at+1 {
				cost[c] = at*timeS + waitS
			}
		}
	})
	if column == nil {
		return nil // stopped
	}
	first, from := make([]int, gpus), make([]int, gpus) // job, and its position from last
	for row, c := range column {
		if g, at := c%gpus, c/gpus+1; at > from[g] {
			from[g], first[g] = at, waiting[row]
		}
	}
	var out []assigned
	for g, k := range kinds {
		if from[g] > 0 {
			out = append(out, assigned{s.Jobs[first[g]].Number, k})
		}
	}
	return out
}
