package solver

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
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
		rounds := dr.rounds(p, entries[index[q.ID]])
		dr.place(r, q, &rounds)
		planned := dr.planned(r, q, &rounds)
		first := q.FirstRound() // the model of the rest counts rounds from the first that is left
		if q.Running() {
			first = min(q.Rounds, first+q.Shape(q.Progress.Shape).Counts)
		}
		for _, e := range planned {
			prof := profileOf(p, e.Shape, e.kind)
			hold := prof.ComputeUs
			if p.Sync != hare.Relaxed {
				spread := 0
				if prof.SyncAt != nil {
					spread = rounds.spread(e.Round + r.shift)
				}
				hold += dr.levels.SyncUs(&prof, spread)
			}
			r.planned = append(r.planned, taskRun{kind: e.kind, shape: r.inRest(e.Shape), unit: e.Round - first,
				rounds: e.Rounds, counts: rounds.counts(&e), tasks: e.Tasks, start: e.StartUs, period: e.PeriodUs, each: hold,
				width: 1})
		}
		if fixed := q.Running() && (q.Sync == hare.Rigid || first == q.Rounds); fixed {
			continue
		}
		if r.why == "" {
			r.why = dr.obstacle(r, q, &rounds, planned)
		}
		if r.why != "" {
			continue
		}
		for _, e := range planned {
			gpu := e.gpu
			if name, ok := rename[gpu]; ok {
				gpu = name
			}
			e.Shape = r.inRest(e.Shape)
			stay = append(stay, pastEntry{gpu, int32(n), e.Entry})
		}
	}
	if dr.inst.FirstRule(0) != "" {
		stay = dr.fitting(stay)
	}
	dr.old.Lanes = lanesOf(stay, newCluster(&dr.inst.Cluster).order)
}

// fitting returns the entries of the jobs that can stay by the rules about nodes, users and
// dependencies, and says of the others why they cannot.
func (dr *deriver) fitting(stay []pastEntry) []pastEntry {
	order := newCluster(&dr.inst.Cluster).order
	for len(stay) > 0 {
		// The part of the rest with what runs and the jobs that stay is an instance of its own.
		part := *dr.inst
		part.Jobs = nil
		index := make([]int32, len(dr.jobs))
		planned := make([]bool, len(dr.jobs))
		for x := range stay {
			planned[stay[x].job] = true
		}
		sched := &hare.Schedule{}
		there := map[string]bool{}
		for i := range dr.inst.Jobs {
			if j := dr.inst.Jobs[i]; planned[i] || endsRunning(&j) {
				index[i] = int32(len(part.Jobs))
				part.Jobs = append(part.Jobs, j)
				sched.Jobs = append(sched.Jobs, j.ID)
				there[j.ID] = true
			}
		}
		for i := range part.Jobs {
			part.Jobs[i].After = slices.DeleteFunc(slices.Clone(part.Jobs[i].After),
				func(p hare.Predecessor) bool { return !there[p.Job] })
		}
		entries := slices.Clone(stay)
		for x := range entries {
			entries[x].job = index[entries[x].job]
		}
		sched.Lanes = lanesOf(entries, order)
		_, _, faults := verify.ScheduleValue(&part, sched)
		if len(faults) == 0 {
			return stay
		}
		moves := map[int32]bool{}
		for _, f := range faults {
			for i := range dr.jobs {
				if planned[i] && (f.Job == dr.inst.Jobs[i].ID || f.Job == "") {
					dr.jobs[i].why = hare.MovedCluster
					moves[int32(i)] = true
				}
			}
		}
		if len(moves) == 0 {
			return nil
		}
		stay = slices.DeleteFunc(stay, func(e pastEntry) bool { return moves[e.job] })
	}
	return stay
}

// place sets r.from to the types, the start and the end that the earlier plan gives to what
// is left of job q, including a lost round.
func (dr *deriver) place(r *restJob, q *hare.Job, rounds *pastRounds) {
	last := min(rounds.job.Rounds, r.shift+q.Rounds)
	for x := range rounds.entries {
		e := &rounds.entries[x]
		u := rounds.counts(e)
		from, to := max(e.Round, r.done), min(e.Round+e.Rounds*u, last)
		if from >= to {
			continue
		}
		start := startOf(e, (from-e.Round)/u)
		if len(r.from.Types) == 0 || start < r.from.StartUs {
			r.from.StartUs = start
		}
		r.from.Types = append(r.from.Types, e.kind)
	}
	if len(r.from.Types) > 0 {
		r.from.EndUs = rounds.end(last - 1)
	}
	slices.Sort(r.from.Types)
	r.from.Types = slices.Compact(r.from.Types)
}

