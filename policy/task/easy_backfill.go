package task

import "github.com/hare-sched/hare"

// NewEASY is first come, first served with EASY backfill (Lifka, JSSPP 1995): the
// first job that does not fit gets a reservation for when enough GPUs will be
// free; others start where they end before that, or use GPUs that it will not
// need. It knows how long jobs take.
//
// [V] One reservation, for the first in line. [I] Run times are exact, where
// users' limits are mostly too long; the reservation is on the type where the
// job is expected to end first; the fastest type with room is taken.
func NewEASY(cluster *hare.Cluster, sizes JobSizes) *ListScheduler {
	return NewListScheduler(cluster, Rule{Name: "easy_backfill", Hold: hare.Rigid, Backfill: true, Priority: byArrival,
		Rounds: sizes.Rounds})
}
