package relax

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
)

// Methods of Run beside the certified ones of package hare.
const (
	MethodQueyranne = "queyranne" // the paper's relaxation, repaired (docs/design.md, section 2.1); not certified
	MethodPaper     = "paper"     // as printed; proves nothing
)

// Methods lists what Run accepts.
func Methods() []string {
	return []string{hare.MethodPrice, hare.MethodCriticalPath, hare.MethodMachine, MethodQueyranne, MethodPaper}
}

// ErrInfeasible says that some job can never run a round, so that no finite
// bound exists.
var ErrInfeasible = errors.New("relax: a job can never run")

// LP is an engine for linear programs.
type LP = lp.Solver

// Config tunes Run. The zero value is good.
type Config struct {
	Method string // zero means price
	// LP solves linear programs: needed by queyranne and paper, and used by
	// price to close the last of its gap. Nil means the Go engine alone.
	LP LP
	// Workers is the number of goroutines; zero means GOMAXPROCS. The result
	// does not depend on it.
	Workers int
	// LPs limits the linear programs of the price method; zero means 60, less
	// means none.
	LPs int
	// Effort multiplies the price method's iterations; zero means 1.
	Effort float64
	// Worth ends each grid of the price method when a step raises the bound by
	// less than this share of it, on 96 cells and in proportion on others; zero
	// makes all steps.
	Worth float64
	// Cells is the finest grid of the price method: 12, 24, 48, 96, 192, 384 or 768,
	// or the next below; zero means 96.
	Cells int
	// From gives prices to start from, of the same instance or one like it;
	// nil starts from a guess. It saves most of the coarse grids.
	From *hare.Relaxation
	// Plan is the share of synchronisation charged as compute. A relaxation
	// with Plan > 0 guides schedules and bounds nothing.
	Plan float64
	// Steps is how much work the price method spends on bounding relaxed jobs
	// round by round: 0 none, 1 at the final prices, 2 small instances choose
	// their prices for it too.
	Steps int
	// StepWork limits that work for one evaluation of all jobs, by the terms
	// that may have to be looked at: some 4e8 a second on one core. Choosing
	// prices takes climbShare times as much. Zero is no limit but relax's own.
	StepWork float64
	// NoSizes leaves prices by size out.
	NoSizes bool
	// Report is called with the price method's value in weight-seconds
	// whenever it rises.
	Report func(value float64)
	// Improved is called with a certified relaxation at the end of each grid
	// of the price method but the last; nil saves the evaluations.
	Improved func(*hare.Relaxation)
	// Quit, once closed, ends what the end of ctx does not: the exact evaluation
	// of the bound. What is returned is not certified then. Nil never is.
	Quit <-chan struct{}
	// Due says whether Improved is wanted now: what it is called with costs an
	// exact evaluation. Nil means always.
	Due func() bool
}

func (c *Config) validate() error {
	if c.Method == "" {
		c.Method = hare.MethodPrice
	}
	if c.Effort == 0 {
		c.Effort = 1
	}
	if c.Cells == 0 {
		c.Cells = usual
	}
	if c.Effort < 0 || c.Cells < 0 || c.Plan < 0 || c.Plan > 1 || c.Workers < 0 || c.Steps < 0 || c.StepWork < 0 {
		return fmt.Errorf("relax: effort %g, cells %d, plan %g, workers %d, steps %d: must not be negative, plan at most 1", c.Effort, c.Cells, c.Plan, c.Workers, c.Steps)
	}
	return nil
}

// Run relaxes the instance by one method. When ctx ends, price returns the
// best prices so far; the other methods return the context's error.
func Run(ctx context.Context, m *hare.Model, cfg Config) (*hare.Relaxation, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	pr, ok := newProblem(m, cfg.Plan)
	if !ok {
		return nil, ErrInfeasible
	}
	if cfg.NoSizes {
		pr.dropSizes()
	}
	switch cfg.Method {
	case hare.MethodPrice:
		return pr.price(ctx, &cfg), nil
	case hare.MethodCriticalPath:
		return pr.criticalPath(), nil
	case hare.MethodMachine:
		return pr.machine(ctx)
	case MethodQueyranne, MethodPaper:
		return pr.queyranne(ctx, &cfg)
	}
	return nil, fmt.Errorf("relax: unknown method %q", cfg.Method)
}

