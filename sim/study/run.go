package study

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// Simulate simulates the jobs of req under each of its policies, Repeat times. Runs
// are independent, so Parallel changes nothing but the time that Simulate takes.
// If runs fail, Simulate returns the error of the first failed run in the order of the
// report, and no report. Errors are hare.InvalidErrors or *hare.InvalidError
// about the request, *RunError about a run, and the error of ctx.
func Simulate(ctx context.Context, doc *simulatedoc.Request, cfg Config) (*Report, error) {
	req := (*request)(doc)
	if err := Validate(doc); err != nil {
		return nil, err
	}
	if err := cfg.Limits.Check(doc); err != nil {
		return nil, err
	}
	s := &series{req: req, cfg: cfg}
	for _, name := range req.Policies {
		info, err := registry.Find(name)
		if err != nil {
			return nil, err
		}
		s.infos = append(s.infos, info)
	}
	repeats := req.repeats()
	s.inputs = make([]onceInput, repeats)
	first, err := s.input(0)
	if err != nil {
		return nil, err
	}
	if err := cfg.Limits.checkInput(req, first); err != nil {
		return nil, err
	}
	s.state = simulatedoc.Progress{Runs: int64(len(s.infos) * repeats)}
	s.runs = make([]simulatedRun, len(s.infos)*repeats)
	s.state.Jobs = s.state.Runs * int64(first.jobs())
	if err := s.runAll(ctx); err != nil {
		return nil, err
	}
	rep := NewReport(doc)
	rep.Notes = slices.Concat(first.notes, first.speedNote(), req.worldNote(), req.parametersNote(), s.sharedNote(first),
		req.sizesNote(first, s.infos))
	rep.Played = &simulatedoc.Played{Jobs: req.jobsText(), Cluster: first.clusterText(), Seed: uint64(req.Seed)}
	if req.Generate == nil {
		rep.Instance = first.tasks
	}
	for i := range s.runs {
		rep.Runs = append(rep.Runs, s.runs[i].run)
	}
	if repeats > 1 {
		rep.Means = meansOf(rep.Runs, repeats)
	}
	if rep.Bound, err = s.bound(ctx, first, rep.Runs); err != nil {
		return nil, err
	}
	return rep, nil
}

// runAll starts all runs in the order of the report, as workers are free. After the
// first failure no further run begins. The runs before the failed one in the report
// continue to their end, so that the error does not depend on timing.
func (s *series) runAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	var mu sync.Mutex
	next, failed := 0, len(s.runs)
	for range max(1, min(s.cfg.Parallel, len(s.runs))) {
		workers.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= failed
				mu.Unlock()
				if stop || i >= len(s.runs) {
					return
				}
				if err := s.simulate(ctx, i); err != nil {
					mu.Lock()
					s.runs[i].err = err
					failed = min(failed, i)
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	for i := range s.runs {
		if err := s.runs[i].err; err != nil {
			return err
		}
	}
	return ctx.Err()
}

// simulate simulates run i.
func (s *series) simulate(ctx context.Context, i int) (err error) {
	// A run has a goroutine of its own, where a panic would end the process.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("study: a simulation panicked: %v\n%s", p, debug.Stack())
		}
	}()
	repeat := i % s.req.repeats()
	info := s.infos[i/s.req.repeats()]
	in, err := s.input(repeat)
	if err != nil {
		return err
	}
	r := &s.runs[i]
	r.run = Run{Run: simulatedoc.Run{Policy: info.Name, Engine: string(info.Engine),
		Knows: string(info.KnowsOf(s.req.estimates())),
		Seed:  uint64(s.req.Seed) + uint64(repeat)}}
	began := time.Now()
	var m *sim.Metrics
	switch info.Engine {
	case registry.Task:
		m, err = s.playTasks(ctx, r, info, in)
	case registry.Elastic:
		m, err = s.playElastic(ctx, r, info, in.elastic)
	case registry.Shared:
		m, err = s.playShared(ctx, r, info, in.shared)
	default:
		m, err = s.playLeases(ctx, r, info, in.leases)
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return s.runError(r, err)
	}
	r.run.fill(m)
	if s.req.CDF {
		r.run.CDF = cdfOf(m.JCTsS)
	}
	if s.cfg.Timed {
		took := time.Since(began).Seconds()
		rate := float64(len(m.Each)) / took
		r.run.WallS, r.run.JobsPerS = &took, &rate
	}
	s.progress(r, m.TotalS, int64(in.jobs()), max(r.run.Events, r.run.Rounds), true)
	if s.cfg.Ended == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Ended(i, &r.run)
}

