package task

import "github.com/hare-sched/hare"

// leased is the part of a rule that lets a job keep its GPUs for some time, from
// round to round, before it must ask again. A lease ends with the round in which
// it runs out, and with the job.
type leased struct{ longUs int64 }

// began starts a lease where none runs. It is rule.began.
func (l leased) began(d *desk, s *seat, kind int) {
	if d.nowUs >= s.leaseUs {
		s.leaseUs = d.nowUs + l.longUs
	}
	s.kind = -1
	if _, mix := d.holding(s); s.hold != hare.Relaxed && !mix {
		s.kind = kind
	}
}

// goesOn says whether a job that waits at the end of a round has time left, and
// frees it to go anywhere where it has not, or where its GPUs are gone.
func (l leased) goesOn(d *desk, s *seat) bool {
	on := d.nowUs < s.leaseUs
	if !on || s.kind >= 0 && int64(len(d.free[s.kind])) < s.spec.Tasks {
		s.kind = -1
	}
	return on
}
