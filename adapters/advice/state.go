package advice

import (
	"slices"

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
	// Quotas limit the GPUs of jobs by Job.Queue, which is the user of a quota, on the quota's types.
	Quotas []hare.Quota
}

// Node is a node in service.
type Node struct {
	Name   string
	GPUs   []hare.TypeCount
	Labels []hare.Label // for the Only and Exclude of jobs; those beyond hare.MaxLabels are dropped
	// CPUMilli and MemoryMiB are the thousandths of CPUs and the memory for jobs; 0 means no limit.
	CPUMilli, MemoryMiB int64
}

// JobState says what the cluster does with a job.
type JobState int

// The states of jobs.
const (
	Waiting JobState = iota // for GPUs, or until others have started
	Running
	Ended
)

// Job is a job, or one task of an array.
type Job struct {
	// Spec is the job as the session gets it, a rigid one; nil means that no node can run the job,
	// and the session does not learn of it. Users and weights of quotas are the session's.
	Spec  *hare.Job
	State JobState
	// Name and User are for people.
	Name, User string
	// Completed says that an ended job has done what it was to do.
	Completed      bool
	StartUs, EndUs int64 // since 1970
	// Queue names whose quotas count the job; empty means none.
	Queue string
	// On is where a running job is: nodes with counts of GPUs. An empty type means any.
	On []history.Held
}

// byType returns the jobs, with a job for each type of those that run on several GPU types at once: a
// rigid job of a session has one type.
func (s *State) byType() []Job {
	mixed := func(j Job) bool {
		return j.State == Running && j.Spec != nil && len(typesOn(j.On)) > 1
	}
	if !slices.ContainsFunc(s.Jobs, mixed) {
		return s.Jobs
	}
	var out []Job
	for _, j := range s.Jobs {
		if !mixed(j) {
			out = append(out, j)
			continue
		}
		for _, gpuType := range typesOn(j.On) {
			part, spec := j, *j.Spec
			part.On, spec.Tasks, spec.GPUsPerTask, spec.DistinctNodes = nil, 0, 0, false
			for _, h := range j.On {
				if h.Type == gpuType {
					part.On = append(part.On, h)
					spec.Tasks += h.GPUs
				}
			}
			spec.ID += "@" + gpuType
			spec.CPUMilliPerTask = j.Spec.CPUMilliPerTask / j.Spec.TaskGPUs()
			spec.MemoryMiBPerTask = j.Spec.MemoryMiBPerTask / j.Spec.TaskGPUs()
			part.Spec = &spec
			out = append(out, part)
		}
	}
	return out
}

// typesOn lists the GPU types of what a job has, sorted.
func typesOn(on []history.Held) (types []string) {
	for _, h := range on {
		if h.Type != "" && h.GPUs > 0 {
			types = append(types, h.Type)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
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
