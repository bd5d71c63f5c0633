package trace

import (
	"fmt"
	"strings"

	"github.com/hare-sched/hare/internal/words"
)

// Report says what a reader rounded, skipped and assumed.
type Report struct {
	Format string `json:"format"`
	Source string `json:"source"`
	Rows   int    `json:"rows"` // the rows of the trace that were read
	Jobs   int    `json:"jobs"` // the jobs of the instance
	// Used and Ignored are the columns of the trace: those that the reader takes, and those
	// that it drops.
	Used    []Column `json:"columns_used"`
	Ignored []Column `json:"columns_ignored,omitempty"`
	// Renamed says that the jobs have other names than in the trace.
	Renamed *Renamed `json:"renamed,omitempty"`
	// Cluster says which GPUs the jobs run on, and whether the caller chose them.
	Cluster string `json:"cluster"`
	// Skipped groups rows that gave no job, in order of first appearance.
	Skipped []Skipped `json:"skipped,omitempty"`
	// Steps are synchronised training steps of all jobs, before merging.
	Steps int64 `json:"steps,omitempty"`
	// StepsRoundedUp counts jobs whose total was not a multiple of their GPUs.
	StepsRoundedUp int `json:"steps_rounded_up,omitempty"`
	// RoundsRoundedUp counts jobs whose last round is counted whole.
	RoundsRoundedUp int `json:"rounds_rounded_up,omitempty"`
	// ExtraSteps are the steps that whole last rounds add, over all jobs.
	ExtraSteps int64 `json:"extra_steps,omitempty"`
	// MaxOvercount is the greatest number of steps that a whole last round adds to one job, as
	// a share of the job's own steps.
	MaxOvercount float64 `json:"max_overcount,omitempty"`
	// NoProfile counts pairs of job and GPU type without a measurement.
	NoProfile int `json:"no_profile,omitempty"`
	// NoSync counts profiles of several GPUs whose step took no longer than on a single GPU,
	// which is measurement noise. The whole step counts as compute.
	NoSync int `json:"no_sync,omitempty"`
	// Measured and Assumed say what is real in the instance and what is not.
	Measured string   `json:"measured"`
	Assumed  []string `json:"assumed"`
}

// Renamed says which names the jobs of an instance have.
type Renamed struct {
	Jobs int    `json:"jobs"`
	As   string `json:"as"` // the form of a name
	Why  string `json:"why"`
}

// Skipped says why rows gave no job.
type Skipped struct {
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
	First  string `json:"first"` // file:line of the first such row
}

func (rep *Report) skip(t *table, reason string) {
	rep.skipAt(reason, fmt.Sprintf("%s:%d", t.file, t.line()))
}

func (rep *Report) skipAt(reason, first string) {
	for i := range rep.Skipped {
		if rep.Skipped[i].Reason == reason {
			rep.Skipped[i].Rows++
			return
		}
	}
	rep.Skipped = append(rep.Skipped, Skipped{reason, 1, first})
}

// mostSkipped is what skips the most rows; nil where none is.
func (rep *Report) mostSkipped() (most *Skipped) {
	for i := range rep.Skipped {
		if s := &rep.Skipped[i]; most == nil || s.Rows > most.Rows {
			most = s
		}
	}
	return most
}

// count adds the counts of one row.
func (rep *Report) count(row *Report) {
	rep.Steps += row.Steps
	rep.StepsRoundedUp += row.StepsRoundedUp
	rep.RoundsRoundedUp += row.RoundsRoundedUp
	rep.ExtraSteps += row.ExtraSteps
	rep.MaxOvercount = max(rep.MaxOvercount, row.MaxOvercount)
	rep.NoProfile += row.NoProfile
	rep.NoSync += row.NoSync
}

// Overcount is the share of steps that whole last rounds add over all jobs.
func (rep *Report) Overcount() float64 {
	if rep.Steps == 0 {
		return 0
	}
	return float64(rep.ExtraSteps) / float64(rep.Steps)
}

// String returns the report as a few lines of text.
func (rep *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s from %s of %s\n", rep.Format, words.Count(rep.Jobs, "job"), words.Count(rep.Rows, "row"),
		rep.Source)
	if len(rep.Used) > 0 {
		fmt.Fprintf(&b, "  columns used: %s\n", columnList(rep.Used))
	}
	if len(rep.Ignored) > 0 {
		fmt.Fprintf(&b, "  columns ignored: %s\n", columnList(rep.Ignored))
	}
	if r := rep.Renamed; r != nil {
		fmt.Fprintf(&b, "  renamed: %s to %s, since %s\n", words.Count(r.Jobs, "job"), r.As, r.Why)
	}
	fmt.Fprintf(&b, "  cluster: %s\n", rep.Cluster)
	for _, s := range rep.Skipped {
		fmt.Fprintf(&b, "  skipped %d: %s (first at %s)\n", s.Rows, s.Reason, s.First)
	}
	if rep.Steps > 0 {
		fmt.Fprintf(&b, "  %s; whole last rounds add %.3f %% in all, %.1f %% to one job at most (%s)\n",
			words.Count(rep.Steps, "step"), 100*rep.Overcount(), 100*rep.MaxOvercount, words.Count(rep.RoundsRoundedUp, "job"))
	}
	if rep.StepsRoundedUp > 0 {
		fmt.Fprintf(&b, "  steps rounded up to whole ones over the job's GPUs: %s\n", words.Count(rep.StepsRoundedUp, "job"))
	}
	if rep.NoProfile > 0 {
		fmt.Fprintf(&b, "  not measured or does not fit: %d pairs of job and GPU type\n", rep.NoProfile)
	}
	if rep.NoSync > 0 {
		fmt.Fprintf(&b, "  no synchronisation time left after the compute time of one GPU: %d profiles\n", rep.NoSync)
	}
	fmt.Fprintf(&b, "  measured: %s\n", rep.Measured)
	for _, a := range rep.Assumed {
		fmt.Fprintf(&b, "  assumed: %s\n", a)
	}
	return b.String()
}

// columnList names columns with the numbers of their values.
func columnList(columns []Column) string {
	text := make([]string, len(columns))
	for i, c := range columns {
		text[i] = fmt.Sprintf("%s (%d values)", c.Name, c.Values)
	}
	return strings.Join(text, ", ")
}
