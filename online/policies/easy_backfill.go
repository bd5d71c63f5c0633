package policies

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
)

// NewEASY is first come, first served with EASY backfill (Lifka, JSSPP 1995): the
// first job that does not fit gets a reservation for the time at which enough GPUs will
// be free. Other jobs start if they end before that time, or use GPUs that the first job
// will not need. The policy knows how long jobs take; in sessions it goes by estimates, and
// the time of a job's reservation holds once it was made: see promise.
//
// [V] There is one reservation, for the first job of the queue. [I] Run times are exact,
// although users' limits are mostly too long; the reservation is on the type where the
// job is expected to end first; a job starts on the fastest type with room.
func NewEASY(cluster *hare.Cluster, sizes JobSizes) *list.Scheduler {
	return list.New(cluster, easy(sizes.Rounds))
}

// easy is the rule for the rounds of each job; nil means that they are learned.
func easy(rounds map[string]int64) list.Rule {
	return list.Rule{Name: "easy_backfill", Hold: hare.Rigid, Backfill: true, Priority: byArrival, Rounds: rounds,
		LearnSizes: rounds == nil}
}
