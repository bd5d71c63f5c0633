package text

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/hare-sched/hare/internal/words"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Clusters is the table of hare cluster list.
func Clusters(all []*clusterdoc.Cluster) string {
	if len(all) == 0 {
		return "no clusters: the first hare agent or hare submit makes one\n"
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tPOLICY\tAGENTS\tGPUS\tFREE\tJOBS")
	for _, c := range all {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\n", words.Plain(c.Name), words.Plain(c.Policy), c.Agents, c.GPUs,
			c.FreeGPUs, counts(c))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return out.String()
}

// Cluster describes a cluster and its session.
func Cluster(c *clusterdoc.Cluster) string {
	policy := words.Plain(c.Policy)
	if len(c.Parameters) > 0 {
		policy += " " + strings.Join(strings.Fields(string(c.Parameters)), " ")
	}
	return fmt.Sprintf("cluster %s, policy %s: %s\nsession %s\n", c.Name, policy, inService(c), words.Plain(c.Session))
}

// inService says what a cluster has, and how many jobs are in which state.
func inService(c *clusterdoc.Cluster) string {
	return fmt.Sprintf("%s, %d of %s free; %s", words.Count(c.Agents, "agent"), c.FreeGPUs, words.Count(c.GPUs, "GPU"),
		counts(c))
}

// counts says how many jobs of a cluster are in which state.
func counts(cluster *clusterdoc.Cluster) string {
	var parts []string
	for _, s := range clusterdoc.JobStates() {
		if n := cluster.Jobs[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		return "no jobs"
	}
	return strings.Join(parts, ", ")
}
