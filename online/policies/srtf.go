package policies

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
)

// NewSRTF runs the jobs with the least time left, from round to round: a job that
// is preempted waits at the end of its round. It knows how long jobs take; in sessions it
// goes by estimates.
//
// [I] The time left is that of the rounds left on the fastest type in service
// that is wide enough; a round is a gang on the fastest type with room; jobs
// that do not fit are passed over, so that wide ones may wait long.
func NewSRTF(cluster *hare.Cluster, sizes JobSizes) *list.Scheduler {
	return list.New(cluster, srtf(sizes.Rounds))
}

// srtf is the rule for the rounds of each job; nil means that they are learned.
func srtf(rounds map[string]int64) list.Rule {
	return list.Rule{
		Name: "srtf", Hold: hare.Gang, Rounds: rounds, LearnSizes: rounds == nil,
		Priority: func(l *list.Scheduler, j *list.JobState) float64 {
			return float64(j.RoundsLeft()) * float64(l.RoundUs(j))
		},
	}
}
