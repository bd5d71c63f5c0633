package capacity

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/hare-sched/hare/internal/words"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// Text prints the report for people.
func (rep *Report) Text(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, rep.what())
	b.WriteByte('\n')
	for _, s := range rep.Decision {
		fmt.Fprintln(&b, s)
	}
	if len(rep.Decision) > 0 {
		b.WriteByte('\n')
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	head, rows := rep.table()
	fmt.Fprintln(w, strings.ToUpper(strings.Join(head, "\t")))
	for _, cells := range rows {
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, line := range rep.notes() {
		fmt.Fprintln(&b, line)
	}
	if proved := rep.proved(); len(proved) > 0 {
		fmt.Fprintf(&b, "\nProved for the best plan of %s of the history:\n", rep.certainOf())
		for _, c := range proved {
			fmt.Fprintf(&b, "  %s: the mean completion gets shorter by %s to %s\n", c[0], c[1], c[2])
		}
	}
	fmt.Fprintln(&b, "\nAssumed:")
	for _, a := range rep.Assumed {
		fmt.Fprintf(&b, "  %s.\n", a)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// what says what the weeks are drawn from.
func (rep *Report) what() string {
	growth := ""
	if rep.Growth != 1 {
		growth = fmt.Sprintf(", × %v", rep.Growth)
	}
	for _, l := range rep.Grow {
		growth += fmt.Sprintf(", %s × %v", l.Name, l.Factor)
	}
	return fmt.Sprintf("%s of %s of history, drawn into %s of %s%s with %.0f jobs each", words.Count(rep.Jobs, "job"),
		words.Count(rep.HistoryDays, "day"),
		words.Count(rep.Weeks, "week"), words.Count(rep.Days, "day"), growth, rep.WeekJobs)
}

// table is the table of all rows in words.
func (rep *Report) table() (head []string, rows [][]string) {
	head = []string{"option", "policy", "mean wait", "p95 wait", "mean completion", "use"}
	goal, prices, due := rep.Goal != "", false, false
	if len(rep.Rows) > 0 {
		prices, due = rep.Rows[0].CostPerWeek != nil, rep.Rows[0].DeadlinesMet != nil
	}
	if due {
		head = append(head, "deadlines")
	}
	if prices {
		head = append(head, "added cost", "per hour saved")
	}
	if goal {
		head = append(head, "goal reached")
	}
	for i := range rep.Rows {
		r := &rep.Rows[i]
		cells := []string{r.Option, r.Policy, estimate(r.MeanWaitS), estimate(r.P95WaitS), estimate(r.MeanCompletionS),
			use(r)}
		if due {
			cells = append(cells, percent(r.DeadlinesMet.Mean))
		}
		if prices {
			saved := "-"
			if r.CostPerHourSaved != nil {
				saved = money(*r.CostPerHourSaved)
			}
			cells = append(cells, money(*r.AddedCostPerWeek), saved)
		}
		if goal {
			cells = append(cells, fmt.Sprintf("%s (%.0f to %.0f %%)", percent(r.Reached.Share), r.Reached.Low*100,
				r.Reached.High*100))
		}
		if r.Marked > 0 {
			cells[1] += " *"
		}
		rows = append(rows, cells)
	}
	return head, rows
}

// notes says what cannot help, and what the marks in the table mean.
func (rep *Report) notes() (out []string) {
	for i := range rep.Rows {
		if rep.Rows[i].Marked > 0 {
			out = append(out, "* in some weeks the policy did worse than on a smaller cluster in this table, whose figures "+
				"stand here")
			break
		}
	}
	for i := range rep.Rows {
		if r := &rep.Rows[i]; r.Policy == rep.Rows[0].Policy {
			for _, why := range r.Why {
				out = append(out, r.Option+": "+why)
			}
		}
	}
	return out
}

// proved are the options with the least and the most that they bring.
func (rep *Report) proved() (out [][]string) {
	for _, c := range rep.Certain {
		if c.Endless || c.MostS == nil {
			continue
		}
		least := "0 s"
		if c.LeastS != nil {
			least = words.Seconds(*c.LeastS)
		}
		out = append(out, []string{c.Option, least, words.Seconds(*c.MostS)})
	}
	return out
}

func estimate(e capacitydoc.Estimate) string {
	if e.Half == 0 {
		return words.Seconds(e.Mean)
	}
	return words.Seconds(e.Mean) + " ± " + words.Seconds(e.Half)
}

// use is the share of GPU time that jobs hold, by type.
func use(r *capacitydoc.Row) string {
	var parts []string
	for _, t := range sortedKeys(r.Use) {
		parts = append(parts, fmt.Sprintf("%s %.0f %%", t, r.Use[t]*100))
	}
	return strings.Join(parts, ", ")
}

// CSV writes the rows as a table.
func (rep *Report) CSV(out io.Writer) error {
	w := csv.NewWriter(out)
	types := sortedKeys(allTypes(rep.Rows))
	head := []string{"option", "policy", "mean_wait_s", "mean_wait_half_s", "p95_wait_s", "p95_wait_half_s",
		"mean_completion_s", "mean_completion_half_s", "p95_completion_s", "p95_completion_half_s", "mean_wait_saved_s",
		"deadlines_met", "cost_per_week", "added_cost_per_week", "cost_per_hour_saved", "goal_reached", "goal_reached_low",
		"goal_reached_high"}
	for _, t := range types {
		head = append(head, "gpu_hours_"+t, "use_"+t)
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	known := func(x *float64) string {
		if x == nil {
			return ""
		}
		return number(*x)
	}
	rows := [][]string{head}
	for i := range rep.Rows {
		r := &rep.Rows[i]
		cells := []string{r.Option, r.Policy}
		for _, e := range []capacitydoc.Estimate{r.MeanWaitS, r.P95WaitS, r.MeanCompletionS, r.P95CompletionS} {
			cells = append(cells, number(e.Mean), number(e.Half))
		}
		cells = append(cells, number(r.SavedS.Mean))
		if r.DeadlinesMet != nil {
			cells = append(cells, number(r.DeadlinesMet.Mean))
		} else {
			cells = append(cells, "")
		}
		cells = append(cells, known(r.CostPerWeek), known(r.AddedCostPerWeek), known(r.CostPerHourSaved))
		if r.Reached != nil {
			cells = append(cells, number(r.Reached.Share), number(r.Reached.Low), number(r.Reached.High))
		} else {
			cells = append(cells, "", "", "")
		}
		for _, t := range types {
			if e, ok := r.GPUHours[t]; ok {
				cells = append(cells, number(e.Mean), number(r.Use[t]))
			} else {
				cells = append(cells, "", "")
			}
		}
		rows = append(rows, cells)
	}
	return w.WriteAll(rows)
}

func allTypes(rows []capacitydoc.Row) map[string]bool {
	all := map[string]bool{}
	for i := range rows {
		for t := range rows[i].Use {
			all[t] = true
		}
	}
	return all
}
