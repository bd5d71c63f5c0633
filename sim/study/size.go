package study

import (
	"io"

	registry "github.com/hare-sched/hare/sim/policies"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// CountRuns returns the number of runs that a request asks for.
func CountRuns(req *simulatedoc.Request) int { return (*request)(req).countRuns() }

// GuessJobs estimates the number of jobs of a run without parsing the trace: a trace
// has about one job a line. O(bytes of the trace).
func GuessJobs(req *simulatedoc.Request) int {
	switch {
	case req.Instance != nil:
		return len(req.Instance.Jobs)
	case req.Generate != nil:
		return int(req.Generate.Jobs)
	case req.Trace == nil:
		return 0
	}
	var n lineCount
	if src, err := (*jobsTrace)(req.Trace).source(); err == nil {
		_, _ = io.Copy(&n, src.R) // reading memory or an embedded file cannot fail
	}
	return int(n)
}

// NeedsLP reports whether a policy of a request solves linear programs, which
// makes its runs far longer than others.
func NeedsLP(req *simulatedoc.Request) bool {
	for _, name := range req.Policies {
		if p, err := registry.Find(name); err == nil && p.Needs.LP {
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
