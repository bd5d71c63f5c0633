package whatif

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// shareOfBase is the share of the batch's time limit that solving the base may
// take: all scenarios profit from the base's prices.
const shareOfBase = 0.2

// Check finds the faults of a request that can be found without solving.
// check verifies a result that comes with the base; nil means verify.Check.
func Check(req *whatifdoc.Request, check func(*hare.Instance, *hare.Result) (*verify.Report, error)) error {
	if check == nil {
		check = func(inst *hare.Instance, res *hare.Result) (*verify.Report, error) {
			return verify.Check(inst, res), nil
		}
	}
	if req.Base.Instance != nil {
		if err := req.Base.Instance.RefuseRules("what-if", knownRules); err != nil {
			return err
		}
	}
	batch := batchOptions(req)
	if err := solver.CheckOptions(batch); err != nil {
		return err
	}
	if req.Base.Instance != nil {
		if err := solver.KeepsObjective(req.Base.Instance, batch, "what-if"); err != nil {
			return err
		}
	}
	for i := range req.Scenarios {
		own := scenarioOptions(req, i)
		err := solver.CheckOptions(own)
		if err == nil && own.Objective != "" && own.Objective != batch.Objective {
			err = &hare.InvalidError{Pointer: "/options/objective", Code: "not_supported",
				Detail: "is not supported by what-if in this version: leave it out"}
		}
		if err != nil {
			var fault *hare.InvalidError
			if errors.As(err, &fault) {
				fault.Pointer = req.Scenarios[i].At() + fault.Pointer
			}
			return err
		}
	}
	if req.Base.Result == nil {
		return nil
	}
	if inst := req.Base.Instance; inst != nil {
		if of := req.Base.Result.Objective; of != "" && of != inst.Objective {
			return &hare.InvalidError{Pointer: "/base", Code: "not_supported", Detail: fmt.Sprintf("its result is for the "+
				"objective %q, and its instance has %s: give the instance that objective", hare.Clip(of), inst.Objective)}
		}
	}
	if req.Base.SolveID != "" {
		return nil
	}
	bad := func(code, detail string) error {
		return &hare.InvalidError{Pointer: "/base/result", Code: code, Detail: detail}
	}
	res := req.Base.Result
	if len(res.Jobs) != len(req.Base.Instance.Jobs) {
		return bad("missing_field", "the result has no times of all jobs: solve with detail lanes, or leave result "+
			"out")
	}
	rep, err := check(req.Base.Instance, res)
	if err != nil {
		return err
	}
	if rep.OK && res.Replan != nil && res.InstanceSHA256 != wire.SHA256(req.Base.Instance) {
		return bad("wrong_instance",
			"it is a plan for the rest of an earlier one: take its replan.instance as the base")
	}
	if !rep.OK {
		return bad("refused", fmt.Sprintf("it is not a result of the base's instance: %.300s", rep))
	}
	return nil
}

// Run answers the base first, then each scenario as soon as its answer is known,
// and ends with a summary. Run calls emit from one goroutine at a time. Where emit
// fails or ctx ends, the remaining scenarios are not answered. The request must
// have passed Check, and its base must have an instance.
//
// Run first bounds each scenario by the base's prices. With PruneBelow, scenarios
// whose bound shows that the value falls by no more than that are answered without a
// solve. The others are solved, no more at a time than the engine has slots. The
// answers depend on the clock only under a time limit.
func Run(ctx context.Context, req *whatifdoc.Request, engine Engine, emit func(*Line) error) error {
	w := &whatIf{engine: engine, req: req, options: batchOptions(req), base: req.Base.Instance, began: time.Now(),
		emit: emit, final: make([]*Line, len(req.Scenarios)), pending: make([]*Line, len(req.Scenarios))}
	if w.options.TimeLimit > 0 {
		w.deadline = w.began.Add(w.options.TimeLimit)
	}
	w.counts.Scenarios = len(req.Scenarios)
	if w.base != nil {
		if err := w.base.RefuseRules("what-if", knownRules); err != nil {
			return err
		}
	}
	if err := w.solveBase(ctx); err != nil {
		return err
	}
	if err := w.boundAll(ctx); err != nil {
		return err
	}
	if err := w.solveAll(ctx); err != nil {
		return err
	}
	return w.send(&Line{Outcome: whatifdoc.Outcome{Line: whatifdoc.LineSummary, Status: hare.StatusSucceeded,
		Counts: &w.counts, Refined: w.refine(ctx), Timing: whatifdoc.Timing{TotalS: time.Since(w.began).Seconds()}}})
}

// solveBase solves the base where the request has no result of it, and emits the
// base's line.
func (w *whatIf) solveBase(ctx context.Context) error {
	began := time.Now()
	var wait time.Duration
	w.result = w.req.Base.Result
	if w.result == nil {
		opt := w.options
		opt.TimeLimit = time.Duration(shareOfBase * float64(opt.TimeLimit))
		opt.Detail = "lanes"
		var err error
		if w.result, wait, err = w.engine.Solve(ctx, w.base, opt, Start{}); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	r := w.result
	w.sha = wire.SHA256(w.base)
	if c := r.Certificate; c != nil && c.HasPrices() {
		var err error
		if w.prices, err = verify.NewPrices(c); err != nil {
			return err
		}
	}
	w.ends = make(map[string]hare.JobResult, len(r.Jobs))
	for _, j := range r.Jobs {
		w.ends[j.ID] = j
	}
	w.index = make(map[string]int, len(w.base.Jobs))
	for i := range w.base.Jobs {
		w.index[w.base.Jobs[i].ID] = i
	}
	return w.send(&Line{Outcome: whatifdoc.Outcome{
		Line: whatifdoc.LineBase, Status: hare.StatusSucceeded, InstanceSHA256: w.sha, Value: r.Value, Bound: r.Bound,
		Termination: r.Termination, Reasons: reasonLines(r.Reasons), Reproducible: &r.Reproducible,
		Timing: whatifdoc.Timing{TotalS: time.Since(began).Seconds(), WaitS: wait.Seconds()},
	}})
}
