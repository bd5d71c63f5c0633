package solver

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// remainder is what is left of a plan at the instant at. Work that has started stays as planned.
// In inst, a GPU that started work holds is busy at first, or out of service if started work
// holds the GPU later. Where nodes, setups or shapes matter, started work runs at time 0 of inst
// instead (hare.Progress), since it holds CPUs, memory and quotas as well.
//
// Every schedule of inst, moved by at and put beside what has run and started, is a schedule
// of the whole instance, because inst offers no GPU that started work holds, and releases a
// job when the started round of the job has synchronised. Conversely, every schedule of the
// whole that keeps the started work as planned gives a schedule of inst. The value and the
// bound of inst, plus constant, are therefore the value and the bound of such schedules of
// the whole.
type remainder struct {
	at       int64
	inst     *hare.Instance
	placed   bool // nodes, setups or shapes matter to the whole
	constant hare.Amount
	jobs     []restJob
	past     []pastEntry    // what has run or started, on the clock of the whole
	misfit   string         // why past contradicts the times of the whole instance, or ""
	old      *hare.Schedule // the planned entries of the jobs that can stay, on the clock of inst
	report   *hare.Replan
}

// restJob is one job of rest.inst.
type restJob struct {
	whole   int       // the index in the whole instance; −1 for work that stands for a relaxed round
	done    int64     // the rounds that have ended, or have started and stay
	shift   int64     // the round of the whole that is round 0 of the rest
	planned []taskRun // the planned runs that have not started, with the clock and the rounds of the rest
	from    hare.JobPlace
	why     string // why the job cannot stay; "" if it can or was not planned
	added   bool   // the previous plan does not have the job
	// shape is the shape of the whole that is the only one of the rest, because rounds of the job
	// have it; −1 where the shapes of the rest are those of the whole.
	shape int64
}

// inRest returns the number in the rest of a shape of the whole.
func (rj *restJob) inRest(shape int64) int64 {
	if rj.shape >= 0 {
		return 0
	}
	return shape
}

// pastEntry is an entry of the whole's schedule.
type pastEntry struct {
	gpu string
	job int32
	hare.Entry
}

// gpuEntry is an entry of the previous schedule with its GPU's name, type and node.
type gpuEntry struct {
	gpu, kind string
	node      int // the index in Cluster.Nodes of the previous instance
	hare.Entry
}

// reservation holds a GPU for started work.
type reservation struct{ from, to int64 }

// leftover is what is left of a job of the whole.
type leftover struct {
	restJob
	started  bool
	gone     bool  // nothing is left
	endUs    int64 // when the job has ended, if nothing is left
	release  int64 // the job can go on from then, on the clock of the whole
	progress *hare.Progress
	holders  []hare.Job
}

// deriver builds a remainder.
type deriver struct {
	remainder
	before, whole *hare.Instance
	levels        *hare.Levels // of before
	cluster       *cluster
	held          map[string][]reservation // by GPU of the whole
	left          []leftover               // by job of the whole
}

