package study

import (
	"encoding/json"
	"io"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/policy"
	"github.com/hare-sched/hare/policy/task"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/study/simulation"
)

// Report is what came of a request: the same one gives the same
// report, but for the figures of the clock (Config.Timed).
type Report struct {
	Runs []Run `json:"runs"` // by policy as asked for, then seed
	simulation.Summary
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

// Run is a policy on the jobs of a request, with one seed. Times are
// in seconds; means and percentiles are over the jobs that count and were not
// dropped. sim.Metrics says how each is computed.
type Run struct {
	Policy            string             `json:"policy"`
	Engine            policy.Engine      `json:"engine"`
	Knows             task.Knowledge     `json:"knows"`
	Seed              uint64             `json:"seed"`
	Jobs              int                `json:"jobs"`
	Dropped           int                `json:"dropped"`
	MeanJCTS          float64            `json:"mean_jct_s"`
	WeightedMeanJCTS  float64            `json:"weighted_mean_jct_s"`
	WeightedJCTS      float64            `json:"weighted_jct_s"`
	P50JCTS           float64            `json:"p50_jct_s"`
	P90JCTS           float64            `json:"p90_jct_s"`
	P99JCTS           float64            `json:"p99_jct_s"`
	MeanWaitS         float64            `json:"mean_wait_s"`
	P99WaitS          float64            `json:"p99_wait_s"`
	MeanSlowdown      float64            `json:"mean_slowdown"`
	P99Slowdown       float64            `json:"p99_slowdown"`
	MeanRho           float64            `json:"mean_rho"`
	WorstRho          float64            `json:"worst_rho"`
	Jain              float64            `json:"jain"`
	TotalS            float64            `json:"total_duration_s"`
	MakespanS         float64            `json:"makespan_s"`
	Utilization       float64            `json:"utilization"`
	UtilizationByType map[string]float64 `json:"utilization_by_type"`
	Switches          int64              `json:"switches"`
	SwitchS           float64            `json:"switch_gpu_s"` // and of restarts
	Preemptions       int64              `json:"preemptions"`
	LostTasks         int64              `json:"lost_tasks"`
	Failures          int64              `json:"failures"` // of tasks
	LostS             float64            `json:"lost_gpu_s"`
	DownS             float64            `json:"down_gpu_s"`       // out of service by faults
	Rounds            int64              `json:"rounds,omitempty"` // of leases
	Leases            int64              `json:"leases,omitempty"`
	Events            int64              `json:"events,omitempty"` // of tasks
	Tasks             int64              `json:"tasks,omitempty"`
	// Verified says that the run was recorded and that the verifier accepts it:
	// always so of the engine of tasks but with stragglers, never of leases, which
	// have no schedule.
	Verified bool   `json:"verified"`
	LP       string `json:"lp,omitempty"` // engine of linear programs
	// CDF is there where it was asked for.
	CDF      *CDF     `json:"cdf,omitempty"`
	WallS    *float64 `json:"wall_s,omitempty"`
	JobsPerS *float64 `json:"simulated_jobs_per_s,omitempty"`

	// Each is every job of the run, by number.
	Each []sim.JobFigures `json:"-"`
	// Result is the recorded run where Request.Record asked for it, of
	// Instance.
	Result   *hare.Result   `json:"-"`
	Instance *hare.Instance `json:"-"`
}

// CDF is a distribution of completion times: Share[i] of the jobs that
// count took at most JCTS[i] seconds. It has at most 1,001 points.
type CDF struct {
	JCTS  []float64 `json:"jct_s"`
	Share []float64 `json:"share"`
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
func cdfOf(jcts []float64) *CDF {
	c := &CDF{JCTS: []float64{}, Share: []float64{}}
	n := len(jcts)
	steps := min(n, cdfPoints)
	for i := range steps {
		at := (i+1)*n/steps - 1
		c.JCTS, c.Share = append(c.JCTS, jcts[at]), append(c.Share, float64(at+1)/float64(n))
	}
	return c
}
