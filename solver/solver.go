// Package solver turns an instance into a certified schedule under one
// deadline: bound, order, assign, improve, verify.
package solver

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// Phases of a solve, in order.
const (
	PhaseAssign  = "assign"  // a first schedule
	PhaseBound   = "bound"   // prices for the certificate
	PhasePlan    = "plan"    // prices for the search
	PhaseImprove = "improve" // search
	PhaseVerify  = "verify"  // the independent check
)

// Event is the state of a running solve.
type Event struct {
	Phase   string
	Elapsed time.Duration
	Left    time.Duration // until the deadline; negative without one
	Value   *hare.Amount  // of the incumbent; nil without one
	Bound   *hare.Amount  // best so far; nil without one
}

// Config is what the caller provides beside the options. The zero value works.
type Config struct {
	// LP is the linear-programming engine; nil means none.
	LP relax.LP
	// EngineVersion names the LP engine in results.
	EngineVersion string
	// Version of Hare; zero means "dev".
	Version string
	// Workers limits goroutines; zero means GOMAXPROCS.
	Workers int
	// BoundWork limits what Bound spends, in units of the option work_limit, so
	// that the same limit gives the same bound; zero is no limit.
	BoundWork int64
	// Progress is called from the solving goroutine, at most every 50 ms and
	// at each change of phase; nil means nobody looks.
	Progress func(Event)
	// Checkpoint is called often from the solving goroutine, once there is a
	// schedule, with a function that builds the verified result of the best pair
	// so far, good for the time of the call. Calling that costs about what the
	// end of a solve does, which a time limit feels; it changes nothing else of
	// what is answered. Nil means nobody asks.
	Checkpoint func(best func() (*hare.Result, error))
	// Warm has prices of the same instance or of one like it, which the bound
	// starts from; nil means none. It decides how soon a bound is good, never
	// whether it is true.
	Warm *hare.Certificate
	// Start is a schedule of the instance that the search begins with where its
	// own first one is no better; nil means none. One that breaks a constraint is
	// passed over.
	Start *hare.Schedule
	// Without switches parts off, to measure what each is worth.
	Without Without
	// Restarts counts the LP worker's restarts so far: a solve during which it
	// moved is not reproducible. Nil means 0.
	Restarts func() int64
}

// Without names the parts of a solve that may be left out.
type Without struct {
	Sizes    bool // prices by size for gang and rigid jobs
	Steps    bool // relaxed jobs bounded round by round
	FineGrid bool // grids of more than 96 cells
	Worth    bool // ascents that end when they bring little
	Plan     bool // prices of their own for the search
	Warm     bool // the plan's ascent from the bound's prices
	Prices   bool // prices in the search
	Search   bool
}

