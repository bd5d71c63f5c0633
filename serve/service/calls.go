package service

import (
	"context"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// Solve solves one instance. The time limit includes the time in the queue. When ctx
// ends, the answer is the best certified pair of schedule and bound so far.
func (s *Service) Solve(ctx context.Context, inst *hare.Instance, opt hare.Options) (*hare.Result, error) {
	opt = solver.Defaults(opt)
	if err := solver.CheckOptions(opt); err != nil {
		return nil, err
	}
	limit := opt.TimeLimit
	if limit == 0 {
		limit = s.cfg.MaxTime
	}
	opt, a, err := s.AdmitSolve(inst, opt, admission.Call{Deadline: time.Now().Add(limit)})
	if err != nil {
		return nil, err
	}
	ctx, leave, err := s.Await(ctx, s.queue.Enqueue(a), nil)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.Run(ctx, inst, opt, RunOptions{Call: a, Deadline: a.Deadline})
}

// Bound computes a lower bound by one method.
func (s *Service) Bound(ctx context.Context, inst *hare.Instance, method string) (*hare.Relaxation, error) {
	return inSlot(ctx, s, func(ctx context.Context) (*hare.Relaxation, error) {
		if s.cfg.Engine != nil {
			return s.cfg.Engine.Bound(ctx, inst, method)
		}
		return solver.Bound(ctx, inst, method, s.cfg.Solver)
	})
}

// BoundExpected bounds the mean cost over the durations of jobs (docs/reference/model.md, "Durations").
func (s *Service) BoundExpected(ctx context.Context, inst *hare.Instance) (*hare.Relaxation, error) {
	return inSlot(ctx, s, func(ctx context.Context) (*hare.Relaxation, error) {
		return solver.BoundExpected(ctx, inst, s.cfg.Solver)
	})
}

// Replay runs the replay of a session when admission lets it run, for at most the longest
// time of a call.
func (s *Service) Replay(ctx context.Context, run func(context.Context) error) error {
	_, err := inSlot(ctx, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, run(ctx) })
	return err
}

// inSlot runs do once there is a slot. Waiting and working may take Config.MaxTime together.
func inSlot[T any](ctx context.Context, s *Service, do func(context.Context) (T, error)) (t T, err error) {
	deadline := time.Now().Add(s.cfg.MaxTime)
	ctx, leave, err := s.acquire(ctx, deadline)
	if err != nil {
		return t, err
	}
	defer leave()
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return do(ctx)
}

// Verify checks a result. The result of a replan is checked against previous, an
// earlier result for the instance before; both may be nil, as verify.Previous
// documents. A check that has begun is not cancelled.
func (s *Service) Verify(ctx context.Context, inst *hare.Instance, res, previous *hare.Result,
	before *hare.Instance) (*verify.Report, error) {
	_, leave, err := s.acquire(ctx, time.Now().Add(s.cfg.MaxTime))
	if err != nil {
		return nil, err
	}
	defer leave()
	prev := &verify.Previous{Result: previous, Instance: before}
	if s.cfg.Engine != nil {
		return s.cfg.Engine.Verify(inst, res, prev), nil
	}
	return verify.CheckReplan(inst, res, prev), nil
}

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

// ErrInfeasible is returned where a job can never run, so that no finite bound exists.
var ErrInfeasible = solver.ErrInfeasible

// DefaultGap is the gap of solves without a gap of their own.
const DefaultGap = solver.DefaultGap

// Methods lists the methods of Bound.
func Methods() []string { return solver.Methods() }
