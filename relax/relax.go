package relax

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/model"
)

// These are the methods of Run beside the certified ones of package hare.
const (
	MethodQueyranne = "queyranne" // the paper's relaxation, repaired (docs/inside/design.md, section 2.1); not certified
	MethodPaper     = "paper"     // the paper's relaxation as printed, which proves nothing
)

// Methods returns the methods that Run accepts.
func Methods() []string {
	return []string{hare.MethodPrice, hare.MethodCriticalPath, hare.MethodMachine, MethodQueyranne, MethodPaper}
}

// ErrInfeasible says that some job can never run a round, so that there is no finite
// bound.
var ErrInfeasible = errors.New("relax: a job can never run")

// NoRoomError is ErrInfeasible for a job that never finds room, for one round or for all of its rounds.
type NoRoomError struct {
	Job   string
	Round bool   // whether there never is room for one round; else there never is for long enough for all rounds
	why   string // why there is no room for a round; "" where no words are at hand
}

func (nr *NoRoomError) Error() string {
	switch {
	case nr.why != "":
		return fmt.Sprintf("%v: %s", ErrInfeasible, nr.why)
	case nr.Round:
		return fmt.Sprintf("%v: job %q: there never is room for a round", ErrInfeasible, nr.Job)
	}
	return fmt.Sprintf("%v: job %q: its nodes never have room for long enough", ErrInfeasible, nr.Job)
}

func (nr *NoRoomError) Unwrap() error { return ErrInfeasible }

// LP solves linear programs.
type LP = lp.Solver

// ErrNoEngine says that a method needs the LP engine, and that there is none.
var ErrNoEngine = errors.New("needs the LP engine (HiGHS), which is not running: take another method, " +
	"or see hare doctor")

// NeedsEngine returns an error that wraps ErrNoEngine where the method needs an LP engine and this one is nil, or
// knows that it does not run.
func NeedsEngine(method string, engine LP) error {
	if method != MethodQueyranne && method != MethodPaper {
		return nil
	}
	if known, ok := engine.(interface{ Available() bool }); engine == nil || ok && !known.Available() {
		return fmt.Errorf("%s %w", method, ErrNoEngine)
	}
	return nil
}

// UsesEngine reports whether a method solves linear programs. MethodPrice also does without an engine.
func UsesEngine(method string) bool {
	return method == hare.MethodPrice || method == MethodQueyranne || method == MethodPaper
}

// Config tunes Run. Its zero value is useful.
type Config struct {
	Method string // zero means price
	// LP solves linear programs. queyranne and paper need it, and price uses it to close the
	// last of its gap. Nil means that price uses no LP.
	LP LP
	// Workers is the number of goroutines; zero means GOMAXPROCS. The result
	// does not depend on it.
	Workers int
	// MaxLPs limits the linear programs of the price method. Zero means 60; a negative
	// number means none.
	MaxLPs int
	// Effort multiplies the price method's iterations; zero means 1.
	Effort float64
	// MinGain ends each grid of the price method when a step raises the bound by less than
	// this share of it, on 96 cells and in proportion on others. Zero makes all steps.
	MinGain float64
	// Cells is the finest grid of the price method: 12, 24, 48, 96, 192, 384 or 768, or the
	// next below. Zero means 96.
	Cells int
	// WarmStart gives prices to start from, of the same instance or a similar one. It saves
	// most of the coarse grids. Nil starts from a guess.
	WarmStart *hare.Relaxation
	// SyncAsCompute is the share of synchronisation that is charged as compute. A relaxation
	// with SyncAsCompute > 0 guides schedules and bounds nothing.
	SyncAsCompute float64
	// IdleCharge is the share of its use that each relaxed job pays in addition, for GPUs that rounds
	// of unequal lengths leave idle between them. It may be positive only with SyncAsCompute > 0.
	IdleCharge float64
	// Steps says how much work the price method spends on bounding relaxed jobs round by
	// round: 0 none, 1 at the final prices, 2 also for choosing the prices of small
	// instances.
	Steps int
	// StepWork limits the work of bounding round by round in one evaluation of all jobs, by
	// the terms that may have to be examined: some 4e8 a second on one core. Choosing prices
	// may take stepWorkFactor times as much. Zero means no limit but relax's own.
	StepWork float64
	// Expected bounds the mean cost over the durations of jobs instead of the cost at the times as
	// they are written. The relaxation then has no certificate and is not certified.
	Expected bool
	// NoSizes turns off prices by size.
	NoSizes bool
	// Report is called with the value of the price method in weight-seconds whenever the
	// value rises.
	Report func(value float64)
	// Improved is called with a certified relaxation at the end of each grid of the price
	// method but the last. Nil saves the evaluations.
	Improved func(*hare.Relaxation)
	// Rounded replaces the exact evaluation of the price method's bound, which takes longer
	// than some steps of its ascent, by one in floats that is lowered by far more than their
	// error. The relaxation then has no certificate and is not certified.
	Rounded bool
	// Quit ends the exact evaluation of the bound once it is closed; the end of ctx does
	// not. The returned relaxation is then not certified. A nil channel never ends the
	// evaluation.
	Quit <-chan struct{}
	// WantImproved reports whether Improved should be called now, at the cost of an exact
	// evaluation. Nil means always.
	WantImproved func() bool
}

