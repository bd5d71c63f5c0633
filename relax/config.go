package relax

import (
	"errors"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
)

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
	// MaxLPs limits the linear programs of the price method. Zero means 60, and 120 where
	// jobs are relaxed; a negative number means none.
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

// These are the methods of Run beside the certified ones of package hare.
const (
	MethodQueyranne = "queyranne" // the paper's relaxation, repaired (docs/inside/design.md, section 2.1); not certified
	MethodPaper     = "paper"     // the paper's relaxation as printed, which proves nothing
)

// Methods returns the methods that Run accepts.
func Methods() []string {
	return []string{hare.MethodPrice, hare.MethodCriticalPath, hare.MethodMachine, MethodQueyranne, MethodPaper}
}

// defaultCells is the finest grid if the configuration names none.
const defaultCells = 96
