package place

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// jobBlock is one block with its job.
type jobBlock struct {
	job, index int32 // index is the position in the job's blocks
	*room.Block
}

// compareHeld orders blocks by the time from which they hold their GPUs. Blocks that stay come first, because
// they need the very GPUs that the job has.
func compareHeld(a, b jobBlock) int {
	return cmp.Or(cmp.Compare(a.TakenFromUs(), b.TakenFromUs()), -compareBool(a.Stays, b.Stays),
		cmp.Compare(a.job, b.job), cmp.Compare(a.index, b.index))
}

// runningJobs returns the job that runs on each GPU at time 0, −1 where there is none. It is nil where no job
// needs setups.
func runningJobs(m *model.Model) []int32 {
	if !room.HasSetups(m) {
		return nil
	}
	runs := slices.Repeat([]int32{-1}, len(m.GPUs))
	for i := range m.Jobs {
		for _, g := range m.Jobs[i].RunsOn {
			runs[g] = int32(i)
		}
	}
	return runs
}

// appendEntry adds a block to a lane. It extends the last entry instead if the block's
// tasks follow that entry in the same round without a gap.
func appendEntry(l *hare.Lane, b jobBlock, firstRound int64) {
	if n := len(l.Job) - 1; n >= 0 && b.Rounds == 1 && l.Rounds[n] == 1 && l.Job[n] == b.job &&
		l.Round[n] == firstRound+b.Round &&
		b.PeriodUs == 0 {
		// HoldUs is the compute time of Tasks tasks in a relaxed round.
		each := b.HoldUs / int64(b.Tasks)
		if l.StartUs[n]+l.Tasks[n]*each == b.StartUs {
			l.Tasks[n] += int64(b.Tasks)
			return
		}
	}
	appendOwnEntry(l, b, firstRound)
}

// appendOwnEntry adds a block to a lane as an entry of its own. The rounds of plans begin with
// firstRound of the schedule.
func appendOwnEntry(l *hare.Lane, b jobBlock, firstRound int64) {
	l.Job = append(l.Job, b.job)
	l.Round = append(l.Round, firstRound+b.Round)
	l.Rounds = append(l.Rounds, b.Rounds)
	l.Tasks = append(l.Tasks, int64(b.Tasks))
	l.PeriodUs = append(l.PeriodUs, b.PeriodUs)
	l.StartUs = append(l.StartUs, b.StartUs)
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