func (c *Config) validate() error {
	if c.Method == "" {
		c.Method = hare.MethodPrice
	}
	if c.Effort == 0 {
		c.Effort = 1
	}
	if c.Cells == 0 {
		c.Cells = defaultCells
	}
	if c.Effort < 0 || c.Cells < 0 || c.SyncAsCompute < 0 || c.SyncAsCompute > 1 || c.Workers < 0 || c.Steps < 0 ||
		c.StepWork < 0 || c.IdleCharge < 0 || c.IdleCharge > 0 && c.SyncAsCompute == 0 {
		return fmt.Errorf("relax: effort %g, cells %d, plan %g, idle %g, workers %d, steps %d: must not be negative, plan "+
			"at most 1, idle 0 without plan", c.Effort, c.Cells, c.SyncAsCompute, c.IdleCharge, c.Workers, c.Steps)
	}
	return nil
}

// Run relaxes the instance by one method. When ctx ends, price returns the
// best prices so far; the other methods return the context's error.
func Run(ctx context.Context, m *model.Model, cfg Config) (*hare.Relaxation, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Expected {
		return runExpected(ctx, m, cfg)
	}
	pr, ok := newPlanProblem(m, cfg.SyncAsCompute, cfg.IdleCharge)
	if !ok {
		return nil, pr.infeasible
	}
	switch {
	case cfg.NoSizes:
		pr.dropSizes()
	case cfg.Method == hare.MethodPrice && cfg.SyncAsCompute == 0:
		pr.addPools()
	}
	switch cfg.Method {
	case hare.MethodPrice:
		if m.Instance.Objective == hare.ObjectiveMakespan {
			return pr.makespan(ctx, &cfg), nil
		}
		return pr.price(ctx, &cfg), nil
	case hare.MethodCriticalPath:
		return pr.withFixed(pr.criticalPath()), nil
	case hare.MethodMachine:
		if m.Instance.Objective == hare.ObjectiveMakespan {
			return nil, fmt.Errorf("relax: the objective makespan has no bound by %s: use %s or %s", cfg.Method,
				hare.MethodPrice, hare.MethodCriticalPath)
		}
		rel, err := pr.machine(ctx)
		if err != nil {
			return nil, err
		}
		return pr.withFixed(rel), nil
	case MethodQueyranne, MethodPaper:
		if m.Instance.Objective != hare.ObjectiveWeightedJCT {
			return nil, fmt.Errorf("relax: %s does not go by the objective %s: use %s", cfg.Method,
				m.Instance.Objective, hare.MethodPrice)
		}
		if slices.ContainsFunc(m.Jobs, func(j model.Job) bool { return j.Shapes != nil }) {
			return nil, fmt.Errorf("relax: %s does not go by shapes: use %s, %s or %s", cfg.Method, hare.MethodPrice,
				hare.MethodMachine, hare.MethodCriticalPath)
		}
		if m.Placed {
			return nil, fmt.Errorf("relax: %s does not go by nodes: use %s, %s or %s", cfg.Method, hare.MethodPrice,
				hare.MethodMachine, hare.MethodCriticalPath)
		}
		return pr.queyranne(ctx, &cfg)
	}
	return nil, fmt.Errorf("relax: unknown method %.60q%s The methods are %s", cfg.Method,
		cmp.Or(hare.Guess(cfg.Method, Methods()), "."), strings.Join(Methods(), ", "))
}

