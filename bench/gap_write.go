package bench

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare/plot"
)

// WriteJSON writes the report with its summary and comparisons.
func (r *GapReport) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(struct {
		*GapReport
		Summary     []GapSummary    `json:"summary"`
		Longer      *GapLonger      `json:"longer,omitempty"`
		Comparisons []GapComparison `json:"comparisons,omitempty"`
	}{r, r.Summary(), r.Longer(), r.Comparisons()})
}

// WriteCSV writes the rows, without curves.
func (r *GapReport) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	lines := [][]string{{"instance", "cell", "jobs", "gpus", "method", "model", "limit_s", "seconds", "termination",
		"value", "bound", "bound_holds", "gap", "over_best_value", "under_best_bound"}}
	for _, row := range r.Rows {
		number := func(x *float64) string {
			if x == nil {
				return ""
			}
			return strconv.FormatFloat(*x, 'g', 6, 64)
		}
		lines = append(lines, []string{row.Instance, row.Cell, strconv.Itoa(row.Jobs), strconv.Itoa(row.GPUs),
			row.Method, row.Model, strconv.FormatFloat(row.LimitS, 'f', -1, 64),
			strconv.FormatFloat(row.Seconds, 'f', 3, 64), row.Termination, exact(row.Value), exact(row.Bound),
			strconv.FormatBool(row.BoundHolds), number(row.Gap), number(row.OverBest), number(row.UnderBest)})
	}
	return errors.Join(c.WriteAll(lines), c.Error())
}

// WriteMarkdown writes the summary, the comparisons and every run of Hare.
func (r *GapReport) WriteMarkdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "Hare %s, HiGHS %s, %d workers, seed %d, on %s. Gaps are value / bound − 1 in %%, rounded up.\n",
		r.Version, r.HiGHS, r.Workers, r.Seed, r.Machine)
	if r.WorkLimit > 0 {
		fmt.Fprintf(b, "Each run ended after a work of %d.\n", r.WorkLimit)
	}
	if r.Interrupted {
		b.WriteString("\nInterrupted: runs are missing.\n")
	}
	r.writeSummary(b)
	r.writeLonger(b)
	r.writeShares(b)
	if all := r.Comparisons(); len(all) > 0 {
		b.WriteString("\n| instance | limit, s | gap | CP-SAT's best model | its value over Hare's | over Hare's " +
			"best " +
			"bound | its bound / Hare's | interval LP / Hare's bound |\n|---|---|---|---|---|---|---|---|\n")
		for _, c := range all {
			model := c.Status
			if c.Model != "" {
				model = c.Model + ", " + c.Status
			}
			interval := share(c.IntervalBound)
			switch {
			case c.IntervalBound == nil && c.IntervalNote != "":
				interval = c.IntervalNote
			case c.IntervalNote != "solved":
				interval += ", " + c.IntervalNote
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", c.Instance, figure(c.LimitS), Percent(c.Gap),
				dash(model), signed(c.OverHare), Percent(c.CPSATGap), share(c.CPSATBound), interval)
		}
	}
	b.WriteString("\n| instance | jobs | GPUs | limit, s | value | bound | gap | ended | s |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range r.Rows {
		if row.Method == GapHare {
			fmt.Fprintf(b, "| %s | %d | %d | %s | %s | %s | %s | %s | %.2f |\n", row.Instance, row.Jobs, row.GPUs,
				figure(row.LimitS), short(row.Value), short(row.Bound), Percent(row.Gap), row.Termination, row.Seconds)
		}
	}
	return b.Flush()
}

// writeSummary writes a line for each cell, with the median and worst gap by limit.
func (r *GapReport) writeSummary(b *bufio.Writer) {
	all := r.Summary()
	var limits []float64
	for _, s := range all {
		limits = append(limits, s.LimitS)
	}
	slices.Sort(limits)
	limits = slices.Compact(limits)
	b.WriteString("\n| median (worst) gap | instances |")
	for _, limit := range limits {
		fmt.Fprintf(b, " %s s |", figure(limit))
	}
	b.WriteString(" most over the limit, ms |\n|---|---|" + strings.Repeat("---|", len(limits)+1) + "\n")
	for i := 0; i < len(all); {
		cell, instances, over := all[i].Cell, all[i].Instances, 0.0
		line := ""
		for _, limit := range limits {
			text := " "
			if i < len(all) && all[i].Cell == cell && all[i].LimitS == limit {
				text = Percent(all[i].Median)
				if all[i].Instances > 1 {
					text += " (" + Percent(all[i].Worst) + ")"
				}
				over = max(over, all[i].WorstSeconds-limit)
				i++
			}
			line += " " + text + " |"
		}
		fmt.Fprintf(b, "| %s | %d |%s %.0f |\n", cell, instances, line, 1000*over)
	}
}

