package audit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Run is one process of a task as it truly ran: from when it was started until none of its processes was left.
type Run struct {
	Agent   string
	Epoch   int64 // of the agent when it was ordered to start the task
	Order   int64 // number of the order in the epoch
	Job     string
	Attempt int64
	Task    int
	GPUs    []string // node/index
	Start   time.Time
	End     time.Time
}

// Runs checks what truly ran: no task of an attempt twice, no two attempts of a job at the same time, a later
// attempt always later, one task a GPU, and orders of an agent that rise by epoch and number. It takes
// O(n log n) for n runs.
func Runs(runs []Run) error {
	var bad []error
	violation := func(format string, args ...any) {
		if len(bad) < maxViolations {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	byStart := slices.Clone(runs)
	slices.SortStableFunc(byStart, func(a, b Run) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Order, b.Order))
	})
	once := map[key]bool{}
	type busy struct {
		until time.Time
		run   *Run
	}
	jobs := map[string][]busy{} // by job: the last end of each of its attempts
	gpus, agents := map[string]busy{}, map[string]*Run{}
	for i := range byStart {
		r := &byStart[i]
		k := key{r.Job, r.Attempt, r.Task}
		if once[k] {
			violation("task %d of attempt %d of job %s ran twice", r.Task, r.Attempt, r.Job)
		}
		once[k] = true
		for _, other := range jobs[r.Job] {
			switch {
			case other.run.Attempt > r.Attempt:
				violation("attempt %d of job %s started after attempt %d", r.Attempt, r.Job, other.run.Attempt)
			case other.run.Attempt < r.Attempt && other.until.After(r.Start):
				violation("attempt %d of job %s started on %s at %s, and attempt %d ran on %s until %s", r.Attempt, r.Job, r.Agent,
					r.Start.Format(clock), other.run.Attempt, other.run.Agent, other.until.Format(clock))
			}
		}
		if n := slices.IndexFunc(jobs[r.Job], func(b busy) bool { return b.run.Attempt == r.Attempt }); n < 0 {
			jobs[r.Job] = append(jobs[r.Job], busy{r.End, r})
		} else if jobs[r.Job][n].until.Before(r.End) {
			jobs[r.Job][n].until = r.End
		}
		for _, gpu := range r.GPUs {
			if other, ok := gpus[gpu]; ok && other.until.After(r.Start) {
				violation("GPU %s had job %s until %s, and job %s from %s", gpu, other.run.Job, other.until.Format(clock), r.Job,
					r.Start.Format(clock))
			}
			gpus[gpu] = busy{r.End, r}
		}
		if last := agents[r.Agent]; last != nil && cmp.Or(cmp.Compare(last.Epoch, r.Epoch),
			cmp.Compare(last.Order, r.Order)) >= 0 {
			violation("agent %s obeyed order %d of epoch %d after order %d of epoch %d", r.Agent, r.Order, r.Epoch, last.Order,
				last.Epoch)
		}
		agents[r.Agent] = r
	}
	return errors.Join(bad...)
}

const clock = "15:04:05.000000"
