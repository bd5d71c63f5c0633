package trace

import (
	"fmt"
	"strings"
)

// Report says what a reader did beyond copying: what it rounded, skipped and assumed.
type Report struct {
	Format string `json:"format"`
	Source string `json:"source"`
	Rows   int    `json:"rows"` // of the trace that were read
	Jobs   int    `json:"jobs"` // of the instance
	// Skipped groups rows that gave no job, in order of first appearance.
	Skipped []Skipped `json:"skipped,omitempty"`
	// Steps are synchronised training steps of all jobs, before merging.
	Steps int64 `json:"steps,omitempty"`
	// StepsRoundedUp counts jobs whose total was no multiple of their GPUs.
	StepsRoundedUp int `json:"steps_rounded_up,omitempty"`
	// RoundsRoundedUp counts jobs whose last round is counted whole.
	RoundsRoundedUp int `json:"rounds_rounded_up,omitempty"`
	// ExtraSteps are the steps that whole last rounds add, over all jobs.
	ExtraSteps int64 `json:"extra_steps,omitempty"`
	// MaxOvercount is the largest share of its own steps added to one job.
	MaxOvercount float64 `json:"max_overcount,omitempty"`
	// NoProfile counts pairs of job and GPU type without a measurement.
	NoProfile int `json:"no_profile,omitempty"`
	// NoSync counts profiles of several GPUs whose step took no longer than one
	// on a single GPU (measurement noise): all of it is compute.
	NoSync int `json:"no_sync,omitempty"`
	// Measured and Assumed tell what is real in the instance and what is not.
	Measured string   `json:"measured"`
	Assumed  []string `json:"assumed"`
}

// Skipped is why rows gave no job.
type Skipped struct {
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
	First  string `json:"first"` // file:line of the first such row
}

func (r *Report) skip(t *table, reason string) {
	for i := range r.Skipped {
		if r.Skipped[i].Reason == reason {
			r.Skipped[i].Rows++
			return
		}
	}
	r.Skipped = append(r.Skipped, Skipped{reason, 1, fmt.Sprintf("%s:%d", t.file, t.line())})
}

// count adds the counts of one row.
func (r *Report) count(row *Report) {
	r.Steps += row.Steps
	r.StepsRoundedUp += row.StepsRoundedUp
	r.RoundsRoundedUp += row.RoundsRoundedUp
	r.ExtraSteps += row.ExtraSteps
	r.MaxOvercount = max(r.MaxOvercount, row.MaxOvercount)
	r.NoProfile += row.NoProfile
	r.NoSync += row.NoSync
}

// Overcount is the share of steps that whole last rounds add over all jobs.
func (r *Report) Overcount() float64 {
	if r.Steps == 0 {
		return 0
	}
	return float64(r.ExtraSteps) / float64(r.Steps)
}

// String is the report for people, a few lines.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d jobs from %d rows of %s\n", r.Format, r.Jobs, r.Rows, r.Source)
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "  skipped %d: %s (first at %s)\n", s.Rows, s.Reason, s.First)
	}
	if r.Steps > 0 {
		fmt.Fprintf(&b, "  %d steps; whole last rounds add %.3f %% in all, %.1f %% to one job at most (%d jobs)\n",
			r.Steps, 100*r.Overcount(), 100*r.MaxOvercount, r.RoundsRoundedUp)
	}
	if r.StepsRoundedUp > 0 {
		fmt.Fprintf(&b, "  steps rounded up to whole ones over the job's GPUs: %d jobs\n", r.StepsRoundedUp)
	}
	if r.NoProfile > 0 {
		fmt.Fprintf(&b, "  not measured or does not fit: %d pairs of job and GPU type\n", r.NoProfile)
	}
	if r.NoSync > 0 {
		fmt.Fprintf(&b, "  no synchronisation time left after the compute time of one GPU: %d profiles\n", r.NoSync)
	}
	fmt.Fprintf(&b, "  measured: %s\n", r.Measured)
	for _, a := range r.Assumed {
		fmt.Fprintf(&b, "  assumed: %s\n", a)
	}
	return b.String()
}
