package list

import (
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// guardUs is when a job that waits will be due if turns go on to take as long as now; −1
// where there is no guard or that time is beyond all documents.
func (l *Scheduler) guardUs(j *JobState) int64 {
	x := &j.guarded
	if !l.guards() || !j.waits() {
		return -1
	}
	if x.ticket > 0 {
		return l.nowUs
	}
	if x.back {
		return -1
	}
	miss, gpus := max(0, l.mayMiss(j)), int64(l.GPUs())
	if gpus == 0 {
		return -1
	}
	left := max(0, miss-(l.turnsNow()-x.turns))
	turnUs := max(l.guard.work, gpus*leastTurnUs)
	at := max(add(l.nowUs, mulDivUp(left, turnUs, gpus*nano)), add(x.sinceUs, mulDivUp(miss, x.roundUs, nano)))
	if at > hare.MaxExact {
		return -1
	}
	return at
}

// guardStatus completes the status of GPUs of a type by those that are kept for jobs that
// are due.
func (l *Scheduler) guardStatus(gpuType int, s *online.TypeStatus) {
	for _, j := range l.guard.due {
		for _, g := range j.guarded.gpus {
			if l.gpus[g].Type != gpuType || l.gpus[g].Job != nil {
				continue
			}
			if s.GatheredFor == "" {
				s.GatheredFor = j.spec.ID
			}
			s.Free--
			s.Gathered++
		}
	}
}

// guardWhy says what the guard does for a job that waits; "" where it does nothing.
func (l *Scheduler) guardWhy(j *JobState, s *online.JobStatus) string {
	switch x := &j.guarded; {
	case x.ticket > 0:
		free := 0
		for _, g := range x.gpus {
			if l.gpus[g].Job == nil {
				free++
			}
		}
		return fmt.Sprintf(" The starvation guard serves it, because it has waited too long: %s kept for it, and %d of "+
			"them %s free.", count(len(x.gpus), "GPU is", "GPUs are"), free, isAre(free))
	case s.GuardUs >= 0:
		return fmt.Sprintf(" The starvation guard would serve it in %s at the latest.", online.RoundedUp(s.GuardUs-l.nowUs))
	}
	return ""
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
