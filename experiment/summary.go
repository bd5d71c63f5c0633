package experiment

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// Row is a policy on the instances of a group: means over them.
type Row struct {
	Group, Policy, Knows string
	Instances            int
	WeightedJCTS         float64 // weight-seconds
	BoundS               float64 // certified, weight-seconds
	Ratio                float64 // of the sums: how far from the best possible, at most
	// Lower is 1 − the first policy's weighted JCT over this one's, in percent:
	// below 0 where this one is better.
	Lower                                float64
	MeanJCTS, P90JCTS, P99JCTS           float64
	MakespanS, Utilisation               float64
	MeanRho, Jain, P99Slowdown, Switches float64
}

// Rows averages the runs of each group and policy, in the order of the runs.
func (r *Report) Rows() []Row {
	type key struct{ group, policy string }
	at := map[key]int{}
	first := map[string]int{} // row of the group's first policy
	var rows []Row
	for _, x := range r.Runs {
		k := key{x.Group, x.Policy.Name}
		i, ok := at[k]
		if !ok {
			i = len(rows)
			at[k] = i
			rows = append(rows, Row{Group: x.Group, Policy: x.Policy.Name, Knows: string(x.Policy.Knows)})
			if _, ok := first[x.Group]; !ok {
				first[x.Group] = i
			}
		}
		y, m := &rows[i], x.Metrics
		y.Instances++
		for _, sum := range []struct {
			to *float64
			by float64
		}{
			{&y.WeightedJCTS, m.WeightedJCTS}, {&y.BoundS, x.Bound}, {&y.MeanJCTS, m.MeanJCTS}, {&y.P90JCTS, m.P90JCTS}, {&y.P99JCTS, m.P99JCTS},
			{&y.MakespanS, m.MakespanS}, {&y.Utilisation, m.Utilisation}, {&y.MeanRho, m.MeanRho}, {&y.Jain, m.Jain},
			{&y.P99Slowdown, m.P99Slowdown}, {&y.Switches, float64(m.Switches)},
		} {
			n := float64(y.Instances)
			*sum.to += (sum.by - *sum.to) / n
		}
	}
	for i := range rows {
		y := &rows[i]
		if y.BoundS > 0 {
			y.Ratio = y.WeightedJCTS / y.BoundS
		}
		if y.WeightedJCTS > 0 {
			y.Lower = 100 * (1 - rows[first[y.Group]].WeightedJCTS/y.WeightedJCTS)
		}
	}
	return rows
}

// CSV writes a line a run.
func (r *Report) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	lines := [][]string{{
		"group", "instance", "policy", "knows", "weighted_jct_s", "bound_s", "value_over_bound", "mean_jct_s", "p50_jct_s", "p90_jct_s", "p99_jct_s", "makespan_s",
		"utilization", "mean_wait_s", "mean_slowdown", "p99_slowdown", "mean_rho", "worst_rho", "jain", "switches",
	}}
	f := func(x float64) string { return strconv.FormatFloat(x, 'f', 6, 64) }
	for _, x := range r.Runs {
		m := x.Metrics
		lines = append(lines, []string{
			x.Group, x.Instance, x.Policy.Name, string(x.Policy.Knows), f(m.WeightedJCTS), f(x.Bound), f(x.Ratio), f(m.MeanJCTS), f(m.P50JCTS), f(m.P90JCTS), f(m.P99JCTS), f(m.MakespanS),
			f(m.Utilisation), f(m.MeanWaitS), f(m.MeanSlowdown), f(m.P99Slowdown), f(m.MeanRho), f(m.WorstRho), f(m.Jain), strconv.FormatInt(m.Switches, 10),
		})
	}
	return c.WriteAll(lines)
}

// Markdown writes a table a group, with means over its instances.
func (r *Report) Markdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# %s\n\n%s\n%s\n", r.Info.Title, r.Info.Text, r.Info.Published)
	rows := r.Rows()
	for i, y := range rows {
		if i == 0 || rows[i-1].Group != y.Group {
			fmt.Fprintf(b, "\n%s; means over %d instances, certified bound %.0f\n\n", y.Group, y.Instances, y.BoundS)
			fmt.Fprintf(b, "| policy | knows | weighted JCT | value/bound | %s is lower by | mean JCT s | p90 s | makespan s | use | mean rho | Jain | switches |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n", rows[i].Policy)
		}
		fmt.Fprintf(b, "| %s | %s | %.0f | %.3f | %.1f %% | %.1f | %.1f | %.0f | %.0f %% | %.2f | %.2f | %.0f |\n",
			y.Policy, y.Knows, y.WeightedJCTS, y.Ratio, y.Lower, y.MeanJCTS, y.P90JCTS, y.MakespanS, 100*y.Utilisation, y.MeanRho, y.Jain, y.Switches)
	}
	return b.Flush()
}