// price runs the multigrid ascent and evaluates its best prices exactly.
func (pr *problem) price(ctx context.Context, cfg *Config) *hare.Relaxation {
	if len(pr.jobs) == 0 {
		rel := &hare.Relaxation{Method: hare.MethodPrice, Progress: [][]hare.Point{}}
		return certified(rel, &hare.Certificate{GridUs: []int64{0, 1}}, new(big.Rat))
	}
	if cfg.Steps > 0 && cfg.Plan == 0 {
		pr.step = pr.stepOf()
	}
	ev := newEvaluator(pr, cfg.Workers)
	report := func(v float64) {
		if cfg.Report != nil {
			cfg.Report(v * unit)
		}
	}
	a := climbAll(ctx, ev, cfg, report)
	if cfg.Plan == 0 {
		if cfg.Steps > 1 {
			a.climbSteps(ctx, cfg, report)
		}
		a.polish(ctx, cfg, report)
	}
	rel := a.relaxation()
	if cfg.Plan == 0 {
		step := pr.step
		if step > 0 && cfg.StepWork > 0 && pr.stepWork(a.grid[len(a.grid)-1]) > cfg.StepWork {
			step = 0
		}
		a.certify(ctx, cfg, rel, step)
	}
	if a.short && a.before == nil && cfg.From != nil && len(cfg.From.Progress) == len(pr.jobs) {
		rel.Progress = cfg.From.Progress
	}
	return rel
}

// relaxation is the fractional schedule and the prices, without a bound.
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
	for from.short && from.before != nil {
		from = from.before
	}
	for i := range pr.jobs {
		rel.Progress = append(rel.Progress, pr.polyline(i, from.grid, from.progress))
	}
	return rel
}

// certify completes rel with what the best prices prove, relaxed jobs round by
// round at the step given where that pays. The evaluation is short and runs to
// its end whatever ctx says, since without it there is no bound at all; only
// Quit ends it.
func (a *ascent) certify(ctx context.Context, cfg *Config, rel *hare.Relaxation, step int64) {
	ev, pr := a.ev, a.ev.pr
	nanos := pr.nanoRows(ev.compose(a.best))
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if cfg.Quit != nil {
		go func() {
			select {
			case <-cfg.Quit:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	bound, err := ev.exactBound(ctx, rel.GridUs, nanos, step)
	if err != nil {
		return
	}
	cert := &hare.Certificate{Path: true, GridUs: rel.GridUs}
	for k, t := range pr.model.Types {
		cert.Prices = append(cert.Prices, hare.TypePrices{Type: t, Nanos: nanos[k]})
	}
	cert.Sizes = pr.sizePrices(nanos)
	cert.StepUs = ev.stated
	for i := range pr.jobs {
		rel.Phi = append(rel.Phi, (ev.phi[i]-pr.jobs[i].w*pr.jobs[i].a)*unit)
	}
	for _, c := range ev.capacity {
		rel.Capacity = append(rel.Capacity, c*unit)
	}
	certified(rel, cert, bound)
}

// certified completes a relaxation whose bound, in 1e-15 weight-seconds on the
// weighted JCT, its certificate proves.
func certified(rel *hare.Relaxation, cert *hare.Certificate, bound *big.Rat) *hare.Relaxation {
	rel.Certified = true
	rel.Bound = ratAmount(bound)
	cert.Method = rel.Method
	cert.Objective = hare.ObjectiveWeightedJCT
	cert.Bound = rel.Bound.Bound6()
	rel.Certificate = cert
	return rel
}

// polyline turns averaged rounds a cell into progress over time.
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
		// Rounds of a cell are done evenly in the part of it after the release.
		start := max(grid[g], j.a)
		end := start
		if g+1 < len(grid) {
			end = grid[g+1]
		} else {
			end += j.rounds * j.modes[len(j.modes)-1].d
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
