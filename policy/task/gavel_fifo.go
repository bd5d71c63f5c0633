package task

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

func byArrival(_ *desk, s *seat) float64 { return float64(s.serial) }

// NewGavelFIFO is the baseline Gavel_FIFO of the Hare paper: jobs in the order
// of their arrival, each on the fastest type that has room, for as long as it
// lasts. Not to be confused with gavel:fifo, which shares time by leases.
//
// [V] first in, first out, on the fastest available type. [I] A job that does
// not fit stops those behind it; rounds are gangs of one type.
func NewGavelFIFO(inst *hare.Instance) online.Policy {
	return newDesk(inst, rule{hold: hare.Rigid, strict: true, key: byArrival})
}

// NewKueue is gang FIFO as in Kueue, the job queue of Kubernetes: a job is
// admitted when all of its GPUs are there, and keeps them until it ends. strict
// is Kueue's StrictFIFO, where the oldest job that cannot be admitted stops those
// behind it; otherwise BestEffortFIFO, its default, where they pass it.
//
// [S] Types (flavors) are tried in a fixed order, which is not one of speed: by
// name here. [I] No quotas, cohorts, preemption or priorities.
func NewKueue(inst *hare.Instance, strict bool) online.Policy {
	return newDesk(inst, rule{hold: hare.Rigid, blind: true, strict: strict, key: byArrival})
}
