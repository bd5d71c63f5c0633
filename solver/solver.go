// Package solver turns an instance into a schedule with a certified bound under one
// deadline. A solve bounds the instance, orders the jobs, assigns them to GPUs, improves the
// schedule by a search and verifies the result.
//
// Its files are layers: a solve as data (solve), what it may spend and what pays (limits, pays, charges), the answer
// with its proof and report (answer, proof, metrics, report), the parts of a solve (relaxations, improve, plans,
// concurrent_prices, branch, budget_ladder, method), what is left of an earlier plan (remainder*, moved), and on top
// Solve and Replan.
package solver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// SearchParts returns the searches, and parts of them, that an Ablation may name.
func SearchParts() []string { return greedy.SearchParts() }

// Solve returns the best certified pair of schedule and bound. A limit or the end of ctx
// is a termination, not an error; an error is a fault of the instance (hare.InvalidErrors), of the options or of this
// program.
func Solve(ctx context.Context, inst *hare.Instance, opt hare.Options, cfg Config) (*hare.Result, error) {
	s, err := newSolve(ctx, inst, opt, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Start != nil {
		if value, _, faults := verify.ScheduleValue(inst, cfg.Start); len(faults) == 0 {
			// A plan that the search cannot hold has another value.
			if p := greedy.FromSchedule(s.model, cfg.Start); p != nil && p.Value(s.model).Cmp(value) == 0 {
				s.start = p
			}
		}
	}
	return s.run()
}

func newSolve(ctx context.Context, inst *hare.Instance, opt hare.Options, cfg Config) (*solve, error) {
	inst = WithObjective(inst, opt.Objective)
	s := &solve{inst: inst, opt: Defaults(opt), cfg: cfg, began: time.Now(), parent: ctx}
	s.shownAt = s.began
	if err := CheckOptions(s.opt); err != nil {
		return nil, err
	}
	if err := inst.Validate(); err != nil {
		return nil, err
	}
	if err := checkPlaced(inst, s.opt); err != nil {
		return nil, err
	}
	var err error
	if s.method, err = findMethod(s.opt.Method, cfg.Methods); err != nil {
		return nil, err
	}
	if err := checkEngine(s.opt, cfg.LP); err != nil {
		return nil, err
	}
	if s.cfg.Restarts != nil {
		s.restarts = s.cfg.Restarts()
	}
	s.model = model.New(inst)
	if err := s.checkDetail(); err != nil {
		return nil, err
	}
	s.res = &hare.Result{
		InstanceSHA256: wire.SHA256(inst), Version: cfg.Version, Seed: s.opt.Seed, Status: hare.StatusSucceeded,
		Objective: inst.Objective, Options: s.opt, Engine: hare.Engine{HiGHS: cfg.EngineVersion},
	}
	if s.res.Version == "" {
		s.res.Version = "dev"
	}
	return s, nil
}

// ErrInfeasible says that a job can never run, so that there is no finite bound.
var ErrInfeasible = relax.ErrInfeasible

// InfeasibleError is ErrInfeasible with the jobs that can never run.
type InfeasibleError struct{ Reasons []hare.Reason }

func (ie *InfeasibleError) Error() string {
	r := ie.Reasons[0]
	return fmt.Sprintf("infeasible: %s: %s (%s)", r.Pointer, r.Detail, r.Code)
}

func (ie *InfeasibleError) Unwrap() error { return ErrInfeasible }

// Methods returns the methods that Bound and the option bound accept.
func Methods() []string { return relax.Methods() }

// Bound computes one relaxation. At the deadline of ctx, the price method returns the
// best prices so far.
func Bound(ctx context.Context, inst *hare.Instance, method string, cfg Config) (*hare.Relaxation, error) {
	return bound(ctx, inst, relax.Config{Method: method}, cfg)
}

// BoundExpected bounds the mean cost of every policy over the durations of jobs, by price
// (docs/reference/model.md, "Durations"). The bound has no certificate.
func BoundExpected(ctx context.Context, inst *hare.Instance, cfg Config) (*hare.Relaxation, error) {
	if inst.Objective == hare.ObjectiveMakespan {
		return nil, &hare.InvalidError{Pointer: "/objective", Code: "not_supported",
			Detail: "the mean of a makespan over durations is not bounded: bound the instance with the shortest durations"}
	}
	return bound(ctx, inst, relax.Config{Method: hare.MethodPrice, Expected: true}, cfg)
}

func bound(ctx context.Context, inst *hare.Instance, rc relax.Config, cfg Config) (*hare.Relaxation, error) {
	rc.LP, rc.Workers, rc.Steps = cfg.LP, cfg.Workers, 2
	if work := float64(cfg.BoundWork); work > 0 {
		rc.StepWork = stepWorkPerUnit * work
		rc.MaxLPs = lpsFor(work)
		if ascent := fullCalls * workPerCall * float64(len(inst.Jobs)); ascent > work {
			rc.Effort = work / ascent
		}
	}
	if err := inst.RefuseRules("the solver", knownRules); err != nil {
		return nil, err
	}
	if err := checkMethods(inst, hare.Options{Bound: rc.Method}); err != nil {
		return nil, err
	}
	m := model.New(inst)
	if inst.FirstRule(knownRules) == "" {
		if reasons := greedy.Infeasible(m); len(reasons) > 0 {
			return nil, &InfeasibleError{reasons}
		}
	}
	rel, err := relax.Run(ctx, m, rc)
	if errors.Is(err, relax.ErrNoEngine) {
		return nil, &hare.InvalidError{Pointer: "/method", Code: "no_lp_engine", Detail: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	if rel.Certificate != nil {
		rel.Certificate.InstanceSHA256 = wire.SHA256(inst)
	}
	return rel, nil
}

func (s *solve) run() (*hare.Result, error) {
	if reasons := greedy.Infeasible(s.model); len(reasons) > 0 {
		s.res.Termination, s.res.Reasons, s.res.Reproducible = hare.TerminationInfeasible, reasons, true
		s.res.Timing.Total = time.Since(s.began)
		return s.res, nil
	}
	s.setLimits()
	defer s.watchCancel()()
	work, cancel := s.context(1 - s.limits.reserve)
	defer cancel()
	if s.method != nil {
		if err := s.byMethod(work); err != nil {
			return nil, err
		}
	} else if err := s.firstSchedule(work); err != nil {
		return nil, err
	}
	guide, err := s.relaxations(work)
	if never := (*relax.NoRoomError)(nil); errors.As(err, &never) && s.incumbent == nil {
		s.res.Termination, s.res.Reasons, s.res.Reproducible = hare.TerminationInfeasible, s.noRoom(never), true
		s.res.Timing.Total = time.Since(s.began)
		return s.res, nil
	}
	if err != nil {
		return nil, err
	}
	if s.method == nil {
		s.assign(work, guide)
	}
	if s.climbs() && s.incumbent != nil {
		if err := s.climbLadder(work, guide); err != nil {
			return nil, err
		}
	}
	if s.incumbent == nil && s.method != nil {
		s.res.Termination = hare.TerminationNoSchedule
		return s.finish()
	}
	if s.incumbent == nil {
		s.res.Termination = hare.TerminationNoSchedule
		s.res.Reasons = append(s.res.Reasons, hare.Reason{Code: "no_schedule",
			Detail: "no feasible schedule was found; whether one exists is hard to decide when GPUs pause: lengthen the " +
				"windows or split the jobs"})
		return s.finish()
	}
	if s.climbs() {
		// The search has gone with the prices.
	} else if s.stability.chargesMoves() {
		whole := s.limits.reserve
		s.limits.reserve += stabilityShare * (1 - whole)
		work, cancel := s.context(1 - s.limits.reserve)
		s.improve(work, guide)
		cancel()
		s.limits.reserve = whole
	} else {
		s.improveAndBranch(work, guide)
	}
	if s.fault != nil {
		return nil, s.fault
	}
	if s.stability != nil {
		s.stability.choose(work, s)
	}
	return s.finish()
}

// noRoom says why a job can never run: there never is room for a round of the job, or never for long enough for all
// rounds.
func (s *solve) noRoom(never *relax.NoRoomError) []hare.Reason {
	i := slices.IndexFunc(s.inst.Jobs, func(j hare.Job) bool { return j.ID == never.Job })
	r := hare.Reason{Pointer: fmt.Sprintf("/jobs/%d", i), Job: never.Job}
	if never.Round {
		r.Pointer += "/tasks"
		r.Code, r.Detail = "never_together", "the GPUs that the job may use never have room for all tasks of a round that "+
			"must be there at once: widen windows of service, lower \"tasks\", or use sync relaxed"
	} else {
		r.Code, r.Detail = "window_too_short", "the nodes that the job may use never have room for all of its rounds: "+
			"lengthen windows of service, shorten reservations or the rounds, or add nodes"
	}
	return []hare.Reason{r}
}