// writeShares writes, for each cell and limit of which better values or bounds are known, how far the median run
// is from them.
func (r *GapReport) writeShares(b *bufio.Writer) {
	head := "\n| cell | limit, s | gap | value over best known | bound under best known |\n|---|---|---|---|---|\n"
	for _, s := range r.Summary() {
		if s.OverBest == nil && s.UnderBest == nil {
			continue
		}
		fmt.Fprintf(b, "%s| %s | %s | %s | %s | %s |\n", head, s.Cell, figure(s.LimitS), Percent(s.Median),
			signed(s.OverBest), signed(s.UnderBest))
		head = ""
	}
}

// WriteDir writes results.json, results.csv, results.md and the pictures into a folder,
// which it creates if necessary.
func (r *GapReport) WriteDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files := map[string]func(io.Writer) error{"results.json": r.WriteJSON, "results.csv": r.WriteCSV,
		"results.md": r.WriteMarkdown}
	for _, p := range r.pictures() {
		files[p.file] = func(w io.Writer) error { return plot.Gap(w, p.curves, plot.Options{Title: p.title, Width: 800}) }
	}
	for name, write := range files {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(write(f), f.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

type gapPicture struct {
	file, title string
	curves      []plot.GapCurve
}

// pictures returns, for each group of cells, the median gap at each limit, where each
// point comes from runs of its own, and the median gap within the longest runs. Cells
// whose names end in the same number of jobs form a group.
func (r *GapReport) pictures() []gapPicture {
	var names []string
	groups := map[string][]string{}
	for _, s := range r.Summary() {
		name := "others"
		if f := strings.Fields(s.Cell); len(f) == 3 && strings.Trim(f[2], "0123456789") == "" {
			name = f[2]
		}
		if groups[name] == nil {
			names = append(names, name)
		}
		if !slices.Contains(groups[name], s.Cell) {
			groups[name] = append(groups[name], s.Cell)
		}
	}
	var out []gapPicture
	for _, name := range names {
		title := name + " jobs"
		if name == "others" {
			title = "all others"
		}
		limits := gapPicture{file: "gap-" + name + ".svg", title: "Gap by time limit, " + title +
			": median of runs with that limit"}
		within := gapPicture{file: "within-" + name + ".svg", title: "Gap within a run, " + title +
			": median of the longest runs"}
		for _, cell := range groups[name] {
			c := plot.GapCurve{Name: cell, Dots: true}
			for _, s := range r.Summary() {
				if s.Cell == cell && s.LimitS > 0 && s.Median != nil {
					c.Points = append(c.Points, plot.GapPoint{Seconds: s.LimitS, Gap: *s.Median})
				}
			}
			limits.curves = append(limits.curves, c)
			within.curves = append(within.curves, plot.GapCurve{Name: cell, Points: r.within(cell)})
		}
		for _, p := range []gapPicture{limits, within} {
			if slices.ContainsFunc(p.curves, func(c plot.GapCurve) bool { return len(c.Points) > 0 }) {
				out = append(out, p)
			}
		}
	}
	return out
}

// within returns the median over a cell's instances of the gap at each time of their
// longest runs, from the time at which each run has a gap.
func (r *GapReport) within(cell string) []plot.GapPoint {
	longest := map[string]*GapRow{}
	for _, row := range r.Rows {
		if row.Method == GapHare && row.Cell == cell &&
			(longest[row.Instance] == nil || longest[row.Instance].LimitS < row.LimitS) {
			longest[row.Instance] = row
		}
	}
	var times []float64
	for _, row := range longest {
		if len(row.Curve) == 0 {
			return nil
		}
		for _, p := range row.Curve {
			times = append(times, p.Seconds)
		}
	}
	slices.Sort(times)
	var out []plot.GapPoint
	for _, t := range slices.Compact(times) {
		var gaps []float64
		for _, row := range longest {
			gap := -1.0
			for _, p := range row.Curve {
				if p.Seconds <= t {
					gap = *p.Gap
				}
			}
			if gap >= 0 {
				gaps = append(gaps, gap)
			}
		}
		if len(gaps) == len(longest) {
			out = append(out, plot.GapPoint{Seconds: t, Gap: median(gaps)})
		}
	}
	return out
}
