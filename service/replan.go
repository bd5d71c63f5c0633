package service

import (
	"context"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
)

// Replan plans again what is left of an earlier plan for inst, under the limits
// of Solve.
func (s *Service) Replan(ctx context.Context, inst *hare.Instance, req hare.ReplanRequest, opt hare.Options) (*hare.Result, error) {
	return s.limited(ctx, inst, opt, func(ctx context.Context, opt hare.Options) (*hare.Result, error) {
		cfg := s.cfg.Solver
		cfg.Progress = both(cfg.Progress, progressOf(ctx))
		return solver.Replan(ctx, inst, req, opt, cfg)
	})
}

// RunReplan is the same as the work of a stored solve.
func RunReplan(req hare.ReplanRequest) RunFunc {
	return func(ctx context.Context, inst *hare.Instance, opt hare.Options, cfg solver.Config) (*hare.Result, error) {
		return solver.Replan(ctx, inst, req, opt, cfg)
	}
}
