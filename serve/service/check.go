package service

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
)

// CheckSolve returns the faults for which the engine would refuse a solve, so that the
// solve can be refused before it is stored.
func (s *Service) CheckSolve(inst *hare.Instance, opt hare.Options) error {
	if s.cfg.Engine == nil {
		return solver.Check(inst, opt, s.cfg.Solver)
	}
	return solver.CheckOptions(solver.Defaults(opt))
}

// CheckReplan is CheckSolve for a plan of what remains of an earlier plan.
func (s *Service) CheckReplan(inst *hare.Instance, req hare.ReplanRequest, opt hare.Options) error {
	return solver.CheckRequest(inst, req, opt, s.cfg.Solver)
}
