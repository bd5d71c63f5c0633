package solver

import (
	"slices"

	"github.com/hare-sched/hare"
)

// plan carries over what the earlier schedule has planned for the jobs of the
// rest: in old for those that can stay, in restJob.planned for all.
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

// place says from where to where the earlier plan has what is left of job q, a
// lost round included.
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

// planned is the entries of rounds of the rest that have not started, on its
// clock, rounds counted from 0.
func (dr *deriver) planned(r *restJob, q, p *hare.Job, entries []gpuEntry) []gpuEntry {
	first := r.done // a lost round has started
	if r.why == hare.MovedLost {
		if first++; p.Sync == hare.Rigid {
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

// obstacle says why job q of the rest, p before, cannot stay where it is
// planned.
func (dr *deriver) obstacle(q, p *hare.Job, planned []gpuEntry) string {
	if q.Sync != p.Sync || q.Tasks != p.Tasks || q.Mix != p.Mix {
		return hare.MovedChanged
	}
	rounds := int64(0)
	for _, e := range planned {
		rounds = max(rounds, e.Round+e.Rounds)
		if e.StartUs < q.ReleaseUs || profileOf(q, e.kind) != profileOf(p, e.kind) {
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

// hold is how long a round of entry x of a gang or rigid job holds its GPU:
// until its slowest task has synchronised.
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
