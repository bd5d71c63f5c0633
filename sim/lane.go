package sim

import "github.com/hare-sched/hare"

// lane builds the lane of a GPU. Rounds that follow each other with equal periods become
// one entry, and so do tasks of a round back to back.
type lane struct {
	entries []laneEntry
	cut     bool // whether the GPU has left service since the last entry
	// endUs and spanUs are when the last task ended and how long it held the GPU, for instances
	// to which nodes matter.
	endUs, spanUs int64
}

// laneEntry is a hare.Entry in little memory. A round has fewer than 2^31 tasks, and no job of a
// simulation has shapes.
type laneEntry struct {
	job, tasks                       int32
	round, rounds, periodUs, startUs int64
}

func (x *laneEntry) entry() hare.Entry {
	return hare.Entry{Job: x.job, Round: x.round, Rounds: x.rounds, Tasks: int64(x.tasks), PeriodUs: x.periodUs,
		StartUs: x.startUs}
}

// add appends a task of a round of a job. computeUs is the compute time of a relaxed
// task; it is 0 for gang and rigid jobs, which have one task of a round on a GPU.
func (l *lane) add(ji int32, round, startUs, computeUs int64) {
	if n := len(l.entries); n > 0 && !l.cut {
		x := &l.entries[n-1]
		apart := startUs - x.startUs
		switch {
		case x.job != ji:
		case computeUs > 0 && round == x.round && x.rounds == 1 && apart == int64(x.tasks)*computeUs:
			x.tasks++
			return
		case x.tasks == 1 && x.rounds == 1 && round == x.round+1:
			x.rounds, x.periodUs = 2, apart
			return
		case x.tasks == 1 && x.rounds > 1 && round == x.round+x.rounds && apart == x.rounds*x.periodUs:
			x.rounds++
			return
		}
	}
	l.entries = append(l.entries, laneEntry{job: ji, round: round, rounds: 1, tasks: 1, startUs: startUs})
	l.cut = false
}

// extend appends an entry, or extends the last entry where the new one continues it.
func (l *lane) extend(e hare.Entry) {
	if n := len(l.entries); n > 0 && !l.cut {
		x := &l.entries[n-1]
		if e.Tasks == 1 && x.tasks == 1 && x.job == e.Job && x.round+x.rounds == e.Round && x.rounds > 1 &&
			(x.periodUs == e.PeriodUs || e.Rounds == 1) && x.startUs+x.rounds*x.periodUs == e.StartUs {
			x.rounds += e.Rounds
			return
		}
	}
	if e.Rounds == 1 {
		e.PeriodUs = 0
	}
	l.cut = false
	l.entries = append(l.entries, laneEntry{job: e.Job, tasks: int32(e.Tasks), round: e.Round, rounds: e.Rounds,
		periodUs: e.PeriodUs, startUs: e.StartUs})
}

// columns returns the lane in the form of a schedule.
func (l *lane) columns(gpu string) hare.Lane {
	n := len(l.entries)
	all := make([]int64, 5*n)
	out := hare.Lane{
		GPU: gpu, Job: make([]int32, n), Round: all[:n:n], Rounds: all[n : 2*n : 2*n],
		Tasks: all[2*n : 3*n : 3*n], PeriodUs: all[3*n : 4*n : 4*n], StartUs: all[4*n:],
	}
	for i := range l.entries {
		x := &l.entries[i]
		out.Job[i], out.Round[i], out.Rounds[i] = x.job, x.round, x.rounds
		out.Tasks[i], out.PeriodUs[i], out.StartUs[i] = int64(x.tasks), x.periodUs, x.startUs
	}
	return out
}