// derive returns what is left of whole at the instant at. sched must be a schedule of before
// and must have been checked. derive takes O(entries log entries + GPUs + jobs), whatever the
// number of rounds.
func derive(whole, before *hare.Instance, sched *hare.Schedule, at int64) (*remainder, error) {
	d := &deriver{before: before, whole: whole, held: map[string][]reservation{}, cluster: newCluster(&whole.Cluster),
		levels: hare.NewLevels(&before.Cluster)}
	d.at, d.left = at, make([]leftover, len(whole.Jobs))
	d.placed = whole.FirstRule(^(hare.RuleNodes | hare.RuleSwitch | hare.RuleShapes)) != ""
	d.report = &hare.Replan{AtUs: at, InstanceSHA256: wire.SHA256(whole)}
	d.inst = &hare.Instance{Name: whole.Name, Objective: whole.Objective, Quota: whole.Quota}
	entries := d.entries(sched)
	makespan := int64(0)
	for i := range before.Jobs {
		rounds := d.rounds(&before.Jobs[i], entries[i])
		makespan = max(makespan, rounds.end(before.Jobs[i].Rounds-1))
	}
	place := make(map[string]int, len(before.Jobs))
	for i := range before.Jobs {
		place[before.Jobs[i].ID] = i
	}
	for i := range whole.Jobs {
		q := &whole.Jobs[i]
		x, ok := place[q.ID]
		if !ok {
			d.report.Added = append(d.report.Added, q.ID)
			if err := d.fresh(i, true); err != nil {
				return nil, err
			}
			continue
		}
		delete(place, q.ID)
		p := &before.Jobs[x]
		until := int64(0)
		if p.Running() {
			until = model.RunningUntilUs(before, x)
			makespan = max(makespan, until)
		}
		if err := d.job(i, p, until, entries[x]); err != nil {
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
	d.leave()
	if len(d.inst.Jobs) == 0 && at >= makespan {
		return nil, &hare.InvalidError{Pointer: "/at_s", Code: "nothing_left",
			Detail: fmt.Sprintf("at %s s nothing is left of the previous plan, which ends at %s s, and there are "+
				"no new "+
				"jobs: name an earlier instant", hare.FormatMicros(at), hare.FormatMicros(makespan))}
	}
	if err := d.capacity(); err != nil {
		return nil, err
	}
	d.reservations()
	if err := d.inst.Validate(); err != nil {
		return nil, &hare.InvalidError{Pointer: "/instance", Code: "refused",
			Detail: "what is left at at_s is not an instance: " + err.Error()}
	}
	d.addFixed()
	d.plan(entries)
	d.report.Constant, d.report.Rest = d.constant, d.inst
	return &d.remainder, nil
}

// entries sorts the entries of sched by job of before.
func (dr *deriver) entries(sched *hare.Schedule) [][]gpuEntry {
	by := make([][]gpuEntry, len(dr.before.Jobs))
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
		g := kinds.gpus[l.GPU]
		for x := range l.Job {
			e := gpuEntry{l.GPU, g.kind, g.node, l.Entry(x)}
			by[jobOf[e.Job]] = append(by[jobOf[e.Job]], e)
		}
	}
	return by
}

// fresh leaves job i of the whole, of which nothing has started.
func (dr *deriver) fresh(i int, added bool) error {
	q := &dr.whole.Jobs[i]
	if q.Running() {
		return changed(i, "progress", "the job runs at time 0, and does not in the previous instance: at_s lies later")
	}
	dr.left[i] = leftover{restJob: restJob{whole: i, added: added, done: q.FirstRound(), shape: -1}, release: dr.at,
		progress: q.Progress}
	return nil
}

// job divides job i of the whole, which was p before, into what is done, what has
// started and what is left. until is when the work of p that runs at 0 ends; 0 if nothing
// runs.
func (dr *deriver) job(i int, p *hare.Job, until int64, entries []gpuEntry) error {
	q := &dr.whole.Jobs[i]
	rounds := dr.rounds(p, entries)
	last, shape := rounds.lastStarted(dr.at)
	ran := until > 0 && (p.Sync == hare.Rigid || last < 0) // the last round that has started runs at 0
	if last < 0 && !ran {
		return dr.fresh(i, false)
	}
	if err := unchanged(i, p, q); err != nil {
		return err
	}
	if ran {
		last, shape = p.FirstRound(), int64(p.Progress.Shape)
	}
	done := min(p.Rounds, last+p.Shape(int(shape)).Counts)
	if p.Sync == hare.Rigid {
		done = p.Rounds // a rigid job cannot be stopped and resumed
	}
	// end returns when the rounds that do these units have ended.
	end := func(units int64) int64 {
		switch {
		case units <= p.FirstRound():
			return 0
		case until > 0 && (p.Sync == hare.Rigid || units <= p.FirstRound()+p.Shape(p.Progress.Shape).Counts):
			return until
		}
		return rounds.end(units - 1)
	}
	ended := end(done)
	left := leftover{restJob: restJob{whole: i, done: done, shape: -1}, started: true, release: dr.at}
	if ended > dr.at {
		work := dr.startedWork(&rounds, q, last, ended, ran)
		work.shape = shape
		if work.lost != "" {
			left.done, left.why = last, hare.MovedLost
			if p.Sync == hare.Rigid {
				left.done = p.FirstRound()
			}
			dr.report.Lost = append(dr.report.Lost, hare.LostWork{Job: p.ID, Round: left.done, GPU: work.lost})
		} else {
			left.release = ended
			dr.report.Started = append(dr.report.Started, hare.StartedWork{Job: p.ID, Rounds: left.done, UntilUs: ended})
			if err := dr.keep(&left, p, &work); err != nil {
				return err
			}
		}
	}
	dr.addPast(i, &rounds, left.done)
	switch {
	case q.Rounds < left.done:
		return changed(i, "rounds", fmt.Sprintf("%d rounds of it have run or started by at_s: give at least as many",
			left.done))
	case left.progress != nil: // the job runs at the instant
	case q.Rounds == left.done:
		left.gone, left.endUs = true, end(left.done) // later rounds that were lost are no longer asked for
	case left.done > 0:
		left.progress = &hare.Progress{RoundsDone: left.done}
	}
	if runs := left.progress != nil && left.progress.GPUs != nil; !runs && left.done > p.FirstRound() {
		if q.Reshape {
			left.release = max(left.release, end(left.done)+q.ReshapeUs)
		} else if len(q.Shapes) > 1 {
			left.shape = shape
		}
	}
	dr.left[i] = left
	return nil
}

// addPast adds the rounds before done of job i of the whole.
func (dr *deriver) addPast(i int, rounds *pastRounds, done int64) {
	q := &dr.whole.Jobs[i]
	for x := range rounds.entries {
		e := rounds.entries[x]
		u := rounds.counts(&e)
		n := min(e.Rounds, (done-e.Round+u-1)/u)
		if done <= e.Round {
			continue
		}
		e.Rounds = n
		if n == 1 {
			e.PeriodUs = 0
		}
		dr.past = append(dr.past, pastEntry{e.gpu, int32(i), e.Entry})
		was := profileOf(rounds.job, e.Shape, e.kind)
		switch g, there := dr.cluster.gpus[e.gpu]; {
		case dr.misfit != "":
		case there && g.kind != e.kind:
			dr.misfit = fmt.Sprintf("job %.60q ran on GPU %.60s, which was a %.40s then", q.ID, e.gpu, e.kind)
		case !was.Equal(profileOf(q, e.Shape, e.kind)):
			dr.misfit = fmt.Sprintf("job %.60q has run, and its times on %.40s have changed since", q.ID, e.kind)
		case there && was.SyncAt != nil && !dr.sameDomains(e.node, g.node):
			dr.misfit = fmt.Sprintf("job %.60q has run on node %.60s, which is elsewhere in the topology since", q.ID,
				dr.before.Cluster.Nodes[e.node].Name)
		}
	}
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
	case !slices.EqualFunc(p.Shapes, q.Shapes, func(a, b hare.Shape) bool {
		return a.Tasks == b.Tasks && a.TaskGPUs() == b.TaskGPUs() && a.Counts == b.Counts
	}):
		return changed(i, "shapes", "")
	case p.Reshape != q.Reshape || p.ReshapeUs != q.ReshapeUs:
		return changed(i, "reshape_s", "")
	case p.Within != q.Within:
		return changed(i, "within", "")
	case p.ReleaseUs != q.ReleaseUs:
		return changed(i, "release_s", "")
	case p.Sync == hare.Rigid && p.Rounds != q.Rounds:
		return changed(i, "rounds", "")
	case p.TaskGPUs() != q.TaskGPUs():
		return changed(i, "gpus_per_task", "")
	case p.CPUMilliPerTask != q.CPUMilliPerTask:
		return changed(i, "cpus_per_task", "")
	case p.MemoryMiBPerTask != q.MemoryMiBPerTask:
		return changed(i, "memory_mib_per_task", "")
	case p.DistinctNodes != q.DistinctNodes:
		return changed(i, "distinct_nodes", "")
	case !slices.Equal(p.After, q.After):
		return changed(i, "after", "")
	case p.FirstRound() != q.FirstRound() || p.Running() != q.Running() ||
		p.Running() && (!slices.Equal(p.Progress.GPUs, q.Progress.GPUs) || p.Progress.ElapsedUs != q.Progress.ElapsedUs ||
			p.Progress.Shape != q.Progress.Shape):
		return changed(i, "progress", "")
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

// compose returns the schedule of the whole: what has run and started, and sched for the
// rest.
func (r *remainder) compose(whole *hare.Instance, sched *hare.Schedule) (*hare.Schedule, error) {
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
			e.Round += j.shift
			e.StartUs += r.at
			if j.shape >= 0 {
				e.Shape = j.shape
			}
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
