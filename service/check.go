package service

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
)

// store.CheckSolve reports what the engine would refuse of a solve, so that it is
// refused before it is taken in.
func (s *Service) CheckSolve(inst *hare.Instance, opt hare.Options) error {
	if e, ok := s.cfg.Engine.(solverEngine); ok {
		return solver.Check(inst, opt, e.cfg)
	}
	return solver.CheckOptions(solver.Defaults(opt))
}
