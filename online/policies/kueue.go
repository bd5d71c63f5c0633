package policies

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
)

// NewKueue is gang FIFO as in Kueue, the job queue of Kubernetes: a job is admitted when
// all of its GPUs are free, and keeps them until it ends. strict is Kueue's StrictFIFO,
// where the oldest job that cannot be admitted stops the jobs behind it. Otherwise the
// policy is BestEffortFIFO, Kueue's default, where later jobs pass the oldest.
//
// [S] Types (flavors) are tried in a fixed order that does not depend on speed; here the
// order is by name. [I] There are no quotas, cohorts, preemption or priorities.
func NewKueue(cluster *hare.Cluster, strict bool) *list.Scheduler {
	return list.New(cluster, kueue(strict))
}

func kueue(strict bool) list.Rule {
	name := "kueue"
	if strict {
		name = "kueue_strict"
	}
	return list.Rule{Name: name, Hold: hare.Rigid, TypesByName: true, Strict: strict, Priority: byArrival}
}