// price runs the multigrid ascent and evaluates its best prices exactly.
func (pr *problem) price(ctx context.Context, cfg *Config) *hare.Relaxation {
	if len(pr.jobs) == 0 {
		rel := pr.withFixed(&hare.Relaxation{Method: hare.MethodPrice, Progress: [][]hare.Point{}})
		return pr.certified(rel, &hare.Certificate{GridUs: []int64{0, 1}}, new(big.Rat))
	}
	if cfg.Steps > 0 && cfg.SyncAsCompute == 0 {
		if pr.step = pr.chooseStep(); pr.model.Placed && !pr.stepsPay() {
			pr.step = 0
		}
	}
	ev := newEvaluator(pr, cfg.Workers)
	report := func(v float64) {
		if cfg.Report != nil {
			cfg.Report(v * unit)
		}
	}
	a := multigridAscent(ctx, ev, cfg, report)
	if cfg.SyncAsCompute == 0 {
		if cfg.Steps > 1 {
			a.climbWithSteps(ctx, cfg, report)
		}
		a.polish(ctx, cfg, report)
		a.dropPools(ctx)
	}
	rel := a.relaxation()
	switch {
	case cfg.SyncAsCompute > 0:
	case cfg.Rounded:
		rel.Bound = a.roundedBound()
	default:
		step := pr.step
		if step > 0 {
			if work := pr.stepWork(a.grid[len(a.grid)-1]); work == 0 || cfg.StepWork > 0 && work > cfg.StepWork {
				step = 0
			}
		}
		a.certify(ctx, cfg, rel, step)
	}
	if a.tooShort && a.coarser == nil && cfg.WarmStart != nil && len(cfg.WarmStart.Progress) == len(pr.model.Jobs) {
		rel.Progress = cfg.WarmStart.Progress
	}
	return rel
}

// relaxation returns the fractional schedule and the prices, without a bound.
func (a *ascent) relaxation() *hare.Relaxation {
	pr := a.ev.pr
	rel := &hare.Relaxation{Method: hare.MethodPrice, Prices: pr.mean(a.best)}
	for _, t := range a.best.grid {
		rel.GridUs = append(rel.GridUs, int64(t))
	}
	for _, row := range rel.Prices {
		for g := range row {
			row[g] *= 1e-9
		}
	}
	from := a
	for from.tooShort && from.coarser != nil {
		from = from.coarser
	}
	for i := range pr.jobs {
		rel.Progress = append(rel.Progress, pr.polyline(i, from.grid, from.progress))
	}
	return pr.withFixed(rel)
}

// roundedMargin is how much a bound in floats is lowered, as a share of the terms that it
// is made of. The cost of a job is wrong by at most 1e-9 of itself; see exactMargin.
const roundedMargin = 1e-7

// roundedBound is what the best prices prove, by floats.
func (a *ascent) roundedBound() hare.Amount {
	terms := math.Abs(a.value) + 2*a.ev.pr.wa + 2*a.ev.pr.setWeights(a.best.moved)
	for k, row := range a.best.at {
		for g, price := range row {
			terms += 2 * a.caps[k][g] * price
		}
	}
	bound := new(big.Rat)
	if v := a.value - roundedMargin*terms; v > 0 && !math.IsInf(v, 0) {
		bound.SetFloat64(v)
	}
	return ratAmount(bound)
}

