package study

import (
	"io"

	"github.com/hare-sched/hare/policy"
)

// CountRuns is the number of runs that the request asks for.
func (r *Request) CountRuns() int { return len(r.Policies) * r.repeats() }

// GuessJobs is about the number of jobs of a run, before any text is read: a
// trace has a job a line. O(bytes of the trace).
func (r *Request) GuessJobs() int {
	switch {
	case r.Instance != nil:
		return len(r.Instance.Jobs)
	case r.Generate != nil:
		return r.Generate.Jobs
	}
	var n lineCount
	if src, err := r.Trace.source(); err == nil {
		_, _ = io.Copy(&n, src.R) // memory, or a file of the program's own
	}
	return int(n)
}

// NeedsLP says that a policy of the request solves linear programs, so that its
// runs take far longer than others.
func (r *Request) NeedsLP() bool {
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
