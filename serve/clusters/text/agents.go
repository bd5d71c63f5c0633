package text

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hare-sched/hare/internal/words"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Agents is the table of hare agents.
func Agents(all []*clusterdoc.Agent) string {
	if len(all) == 0 {
		return "no agents: start hare agent on each node\n"
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NODE\tSTATE\tGPUS\tBUSY\tSEEN\tJOBS AND FAULTS")
	for _, a := range all {
		busy := 0
		var notes []string
		if a.Reason != "" {
			notes = append(notes, words.Plain(a.Reason))
		}
		jobs := map[string][]string{}
		var order []string
		for i, d := range a.Devices {
			if d.Job != "" {
				busy++
				if jobs[d.Job] == nil {
					order = append(order, d.Job)
				}
				jobs[d.Job] = append(jobs[d.Job], fmt.Sprint(i))
			}
			if d.State == "quarantined" || d.Reason != "" {
				notes = append(notes, fmt.Sprintf("GPU %d %s: %s", i, d.State, words.Plain(d.Reason)))
			}
		}
		var runs []string
		for _, id := range order {
			runs = append(runs, id+" on "+strings.Join(jobs[id], ","))
		}
		if len(a.Homes) > 0 {
			runs = append(runs, "parameters of "+strings.Join(a.Homes, ","))
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", words.Plain(a.Name), a.State, gpusByType(a), busy, seen(a),
			strings.Join(append(runs, notes...), "; "))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return out.String()
}

// gpusByType is V100=2,T4=2.
func gpusByType(a *clusterdoc.Agent) string {
	count := map[string]int{}
	var types []string
	for _, d := range a.Devices {
		if count[d.Type] == 0 {
			types = append(types, d.Type)
		}
		count[d.Type]++
	}
	for i, t := range types {
		types[i] = fmt.Sprintf("%s=%d", words.Plain(t), count[t])
	}
	return strings.Join(types, ",")
}

func seen(a *clusterdoc.Agent) string {
	return briefTime(time.Duration(a.SeenS*float64(time.Second))) + " ago"
}
