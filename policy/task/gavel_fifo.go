package task

import "github.com/hare-sched/hare"

// byArrival serves jobs in the order in which they arrived.
func byArrival(_ *ListScheduler, j *JobState) float64 { return float64(j.serial) }

// NewGavelFIFO is the baseline Gavel_FIFO of the Hare paper: jobs in the order
// of their arrival, each on the fastest type that has room, for as long as it
// lasts. Not to be confused with gavel:fifo, which shares time by leases.
//
// [V] first in, first out, on the fastest available type. [I] A job that does
// not fit stops those behind it; rounds are gangs of one type.
func NewGavelFIFO(cluster *hare.Cluster) *ListScheduler {
	return NewListScheduler(cluster, gavelFIFO())
}

func gavelFIFO() Rule {
	return Rule{Name: "gavel_fifo", Hold: hare.Rigid, Strict: true, Priority: byArrival}
}
