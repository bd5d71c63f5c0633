// Package text prints results for people: the main figures, and which work a replan moved.
package text

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
)

// Result prints the main figures of a result as a table.
func Result(w io.Writer, inst *hare.Instance, r *hare.Result) {
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
		row("deadlines met", "%d of %d, %s late in total", d.Met, d.Jobs, words.Seconds(d.TardinessSeconds))
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
	if r.OptimalBySearch {
		row("the plan is", "optimal by search, bound by certificate")
	}
	if g := r.GapReport; g != nil && g.Excess > 0 {
		row("where the gap is", "%s", reportWords(g))
	}
	row("stopped", "%s after %.2f s", Stop(r.Termination), r.Timing.Total.Seconds())
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

// Stop says why a solve stopped.
func Stop(termination string) string {
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

// moves says why a job has moved.
var moves = map[string]string{hare.MovedLost: "repeats a lost round", hare.MovedCluster: "loses its GPUs",
	hare.MovedChanged: "has changed", hare.MovedEarlier: "ends earlier", hare.MovedMadeWay: "makes way"}

// Replan prints which work moved, below the table of the remaining work.
func Replan(w io.Writer, res *hare.Result) {
	p := res.Replan
	if p == nil {
		return
	}
	fmt.Fprintf(w, "\nAt %s: started work of %s stays; %s as planned, %d moved, %d new, %d gone.\n",
		words.Duration(p.AtUs), words.Count(len(p.Started), "job"), words.Count(len(p.Kept), "job"), len(p.Moved),
		len(p.Added), len(p.Removed))
	for _, x := range p.Lost {
		fmt.Fprintf(w, "Lost: round %d of %s, which needed GPU %s.\n", x.Round, words.Plain(x.Job), words.Plain(x.GPU))
	}
	share := 0.0
	if p.PlannedGPU.Sign() > 0 {
		share = 100 * p.MovedGPU.Float() / p.PlannedGPU.Float()
	}
	fmt.Fprintf(w, "Moved: %.1f of %.1f planned GPU-seconds (%.1f %%), of which %.1f had to move.\n", p.MovedGPU.Float(),
		p.PlannedGPU.Float(), share, p.ForcedGPU.Float())
	if p.KeptValue != nil && res.Value != nil {
		fmt.Fprintf(w, "Value of the remainder: %.1f; moving only what must: %.1f; gain: %.1f.\n", res.Value.Float(),
			p.KeptValue.Float(), p.KeptValue.Sub(*res.Value).Float())
	}
	if res.Value != nil && res.Bound != nil {
		bound := ""
		if b, ok := p.WholeBound(res.Objective, *res.Bound); ok {
			bound = fmt.Sprintf(", bound %.1f", b.Float())
		}
		fmt.Fprintf(w, "Of the whole instance: value %.1f%s, of which %.1f no plan can change.\n",
			p.WholeCost(res.Objective, *res.Value).Float(), bound, p.Constant.Float())
	}
	if p.WholeMissing != "" {
		fmt.Fprintf(w, "There is no schedule of the whole instance: %s.\n", p.WholeMissing)
	}
	const shown = 12
	for i, x := range p.Moved {
		if i == shown {
			fmt.Fprintf(w, "  and %d more: see replan.moved in the result\n", len(p.Moved)-shown)
			break
		}
		from, to := words.Alike(x.From.EndUs, x.To.EndUs)
		fmt.Fprintf(w, "  %s %s: end %s → %s\n", words.Plain(x.ID), cmp.Or(moves[x.Why], x.Why), from, to)
	}
}
