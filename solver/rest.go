package solver

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// rest is what is left of a plan at the instant at. Work that has started stays as planned.
// In inst, a GPU that started work holds is busy at first, or out of service if started work
// holds the GPU later.
//
// Every schedule of inst, moved by at and put beside what has run and started, is a schedule
// of the whole instance, because inst offers no GPU that started work holds, and releases a
// job when the started round of the job has synchronised. Conversely, every schedule of the
// whole that keeps the started work as planned gives a schedule of inst. The value and the
// bound of inst, plus constant, are therefore the value and the bound of such schedules of
// the whole.
type rest struct {
	at       int64
	inst     *hare.Instance
	constant hare.Amount
	jobs     []restJob
	past     []pastEntry    // what has run or started, on the clock of the whole
	misfit   string         // why past contradicts the times of the whole instance, or ""
	old      *hare.Schedule // the planned entries of the jobs that can stay, on the clock of inst
	report   *hare.Replan
}

// restJob is one job of rest.inst.
type restJob struct {
	whole   int       // the index in the whole instance
	done    int64     // the rounds that are done
	planned []taskRun // the planned runs that have not started, with the clock and the rounds of the rest
	from    hare.JobPlace
	why     string // why the job cannot stay; "" if it can or was not planned
	added   bool   // the previous plan does not have the job
}

// pastEntry is an entry of the whole's schedule.
type pastEntry struct {
	gpu string
	job int32
	hare.Entry
}

// gpuEntry is an entry of the previous schedule with its GPU's name and type.
type gpuEntry struct {
	gpu, kind string
	hare.Entry
}

// reservation holds a GPU for started work.
type reservation struct{ from, to int64 }

// deriver builds a rest.
type deriver struct {
	rest
	before, whole *hare.Instance
	cluster       *cluster
	held          map[string][]reservation // by GPU of the whole
}

// derive returns what is left of whole at the instant at. sched must be a schedule of before
// and must have been checked. derive takes O(entries log entries + GPUs + jobs), whatever the
// number of rounds.
func derive(whole, before *hare.Instance, sched *hare.Schedule, at int64) (*rest, error) {
	d := &deriver{before: before, whole: whole, held: map[string][]reservation{}, cluster: newCluster(&whole.Cluster)}
	d.at = at
	d.report = &hare.Replan{AtUs: at, InstanceSHA256: wire.SHA256(whole)}
	d.inst = &hare.Instance{Name: whole.Name, Objective: whole.Objective}
	entries, makespan := d.entries(sched)
	place := make(map[string]int, len(before.Jobs))
	for i := range before.Jobs {
		place[before.Jobs[i].ID] = i
	}
	for i := range whole.Jobs {
		q := &whole.Jobs[i]
		x, ok := place[q.ID]
		if !ok {
			d.report.Added = append(d.report.Added, q.ID)
			d.leave(i, restJob{whole: i, added: true}, at)
			continue
		}
		delete(place, q.ID)
		if err := d.job(i, &before.Jobs[x], entries[x]); err != nil {
			return nil, err
		}
	}
	for i := range before.Jobs {
		if id := before.Jobs[i].ID; len(place) > 0 {
			if _, gone := place[id]; gone {
				d.report.Removed = append(d.report.Removed, id)
			}
		}
	}
	if len(d.inst.Jobs) == 0 && at >= makespan {
		return nil, &hare.InvalidError{Pointer: "/at_s", Code: "nothing_left",
			Detail: fmt.Sprintf("at %s s nothing is left of the previous plan, which ends at %s s, and there are "+
				"no new "+
				"jobs: name an earlier instant", hare.FormatMicros(at), hare.FormatMicros(makespan))}
	}
	if err := d.capacity(); err != nil {
		return nil, err
	}
	d.plan(entries)
	d.report.Constant, d.report.Rest = d.constant, d.inst
	if err := d.inst.Validate(); err != nil {
		return nil, fmt.Errorf("solver: what is left is no instance: %w", err)
	}
	return &d.rest, nil
}