// Solve answers with the best certified pair of schedule and bound. A limit or
// the end of ctx is a termination, not an error; an error is a fault of the
// options or of this program.
func Solve(ctx context.Context, inst *hare.Instance, opt hare.Options, cfg Config) (*hare.Result, error) {
	s, err := newSolve(ctx, inst, opt, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Start != nil {
		if _, _, faults := verify.ScheduleValue(inst, cfg.Start); len(faults) == 0 {
			s.start = greedy.FromSchedule(s.model, cfg.Start)
		}
	}
	return s.run()
}

func newSolve(ctx context.Context, inst *hare.Instance, opt hare.Options, cfg Config) (*solve, error) {
	s := &solve{inst: inst, opt: Defaults(opt), cfg: cfg, began: time.Now(), parent: ctx}
	s.toldAt = s.began
	if err := CheckOptions(s.opt); err != nil {
		return nil, err
	}
	if s.cfg.Restarts != nil {
		s.restarts = s.cfg.Restarts()
	}
	s.model = hare.NewModel(inst)
	if err := s.checkDetail(); err != nil {
		return nil, err
	}
	s.res = &hare.Result{
		InstanceSHA256: wire.SHA256(inst), Version: cfg.Version, Seed: s.opt.Seed, Status: hare.StatusSucceeded,
		Objective: hare.ObjectiveWeightedJCT, Options: s.opt, Engine: hare.Engine{HiGHS: cfg.EngineVersion},
	}
	if s.res.Version == "" {
		s.res.Version = "dev"
	}
	return s, nil
}

// ErrInfeasible says that a job can never run, so that no finite bound exists.
var ErrInfeasible = relax.ErrInfeasible

// InfeasibleError is ErrInfeasible with the jobs that can never run.
type InfeasibleError struct{ Reasons []hare.Reason }

func (e *InfeasibleError) Error() string {
	r := e.Reasons[0]
	return fmt.Sprintf("infeasible: %s: %s (%s)", r.Pointer, r.Detail, r.Code)
}

func (e *InfeasibleError) Unwrap() error { return ErrInfeasible }

// Methods lists what Bound and the option bound accept.
func Methods() []string { return relax.Methods() }

// Bound computes one relaxation. Price stops at the deadline of ctx with the
// best prices so far.
func Bound(ctx context.Context, inst *hare.Instance, method string, cfg Config) (*hare.Relaxation, error) {
	rc := relax.Config{Method: method, LP: cfg.LP, Workers: cfg.Workers, Steps: 2}
	if work := float64(cfg.BoundWork); work > 0 {
		rc.StepWork = stepWorkPerUnit * work
		if rc.MaxLPs = int(work / workPerLP); rc.MaxLPs == 0 {
			rc.MaxLPs = -1
		}
		if ascent := callsFull * workPerCall * float64(len(inst.Jobs)); ascent > work {
			rc.Effort = work / ascent
		}
	}
	m := hare.NewModel(inst)
	if reasons := greedy.Infeasible(m); len(reasons) > 0 {
		return nil, &InfeasibleError{reasons}
	}
	rel, err := relax.Run(ctx, m, rc)
	if err != nil {
		return nil, err
	}
	if rel.Certificate != nil {
		rel.Certificate.InstanceSHA256 = wire.SHA256(inst)
	}
	return rel, nil
}

// solve is one run.
type solve struct {
	inst     *hare.Instance
	model    *hare.Model
	opt      hare.Options
	cfg      Config
	parent   context.Context // of the caller: its end is a cancellation
	began    time.Time
	restarts int64
	res      *hare.Result

	limits    limits
	incumbent *greedy.Plan
	value     hare.Amount
	best      proven // bound
	shown     proven // on the way there
	fault     error  // a bound was not proved: a defect
	cut       bool   // the clock or the caller ended something
	clocked   bool   // the clock or the number of cores paced something
	lastEvent time.Time
	toldAt    time.Time       // when a bound on the way was told
	proving   time.Duration   // what proving that took
	quit      context.Context // ends when the caller cancels
	phase     string

	start  *greedy.Plan // of the caller; nil without one
	settle *settling    // nil but for plans for the rest of an earlier one
}

func (s *solve) run() (*hare.Result, error) {
	if reasons := greedy.Infeasible(s.model); len(reasons) > 0 {
		s.res.Termination, s.res.Reasons, s.res.Reproducible = hare.TerminationInfeasible, reasons, true
		s.res.Timing.Total = time.Since(s.began)
		return s.res, nil
	}
	s.plan()
	defer s.untilCancelled()()
	work, cancel := s.context(1 - s.limits.reserve)
	defer cancel()
	if err := s.first(work); err != nil {
		return nil, err
	}
	guide, err := s.relaxations(work)
	if err != nil {
		return nil, err
	}
	s.assign(work, guide)
	if s.incumbent == nil {
		s.res.Termination = hare.TerminationNoSchedule
		s.res.Reasons = append(s.res.Reasons, hare.Reason{Code: "no_schedule", Detail: "no feasible schedule was found; whether one exists is hard to decide when GPUs pause: lengthen the windows or split the jobs"})
		return s.finish()
	}
	if s.settle.prices() {
		whole := s.limits.reserve
		s.limits.reserve += settleShare * (1 - whole)
		work, cancel := s.context(1 - s.limits.reserve)
		s.improve(work, guide)
		cancel()
		s.limits.reserve = whole
	} else {
		s.improve(work, guide)
	}
	if s.settle != nil {
		s.settle.choose(work, s)
	}
	return s.finish()
}

// context ends when the share of the time limit is over.
func (s *solve) context(share float64) (context.Context, context.CancelFunc) {
	if s.opt.TimeLimit == 0 {
		return context.WithCancel(s.parent)
	}
	return context.WithDeadline(s.parent, s.began.Add(time.Duration(share*float64(s.opt.TimeLimit))))
}

// relaxations finds the certified bound and the guide of the search.
func (s *solve) relaxations(ctx context.Context) (guide *hare.Relaxation, err error) {
	s.event(PhaseBound, true)
	began := time.Now()
	defer func() { s.res.Timing.Relax = time.Since(began) }()
	background := context.WithoutCancel(ctx)
	for _, method := range []string{hare.MethodCriticalPath, hare.MethodMachine} {
		rel, err := relax.Run(background, s.model, relax.Config{Method: method, Workers: s.cfg.Workers})
		if err != nil {
			return nil, fmt.Errorf("bound: %w", err)
		}
		s.keep(rel)
		if method == s.opt.Order {
			guide = rel
		}
	}
	for _, method := range []string{s.opt.Bound, s.opt.Order} {
		if method != relax.MethodQueyranne && method != relax.MethodPaper || guide != nil && guide.Method == method {
			continue
		}
		rel, err := relax.Run(ctx, s.model, relax.Config{Method: method, LP: s.cfg.LP, Workers: s.cfg.Workers})
		switch {
		case err == nil:
			s.keep(rel)
			if method == s.opt.Order {
				guide = rel
			}
		case ctx.Err() == nil && s.cfg.LP == nil:
			return nil, &hare.InvalidError{Pointer: "/options/bound", Code: "no_lp_engine", Detail: err.Error()}
		default:
			s.cut = true
		}
	}
	if (s.opt.Bound == hare.MethodPrice || s.opt.Order == hare.MethodPrice) && !s.limits.unpriced {
		share, cancel := s.context(s.limits.boundShare)
		rel := s.price(share, 0, s.limits.boundEffort, s.limits.cells, warm(s.model, s.cfg.Warm))
		cancel()
		s.keep(rel)
		if s.opt.Order == hare.MethodPrice {
			guide = rel
			// Without relaxed jobs the prices are the same, but on a coarser
			// grid more steps are averaged to an order.
			if s.searches() && ctx.Err() == nil && !s.cfg.Without.Plan {
				s.event(PhasePlan, true)
				from := rel
				if s.cfg.Without.Warm {
					from = nil
				}
				share, cancel := s.context(s.limits.planShare)
				guide = s.price(share, s.limits.beta, s.limits.planEffort, s.limits.planCells, from)
				cancel()
				s.keep(guide)
			}
			if s.cfg.Without.Prices && guide != nil {
				blind := *guide
				blind.GridUs, blind.Prices = nil, nil
				guide = &blind
			}
		}
	}
	return guide, s.fault
}

// price finds prices, from those of another relaxation if there is one.
func (s *solve) price(ctx context.Context, beta, effort float64, cells int, from *hare.Relaxation) *hare.Relaxation {
	// Its effort depends on the number of cores then.
	s.clocked = s.clocked || s.opt.TimeLimit > 0
	var improved func(*hare.Relaxation)
	if s.cfg.Progress != nil || s.cfg.Checkpoint != nil {
		// Only shown: what is answered must not depend on who looks.
		improved = func(rel *hare.Relaxation) {
			s.show(rel)
			s.toldAt = time.Now()
			s.event(s.phase, true)
		}
	}
	rel, err := relax.Run(ctx, s.model, relax.Config{
		Improved: improved, WantImproved: s.due, Quit: s.quit.Done(), LP: s.cfg.LP, Workers: s.cfg.Workers, SyncAsCompute: beta, Effort: effort, WarmStart: from, MinGain: s.limits.worth, Cells: cells, Steps: s.limits.steps, StepWork: s.limits.stepWork, MaxLPs: s.limits.lps, NoSizes: s.cfg.Without.Sizes,
		Report: func(float64) { s.event(s.phase, false) },
	})
	if ctx.Err() != nil {
		s.cut = true
	}
	if err != nil {
		return nil
	}
	return rel
}

// reached says that the gap asked for is met.
func (s *solve) reached() bool {
	gap, ok := gapOf(s.value, s.best.rel)
	target := new(big.Rat)
	target.SetFloat64(s.opt.Gap)
	return ok && gap.Cmp(target) <= 0
}

func gapOf(value hare.Amount, bound *hare.Relaxation) (*big.Rat, bool) {
	if bound == nil {
		return nil, false
	}
	b := bound.Bound.RoundDown()
	if value.Cmp(b) == 0 {
		return new(big.Rat), true
	}
	if b.Sign() <= 0 {
		return nil, false
	}
	gap := new(big.Rat).SetFrac(value.Big(), b.Big())
	return gap.Sub(gap, big.NewRat(1, 1)), true
}

// finish verifies the pair and says why the solve stopped.
func (s *solve) finish() (*hare.Result, error) {
	s.event(PhaseVerify, true)
	began := time.Now()
	r := s.res
	if s.cancelled() {
		s.takeShown()
	}
	if r.Bound = s.best.amount(); r.Bound != nil {
		r.Certificate = s.best.rel.Certificate
	}
	if s.incumbent != nil {
		sched, err := s.incumbent.Schedule(s.model)
		if err != nil {
			return nil, fmt.Errorf("solver: %w", err)
		}
		v := s.incumbent.Value(s.model)
		s.value = v
		r.Schedule, r.Value = sched, &v
		if s.opt.Detail == "tasks" {
			r.TaskList = sched.Tasks(s.inst, hare.MaxTaskObjects)
		}
		s.describe()
		r.GapReport = s.report()
		s.terminate()
		// A plan for the rest of another is checked when its replan object is there.
		if s.settle == nil {
			if rep := s.best.proof.Check(s.inst, r); !rep.OK {
				return nil, fmt.Errorf("solver: %w: %s", ErrUnverified, rep)
			}
		}
	}
	r.Timing.Verify = time.Since(began)
	r.Reproducible = !s.cut && !s.clocked && (s.cfg.Restarts == nil || s.cfg.Restarts() == s.restarts)
	r.Timing.Total = time.Since(s.began)
	return r, nil
}

// ErrUnverified means that this program made a schedule or a bound that its
// own verifier refuses: a defect, and nothing is answered.
var ErrUnverified = errors.New("the result did not pass verification")

func (s *solve) terminate() {
	r := s.res
	gap, ok := gapOf(s.value, s.best.rel)
	target := new(big.Rat)
	target.SetFloat64(s.opt.Gap)
	switch {
	case ok && gap.Sign() == 0:
		r.Termination = hare.TerminationOptimal
	case ok && gap.Cmp(target) <= 0:
		r.Termination = hare.TerminationGap
	case s.cancelled():
		r.Termination, s.cut = hare.TerminationCancelled, true
	case s.cut:
		r.Termination = hare.TerminationDeadline
	default:
		r.Termination = hare.TerminationWorkLimit
	}
}

// event reports the state; now asks for it whatever the last one's age.
func (s *solve) event(phase string, now bool) {
	s.phase = phase
	if phase != PhaseImprove && phase != PhaseVerify {
		s.offer(nil) // the search offers plans of its own
	}
	if s.cfg.Progress == nil {
		return
	}
	t := time.Now()
	if !now && t.Sub(s.lastEvent) < 50*time.Millisecond {
		return
	}
	s.lastEvent = t
	e := Event{Phase: phase, Elapsed: t.Sub(s.began), Left: -1}
	if s.opt.TimeLimit > 0 {
		e.Left = max(0, s.opt.TimeLimit-e.Elapsed)
	}
	if s.incumbent != nil {
		v := s.value
		e.Value = &v
	}
	e.Bound = s.best.amount()
	if !s.best.beats(s.shown.rel) {
		e.Bound = s.shown.amount()
	}
	s.cfg.Progress(e)
}
