package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/sim/capacity"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// These limit the plans of capacity that a Service makes: of a drawn week as simulationLimits do a simulation, and of
// all runs the memory of their figures. The time limit bounds the rest.
const (
	capacityRuns = 20_000
	capacityGPUs = 500_000
)

// CapacityFootprint estimates the bytes of memory that a plan of capacity takes at most, and refuses requests that are
// wrong or too large. Errors are hare.InvalidErrors and *hare.InvalidError.
func (s *Service) CapacityFootprint(req *capacitydoc.Request) (int64, *capacity.Size, error) {
	size, err := capacity.SizeOf(req)
	if err != nil {
		return 0, nil, err
	}
	large := func(pointer, format string, args ...any) (int64, *capacity.Size, error) {
		return 0, nil, &hare.InvalidError{Pointer: pointer, Code: "too_large", Detail: fmt.Sprintf(format, args...)}
	}
	l := &simulationLimits
	switch {
	case size.Runs > capacityRuns:
		return large("/weeks", "weeks, options and policies make %d runs: at most %d are allowed here", size.Runs,
			capacityRuns)
	case size.Jobs > float64(l.Jobs):
		return large("/instance/jobs", "a drawn week has about %.0f jobs, with its days of warm-up and growth: at most %d "+
			"are allowed here", size.Jobs, l.Jobs)
	case size.Tasks > float64(l.Work):
		return large("/instance/jobs", "the jobs of a drawn week have more than %d tasks, which are simulated one by one",
			l.Work)
	case size.GPUs > capacityGPUs:
		return large("/options", "the clusters that are compared have %d GPUs together, at most %d are allowed here",
			size.GPUs, capacityGPUs)
	case size.Jobs > float64(l.Matched) && slices.Contains(append(req.Policies, req.Now), "sched_allox"):
		return large("/policies", "a drawn week has about %.0f jobs: at most %d are allowed here for sched_allox, which "+
			"matches all that wait at each change", size.Jobs, l.Matched)
	}
	// What is kept of a run is its figures and how many jobs wait at each hour; drawn weeks are made for each run.
	workers := int64(s.workers())
	solve := admission.Footprint(&hare.Instance{Jobs: req.Instance.Jobs[:min(size.SolveJobs, len(req.Instance.Jobs))]})
	return int64(len(req.Instance.Jobs)+int(size.Jobs)*int(workers))*simulatedJobBytes + workers*solve +
		int64(size.Runs)*(runBytes+8*int64(size.Hours)) + size.GPUs*capacityGPUBytes, size, nil
}

// proofShare is by how much the time of a plan is divided for what is proved of all schedulers, which comes first: the
// rest plays weeks.
const proofShare = 3

// capacityGPUBytes is about what a GPU takes of a cluster that is compared.
const capacityGPUBytes = 1200

// PlanCapacity waits for a slot and makes a plan of capacity of a size that CapacityFootprint returned. limit covers
// waiting and working; 0 means Config.MaxTime. When it passes, the report has the rows that were played, and says so.
// first is called with the first that is certain, and progress from time to time; either may be nil. Errors are those
// of capacity.Plan and of the queue.
func (s *Service) PlanCapacity(ctx context.Context, req *capacitydoc.Request, size *capacity.Size,
	first func(capacitydoc.Certain), progress func(part string, done float64)) (*capacity.Report, error) {
	limit := req.TimeLimit
	if limit == 0 {
		limit = s.cfg.MaxTime
	}
	runs := float64(size.Runs)
	work := admission.Work{Jobs: size.Jobs * runs, Tasks: size.Tasks * runs,
		Options: hare.Options{TimeLimit: limit}}
	a := admission.Call{Deadline: time.Now().Add(limit), Cost: s.capacityCosts.Predict(work)}
	a.ErrorFactor, _ = s.capacityCosts.Error()
	if err := s.admit(a); err != nil {
		return nil, err
	}
	ctx, leave, err := s.Await(ctx, s.queue.Enqueue(a), nil)
	if err != nil {
		return nil, err
	}
	defer leave()
	began := time.Now()
	timed, cancel := context.WithDeadline(ctx, a.Deadline)
	defer cancel()
	rep, err := capacity.Plan(timed, req, capacity.Config{Parallel: s.workers(), Progress: progress,
		Version: s.Version(), Proof: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Until(a.Deadline)/proofShare)
		}}, first)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	}
	s.capacityCosts.Learn(work, time.Since(began), rep.Status == capacitydoc.StatusDeadline)
	return rep, nil
}