// runError returns the error of a run as a fault of the request or as a *RunError.
func (s *series) runError(r *simulatedRun, err error) error {
	code := "failed"
	var invalid *hare.InvalidError
	if errors.As(err, &invalid) { // a fault of the request
		return invalid
	}
	var decision *sim.DecisionError
	var allocation *sim.AllocationError
	switch {
	case errors.As(err, &decision), errors.As(err, &allocation):
		code = codeInfeasibleDecision
	case errors.Is(err, sim.ErrStalled):
		code = "stalled"
	case errors.Is(err, policies.ErrInfeasible):
		code = "infeasible"
	case errors.Is(err, leases.ErrTooLarge):
		code = "too_large"
	case errors.Is(err, errRefused):
		code = "refused"
	case errors.Is(err, errMoved):
		code = "not_in_model"
	}
	return &RunError{Policy: r.run.Policy, Seed: r.run.Seed, Code: code, Err: err}
}

// fill copies the figures of m to r.
func (run *Run) fill(m *sim.Metrics) {
	run.Jobs, run.Dropped = int64(m.Jobs), int64(m.Dropped)
	run.MeanJCTS, run.WeightedMeanJCTS, run.WeightedJCTS = m.MeanJCTS, m.WeightedMeanJCTS, m.WeightedJCTS
	run.P50JCTS, run.P90JCTS, run.P99JCTS = m.P50JCTS, m.P90JCTS, m.P99JCTS
	run.MeanWaitS, run.P99WaitS, run.MeanSlowdown, run.P99Slowdown = m.MeanWaitS, m.P99WaitS, m.MeanSlowdown,
		m.P99Slowdown
	run.MeanRho, run.WorstRho, run.Jain = m.MeanRho, m.WorstRho, m.Jain
	run.TotalS, run.MakespanS, run.Utilization = m.TotalS, m.MakespanS, m.Utilization
	run.Switches, run.SwitchS, run.Preemptions = m.Switches, m.SwitchS, m.Preemptions
	run.LostTasks, run.Failures, run.LostS, run.DownS = m.LostTasks, m.Failures, m.LostS, m.DownS
	run.UtilizationByType = map[string]float64{}
	for _, u := range m.Use {
		run.UtilizationByType[u.Type] = u.Use
	}
	run.Figures = m.Each
}

// RunError says that a run failed: its policy made an infeasible decision, or left
// jobs waiting forever. The figures of the run are not kept.
type RunError struct {
	Policy string
	Seed   uint64
	Code   string // infeasible_decision, stalled, infeasible, too_large, not_in_model, refused or failed
	Err    error
}

func (e *RunError) Error() string {
	if e.Code == codeInfeasibleDecision { // this error names the policy, the time and the GPU itself
		return e.Err.Error()
	}
	return fmt.Sprintf("policy %s, seed %d: %v", e.Policy, e.Seed, e.Err)
}

// Unwrap returns Err.
func (e *RunError) Unwrap() error { return e.Err }

const codeInfeasibleDecision = "infeasible_decision"

func (s *series) input(repeat int) (*jobsInput, error) {
	if s.req.Generate == nil {
		repeat = 0
	}
	o := &s.inputs[repeat]
	o.once.Do(func() { o.in, o.err = s.req.input(s.infos, repeat) })
	return o.in, o.err
}
