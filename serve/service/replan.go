package service

import (
	"context"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
)

// Replan plans again what remains of an earlier plan for inst, under the limits of
// Solve.
func (s *Service) Replan(ctx context.Context, inst *hare.Instance, req hare.ReplanRequest,
	opt hare.Options) (*hare.Result, error) {
	return s.limited(ctx, inst, opt, func(ctx context.Context, opt hare.Options) (*hare.Result, error) {
		cfg := s.cfg.Solver
		cfg.Progress = chainProgress(cfg.Progress, progressOf(ctx))
		return solver.Replan(ctx, inst, req, opt, cfg)
	})
}

// CheckReplan returns the faults for which Replan would refuse a request.
func (s *Service) CheckReplan(inst *hare.Instance, req hare.ReplanRequest, opt hare.Options) error {
	return solver.CheckRequest(inst, req, opt, s.cfg.Solver)
}
