package study

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// progressEvents is the number of events after which a run of a task policy reports
// its progress.
const progressEvents = 1 << 16

// playTasks runs a task policy, and verifies the recorded schedule.
func (s *series) playTasks(ctx context.Context, r *simulatedRun, info registry.Info,
	in *jobsInput) (*sim.Metrics, error) {
	inst, run := in.tasks, sim.Run
	if in.merged != nil {
		inst, run = in.merged.Inst, func(ctx context.Context, _ *hare.Instance, p online.Policy,
			cfg sim.Config) (*sim.Outcome, error) {
			return in.merged.Run(ctx, p, cfg)
		}
	}
	parameters, err := s.req.parametersOf(info.Name)
	if err != nil {
		return nil, err
	}
	p, err := info.NewTask(ctx, inst, policies.Config{LP: s.cfg.Solver.LP, Seed: int64(r.run.Seed),
		Rolling:    rolling.Config{Aside: s.req.PlanLatencyUs > 0},
		Parameters: parameters, Estimates: s.req.estimates()})
	var fault *hare.InvalidError
	if parameters != nil && errors.As(err, &fault) {
		return nil, invalidAt(string(jsontext.Pointer("/parameters").AppendToken(info.Name))+fault.Pointer, fault.Code, "%s",
			fault.Detail)
	}
	if err != nil {
		return nil, err
	}
	simCfg := sim.Config{Name: info.Name, Window: sim.Window{First: int(s.req.First), Last: int(s.req.Last)}}
	if err := s.req.disturbTasks(&simCfg, r.run.Seed); err != nil {
		return nil, err
	}
	if s.cfg.Progress != nil {
		ended := int64(0)
		simCfg.Log = func(rec wire.Record) error {
			if rec.Event.Type == hare.EventJobEnded {
				ended++
			}
			if rec.Event.Seq%progressEvents == 0 {
				s.progress(r, float64(rec.Event.AtUs)/1e6, ended, rec.Event.Seq, false)
			}
			return nil
		}
	}
	out, err := run(ctx, inst, p, simCfg)
	if err != nil {
		return nil, err
	}
	r.run.Events, r.run.Tasks = out.Events, out.Tasks
	if !s.req.Stragglers {
		if err := s.verify(r, in.tasks, out); err != nil {
			return nil, err
		}
	}
	return out.Metrics(in.tasks), nil
}

// verify passes the schedule of a run to the verifier.
func (s *series) verify(r *simulatedRun, inst *hare.Instance, out *sim.Outcome) error {
	res, err := out.Result(inst, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errMoved, err)
	}
	if rep := verify.Check(inst, res); !rep.OK {
		return fmt.Errorf("%w: %s", errRefused, rep)
	}
	r.run.Verified = true
	if s.cfg.Record {
		res.Version, res.Seed = s.cfg.Solver.Version, int64(r.run.Seed)
		r.run.Result, r.run.Instance = res, inst
	}
	return nil
}

// errMoved says that a run left the model: a rigid job moved to other GPUs, which a
// schedule cannot express and the verifier cannot check.
var errMoved = errors.New("study: the run is not in the model")

// errRefused says that the verifier does not accept the schedule of a task policy.
var errRefused = errors.New("study: the recorded run does not pass the verifier")
