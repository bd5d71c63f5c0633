package task

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// NewSRTF runs the jobs with the least time left, from round to round: a job that
// is preempted waits at the end of its round. It knows how long jobs take.
//
// [I] The time left is that of the rounds left on the fastest type in service
// that is wide enough; a round is a gang on the fastest type with room; jobs
// that do not fit are passed over, so that wide ones may wait long.
func NewSRTF(inst *hare.Instance) online.Policy {
	return newDesk(inst, rule{hold: hare.Gang, rounds: knowing(inst), key: func(d *desk, s *seat) float64 {
		return float64(s.rounds-s.round) * float64(d.leastUs(s))
	}})
}
