package service

import (
	"context"
	"errors"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/sim/study"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// simulationLimits limits simulations that a Service runs: the largest use some
// hundreds of MiB of memory.
var simulationLimits = study.Limits{Runs: 1000, Jobs: 100_000, Sum: 1_000_000, Work: 10_000_000, GPUs: 100_000,
	Faults: 1_000_000, Matched: 1000}

// Simulate waits for a slot and simulates the runs of req one after another. limit
// covers waiting and working; 0 means Config.MaxTime. ended is called with each run as
// it ends, in the order of the report, and progress from time to time; either may be
// nil. When the limit passes, the answer holds the runs that have ended, without means.
// Errors are those of study.Simulate and of the queue.
func (s *Service) Simulate(ctx context.Context, req *simulatedoc.Request, limit time.Duration,
	ended func(int, *study.Run) error, progress func(simulatedoc.Progress)) (ans *study.Answer, err error) {
	if err := study.Validate(req); err != nil {
		return nil, err
	}
	if err := simulationLimits.Check(req); err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = s.cfg.MaxTime
	}
	deadline := time.Now().Add(limit)
	work, costs := simulationWork(req, limit), s.simulationCosts(req)
	a := admission.Call{Deadline: deadline, Cost: costs.Predict(work)}
	a.ErrorFactor, _ = costs.Error()
	if err := s.admit(a); err != nil {
		return nil, err
	}
	ctx, leave, err := s.Await(ctx, s.queue.Enqueue(a), nil)
	if err != nil {
		return nil, err
	}
	defer leave()
	began := time.Now()
	defer func() { s.currentHooks().simulated(ctx, ans, time.Since(began), err) }()
	timed, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	ans = &study.Answer{Status: hare.StatusSucceeded, Asked: study.CountRuns(req), Report: *study.NewReport(req)}
	var before []study.Run
	rep, err := study.Simulate(timed, req, study.Config{
		Solver: s.cfg.Solver, Limits: simulationLimits, Progress: progress,
		Ended: func(i int, r *study.Run) error {
			before = append(before, *r)
			if ended == nil {
				return nil
			}
			return ended(i, r)
		},
	})
	cut := err != nil && ctx.Err() == nil && errors.Is(timed.Err(), context.DeadlineExceeded) &&
		errors.Is(err, context.DeadlineExceeded)
	switch {
	case cut:
		ans.Status, ans.Runs, err = study.StatusDeadline, before, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	default:
		ans.Report = *rep
	}
	costs.Learn(work, time.Since(began), cut)
	return ans, nil
}

// simulatedJobBytes is about what a job of a simulation takes, and runBytes what its figures in a run take until the
// report is written.
const (
	simulatedJobBytes = 3 << 10
	runBytes          = 400
)

// SimulationFootprint estimates the bytes of memory that a simulation within simulationLimits takes at most.
func SimulationFootprint(req *simulatedoc.Request) int64 {
	l := &simulationLimits
	jobs := int64(max(0, min(study.GuessJobs(req), l.Jobs)))
	clusters := hare.Instance{}
	for _, g := range req.GPUs {
		clusters.Cluster.Nodes = append(clusters.Cluster.Nodes, hare.Node{GPUs: []hare.TypeCount{g}})
	}
	if req.Cluster != nil {
		clusters.Cluster.Nodes = append(clusters.Cluster.Nodes, req.Cluster.Nodes...)
	}
	if req.Instance != nil {
		clusters.Cluster.Nodes = append(clusters.Cluster.Nodes, req.Instance.Cluster.Nodes...)
	}
	return jobs*simulatedJobBytes + min(jobs*int64(study.CountRuns(req)), int64(l.Sum))*runBytes +
		admission.Footprint(&clusters)
}

// simulationCosts returns the model that predicts how long a simulation takes.
// Simulations with linear programs take so much longer that they have a model of their
// own.
func (s *Service) simulationCosts(req *simulatedoc.Request) *admission.Costs {
	if study.NeedsLP(req) {
		return s.simLPCosts
	}
	return s.simCosts
}

// simulationWork estimates the size of a simulation before its trace is read.
func simulationWork(req *simulatedoc.Request, limit time.Duration) admission.Work {
	w := admission.Work{Options: hare.Options{TimeLimit: limit}}
	if req.Instance != nil {
		w = admission.WorkOf(req.Instance, w.Options)
	} else {
		w.Jobs = float64(study.GuessJobs(req))
	}
	runs := float64(study.CountRuns(req))
	w.Jobs, w.Tasks = w.Jobs*runs, w.Tasks*runs
	return w
}
