package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// GapConfig says what RunGap measures.
type GapConfig struct {
	Cases []GapCase
	// Limits are used for cases that name none.
	Limits []time.Duration
	// WorkLimit limits Hare's runs by work in place of time, so that each machine finds the same; zero means time.
	WorkLimit int64
	// Seed is the seed of Hare's search and of CP-SAT's.
	Seed int64
	// Solver holds the LP engine and the number of workers; CP-SAT gets as many workers.
	Solver solver.Config
	// CPSAT runs beside Hare with the same limits and workers. Nil means that it does not
	// run.
	CPSAT *CPSAT
	// LPLimit is the time for one interval LP, solved by LP. Zero means that none is solved.
	LPLimit time.Duration
	LP      lp.Solver
	// Progress is called before each run and Row after each run. Both may be nil.
	Progress func(GapProgress)
	Row      func(*GapRow)
	// Known are the best values and bounds by the hash of the instance; rows say how far they are from
	// them. Nil means that none are known.
	Known map[string]*Best
}

// GapProgress says what runs next.
type GapProgress struct {
	Done, Total   int
	Name          string        // the name of the instance
	Method, Model string        // as in rows
	Limit         time.Duration // the limit of the run
	Left          time.Duration // the time for this run and the others if every limit is used up
}

// gapRun is one step of a plan of runs.
type gapRun struct {
	c             *GapCase
	method, model string
	limit         time.Duration
}

// RunGap measures the cases one after another, each limit in a run of its own. When ctx
// ends, RunGap drops the current run and keeps the others.
func RunGap(ctx context.Context, cfg GapConfig) (*GapReport, error) {
	rep := &GapReport{Version: cfg.Solver.Version, HiGHS: cfg.Solver.EngineVersion, Machine: machine(),
		Workers: cfg.Solver.Workers, Seed: cfg.Seed, WorkLimit: cfg.WorkLimit}
	var runs []gapRun
	for i := range cfg.Cases {
		some, err := cfg.runsOf(&cfg.Cases[i])
		if err != nil {
			return rep, err
		}
		runs = append(runs, some...)
	}
	var left time.Duration
	for _, r := range runs {
		left += r.limit
	}
	var inst *hare.Instance
	var sha string
	var made *GapCase
	for i, r := range runs {
		if ctx.Err() != nil {
			break
		}
		if made != r.c {
			var err error
			if inst, err = r.c.instance(); err != nil {
				return rep, err
			}
			made, sha = r.c, wire.SHA256(inst)
		}
		if cfg.Progress != nil {
			cfg.Progress(GapProgress{Done: i, Total: len(runs), Name: r.c.Name, Method: r.method, Model: r.model,
				Limit: r.limit, Left: left})
		}
		left -= r.limit
		row := &GapRow{Instance: r.c.Name, Cell: r.c.Cell, Jobs: len(inst.Jobs), GPUs: len(model.New(inst).GPUs),
			SHA256: sha,
			Method: r.method, Model: r.model, LimitS: r.limit.Seconds()}
		var err error
		switch r.method {
		case GapHare:
			err = cfg.hare(ctx, inst, r.limit, row)
		case GapIntervalLP:
			err = cfg.intervalLP(ctx, inst, r.limit, row)
		case GapCPSAT:
			err = cfg.CPSAT.run(ctx, inst, r.limit, cfg.Solver.Workers, cfg.Seed, row)
		}
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return rep, fmt.Errorf("%s: %s: %w", r.c.Name, r.method, err)
		}
		row.Gap = gapOf(row.Value, row.Bound)
		row.compare(cfg.Known[sha])
		rep.Rows = append(rep.Rows, row)
		if cfg.Row != nil {
			cfg.Row(row)
		}
	}
	rep.Interrupted = ctx.Err() != nil
	return rep, nil
}

// runsOf returns the runs on one case. The case's instance is made only to choose
// CP-SAT's models.
func (cfg *GapConfig) runsOf(c *GapCase) (runs []gapRun, err error) {
	limits := c.Limits
	switch {
	case cfg.WorkLimit > 0:
		limits = []time.Duration{0}
	case limits == nil:
		limits = cfg.Limits
	}
	for _, limit := range limits {
		runs = append(runs, gapRun{c, GapHare, "", limit})
	}
	if cfg.LPLimit > 0 {
		runs = append(runs, gapRun{c, GapIntervalLP, "", cfg.LPLimit})
	}
	if cfg.CPSAT == nil {
		return runs, nil
	}
	inst, err := c.instance()
	if err != nil {
		return nil, err
	}
	for _, limit := range limits {
		for _, model := range cpsatNames {
			if cpsatModels(inst, model) {
				runs = append(runs, gapRun{c, GapCPSAT, model, limit})
			}
		}
	}
	return runs, nil
}

// instance makes the instance of the case and compares it with its frozen hash.
func (gc *GapCase) instance() (*hare.Instance, error) {
	inst, err := gc.Make()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", gc.Name, err)
	}
	if frozen := GapSetHash(gc.Name); frozen != "" && frozen != wire.SHA256(inst) {
		return nil, fmt.Errorf("%s has the hash %s and was frozen with %s: this is another set", gc.Name,
			wire.SHA256(inst),
			frozen)
	}
	return inst, nil
}

func (cfg *GapConfig) hare(ctx context.Context, inst *hare.Instance, limit time.Duration, row *GapRow) error {
	engine := cfg.Solver
	engine.Progress = func(e solver.Event) {
		gap := gapOf(e.Value, e.Bound)
		if n := len(row.Curve); gap != nil && (n == 0 || *row.Curve[n-1].Gap != *gap) {
			row.Curve = append(row.Curve, GapPoint{e.Elapsed.Seconds(), gap})
		}
	}
	began := time.Now()
	// With gap 0, the solve ends when the plan is proved optimal or the limit is reached.
	res, err := solver.Solve(ctx, inst, hare.Options{TimeLimit: limit, WorkLimit: cfg.WorkLimit, Seed: cfg.Seed}, engine)
	row.Seconds = time.Since(began).Seconds()
	if err != nil {
		return err
	}
	row.Termination, row.Value, row.Bound, row.BoundHolds = res.Termination, res.Value, res.Bound, true
	if gap := gapOf(res.Value, res.Bound); gap != nil {
		row.Curve = append(row.Curve, GapPoint{row.Seconds, gap})
	}
	return nil
}

func (cfg *GapConfig) intervalLP(ctx context.Context, inst *hare.Instance, limit time.Duration, row *GapRow) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	bound, err := IntervalLP(limited, cfg.LP, inst)
	row.Seconds = time.Since(began).Seconds()
	if bound != nil {
		b := amountOf(*bound)
		row.Bound, row.BoundHolds = &b, true
	}
	switch {
	case err == nil:
		row.Termination = "solved"
	case bound != nil:
		row.Termination = "without all rows"
	case errors.Is(err, context.DeadlineExceeded):
		row.Termination = "not solved in time"
	default:
		row.Termination = "not solved: " + err.Error()
	}
	return nil
}
