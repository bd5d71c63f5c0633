package policies

import "github.com/hare-sched/hare/online/list"

// rankOf is the place of a job by a rule that sets it in a plan of all waiting jobs and keeps it in JobState.Own; the
// least goes first.
func rankOf(j *list.JobState) float64 {
	x, _ := j.Own.(float64)
	return x
}
