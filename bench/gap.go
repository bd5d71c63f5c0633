package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// Methods of a row.
const (
	GapHare       = "hare"
	GapCPSAT      = "cpsat"
	GapIntervalLP = "interval-lp"
)

// GapConfig says what RunGap measures.
type GapConfig struct {
	Cases []GapCase
	// Limits are for cases that name none.
	Limits []time.Duration
	// Seed of Hare's search and of CP-SAT's.
	Seed int64
	// Solver has the LP engine and the number of workers, which CP-SAT gets too.
	Solver solver.Config
	// CPSAT runs beside Hare with the same limits and workers; nil does not.
	CPSAT *CPSAT
	// LPLimit is for one interval LP by LP; zero computes none.
	LPLimit time.Duration
	LP      lp.Solver
	// Progress is called before each run and Row after it; nil is nobody.
	Progress func(GapProgress)
	Row      func(*GapRow)
}

// GapProgress says what runs next.
type GapProgress struct {
	Done, Total   int
	Name          string        // of the instance
	Method, Model string        // as in rows
	Limit         time.Duration // of the run
	Left          time.Duration // for it and the rest, were every limit used up
}

// GapRow is one run on one instance.
type GapRow struct {
	Instance string `json:"instance"`
	Cell     string `json:"cell"`
	Jobs     int    `json:"jobs"`
	GPUs     int    `json:"gpus"`
	SHA256   string `json:"instance_sha256"`
	Method   string `json:"method"`
	Model    string `json:"model,omitempty"` // of CP-SAT
	// LimitS is what was asked and Seconds what it took: for Hare the whole
	// call with LPs and the check of the plan, for CP-SAT building the model
	// and solving it, without starting Python.
	LimitS      float64 `json:"limit_s"`
	Seconds     float64 `json:"seconds"`
	Termination string  `json:"termination"`
	// Value is the weighted JCT of a plan that verify accepted; null is none.
	Value *hare.Amount `json:"value"`
	// Bound is certified for Hare, in floats for the others. BoundHolds says
	// that it bounds the instance, and not only a model that leaves out plans.
	Bound      *hare.Amount `json:"bound"`
	BoundHolds bool         `json:"bound_holds"`
	// Gap is value/bound − 1 of this row alone; null is "no useful bound".
	Gap *float64 `json:"gap"`
	// Curve is the run from within: what was known when.
	Curve []GapPoint `json:"curve,omitempty"`
}

// GapPoint is the state of a running solve.
type GapPoint struct {
	Seconds float64  `json:"t"`
	Gap     *float64 `json:"gap"` // of the plan and the bound known then
}

// GapReport is everything that was measured.
type GapReport struct {
	Version     string    `json:"version"`
	HiGHS       string    `json:"highs"`
	Machine     string    `json:"machine"`
	Workers     int       `json:"workers"`
	Seed        int64     `json:"seed"`
	Interrupted bool      `json:"interrupted"` // rows are missing
	Rows        []*GapRow `json:"rows"`
}

// gapRun is one step of a plan of runs.
type gapRun struct {
	c             *GapCase
	method, model string
	limit         time.Duration
}

// RunGap measures the cases one after the other, each limit in a run of its
// own. The end of ctx drops the run in progress and keeps the others.
func RunGap(ctx context.Context, cfg GapConfig) (*GapReport, error) {
	rep := &GapReport{Version: cfg.Solver.Version, HiGHS: cfg.Solver.EngineVersion, Machine: machine(), Workers: cfg.Solver.Workers, Seed: cfg.Seed}
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
			cfg.Progress(GapProgress{Done: i, Total: len(runs), Name: r.c.Name, Method: r.method, Model: r.model, Limit: r.limit, Left: left})
		}
		left -= r.limit
		row := &GapRow{Instance: r.c.Name, Cell: r.c.Cell, Jobs: len(inst.Jobs), GPUs: len(hare.NewModel(inst).GPUs), SHA256: sha,
			Method: r.method, Model: r.model, LimitS: r.limit.Seconds()}
		var err error
		switch r.method {
		case GapHare:
			err = cfg.hare(ctx, inst, r.limit, row)
		case GapIntervalLP:
			err = cfg.intervalLP(ctx, inst, r.limit, row)
		case GapCPSAT:
			err = cfg.CPSAT.run(ctx, inst, r.limit, cfg, row)
		}
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return rep, fmt.Errorf("%s: %s: %w", r.c.Name, r.method, err)
		}
		row.Gap = gapOf(row.Value, row.Bound)
		rep.Rows = append(rep.Rows, row)
		if cfg.Row != nil {
			cfg.Row(row)
		}
	}
	rep.Interrupted = ctx.Err() != nil
	return rep, nil
}

// runsOf are the runs on one case, which is made only to know CP-SAT's models.
func (cfg *GapConfig) runsOf(c *GapCase) (runs []gapRun, err error) {
	limits := c.Limits
	if limits == nil {
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

// instance makes the case and compares it with its frozen hash.
func (c *GapCase) instance() (*hare.Instance, error) {
	inst, err := c.Make()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	if frozen := GapSetHash(c.Name); frozen != "" && frozen != wire.SHA256(inst) {
		return nil, fmt.Errorf("%s has the hash %s and was frozen with %s: this is another set", c.Name, wire.SHA256(inst), frozen)
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
	// Gap 0: until it is proved optimal or the limit ends it.
	res, err := solver.Solve(ctx, inst, hare.Options{TimeLimit: limit, Seed: cfg.Seed}, engine)
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

// gapOf is value/bound − 1: 0 where they are equal, nil without both or where
// the bound is useless.
func gapOf(value, bound *hare.Amount) *float64 {
	if value == nil || bound == nil {
		return nil
	}
	gap := 0.0
	if value.Cmp(*bound) != 0 {
		if bound.Sign() <= 0 {
			return nil
		}
		gap = value.Float()/bound.Float() - 1
	}
	return &gap
}

// amountOf is x weight-seconds, rounded down to millionths.
func amountOf(x float64) hare.Amount {
	n, _ := big.NewFloat(math.Floor(x * 1e6)).Int(nil)
	a, _ := hare.AmountFromBig(n.Mul(n, big.NewInt(1e6)))
	return a
}