// entries sorts the entries of sched by job of before.
func (dr *deriver) entries(sched *hare.Schedule) (by [][]gpuEntry, makespan int64) {
	by = make([][]gpuEntry, len(dr.before.Jobs))
	place := make(map[string]int, len(dr.before.Jobs))
	for i := range dr.before.Jobs {
		place[dr.before.Jobs[i].ID] = i
	}
	jobOf := make([]int, len(sched.Jobs))
	for i, id := range sched.Jobs {
		jobOf[i] = place[id]
	}
	kinds := newCluster(&dr.before.Cluster)
	for i := range sched.Lanes {
		l := &sched.Lanes[i]
		kind := kinds.gpus[l.GPU].kind
		for x := range l.Job {
			e := gpuEntry{l.GPU, kind, l.Entry(x)}
			j := jobOf[e.Job]
			by[j] = append(by[j], e)
			makespan = max(makespan, endOf(&dr.before.Jobs[j], &e, e.Rounds-1))
		}
	}
	return by, makespan
}

func profileOf(j *hare.Job, kind string) hare.Profile {
	for _, p := range j.On {
		if p.Type == kind {
			return p
		}
	}
	return hare.Profile{}
}

// startOf returns when round n of the entry, counted from 0, starts.
func startOf(e *gpuEntry, n int64) int64 { return e.StartUs + n*e.PeriodUs }

// endOf returns when the tasks of round n of the entry, counted from 0, have
// synchronised.
func endOf(j *hare.Job, e *gpuEntry, n int64) int64 {
	p := profileOf(j, e.kind)
	return startOf(e, n) + e.Tasks*p.ComputeUs + p.SyncUs
}

// lastEnd returns when all tasks of a round have synchronised; 0 without tasks.
func lastEnd(j *hare.Job, entries []gpuEntry, round int64) (end int64) {
	for i := range entries {
		if n := round - entries[i].Round; n >= 0 && n < entries[i].Rounds {
			end = max(end, endOf(j, &entries[i], n))
		}
	}
	return end
}

// lastStarted returns the last round with a task that starts before at; −1 if there is
// none.
func lastStarted(entries []gpuEntry, at int64) int64 {
	last := int64(-1)
	for i := range entries {
		e := &entries[i]
		if e.StartUs >= at {
			continue
		}
		n := int64(1)
		if e.PeriodUs > 0 {
			n = min(e.Rounds, (at-e.StartUs+e.PeriodUs-1)/e.PeriodUs)
		}
		last = max(last, e.Round+n-1)
	}
	return last
}

// job divides job i of the whole, which was p before, into what is done, what has
// started and what is left.
func (dr *deriver) job(i int, p *hare.Job, entries []gpuEntry) error {
	q := &dr.whole.Jobs[i]
	last := lastStarted(entries, dr.at)
	r := restJob{whole: i}
	if last < 0 {
		dr.leave(i, r, dr.at)
		return nil
	}
	if err := unchanged(i, p, q); err != nil {
		return err
	}
	if p.Sync == hare.Rigid {
		last = p.Rounds - 1 // a rigid job cannot be stopped and resumed
	}
	end := lastEnd(p, entries, last)
	var held []gpuEntry // the tasks of the last started round
	for _, e := range entries {
		if n := last - e.Round; n >= 0 && n < e.Rounds {
			held = append(held, e)
		}
	}
	r.done = last + 1
	release := dr.at
	if end > dr.at {
		release = end
		var holds []reservation
		lost := ""
		for x := range held {
			e := &held[x]
			to := end
			if p.Sync == hare.Relaxed {
				to = startOf(e, last-e.Round) + e.Tasks*profileOf(p, e.kind).ComputeUs
			}
			h := reservation{max(dr.at, startOf(e, last-e.Round)), to}
			if p.Sync == hare.Rigid {
				h.from = dr.at
			}
			if holds = append(holds, h); h.to > h.from && lost == "" &&
				!dr.cluster.covers(e.gpu, e.kind, h.from, h.to) {
				lost = e.gpu
			}
		}
		if lost != "" {
			r.done, r.why, release = last, hare.MovedLost, dr.at
			if p.Sync == hare.Rigid {
				r.done = 0
			}
			end = lastEnd(p, entries, r.done-1)
			dr.report.Lost = append(dr.report.Lost, hare.LostWork{Job: p.ID, Round: r.done, GPU: lost})
		} else {
			for x, h := range holds {
				if h.to > h.from {
					dr.held[held[x].gpu] = append(dr.held[held[x].gpu], h)
				}
			}
			dr.report.Started = append(dr.report.Started, hare.StartedWork{Job: p.ID, Rounds: r.done, UntilUs: end})
		}
	}
	for _, e := range entries {
		if n := min(e.Rounds, r.done-e.Round); n > 0 {
			e.Rounds = n
			if n == 1 {
				e.PeriodUs = 0
			}
			dr.past = append(dr.past, pastEntry{e.gpu, int32(i), e.Entry})
			switch g, there := dr.cluster.gpus[e.gpu]; {
			case dr.misfit != "":
			case there && g.kind != e.kind:
				dr.misfit = fmt.Sprintf("job %.60q ran on GPU %.60s, which was a %.40s then", q.ID, e.gpu, e.kind)
			case !profileOf(p, e.kind).Equal(profileOf(q, e.kind)):
				dr.misfit = fmt.Sprintf("job %.60q has run, and its times on %.40s have changed since", q.ID, e.kind)
			}
		}
	}
	switch {
	case q.Rounds < r.done:
		return changed(i, "rounds", fmt.Sprintf("%d rounds of it have run or started by at_s: give at least as many",
			r.done))
	case q.Rounds == r.done:
		dr.constant = dr.constant.Add(hare.Product(q.WeightMicro, end-q.ReleaseUs))
		return nil
	}
	dr.leave(i, r, release)
	return nil
}