// planned returns the entries of the rounds that have not started. Their times are on the
// clock of the rest, and their rounds are counted from the first round of the rest.
func (dr *deriver) planned(r *restJob, q *hare.Job, rounds *pastRounds) []gpuEntry {
	first, p := r.done, rounds.job
	if r.why == hare.MovedLost {
		// The lost round had started.
		unit, shape := rounds.lastStarted(dr.at)
		if unit < 0 {
			unit, shape = first, int64(p.Progress.Shape)
		}
		if first = min(p.Rounds, unit+p.Shape(int(shape)).Counts); p.Sync == hare.Rigid {
			first = p.Rounds
		}
	}
	last := min(p.Rounds, r.shift+q.Rounds)
	var out []gpuEntry
	for _, e := range rounds.entries {
		u := rounds.counts(&e)
		from, to := max(e.Round, first), min(e.Round+e.Rounds*u, last)
		if from >= to {
			continue
		}
		e.StartUs = startOf(&e, (from-e.Round)/u) - dr.at
		e.Round, e.Rounds = from-r.shift, (to-from+u-1)/u
		if e.Rounds == 1 {
			e.PeriodUs = 0
		}
		out = append(out, e)
	}
	return out
}

// obstacle returns why job q of the rest cannot stay where it is planned, or "" if it can.
func (dr *deriver) obstacle(r *restJob, q *hare.Job, rounds *pastRounds, planned []gpuEntry) string {
	p := rounds.job
	if q.Sync != p.Sync || q.Mix != p.Mix || q.Within != p.Within {
		return hare.MovedChanged
	}
	units := int64(0)
	for _, e := range planned {
		units = max(units, e.Round+e.Rounds*rounds.counts(&e))
		at := r.inRest(e.Shape)
		if int(at) >= q.ShapeCount() {
			return hare.MovedChanged
		}
		was, is := p.Shape(int(e.Shape)), q.Shape(int(at))
		if e.StartUs < q.ReleaseUs || was.Tasks != is.Tasks || was.TaskGPUs() != is.TaskGPUs() ||
			was.Counts != is.Counts || !profileOf(q, at, e.kind).Equal(profileOf(p, e.Shape, e.kind)) {
			return hare.MovedChanged
		}
	}
	if units < q.Rounds {
		return hare.MovedChanged
	}
	for x, e := range planned {
		if e.Shape != planned[0].Shape {
			return hare.MovedCluster // plans of this program have one shape
		}
		hold := e.Tasks * profileOf(p, e.Shape, e.kind).ComputeUs
		if p.Sync != hare.Relaxed {
			hold = dr.hold(rounds, planned, x)
		}
		from := e.StartUs + dr.at
		if !dr.cluster.covers(e.gpu, e.kind, from, from+(e.Rounds-1)*e.PeriodUs+hold) {
			return hare.MovedCluster
		}
	}
	return ""
}

// hold returns how long a round of entry x of a gang or rigid job holds its GPU at least, which is
// until the slowest task of the round has synchronised.
func (dr *deriver) hold(rounds *pastRounds, planned []gpuEntry, x int) int64 {
	e := &planned[x]
	least := func(e *gpuEntry) int64 {
		p := profileOf(rounds.job, e.Shape, e.kind)
		return p.ComputeUs + dr.levels.SyncUs(&p, 0)
	}
	hold := least(e)
	if !rounds.job.Mix {
		return hold
	}
	for i := range planned {
		if o := &planned[i]; o.Round < e.Round+e.Rounds && e.Round < o.Round+o.Rounds {
			hold = max(hold, least(o))
		}
	}
	return hold
}

// endsRunning reports whether a job ends with the work that runs at time 0.
func endsRunning(j *hare.Job) bool {
	return j.Running() && (j.Sync == hare.Rigid || j.FirstRound()+j.Shape(j.Progress.Shape).Counts >= j.Rounds)
}
