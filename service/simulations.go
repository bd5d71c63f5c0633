package service

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/policy"
	"github.com/hare-sched/hare/sim"
)

// ServedSimulations limits simulations that a Service runs: the largest take
// some hundreds of MiB.
var ServedSimulations = SimulationLimits{Runs: 1000, Jobs: 100_000, Sum: 1_000_000, Work: 10_000_000, GPUs: 100_000, Faults: 1_000_000, Matched: 1000}

// SimulationDeadline is the status of a simulation whose time passed: those of
// its runs that had ended are there.
const SimulationDeadline = hare.TerminationDeadline

// SimulationAnswer is what a Service found in the time that it had.
type SimulationAnswer struct {
	Status string `json:"status"` // succeeded or deadline
	Asked  int    `json:"asked"`  // runs that were asked for
	SimulationReport
}

// Simulate runs a simulation when there is a place for it, one run after the
// other. limit covers waiting and working; 0 is the service's own. ended is
// called with each run as it ends, in the order of the report, and progress now
// and then; either may be nil. Where the limit passes, the answer has the runs
// that ended before, and no means. Errors are those of Simulate and of the queue.
func (s *Service) Simulate(ctx context.Context, req *SimulationRequest, limit time.Duration, ended func(int, *SimulationRun) error, progress func(SimulationProgress)) (ans *SimulationAnswer, err error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if err := ServedSimulations.before(req); err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = s.cfg.MaxTime
	}
	deadline := time.Now().Add(limit)
	work, costs := simulationWork(req, limit), s.simulationCosts(req)
	a := admission{deadline: deadline, cost: costs.Predict(work)}
	a.trust, _ = costs.Error()
	if err := s.admit(a); err != nil {
		return nil, err
	}
	ctx, leave, err := s.await(ctx, s.queue.lineUp(a), nil)
	if err != nil {
		return nil, err
	}
	defer leave()
	began := time.Now()
	defer func() { s.watching().simulated(ctx, ans, time.Since(began), err) }()
	timed, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	ans = &SimulationAnswer{Status: hare.StatusSucceeded, Asked: len(req.Policies) * req.repeats()}
	var before []SimulationRun
	rep, err := Simulate(timed, req, SimulationConfig{
		Solver: s.cfg.Solver, Limits: ServedSimulations, Progress: progress,
		Ended: func(i int, r *SimulationRun) error {
			before = append(before, *r)
			if ended == nil {
				return nil
			}
			return ended(i, r)
		},
	})
	cut := err != nil && ctx.Err() == nil && errors.Is(timed.Err(), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded)
	switch {
	case cut:
		ans.Status, ans.Runs, err = SimulationDeadline, before, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	default:
		ans.SimulationReport = *rep
	}
	costs.Learn(work, time.Since(began), cut)
	return ans, nil
}

// SimulatedJob is one job of a run in JSON. What it does not have is null.
type SimulatedJob struct {
	ID          string   `json:"id"`
	Weight      float64  `json:"weight"`
	ArrivalS    float64  `json:"arrival_s"`
	StartS      *float64 `json:"start_s"`
	EndS        *float64 `json:"end_s"`
	JCTS        *float64 `json:"jct_s"`
	WaitS       *float64 `json:"wait_s"`
	Slowdown    *float64 `json:"slowdown"`
	Rho         *float64 `json:"rho"`
	Preemptions int64    `json:"preemptions"`
	State       string   `json:"state"`   // ended, dropped or unfinished
	Counted     bool     `json:"counted"` // it is in the window of jobs
}

// EachJob are the jobs of the run, by number.
func (r *SimulationRun) EachJob() []SimulatedJob {
	out := make([]SimulatedJob, len(r.Each))
	for i := range r.Each {
		x := r.jobRow(i)
		out[i] = SimulatedJob{x.JobID, x.Weight, x.ArrivalS, x.StartS, x.EndS, x.JCTS, x.WaitS, x.Slowdown, x.Rho, x.Preemptions, x.State, x.Counts}
	}
	return out
}

// SetEachJob is the inverse of EachJob.
func (r *SimulationRun) SetEachJob(jobs []SimulatedJob) {
	or := func(x *float64, none float64) float64 {
		if x == nil {
			return none
		}
		return *x
	}
	r.Each = make([]sim.JobFigures, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		r.Each[i] = sim.JobFigures{
			ID: j.ID, Weight: j.Weight, ArrivalS: j.ArrivalS, StartS: or(j.StartS, -1), EndS: or(j.EndS, -1),
			JCTS: or(j.JCTS, 0), WaitS: or(j.WaitS, 0), Slowdown: or(j.Slowdown, 0), Rho: or(j.Rho, 0),
			Preemptions: j.Preemptions, Dropped: j.State == "dropped", Counts: j.Counted,
		}
	}
}

// simulationCosts is the model of how long such simulations take: those with
// linear programs take so much longer that they have one of their own.
func (s *Service) simulationCosts(req *SimulationRequest) *Costs {
	for _, name := range req.Policies {
		if p, err := policy.Find(name); err == nil && p.Needs.LP {
			return s.programCosts
		}
	}
	return s.playCosts
}

// Beginnings of the models of simulations, beside firstModel, which is of solves.
const (
	playBegin    = -8
	programBegin = -5
)

// newCostsAt is NewCosts with another constant.
func newCostsAt(begin float64) *Costs {
	c := NewCosts()
	c.beta[0] = begin
	return c
}

// simulationWork sizes a simulation by what can be seen before it is read: a
// trace has a job a line.
func simulationWork(req *SimulationRequest, limit time.Duration) Work {
	w := Work{Options: hare.Options{TimeLimit: limit}}
	switch {
	case req.Instance != nil:
		w = WorkOf(req.Instance, w.Options)
	case req.Generate != nil:
		w.Jobs = float64(req.Generate.Jobs)
	default:
		var n lineCount
		if src, err := req.Trace.source(); err == nil {
			_, _ = io.Copy(&n, src.R) // memory, or a file of the program's own
		}
		w.Jobs = float64(n)
	}
	runs := float64(len(req.Policies) * req.repeats())
	w.Jobs, w.Tasks = w.Jobs*runs, w.Tasks*runs
	return w
}

// lineCount counts the lines that are written to it.
type lineCount int

func (n *lineCount) Write(b []byte) (int, error) {
	for _, c := range b {
		if c == '\n' {
			*n++
		}
	}
	return len(b), nil
}