// certify completes rel with what the best prices prove; relaxed jobs are bounded round
// by round at the given step if that pays. The evaluation is short and continues after
// the end of ctx, because without it there is no bound at all; only Quit ends it.
func (a *ascent) certify(ctx context.Context, cfg *Config, rel *hare.Relaxation, step int64) {
	ctx, cancel := evaluation(ctx, cfg)
	defer cancel()
	if ctx.Err() != nil {
		return
	}
	ev, pr := a.ev, a.ev.pr
	nanos := pr.integerPrices(ev, a.best)
	micro, gain := pr.setExactWeights(a.best.moved)
	ev.moved = gain
	bound, err := ev.exactBound(ctx, rel.GridUs, nanos, step)
	if err != nil {
		return
	}
	cert := pr.certificateOf(rel.GridUs, nanos)
	cert.StepUs, cert.After = ev.statedStep, pr.afterWeights(micro)
	for i := range pr.jobs {
		if len(cert.After) > 0 || pr.model.Instance.Objective != hare.ObjectiveWeightedJCT {
			break // Phi explains the gap of w C alone
		}
		rel.Phi = append(rel.Phi, (ev.phi[i]-pr.jobs[i].w*pr.jobs[i].a)*unit)
	}
	for _, c := range ev.capacity {
		rel.Capacity = append(rel.Capacity, c*unit)
	}
	pr.certified(rel, cert, bound)
}

// evaluation returns a context that ends with Quit alone, and at once where Quit has ended.
func evaluation(ctx context.Context, cfg *Config) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	select {
	case <-cfg.Quit: // never where Quit is nil
		cancel()
	default:
	}
	if cfg.Quit != nil {
		go func() {
			select {
			case <-cfg.Quit:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

// integerPrices rounds prices to those of a certificate: of types and sizes, then of pools.
func (pr *problem) integerPrices(ev *evaluator, pi *prices) [][]int64 {
	nanos := pr.nanoRows(ev.composeTop(pi))
	if len(pr.pools.list) > 0 {
		_, limits := pr.limits()
		inPools := pr.pools.nanos(pi, limits)
		pr.prohibit(inPools, pi.grid, limits)
		nanos = append(nanos, inPools...)
	}
	return nanos
}

// certificateOf returns the grid and the prices of a certificate.
func (pr *problem) certificateOf(grid []int64, nanos [][]int64) *hare.Certificate {
	cert := &hare.Certificate{Path: true, GridUs: grid, Pools: pr.certificatePools(nanos)}
	for k, t := range pr.model.Types {
		cert.Prices = append(cert.Prices, hare.TypePrices{Type: t, Nanos: nanos[k]})
	}
	cert.Sizes = pr.sizePrices(nanos)
	return cert
}

// certified completes a relaxation with its certificate and the bound that the
// certificate proves, in 1e-15 weight-seconds.
func (pr *problem) certified(rel *hare.Relaxation, cert *hare.Certificate, bound *big.Rat) *hare.Relaxation {
	rel.Certified = true
	rel.Bound = ratAmount(bound)
	cert.Method = rel.Method
	cert.Objective = pr.model.Instance.Objective
	cert.Bound = rel.Bound.Bound6()
	rel.Certificate = cert
	return rel
}

// polyline turns the averaged rounds of each cell into progress over time.
func (pr *problem) polyline(i int, grid []float64, cells [][]float64) []hare.Point {
	j := &pr.jobs[i]
	points := []hare.Point{{TimeUs: j.a}}
	if cells == nil || len(cells[i]) == 0 {
		return append(points, hare.Point{TimeUs: j.path, Rounds: j.rounds})
	}
	sum := 0.0
	for _, x := range cells[i] {
		sum += x
	}
	if sum <= 0 {
		return append(points, hare.Point{TimeUs: j.path, Rounds: j.rounds})
	}
	done := 0.0
	for g, x := range cells[i] {
		if x <= 1e-9*sum {
			continue
		}
		// The rounds of a cell are done evenly in the part of the cell after the release.
		start := max(grid[g], j.a)
		end := start
		if g+1 < len(grid) {
			end = grid[g+1]
		} else {
			end += j.rounds * j.modes[len(j.modes)-1].each
		}
		if last := &points[len(points)-1]; start > last.TimeUs {
			points = append(points, hare.Point{TimeUs: start, Rounds: last.Rounds})
		}
		done += x
		points = append(points, hare.Point{TimeUs: end, Rounds: min(j.rounds, done/sum*j.rounds)})
	}
	points[len(points)-1].Rounds = j.rounds
	return points
}
