package study

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"maps"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/online/policies"

	registry "github.com/hare-sched/hare/sim/policies"
)

// jobsText says where the jobs of a request come from.
func (rq *request) jobsText() string {
	switch {
	case rq.Trace != nil && rq.Trace.Text != nil:
		return "a trace that was sent"
	case rq.Trace != nil:
		return "trace " + rq.Trace.Name
	case rq.Generate != nil:
		return fmt.Sprintf("%s drawn, arrivals %s, sync %s", words.Count(rq.Generate.Jobs, "job"),
			cmp.Or(rq.Generate.Arrivals, "none"),
			cmp.Or(rq.Generate.Sync, "relaxed"))
	}
	return "instance " + cmp.Or(rq.Instance.Name, "without a name")
}

// clusterText lists the GPUs by type.
func (in *jobsInput) clusterText() string {
	var counts []hare.TypeCount
	add := func(name string, n int) {
		at := slices.IndexFunc(counts, func(c hare.TypeCount) bool { return c.Type == name })
		if at < 0 {
			at = len(counts)
			counts = append(counts, hare.TypeCount{Type: name})
		}
		counts[at].Count += n
	}
	switch {
	case in.tasks != nil:
		for _, n := range in.tasks.Cluster.Nodes {
			for _, g := range n.GPUs {
				add(g.Type, g.Count)
			}
		}
	case in.leases != nil:
		for i, name := range in.leases.cluster.Types {
			add(name, in.leases.cluster.GPUs[i])
		}
	default:
		for _, n := range in.elastic.cluster.Nodes {
			add(in.elastic.cluster.GPUType, n)
		}
	}
	slices.SortFunc(counts, func(a, b hare.TypeCount) int { return strings.Compare(a.Type, b.Type) })
	text := make([]string, len(counts))
	for i, c := range counts {
		text[i] = fmt.Sprintf("%s=%d", c.Type, c.Count)
	}
	return strings.Join(text, ",")
}

// speedNote says that the types of the cluster count as equally fast where they do:
// every job takes the same time on all types that it may use, and some job may use
// several.
func (in *jobsInput) speedNote() []string {
	if in.tasks == nil {
		return nil
	}
	several := false
	for i := range in.tasks.Jobs {
		on := in.tasks.Jobs[i].On
		several = several || len(on) > 1
		for _, p := range on {
			if p.ComputeUs != on[0].ComputeUs || p.SyncUs != on[0].SyncUs {
				return nil
			}
		}
	}
	if !several {
		return nil
	}
	return []string{"all GPU types count as equally fast: every job takes the same time on each type that it may use"}
}

// parametersNote says with which parameters policies were made.
func (rq *request) parametersNote() []string {
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(rq.Parameters)) {
		notes = append(notes, fmt.Sprintf("parameters: %s has %s", name, rq.Parameters[name]))
	}
	return notes
}

// sizesNote says which policies know sizes although the others go by estimates, and how
// many jobs carry what policies may go by.
func (rq *request) sizesNote(in *jobsInput, infos []registry.Info) []string {
	if !rq.estimates() {
		return nil
	}
	var notes, told []string
	for _, info := range infos {
		if info.Engine != registry.Task && info.Knows == policies.Sizes {
			told = append(told, info.Name)
		}
	}
	if told != nil {
		notes = append(notes, "sizes: only policies of tasks go by estimates; "+strings.Join(told, ", ")+" knows sizes")
	}
	if in.tasks == nil {
		return notes
	}
	hinted := 0
	for i := range in.tasks.Jobs {
		if in.tasks.Jobs[i].Hints != nil {
			hinted++
		}
	}
	return append(notes, fmt.Sprintf("sizes: %d of %d jobs carry estimate_s or class, and policies of tasks learn from "+
		"the jobs that end", hinted, len(in.tasks.Jobs)))
}
