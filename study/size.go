package study

import (
	"io"

	"github.com/hare-sched/hare/policy"
	"github.com/hare-sched/hare/study/simulation"
)

// CountRuns returns the number of runs that a request asks for.
func CountRuns(r *simulation.Request) int { return (*request)(r).countRuns() }

// GuessJobs estimates the number of jobs of a run without parsing the trace: a trace
// has about one job a line. O(bytes of the trace).
func GuessJobs(r *simulation.Request) int {
	switch {
	case r.Instance != nil:
		return len(r.Instance.Jobs)
	case r.Generate != nil:
		return int(r.Generate.Jobs)
	}
	var n lineCount
	if src, err := (*jobsTrace)(r.Trace).source(); err == nil {
		_, _ = io.Copy(&n, src.R) // reading memory or an embedded file cannot fail
	}
	return int(n)
}

// NeedsLP reports whether a policy of a request solves linear programs, which
// makes its runs far longer than others.
func NeedsLP(r *simulation.Request) bool {
	for _, name := range r.Policies {
		if p, err := policy.Find(name); err == nil && p.Needs.LP {
			return true
		}
	}
	return false
}

// lineCount counts the lines that are written to it.
type lineCount int

func (n *lineCount) Write(b []byte) (int, error) {
	for _, c := range b {
		if c == '\n' {
			*n++
		}
	}
	return len(b), nil
}
