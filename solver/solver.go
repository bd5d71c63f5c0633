// Package solver turns an instance into a schedule with a certified bound under one
// deadline. A solve bounds the instance, orders the jobs, assigns them to GPUs, improves the
// schedule by a search and verifies the result.
package solver

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// These are the phases of a solve, in order. With enough time PhasePlan comes before PhaseBound.
const (
	PhaseAssign  = "assign"  // makes a first schedule
	PhaseBound   = "bound"   // finds prices for the certificate
	PhasePlan    = "plan"    // finds prices for the search
	PhaseImprove = "improve" // runs the search
	PhaseBranch  = "branch"  // divides the schedules into cases, to prove the best one optimal
	PhaseVerify  = "verify"  // runs the independent check
)

// Event is the state of a running solve.
type Event struct {
	Phase   string
	Elapsed time.Duration
	Left    time.Duration // the time until the deadline; negative without a deadline
	Value   *hare.Amount  // the value of the incumbent; nil without one
	Bound   *hare.Amount  // the best bound so far; nil without one
	Nodes   int           // the nodes of the tree of PhaseBranch so far
}

// Config holds the settings beside the options. Its zero value is useful.
type Config struct {
	// LP is the linear-programming engine, as of package relax/highs; nil means none.
	LP relax.LP
	// EngineVersion names the LP engine in results.
	EngineVersion string
	// Version is the version of Hare; empty means "dev".
	Version string
	// Workers limits the number of goroutines; zero means GOMAXPROCS.
	Workers int
	// BoundWork limits the work of Bound in units of the option work_limit, so that the same
	// limit gives the same bound. Zero means no limit.
	BoundWork int64
	// Progress is called from the solving goroutine, at most every 50 ms and at each change
	// of phase. It may be nil.
	Progress func(Event)
	// Checkpoint is called often from the solving goroutine, once there is a schedule. Its
	// argument builds the verified result of the best pair so far and may be used only
	// during the call. To call it costs about as much as the end of a solve, which shortens
	// the search under a time limit; nothing else of the answer changes. Checkpoint may be
	// nil.
	Checkpoint func(best func() (*hare.Result, error))
	// WarmPrices has prices of the same instance or of a similar one, from which the bound
	// starts; nil means none. WarmPrices influences how soon a bound is good, never whether
	// it is true.
	WarmPrices *hare.Certificate
	// Start is a schedule of the instance from which the search begins if its own first
	// schedule is no better; nil means none. A schedule that breaks a constraint is ignored.
	Start *hare.Schedule
	// Methods are what the option method may name.
	Methods []Method
	// Ablation turns parts off, to measure what each is worth.
	Ablation Ablation
	// Restarts returns the number of restarts of the LP workers so far. A solve during which
	// the number grows is not reproducible. Nil means 0.
	Restarts func() int64
}

// Ablation names the parts of a solve that may be turned off.
type Ablation struct {
	Sizes         bool // prices by size for gang and rigid jobs
	Steps         bool // bounding relaxed jobs round by round
	FineGrid      bool // grids of more than 96 cells
	MinGain       bool // ending ascents that gain little
	PlanPrices    bool // separate prices for the search
	PlanWarmStart bool // starting the plan's ascent from the bound's prices
	SearchPrices  bool // prices in the search
	Search        bool
	Branch        bool // branch and bound of small instances of rigid jobs
	// SearchParts names searches and parts of searches, as greedy.SearchParts does, with commas between them.
	SearchParts string
}

// WithoutSearchPart turns one of the searches or their parts off as well.
func (ab *Ablation) WithoutSearchPart(name string) {
	ab.SearchParts = strings.TrimPrefix(ab.SearchParts+","+name, ",")
}

// searchParts returns the searches and parts of searches that are off.
func (ab *Ablation) searchParts() []string {
	return strings.FieldsFunc(ab.SearchParts, func(r rune) bool { return r == ',' })
}

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

