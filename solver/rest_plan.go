package solver

import (
	"slices"

	"github.com/hare-sched/hare"
)

// plan sets restJob.planned to what the earlier schedule has planned for each job of the
// rest, and old to the planned entries of the jobs that can stay.
func (dr *deriver) plan(entries [][]gpuEntry) {
	index := make(map[string]int, len(dr.before.Jobs))
	for i := range dr.before.Jobs {
		index[dr.before.Jobs[i].ID] = i
	}
	rename := make(map[string]string, len(dr.report.Renamed))
	for _, x := range dr.report.Renamed {
		rename[x.Whole] = x.Rest
	}
	var stay []pastEntry
	dr.old = &hare.Schedule{}
	for n := range dr.jobs {
		r, q := &dr.jobs[n], &dr.inst.Jobs[n]
		dr.old.Jobs = append(dr.old.Jobs, q.ID)
		if r.added {
			continue
		}
		p := &dr.before.Jobs[index[q.ID]]
		dr.place(r, q, p, entries[index[q.ID]])
		planned := dr.planned(r, q, p, entries[index[q.ID]])
		for _, e := range planned {
			prof := profileOf(p, e.kind)
			hold := prof.ComputeUs
			if p.Sync != hare.Relaxed {
				hold = prof.DurationUs()
			}
			r.planned = append(r.planned, taskRun{kind: e.kind, round: e.Round, rounds: e.Rounds, tasks: e.Tasks,
				start: e.StartUs, period: e.PeriodUs, each: hold, width: 1})
		}
		if r.why == "" {
			r.why = dr.obstacle(q, p, planned)
		}
		if r.why != "" {
			continue
		}
		for _, e := range planned {
			gpu := e.gpu
			if name, ok := rename[gpu]; ok {
				gpu = name
			}
			stay = append(stay, pastEntry{gpu, int32(n), e.Entry})
		}
	}
	dr.old.Lanes = lanesOf(stay, newCluster(&dr.inst.Cluster).order)
}

// place sets r.from to the types, the start and the end that the earlier plan gives to what
// is left of job q, including a lost round.
func (dr *deriver) place(r *restJob, q, p *hare.Job, entries []gpuEntry) {
	last := min(p.Rounds, r.done+q.Rounds)
	for _, e := range entries {
		from, to := max(e.Round, r.done), min(e.Round+e.Rounds, last)
		if from >= to {
			continue
		}
		start := startOf(&e, from-e.Round)
		if len(r.from.Types) == 0 || start < r.from.StartUs {
			r.from.StartUs = start
		}
		r.from.Types = append(r.from.Types, e.kind)
		r.from.EndUs = max(r.from.EndUs, endOf(p, &e, to-1-e.Round))
	}
	slices.Sort(r.from.Types)
	r.from.Types = slices.Compact(r.from.Types)
}

// planned returns the entries of the rounds that have not started. Their times are on the
// clock of the rest, and their rounds are counted from the first round of the rest.
func (dr *deriver) planned(r *restJob, q, p *hare.Job, entries []gpuEntry) []gpuEntry {
	first := r.done
	if r.why == hare.MovedLost {
		if first++; p.Sync == hare.Rigid { // the lost round had started
			first = p.Rounds
		}
	}
	last := min(p.Rounds, r.done+q.Rounds)
	var out []gpuEntry
	for _, e := range entries {
		from, to := max(e.Round, first), min(e.Round+e.Rounds, last)
		if from >= to {
			continue
		}
		e.StartUs = startOf(&e, from-e.Round) - dr.at
		e.Round, e.Rounds = from-r.done, to-from
		if e.Rounds == 1 {
			e.PeriodUs = 0
		}
		out = append(out, e)
	}
	return out
}

// obstacle returns why job q of the rest, which was p before, cannot stay where it is
// planned, or "" if it can.
func (dr *deriver) obstacle(q, p *hare.Job, planned []gpuEntry) string {
	if q.Sync != p.Sync || q.Tasks != p.Tasks || q.Mix != p.Mix {
		return hare.MovedChanged
	}
	rounds := int64(0)
	for _, e := range planned {
		rounds = max(rounds, e.Round+e.Rounds)
		if e.StartUs < q.ReleaseUs || !profileOf(q, e.kind).Equal(profileOf(p, e.kind)) {
			return hare.MovedChanged
		}
	}
	if rounds < q.Rounds {
		return hare.MovedChanged
	}
	for x, e := range planned {
		hold := e.Tasks * profileOf(p, e.kind).ComputeUs
		if p.Sync != hare.Relaxed {
			hold = dr.hold(p, planned, x)
		}
		from := e.StartUs + dr.at
		if !dr.cluster.covers(e.gpu, e.kind, from, from+(e.Rounds-1)*e.PeriodUs+hold) {
			return hare.MovedCluster
		}
	}
	return ""
}

// hold returns how long a round of entry x of a gang or rigid job holds its GPU, which is
// until the slowest task of the round has synchronised.
func (dr *deriver) hold(p *hare.Job, planned []gpuEntry, x int) int64 {
	e := &planned[x]
	hold := profileOf(p, e.kind).DurationUs()
	if !p.Mix {
		return hold
	}
	for i := range planned {
		if o := &planned[i]; o.Round < e.Round+e.Rounds && e.Round < o.Round+o.Rounds {
			hold = max(hold, profileOf(p, o.kind).DurationUs())
		}
	}
	return hold
}
