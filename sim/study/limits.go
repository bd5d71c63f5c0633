package study

import (
	"fmt"
	"slices"

	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// Limits bound the time and memory of a simulation by its input, before the
// simulation begins. A zero field limits nothing.
type Limits struct {
	Runs int   // policies times repeats
	Jobs int   // jobs of a run
	Sum  int   // jobs of all runs together, whose figures are kept
	Work int64 // tasks of a run of the task engine, which are simulated one by one
	GPUs int   // GPUs of the cluster
	// Faults limits the number of faults that name nodes times the number of GPUs.
	Faults int
	// Matched limits the jobs of a run of a policy that matches all waiting jobs with
	// all positions at each change: the memory grows with the square of the jobs.
	Matched int
}

// matching lists the policies that Limits.Matched limits.
var matching = []string{"sched_allox"}

// Check refuses requests that are too large, as far as the request alone shows.
func (l *Limits) Check(req *simulatedoc.Request) error {
	r := (*request)(req)
	if n := r.countRuns(); l.Runs > 0 && n > l.Runs {
		at := "/repeat"
		if len(r.Policies) > l.Runs {
			at = "/policies"
		}
		return invalidAt(at, "too_large", "%d policies, %d times each, make %d runs: at most %d are allowed here",
			len(r.Policies), r.repeats(), n, l.Runs)
	}
	if g := r.Generate; g != nil && l.Jobs > 0 && g.Jobs > int64(l.Jobs) {
		return invalidAt("/generate/jobs", "too_large", "%d jobs: at most %d are allowed here", g.Jobs, l.Jobs)
	}
	return nil
}

// checkInput refuses requests that are too large, given the jobs that were read.
func (l *Limits) checkInput(r *request, in *jobsInput) error {
	at := "/instance"
	switch {
	case r.Trace != nil:
		at = "/trace"
	case r.Generate != nil:
		at = "/generate/jobs"
	}
	jobs, runs := in.jobs(), r.countRuns()
	if l.Jobs > 0 && jobs > l.Jobs {
		return invalidAt(at, "too_large", "%d jobs: at most %d are allowed here", jobs, l.Jobs)
	}
	if l.Sum > 0 && jobs > l.Sum/max(1, runs) {
		return invalidAt(at, "too_large", "%d jobs in %d runs: at most %d of both together are allowed here", jobs,
			runs,
			l.Sum)
	}
	for i, name := range r.Policies {
		if l.Matched > 0 && jobs > l.Matched && slices.Contains(matching, name) {
			return invalidAt(fmt.Sprintf("/policies/%d", i), "too_large",
				"%d jobs: at most %d are allowed here for %s, "+
					"which matches all that wait at each change", jobs, l.Matched, name)
		}
	}
	if inst := in.played(r); inst != nil && l.Work > 0 && tasksOf(inst, l.Work) > l.Work {
		return invalidAt(at, "too_large",
			"the jobs have more than %d tasks, which are simulated one by one: merge rounds "+
				"(merge_s; quantum_s of a trace), or take fewer jobs", l.Work)
	}
	gpus, nodes := in.gpus(), 0
	for _, f := range r.Faults {
		if f.Node != "" {
			nodes++
		}
	}
	switch {
	case l.GPUs > 0 && gpus > l.GPUs:
		return invalidAt("", "too_large", "the cluster has %d GPUs: at most %d are allowed here", gpus, l.GPUs)
	case l.Faults > 0 && nodes > 0 && gpus > l.Faults/nodes:
		return invalidAt("/faults", "too_large", "%d faults of nodes, of a cluster of %d GPUs: at most %d of both "+
			"together are allowed here", nodes, gpus, l.Faults)
	}
	return nil
}
