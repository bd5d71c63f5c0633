package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/solver"
)

// progressLine rewrites one line of a terminal with the state of a solve.
type progressLine struct {
	w  io.Writer
	on bool
}

func newProgressLine(w io.Writer, on bool) *progressLine { return &progressLine{w, on} }

func (pl *progressLine) event(e solver.Event) {
	parts := []string{fmt.Sprintf("%-8s", e.Phase), fmt.Sprintf("%5.1f s", e.Elapsed.Seconds())}
	if e.Value != nil {
		parts = append(parts, "plan "+words.Short(e.Value.Float()))
	}
	if e.Bound != nil {
		parts = append(parts, "bound "+words.Short(e.Bound.Float()))
	}
	if e.Value != nil && e.Bound != nil && e.Bound.Sign() > 0 {
		parts = append(parts, fmt.Sprintf("gap %.2f %%", 100*(e.Value.Float()/e.Bound.Float()-1)))
	}
	if e.Nodes > 0 {
		parts = append(parts, words.Count(e.Nodes, "node"))
	}
	if e.Left >= 0 {
		parts = append(parts, words.Seconds(math.Round(e.Left.Seconds()*10)/10)+" left")
	}
	pl.text("%s", strings.Join(parts, "  "))
}

// text replaces the line.
func (pl *progressLine) text(format string, a ...any) {
	if pl.on {
		fmt.Fprint(pl.w, "\r\x1b[K"+words.Plain(fmt.Sprintf(format, a...)))
	}
}

func (pl *progressLine) end() {
	if pl.on {
		fmt.Fprint(pl.w, "\r\x1b[K")
	}
}

// printTable prints the main figures of a result as a table.
func printTable(w io.Writer, inst *hare.Instance, r *hare.Result) {
	row := func(name, format string, a ...any) { fmt.Fprintf(w, "%-22s %s\n", name, fmt.Sprintf(format, a...)) }
	if r.Value == nil {
		row("termination", "%s", r.Termination)
		return
	}
	m := r.Metrics
	row("jobs, tasks", "%d, %d", len(inst.Jobs), m.Tasks)
	switch r.Objective {
	case hare.ObjectiveMakespan: // the row makespan shows it
	case hare.ObjectiveJCTAndTardiness:
		row("JCT and tardiness", "%s (mean JCT by weight %s)", r.Value, words.Seconds(m.WeightedMeanJCTSeconds))
	default:
		row("weighted JCT", "%s (mean by weight %s)", r.Value, words.Seconds(m.WeightedMeanJCTSeconds))
	}
	if r.Constant != nil {
		row("of running work", "%s more, which no plan changes", r.Constant)
	}
	if d := m.Deadlines; d != nil {
		row("deadlines met", "%d of %d, %s late in sum", d.Met, d.Jobs, words.Seconds(d.TardinessSeconds))
	}
	row("mean JCT", "%s", words.Seconds(m.MeanJCTSeconds))
	row("makespan", "%s", words.Duration(m.MakespanUs))
	var use []string
	for _, u := range m.Utilization {
		use = append(use, fmt.Sprintf("%s %.0f %%", words.Plain(u.Type), 100*u.Use))
	}
	row("GPUs used", "%s", strings.Join(use, ", "))
	row("switches", "%d", m.Switches)
	jobs := slices.Clone(r.Jobs)
	slices.SortStableFunc(jobs, func(a, b hare.JobResult) int { return cmp.Compare(b.EndUs, a.EndUs) })
	var last []string
	for _, j := range jobs[:min(3, len(jobs))] {
		last = append(last, fmt.Sprintf("%s at %s", words.Plain(j.ID), words.Duration(j.EndUs)))
	}
	row("last to finish", "%s", strings.Join(last, ", "))
	if r.Bound != nil {
		row("bound", "%s (%s)", r.Bound, m.BoundMethod)
	}
	row("gap", "%s", gapWords(r))
	if g := r.GapReport; g != nil && g.Excess > 0 {
		row("where the gap is", "%s", reportWords(g))
	}
	row("stopped", "%s after %.2f s", stopWords(r.Termination), r.Timing.Total.Seconds())
}

func gapWords(r *hare.Result) string {
	switch {
	case r.Bound != nil && r.Value.Cmp(*r.Bound) == 0:
		return "none: this is a best possible plan"
	case r.Bound == nil || r.Bound.Sign() <= 0:
		return "no useful bound"
	}
	// The percentage is rounded up, so that the sentence remains true.
	percent := math.Ceil(1e4*(r.Value.Float()/r.Bound.Float()-1)) / 100
	return fmt.Sprintf("at most %.2f %% above the best possible plan", percent)
}

// reportWords describes which jobs and idle GPUs the gap consists of, and names the
// greatest contributions.
func reportWords(g *hare.GapReport) string {
	share := func(x float64) string { return fmt.Sprintf("%.0f %%", 100*x/g.Excess) }
	var jobs, idle []string
	for _, j := range g.Jobs[:min(3, len(g.Jobs))] {
		jobs = append(jobs, words.Plain(j.ID)+" "+share(j.ReducedCost))
	}
	types := slices.Clone(g.IdleByType)
	slices.SortStableFunc(types, func(a, b hare.TypeIdle) int { return cmp.Compare(b.Idle, a.Idle) })
	for _, x := range types[:min(3, len(types))] {
		idle = append(idle, words.Plain(x.Type)+" "+share(x.Idle))
	}
	return fmt.Sprintf("jobs %s (%s), idle GPUs %s (%s)",
		share(g.ReducedCost), strings.Join(jobs, ", "), share(g.IdleCapacity), strings.Join(idle, ", "))
}

func stopWords(termination string) string {
	switch termination {
	case hare.TerminationOptimal:
		return "proved optimal"
	case hare.TerminationGap:
		return "gap reached"
	case hare.TerminationWorkLimit:
		return "work limit"
	case hare.TerminationMethod:
		return "the method's plan"
	case hare.TerminationDeadline:
		return "time limit"
	}
	return termination
}