// WithObjective returns the instance with an objective in place of its own, or the instance
// itself where objective is "".
func WithObjective(inst *hare.Instance, objective string) *hare.Instance {
	if objective == "" || objective == inst.Objective {
		return inst
	}
	other := *inst
	other.Objective = objective
	return &other
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
		if rc.MaxLPs = int(work / workPerLP); rc.MaxLPs == 0 {
			rc.MaxLPs = -1
		}
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

// solve is one call of Solve or Replan.
type solve struct {
	inst     *hare.Instance
	model    *model.Model
	opt      hare.Options
	cfg      Config
	parent   context.Context // the caller's context: its end is a cancellation
	began    time.Time
	restarts int64
	res      *hare.Result

	limits    limits
	incumbent *greedy.Plan
	value     hare.Amount
	best      proven           // the best bound
	priced    *hare.Relaxation // the best certified bound by prices; nil without one
	shown     proven           // the best bound on the way
	fault     error            // a bound could not be proved, which is a defect
	cut       bool             // the clock or the caller ended some work
	clocked   bool             // the clock, the number of cores or a failing LP engine influenced some work
	lastEvent time.Time
	listTime  time.Duration   // the time that the first list schedule of a large instance took
	shownAt   time.Time       // when a bound on the way was shown
	proofTime time.Duration   // the time that its proof took
	quit      context.Context // ends when the caller cancels
	phase     string
	treeNodes int           // of branch and bound
	beside    *besidePrices // nil but while prices are found beside the search

	start     *greedy.Plan     // the caller's schedule; nil without one
	method    *Method          // makes the plan in place of the search; nil for the search
	made      *hare.Schedule   // by method; nil before
	stability *stabilitySearch // only for plans for the rest of an earlier plan, else nil
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
	if s.rungs() && s.incumbent != nil {
		if err := s.climbRungs(work, guide); err != nil {
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
	if s.rungs() {
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

// context returns a context that ends when the share of the time limit is over.
func (s *solve) context(share float64) (context.Context, context.CancelFunc) {
	if s.opt.TimeLimit == 0 {
		return context.WithCancel(s.parent)
	}
	return context.WithDeadline(s.parent, s.began.Add(time.Duration(share*float64(s.opt.TimeLimit))))
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

// gapReached reports whether the requested gap is met.
func (s *solve) gapReached() bool {
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

// finish verifies the pair and records why the solve stopped.
func (s *solve) finish() (*hare.Result, error) {
	s.event(PhaseVerify, true)
	began := time.Now()
	r := s.res
	if s.cancelled() {
		s.adoptShownBound()
	}
	if r.Bound = s.best.amount(); r.Bound != nil {
		r.Certificate = s.best.rel.Certificate
	}
	if s.incumbent != nil {
		sched := s.made
		if sched == nil {
			var err error
			if sched, err = s.incumbent.Schedule(s.model); err != nil {
				return nil, fmt.Errorf("solver: %w", err)
			}
		}
		v := s.incumbent.Value(s.model)
		s.value = v
		r.Schedule, r.Value = sched, &v
		if constant, ok := greedy.Constant(s.model); ok {
			r.Constant = &constant
		}
		if s.opt.Detail == "tasks" {
			r.TaskList = sched.Tasks(s.inst, hare.MaxTaskObjects)
		}
		s.describe()
		r.GapReport = s.report()
		s.terminate()
		// A plan for the rest of another plan is checked when its replan object is complete.
		if s.stability == nil {
			if rep := s.best.proof.Check(s.inst, r); !rep.OK {
				return nil, fmt.Errorf("solver: %w: %s", ErrUnverified, rep)
			}
		}
	}
	r.Timing.Verify = time.Since(began)
	r.Reproducible = !s.cut && !s.clocked && (s.cfg.Restarts == nil || s.cfg.Restarts() == s.restarts)
	r.Estimated = s.inst.Uncertain()
	r.Timing.Total = time.Since(s.began)
	return r, nil
}

// ErrUnverified means that the independent verifier refuses a schedule or bound of this
// program. This is a defect, and Solve returns no result.
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
	case s.method != nil:
		r.Termination = hare.TerminationMethod
	default:
		r.Termination = hare.TerminationWorkLimit
	}
}

// event reports the state; if now is true, it reports however recent the last report is.
func (s *solve) event(phase string, now bool) {
	s.phase = phase
	if phase != PhaseImprove && phase != PhaseVerify {
		s.offerCheckpoint(nil) // the search offers its own plans
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
	if phase == PhaseBranch {
		e.Nodes = s.treeNodes
	}
	s.takeShown()
	e.Bound = s.best.amount()
	if !s.best.atLeast(s.shown.rel) {
		e.Bound = s.shown.amount()
	}
	s.cfg.Progress(e)
}
