package whatif

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
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

// answerTime is the part of the batch's time limit that is kept for writing the
// answers.
const answerTime = 20 * time.Millisecond

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

// known is what is known of a scenario before it is solved.
type known struct {
	bound *hare.Amount // nil where there is no bound or the scenario may be infeasible
	from  string
	value *hare.Amount // cost of the base's plan; nil where this is not a plan of the scenario
	base  relation
	notes []string
	sha   string
	began time.Time
	spent time.Duration
	done  bool // the scenario has been answered
}

// failedLine returns the line of a scenario that failed.
func failedLine(err error) *Line {
	return &Line{Outcome: whatifdoc.Outcome{Status: hare.StatusFailed}, Err: err}
}
