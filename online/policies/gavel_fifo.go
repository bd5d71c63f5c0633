package policies

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
)

// byArrival serves jobs in the order in which they arrived.
func byArrival(_ *list.Scheduler, j *list.JobState) float64 { return float64(j.Number()) }

// NewGavelFIFO is the baseline Gavel_FIFO of the Hare paper: jobs run in the order of
// their arrival, each on the fastest type that has room, until they end. The policy
// gavel:fifo is another one, which shares time by leases.
//
// [V] Jobs are served first in, first out, on the fastest available type. [I] A job that
// does not fit stops the jobs behind it; rounds are gangs of one type.
func NewGavelFIFO(cluster *hare.Cluster) *list.Scheduler {
	return list.New(cluster, gavelFIFO())
}

func gavelFIFO() list.Rule {
	return list.Rule{Name: "gavel_fifo", Hold: hare.Rigid, Strict: true, Priority: byArrival}
}
