package sim

import "github.com/hare-sched/hare"

// lane builds the lane of a GPU. Rounds that follow each other with equal periods become
// one entry, and so do tasks of a round back to back.
type lane struct {
	entries []hare.Entry
	cut     bool // whether the GPU has left service since the last entry
	// endUs and spanUs are when the last task ended and how long it held the GPU, for instances
	// to which nodes matter.
	endUs, spanUs int64
}

// add appends a task of a round of a job. computeUs is the compute time of a relaxed
// task; it is 0 for gang and rigid jobs, which have one task of a round on a GPU.
func (l *lane) add(ji int32, round, startUs, computeUs int64) {
	if n := len(l.entries); n > 0 && !l.cut {
		x := &l.entries[n-1]
		apart := startUs - x.StartUs
		switch {
		case x.Job != ji:
		case computeUs > 0 && round == x.Round && x.Rounds == 1 && apart == x.Tasks*computeUs:
			x.Tasks++
			return
		case x.Tasks == 1 && x.Rounds == 1 && round == x.Round+1:
			x.Rounds, x.PeriodUs = 2, apart
			return
		case x.Tasks == 1 && x.Rounds > 1 && round == x.Round+x.Rounds && apart == x.Rounds*x.PeriodUs:
			x.Rounds++
			return
		}
	}
	l.entries = append(l.entries, hare.Entry{Job: ji, Round: round, Rounds: 1, Tasks: 1, StartUs: startUs})
	l.cut = false
}

// extend appends an entry, or extends the last entry where the new one continues it.
func (l *lane) extend(e hare.Entry) {
	if n := len(l.entries); n > 0 && !l.cut {
		x := &l.entries[n-1]
		if e.Tasks == 1 && x.Tasks == 1 && x.Job == e.Job && x.Round+x.Rounds == e.Round && x.Rounds > 1 &&
			(x.PeriodUs == e.PeriodUs || e.Rounds == 1) && x.StartUs+x.Rounds*x.PeriodUs == e.StartUs {
			x.Rounds += e.Rounds
			return
		}
	}
	if e.Rounds == 1 {
		e.PeriodUs = 0
	}
	l.cut = false
	l.entries = append(l.entries, e)
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
		out.Job[i], out.Round[i], out.Rounds[i] = x.Job, x.Round, x.Rounds
		out.Tasks[i], out.PeriodUs[i], out.StartUs[i] = x.Tasks, x.PeriodUs, x.StartUs
	}
	return out
}
