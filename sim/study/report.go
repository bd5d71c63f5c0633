package study

import (
	"encoding/json"
	"io"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// Report is what came of a request: the same one gives the same
// report, but for the figures of the clock (Config.Timed).
type Report struct {
	Runs []Run `json:"runs"` // by policy as asked for, then seed
	simulatedoc.Summary
	// Instance is what policies of tasks played; nil where it was drawn for each
	// repeat or there were none.
	Instance *hare.Instance `json:"-"`
}

// StatusDeadline is the status of a simulation whose time passed: those of
// its runs that had ended are there.
const StatusDeadline = hare.TerminationDeadline

// Answer is what was found in the time that there was.
type Answer struct {
	Status string `json:"status"` // succeeded or deadline
	Asked  int    `json:"asked"`  // runs that were asked for
	Report
}

// Run is a policy on the jobs of a request, with one seed. sim.Metrics says how each
// figure is computed. Run.Each is nil: EachJob gives the jobs.
type Run struct {
	simulatedoc.Run
	// WallS and JobsPerS are there where Config.Timed asked for them.
	WallS    *float64 `json:"wall_s,omitempty"`
	JobsPerS *float64 `json:"simulated_jobs_per_s,omitempty"`

	// Figures are those of every job of the run, by number.
	Figures []sim.JobFigures `json:"-"`
	// Result is the recorded run where Config.Record asked for it, of
	// Instance.
	Result   *hare.Result   `json:"-"`
	Instance *hare.Instance `json:"-"`
}

// JSON writes the report, indented.
func (r *Report) JSON(w io.Writer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// WithoutClock is the report less the figures of the clock: the same request
// gives the same bytes.
func (r *Report) WithoutClock() *Report {
	x := *r
	x.Runs = slices.Clone(r.Runs)
	for i := range x.Runs {
		x.Runs[i].WallS, x.Runs[i].JobsPerS = nil, nil
	}
	return &x
}

// cdfPoints limits a CDF.
const cdfPoints = 1000

// cdfOf thins sorted completion times.
func cdfOf(jcts []float64) *simulatedoc.CDF {
	c := &simulatedoc.CDF{JCTS: []float64{}, Share: []float64{}}
	n := len(jcts)
	steps := min(n, cdfPoints)
	for i := range steps {
		at := (i+1)*n/steps - 1
		c.JCTS, c.Share = append(c.JCTS, jcts[at]), append(c.Share, float64(at+1)/float64(n))
	}
	return c
}

// NewReport returns the empty report on a request.
func NewReport(req *simulatedoc.Request) *Report {
	return &Report{Runs: make([]Run, 0, CountRuns(req)), Summary: simulatedoc.Summary{Labels: req.Labels}}
}
