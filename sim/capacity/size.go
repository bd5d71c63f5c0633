package capacity

import (
	"github.com/hare-sched/hare"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// Size is what a plan takes.
type Size struct {
	// Jobs and Tasks are of a drawn week with its days of warm-up, about; tasks are simulated one by one.
	Jobs, Tasks float64
	// Runs is how many weeks are played beside those of mixes, of Hours hours each.
	Runs, Hours int
	// Solves is how many plans are made for what is certain, of SolveJobs jobs each.
	Solves, SolveJobs int
	// GPUs is how many all clusters have together that are compared.
	GPUs int64
}

// SizeOf reads a request and returns its size. Errors are those of Plan about the request.
func SizeOf(req *capacitydoc.Request) (*Size, error) {
	p, err := read(req)
	if err != nil {
		return nil, err
	}
	s := &Size{Runs: p.weekCount * len(p.options) * len(p.policies), Hours: 24 * p.days}
	share := float64(p.days+warmUpDays) * p.Growth / float64(len(p.draw.blocks))
	for i := range p.Instance.Jobs {
		j := &p.Instance.Jobs[i]
		tasks := float64(j.Tasks)
		if j.Sync == hare.Relaxed {
			tasks *= float64(j.Rounds)
		}
		s.Jobs, s.Tasks = s.Jobs+share, s.Tasks+tasks*share
	}
	base, _ := p.lastJobs()
	scenarios := p.scenarios(base)
	s.Solves, s.SolveJobs = 1+len(scenarios), len(base.Jobs)
	for _, n := range p.draw.cluster.Nodes {
		for _, g := range n.GPUs {
			s.GPUs += int64(g.Count) * int64(s.Solves)
		}
	}
	for _, c := range scenarios {
		for _, g := range c.option.add {
			s.GPUs += int64(g.Count)
		}
	}
	return s, nil
}
