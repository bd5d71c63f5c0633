package advice

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
)

// State is a cluster at one time, as the scheduler that runs it tells.
type State struct {
	NowUs int64 // since 1970
	Nodes []Node
	// Jobs are the jobs with GPUs that wait or run or have ended lately, the longest waiting first.
	// Of several jobs with one ID, the first one that has not ended counts.
	Jobs []Job
}

// Node is a node in service.
type Node struct {
	Name   string
	GPUs   []hare.TypeCount
	Labels []hare.Label // for the Only and Exclude of jobs; those beyond hare.MaxLabels are dropped
}

// JobState says what the cluster does with a job.
type JobState int

// The states of jobs.
const (
	Waiting JobState = iota // for GPUs or its turn alone
	Running
	Ended
)

// Job is a job, or one task of an array.
type Job struct {
	// Spec is the job as the session is told it, a rigid one; nil means that no node can run the job,
	// and the session is not told of it. Users and weights of quotas are the session's.
	Spec  *hare.Job
	State JobState
	// Completed says that an ended job has done what it was to do.
	Completed      bool
	StartUs, EndUs int64 // since 1970
	// On is where a running job is: nodes with counts of GPUs. An empty type means any.
	On []history.Held
}

// nodes returns the nodes with GPUs by name.
func (s *State) nodes() map[string]*Node {
	out := map[string]*Node{}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; len(n.GPUs) > 0 {
			out[n.Name] = n
		}
	}
	return out
}
