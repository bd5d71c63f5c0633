package study

import (
	"sync"

	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/solver"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// series is the state of one call of Simulate. Run i simulates policy i / repeats in
// repeat i mod repeats.
type series struct {
	req    *request
	cfg    Config
	infos  []registry.Info
	inputs []onceInput // by repeat; all repeats use the first where nothing is random
	runs   []simulatedRun

	mu    sync.Mutex // guards the fields below
	state simulatedoc.Progress
}

type onceInput struct {
	once sync.Once
	in   *jobsInput
	err  error
}

// simulatedRun is the outcome of a run, and how many of its jobs and events the
// progress includes.
type simulatedRun struct {
	run          Run
	err          error
	jobs, events int64
}

// progress adds the new jobs and events of run r to the progress and reports it.
func (s *series) progress(r *simulatedRun, nowS float64, jobs, events int64, done bool) {
	if s.cfg.Progress == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.state
	p.Policy, p.Seed, p.NowS = r.run.Policy, r.run.Seed, nowS
	p.JobsDone += jobs - r.jobs
	p.Events += events - r.events
	r.jobs, r.events = jobs, events
	if done {
		p.RunsDone++
	}
	s.cfg.Progress(*p)
}

// Config configures how simulations run. Apart from the LP engine, no field changes
// the results.
type Config struct {
	// Solver has the LP engine, its name, and the version for recorded results.
	Solver solver.Config
	// Parallel is how many runs are simulated at a time; zero means one.
	Parallel int
	// Timed adds the wall time of runs: WallS and JobsPerS.
	Timed bool
	// Progress is called from time to time, from one goroutine at a time. Nil means
	// that progress is not reported.
	Progress func(simulatedoc.Progress)
	// Limits refuses requests that are too large; the zero value limits nothing.
	Limits Limits
	// Record keeps the runs of task policies as results, in Run.Result.
	Record bool
	// Ended is called when a run has ended with figures, from one goroutine at a time,
	// with the run's index in the report. Ended must not keep the run. An error of
	// Ended ends the simulation. Ended may be nil.
	Ended func(int, *Run) error
}