// unchanged refuses to make another job of one that has started.
func unchanged(i int, p, q *hare.Job) error {
	switch {
	case p.Sync != q.Sync:
		return changed(i, "sync", "")
	case p.Tasks != q.Tasks:
		return changed(i, "tasks", "")
	case p.Mix != q.Mix:
		return changed(i, "mix", "")
	case p.ReleaseUs != q.ReleaseUs:
		return changed(i, "release_s", "")
	case p.Sync == hare.Rigid && p.Rounds != q.Rounds:
		return changed(i, "rounds", "")
	}
	return nil
}

func changed(i int, field, detail string) error {
	if detail == "" {
		detail = "differs from the previous instance, and the job has started: leave it, or give the job a new id"
	}
	return &hare.InvalidError{Pointer: "/instance/jobs/" + strconv.Itoa(i) + "/" + field, Code: "changed_job",
		Detail: detail}
}

// leave adds what is left of job i of the whole, released at an instant of the whole's
// clock.
func (dr *deriver) leave(i int, r restJob, release int64) {
	j := dr.whole.Jobs[i]
	was := j.ReleaseUs
	j.ReleaseUs = max(release, was) - dr.at
	j.Rounds -= r.done
	dr.constant = dr.constant.Add(hare.Product(j.WeightMicro, dr.at+j.ReleaseUs-was))
	dr.inst.Jobs = append(dr.inst.Jobs, j)
	dr.jobs = append(dr.jobs, r)
}

// compose returns the schedule of the whole: what has run and started, and sched for the
// rest.
func (r *rest) compose(whole *hare.Instance, sched *hare.Schedule) (*hare.Schedule, error) {
	names := make(map[string]string, len(r.report.Renamed))
	for _, x := range r.report.Renamed {
		names[x.Rest] = x.Whole
	}
	index := make(map[string]int, len(r.inst.Jobs))
	for i := range r.inst.Jobs {
		index[r.inst.Jobs[i].ID] = i
	}
	all := slices.Clone(r.past)
	for i := range sched.Lanes {
		l := &sched.Lanes[i]
		gpu := l.GPU
		if name, ok := names[gpu]; ok {
			gpu = name
		}
		for x := range l.Job {
			e := l.Entry(x)
			j := &r.jobs[index[sched.Jobs[e.Job]]]
			e.Round += j.done
			e.StartUs += r.at
			all = append(all, pastEntry{gpu, int32(j.whole), e})
		}
	}
	out := &hare.Schedule{}
	for i := range whole.Jobs {
		out.Jobs = append(out.Jobs, whole.Jobs[i].ID)
	}
	out.Lanes = lanesOf(all, newCluster(&whole.Cluster).order)
	if _, _, faults := verify.ScheduleValue(whole, out); len(faults) > 0 {
		return nil, fmt.Errorf("what has run does not fit this instance: %s", faults[0])
	}
	if r.misfit != "" {
		return nil, errors.New(r.misfit)
	}
	return out, nil
}
