package study

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// column is a column of the table for terminals. Where the table is too wide, the
// column of the highest rank is left out first; columns of rank 0 always stay.
type column struct {
	head string
	rank int
	of   func(*Run, *simulatedoc.Means) string
}

// plusMinus formats a figure, with half the width of its confidence interval over
// repeats.
func plusMinus(name string, digits int) func(*Run, *simulatedoc.Means) string {
	var of func(*Run) float64
	for _, f := range figures {
		if f.name == name {
			of = f.of
		}
	}
	return func(run *Run, m *simulatedoc.Means) string {
		if m == nil {
			return fmt.Sprintf("%.*f", digits, of(run))
		}
		x := m.Figures[name]
		if x.Half == nil {
			return fmt.Sprintf("%.*f", digits, x.Mean)
		}
		return fmt.Sprintf("%.*f ± %.*f", digits, x.Mean, digits, *x.Half)
	}
}

// meanOnly is plusMinus without the interval.
func meanOnly(name string, digits int) func(*Run, *simulatedoc.Means) string {
	with := plusMinus(name, digits)
	return func(run *Run, m *simulatedoc.Means) string {
		s, _, _ := strings.Cut(with(run, m), " ±")
		return s
	}
}

var columns = []column{
	{"policy", 0, func(run *Run, _ *simulatedoc.Means) string { return run.Policy }},
	{"jobs", 3, func(run *Run, _ *simulatedoc.Means) string { return fmt.Sprint(run.Jobs - run.Dropped) }},
	{"mean JCT s", 0, plusMinus("mean_jct_s", 3)},
	{"weighted", 4, plusMinus("weighted_mean_jct_s", 3)},
	{"p50 s", 6, meanOnly("p50_jct_s", 0)},
	{"p90 s", 2, meanOnly("p90_jct_s", 0)},
	{"p99 s", 1, meanOnly("p99_jct_s", 0)},
	{"total s", 0, meanOnly("total_duration_s", 3)},
	{"use", 0, meanOnly("utilization", 3)},
	{"rho", 1, meanOnly("mean_rho", 2)},
	{"Jain", 5, meanOnly("jain", 2)},
	{"switches", 7, meanOnly("switches", 0)},
	{"stopped", 3, meanOnly("preemptions", 0)},
	{"jobs/s", 8, func(run *Run, _ *simulatedoc.Means) string {
		if run.JobsPerS == nil {
			return ""
		}
		return fmt.Sprintf("%.0f", *run.JobsPerS)
	}},
}

// Table writes a table for terminals with a row for each policy, and notes below
// the table. The table is at most width characters wide where that is possible; 0
// means any width. Repeats give means with half the width of their 95 % confidence
// intervals.
func (r *Report) Table(w io.Writer, width int) error {
	b := bufio.NewWriter(w)
	cells := make([][]string, len(columns))
	for i, c := range columns {
		cells[i] = append(cells[i], c.head)
		for k := 0; k < len(r.Runs); {
			var m *simulatedoc.Means
			step := 1
			if r.Means != nil {
				m = &r.Means[len(cells[i])-1]
				step = int(m.Repeats)
			}
			cells[i] = append(cells[i], c.of(&r.Runs[k], m))
			k += step
		}
	}
	shown := fitting(cells, width)
	for row := range cells[0] {
		line := ""
		for n, i := range shown {
			cell := cells[i][row]
			pad := strings.Repeat(" ", widest(cells[i])-utf8.RuneCountInString(cell))
			switch {
			case n == 0:
				line = cell + pad
			default:
				line += "  " + pad + cell
			}
		}
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
	for _, note := range r.notes() {
		fmt.Fprintln(b, note)
	}
	return b.Flush()
}

// fitting returns the columns that are shown: those with a value in some row, and as
// many as fit.
func fitting(cells [][]string, width int) []int {
	var shown []int
	sum := 0
	for i := range cells {
		empty := true
		for _, cell := range cells[i][1:] {
			empty = empty && cell == ""
		}
		if !empty {
			shown = append(shown, i)
			sum += widest(cells[i]) + 2
		}
	}
	for width > 0 && sum-2 > width {
		worst := 0
		for n, i := range shown {
			if columns[i].rank > columns[shown[worst]].rank {
				worst = n
			}
		}
		if columns[shown[worst]].rank == 0 {
			break
		}
		sum -= widest(cells[shown[worst]]) + 2
		shown = append(shown[:worst:worst], shown[worst+1:]...)
	}
	return shown
}

func widest(cells []string) int {
	most := 0
	for _, c := range cells {
		most = max(most, utf8.RuneCountInString(c))
	}
	return most
}

// notes returns the notes that a reader of the figures needs.
func (r *Report) notes() []string {
	var out []string
	if r.Means != nil {
		out = append(out, fmt.Sprintf("means of %d repeats, ± half the width of the 95 %% confidence interval",
			r.Means[0].Repeats))
	}
	simplex, dropped := "", int64(0)
	for i := range r.Runs {
		x := &r.Runs[i]
		if x.LP == BuiltInLP && simplex != x.Policy {
			simplex = x.Policy
			out = append(out, simplex+": HiGHS does not run, the built-in simplex chose among equally good "+
				"divisions; see "+
				"docs/use/policies.md")
		}
		if dropped = x.Dropped; dropped > 0 {
			who := x.Policy
			if r.Means != nil {
				who = fmt.Sprintf("%s, seed %d", x.Policy, x.Seed)
			}
			out = append(out, fmt.Sprintf(
				"%s: %d of %d jobs were dropped after five leases without a step for each GPU, as "+
					"in Gavel; no mean counts them", who, dropped, x.Jobs))
		}
	}
	return slices.Concat(out, r.boundNote(), r.Notes)
}
