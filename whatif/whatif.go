package whatif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// Line is one line of the answer to a what-if: the base's, a scenario's, or the summary.
// Value, bound and gap are null where they are not known, and in the summary.
type Line struct {
	whatifdoc.Outcome
	Err error `json:"-"` // why the scenario failed
	// Error is the document of Err, where there is a server to write one.
	Error problemDocument `json:"error,omitempty"`
} //	@name	WhatIfLine

// problemDocument is a problem of RFC 9457 in JSON.
type problemDocument = any

// shareOfBase is the share of the batch's time limit that solving the base may
// take: all scenarios profit from the base's prices.
const shareOfBase = 0.2

// answerTime is the part of the batch's time limit that is kept for writing the
// answers.
const answerTime = 20 * time.Millisecond

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

// givenOptions returns the options of a batch, with the defaults of all solves where the batch
// gives none.
func givenOptions(req *whatifdoc.Request) hare.Options {
	return req.Options.Over(hare.Options{Seed: 1, Gap: solver.DefaultGap})
}

// batchOptions returns the options of the solves of a batch.
func batchOptions(req *whatifdoc.Request) hare.Options { return solver.Defaults(givenOptions(req)) }

// scenarioOptions returns the options of the solve of scenario i: those of the batch, with the
// scenario's own before them. The time limit is the scenario's own alone.
func scenarioOptions(req *whatifdoc.Request, i int) hare.Options {
	batch := givenOptions(req)
	batch.TimeLimit = 0
	return solver.Defaults(req.Scenarios[i].Options.Over(batch))
}

// whatIf is one batch.
type whatIf struct {
	engine   Engine
	req      *whatifdoc.Request
	options  hare.Options // of the batch
	base     *hare.Instance
	result   *hare.Result
	sha      string
	prices   *verify.Prices // nil where the base's bound is not made of prices
	ends     map[string]hare.JobResult
	index    map[string]int // index of jobs in the base
	deadline time.Time      // zero means none
	began    time.Time

	constraints *constraints // of the base
	known       []known      // by scenario
	parallel    int          // how many scenarios are solved at a time

	mu      sync.Mutex // guards the fields below
	emit    func(*Line) error
	failed  error
	final   []*Line // by scenario: the answers so far
	pending []*Line // by scenario: answers that wait for those of earlier scenarios
	next    int
	left    int // scenarios still to be solved
	counts  whatifdoc.Counts
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

// send emits one line. The first failure is kept and ends the batch.
func (w *whatIf) send(l *Line) error {
	if w.failed == nil {
		if l.Gap == nil {
			l.Gap = gapText(l.Value, l.Bound)
		}
		w.failed = w.emit(l)
	}
	return w.failed
}

// answer emits a scenario's line. Where the request asks for ordered answers, the
// line waits for those of earlier scenarios.
func (w *whatIf) answer(i int, l *Line) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.Line, l.Index, l.ID = whatifdoc.LineScenario, &i, w.req.Scenarios[i].ID
	w.final[i] = l
	switch {
	case l.Err != nil:
		w.counts.Failed++
	case l.Pruned != nil && *l.Pruned:
		w.counts.Pruned++
	case l.Plan == whatifdoc.PlanSearch || l.Reproducible != nil:
		w.counts.Solved++
	default:
		w.counts.Bounded++
	}
	if !w.req.Ordered {
		return w.send(l)
	}
	w.pending[i] = l
	for w.next < len(w.pending) && w.pending[w.next] != nil {
		if err := w.send(w.pending[w.next]); err != nil {
			return err
		}
		w.pending[w.next] = nil
		w.next++
	}
	return nil
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

func reasonLines(reasons []hare.Reason) (out []whatifdoc.ReasonLine) {
	for _, r := range reasons {
		out = append(out, whatifdoc.ReasonLine(r))
	}
	return out
}

// gapText returns value/bound − 1, rounded up at six decimals, or nil where this is not
// defined.
func gapText(value, bound *hare.Amount) *json.Number {
	if value == nil || bound == nil {
		return nil
	}
	r := hare.Result{Value: value, Bound: bound}
	gap, ok := r.Gap()
	if !ok {
		return nil
	}
	text := gap.FloatString(6) // exact, since gap is a multiple of 1e-6
	return new(json.Number(strings.TrimSuffix(strings.TrimRight(text, "0"), ".")))
}
