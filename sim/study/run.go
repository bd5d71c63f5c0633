package study

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// BuiltInLP is the name of the LP engine that is used where HiGHS does not run.
const BuiltInLP = "built-in simplex"

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

func (in *jobsInput) jobs() int {
	switch {
	case in.tasks != nil:
		return len(in.tasks.Jobs)
	case in.leases != nil:
		return len(in.leases.jobs)
	}
	return len(in.elastic.jobs)
}

func (s *series) input(repeat int) (*jobsInput, error) {
	if s.req.Generate == nil {
		repeat = 0
	}
	o := &s.inputs[repeat]
	o.once.Do(func() { o.in, o.err = s.req.input(s.infos, repeat) })
	return o.in, o.err
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

// playLeases runs a policy that leases GPUs.
func (s *series) playLeases(ctx context.Context, r *simulatedRun, info registry.Info,
	in *leaseInput) (*sim.Metrics, error) {
	cfg := leases.RunConfig{LeaseS: seconds(s.req.leaseUs()), ResetS: seconds(s.req.resetUs()),
		RestartS: seconds(s.req.restartUs()), Seed: r.run.Seed, First: int(s.req.First), Last: int(s.req.Last)}
	if cfg.ResetS == 0 {
		cfg.ResetS = -1
	}
	if err := s.req.disturbLeases(&cfg, in.nodes); err != nil {
		return nil, err
	}
	if info.Needs.PairRates {
		cfg.PairRates = func(a, b *leases.Job, k int) (float64, float64) {
			return in.rated.PairRates(a.Kind, b.Kind, a.GPUs, k)
		}
	}
	if s.cfg.Progress != nil {
		cfg.Progress = func(p sim.LeaseProgress) {
			s.progress(r, p.NowS, int64(p.Done), p.Rounds, false)
		}
	}
	with := leases.Config{Seed: r.run.Seed, Prices: s.req.priceByType()}
	parameters, err := s.req.parametersOf(info.Name)
	if err != nil {
		return nil, err
	}
	if parameters != nil {
		if with, err = info.Configure(with, parameters); err != nil {
			return nil, err
		}
		cfg.Fork = leases.Fork{MergeS: with.HadarE.MergeShare * cfg.LeaseS, Efficiency: with.HadarE.Efficiency}
	}
	lp := registry.Programs{Primary: s.cfg.Solver.LP}
	if info.Needs.LP {
		r.run.LP = BuiltInLP
		if lp.Primary != nil {
			with.Solver = &lp
			r.run.LP = "HiGHS " + s.cfg.Solver.EngineVersion
		}
	}
	out, err := leases.Run(ctx, info.Name, in.cluster, in.jobs, info.New(with), cfg)
	if err != nil {
		return nil, err
	}
	if lp.Fallbacks > 0 {
		r.run.LP = BuiltInLP
	}
	r.run.Rounds, r.run.Leases = out.Rounds, out.Leases
	return out.Metrics(in.cluster, in.jobs), nil
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
// jobs waiting for ever. The figures of the run are not kept.
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

// errRefused says that the verifier does not accept the schedule of a task policy.
var errRefused = errors.New("study: the recorded run does not pass the verifier")
