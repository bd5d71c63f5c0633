package shadow

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// Text writes the report as a short table.
func (r *Report) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tmean wait\tp95 wait\tmean completion\tp95 completion\tabove the bound\tchecked")
	for _, x := range r.rows() {
		checked := "yes"
		if !x.row.Verified {
			checked = "no"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.name, duration(x.row.MeanWaitS), duration(x.row.P95WaitS),
			duration(x.row.MeanCompletionS), duration(x.row.P95CompletionS), fractionText(x.row.AboveBound, false), checked)
	}
	bound := "no plain bound"
	if r.Bound.MeanCompletionS != nil {
		bound = duration(*r.Bound.MeanCompletionS)
	}
	fmt.Fprintf(t, "no scheduler below\t\t\t%s\t%s\t\tcertified\n", bound, duration(r.Bound.P95CompletionS))
	if err := t.Flush(); err != nil {
		return err
	}
	for _, line := range r.sentences() {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// namedRow is a row with its name.
type namedRow struct {
	name, text string
	row        *Row
}

func (r *Report) rows() []namedRow {
	return []namedRow{
		{"as it was", "what the cluster did", &r.Happened},
		{"Slurm, simulated", "first come, first served with backfill by time limits, on the same jobs", &r.Slurm},
		{"Hare", "the policy rolling, told only what was known at each time", &r.Online},
		{"hindsight", "the best plan found for somebody who knows all jobs beforehand", &r.Hindsight},
	}
}

// sentences says what the figures mean.
func (r *Report) sentences() []string {
	out := []string{
		fmt.Sprintf("jobs: %d counted; %d already ran when the window began and %d waited then; %d still ran when the log "+
			"ended and count as if they had ended; %d waited then and are left out", r.Jobs, r.RunningAtBegin,
			r.WaitingAtBegin, r.RunningAtEnd, r.WaitingAtEnd),
		"is the simulation fair: " + r.check(),
		"Hare against what happened: mean completion " + r.Saved.Completion.sentence() + "; mean wait " +
			r.Saved.Wait.sentence(),
		"Hare against the simulated Slurm: mean completion " + r.SavedSimulated.Completion.sentence() + "; mean wait " +
			r.SavedSimulated.Wait.sentence(),
		fmt.Sprintf("jobs that would have ended over a minute earlier: %d (%.1f h in all); later: %d (%.1f h)", r.Gain.Jobs,
			r.Gain.Hours, r.Pay.Jobs, r.Pay.Hours),
	}
	if r.Saved.Completion.Days < leastDays {
		out = append(out, r.intervals())
	}
	return out
}

// fairWithin is how far the mean completion of the simulated Slurm may be from what happened before the
// report says that the simulation misses something.
const fairWithin = 0.1

// fairness says how the simulated Slurm compares with what happened, and so with which of both Hare is compared: the
// better one. What happened is a checked schedule of the same jobs, so where the simulation is worse it plays rules
// that the cluster did not have, and against it Hare would look better than it is.
type fairness int

const (
	fair fairness = iota
	simulatedBetter
	simulatedWorse
)

func (r *Report) fairness() fairness {
	switch off := r.Check.MeanCompletion; {
	case off == nil || math.Abs(*off) <= fairWithin:
		return fair
	case *off < 0:
		return simulatedBetter
	}
	return simulatedWorse
}

// check says how far the simulated Slurm is from what happened.
func (r *Report) check() string {
	ch := &r.Check
	types := "each job on the types where it ran"
	if ch.AnyType {
		types = "jobs without a type on any"
	}
	text := fmt.Sprintf("simulated Slurm (%s) against what happened: mean wait %s instead of %s (%s), p95 wait %s, mean "+
		"completion %s; %.0f %% of the jobs start within a minute of when they did", types,
		duration(r.Slurm.MeanWaitS), duration(r.Happened.MeanWaitS), fractionText(ch.MeanWait, true),
		fractionText(ch.P95Wait, true), fractionText(ch.MeanCompletion, true), 100*ch.WithinMinute)
	switch r.fairness() {
	case simulatedBetter:
		text += "; the same rules do better in the simulation, so compare Hare with the simulated Slurm"
	case simulatedWorse:
		text += "; the simulation does not play this cluster's rules, so compare Hare with what happened"
	}
	return text
}

// sentence says by how much a mean changes.
func (in *Interval) sentence() string {
	if in.Value == nil {
		return "without a figure, as there was none"
	}
	less := func(x float64) string { return signed(-x) }
	if in.Low == nil || in.High == nil {
		return less(*in.Value)
	}
	return fmt.Sprintf("%s (95 %% interval over %d days: %s to %s)", less(*in.Value), in.Days, less(*in.High),
		less(*in.Low))
}

// signed writes a fraction as percent with its sign.
func signed(x float64) string {
	if math.Abs(x) < 0.0005 {
		return "0.0 %"
	}
	return strings.Replace(fmt.Sprintf("%+.1f %%", 100*x), "-", "−", 1)
}

// fractionText writes a fraction as percent, or a dash where there is none.
func fractionText(x *float64, sign bool) string {
	switch {
	case x == nil:
		return "–"
	case sign:
		return signed(*x)
	}
	return fmt.Sprintf("%.1f %%", 100**x)
}

// change writes seconds that may be negative.
func change(s float64) string {
	if s < 0 {
		return "−" + duration(-s)
	}
	return duration(s)
}

// duration writes seconds for people, with about three digits.
func duration(s float64) string {
	switch {
	case s < 99.95:
		return fmt.Sprintf("%.1f s", s)
	case s < 100*60:
		return fmt.Sprintf("%.1f min", s/60)
	case s < 100*3600:
		return fmt.Sprintf("%.1f h", s/3600)
	}
	return fmt.Sprintf("%.1f d", s/86400)
}
