package regret

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// hindsightInstance is the offline instance of the jobs of a log that ended.
type hindsightInstance struct {
	instance *hare.Instance
	jobs     []*pastOutcome
	lanes    []string // names of the GPUs in instance, by index in Hindsight.gpus; "" where never in service
}

// pastOutcome is a job that ended, as a job of known size.
type pastOutcome struct {
	job   hare.Job
	tasks []taskRun // the tasks of whole rounds
	endUs int64     // the end of the last task
	// exact says that all tasks took the times that job has.
	exact   bool
	empty   bool // there was no whole round
	fixed   bool // the job ends with the work that ran at the start
	instant bool // a task took no time at all
	loose   bool // the bound allows the job more than the job's own sync does
	unknown int  // number of GPU types without a known time
}

// outcomeOf returns the outcome of a job that has just ended. Later records do not
// change the outcome. O(tasks · log tasks).
func (h *Hindsight) outcomeOf(j *pastJob) *pastOutcome {
	tasks, rounds := j.completeRounds()
	o := &pastOutcome{job: *j.job, tasks: tasks, exact: true}
	for i := range tasks {
		o.endUs = max(o.endUs, tasks[i].endsAt)
		o.instant = o.instant || tasks[i].instant()
	}
	o.job.ReleaseUs, o.job.Rounds, o.empty = j.arrivedUs, j.first+rounds, rounds == 0
	if o.job.Sync = h.observedSync(&o.job, tasks); o.job.Sync != j.job.Sync {
		o.loose = true
		o.job.Mix = o.job.Mix && o.job.Sync == hare.Gang
		o.job.DistinctNodes = o.job.DistinctNodes && o.job.Sync != hare.Relaxed
	}
	o.job.On, o.unknown = h.times(j)
	if o.job.Sync == hare.Relaxed {
		relax(&o.job)
	}
	o.job.Progress = h.progressOf(j, tasks, o.job.On, o.job.Sync)
	o.fixed = endsAtStart(&o.job)
	by := map[string]hare.Profile{}
	for _, p := range o.job.On {
		by[p.Type] = p
	}
	for _, t := range tasks {
		if p := by[h.gpus[t.gpu].kind]; p.ComputeUs != t.computeUs || p.SyncUs != t.syncUs {
			o.exact = false
		}
	}
	return o
}

// build counts the jobs in r, adds notes to r, and builds the instance of the jobs
// that ended. The caller owns the instance, but not the profiles of its jobs.
// O(jobs + GPUs).
func (h *Hindsight) build(r *Report) (*hindsightInstance, error) {
	if err := h.checkNodes(); err != nil {
		return nil, err
	}
	v := &hindsightInstance{instance: &hare.Instance{Objective: hare.ObjectiveWeightedJCT}}
	v.instance.Cluster, v.lanes = h.realisedCluster()
	v.instance.Quota = h.limits()
	ids := map[string]bool{}
	var loose, unknown, instant, fixed int
	for _, j := range h.jobs {
		o := j.outcome
		switch {
		case !j.ended:
			r.Running++
			continue
		case j.cancelled:
			r.Cancelled++
			continue
		case o.instant:
			instant++
			continue
		case o.empty:
			r.Empty++
			continue
		}
		if o.loose {
			loose++
		}
		if o.fixed {
			fixed++
		}
		unknown += o.unknown
		job := o.job
		for n := 2; ids[job.ID]; n++ { // an earlier job had the same id
			job.ID = fmt.Sprintf("%s (%d)", o.job.ID, n)
		}
		ids[job.ID] = true
		v.jobs = append(v.jobs, o)
		v.instance.Jobs = append(v.instance.Jobs, job)
	}
	r.Counted = len(v.jobs) - fixed
	note := func(n int, what, text string) {
		if n > 0 {
			r.Notes = append(r.Notes, words.Count(n, what)+text)
		}
	}
	note(r.Running, "job", " not counted, since not ended; what was held of GPUs is not taken from the "+
		"bound's capacity")
	note(r.Cancelled, "job", " not counted, since cancelled")
	note(r.Empty, "job", " not counted, since ended without a whole round")
	note(instant, "job", " not counted, since a task held its GPU for no time at all: a task takes a "+
		"microsecond at least")
	r.Empty += instant
	note(unknown, "pair", " of job and GPU type with neither a measured nor a given time: the bound holds for plans "+
		"that do not use them")
	note(loose, "job", " with lost tasks or moved, against the sync: bounded as gang or "+
		"relaxed jobs, which may do that")
	note(fixed, "job", " not counted, since ended with the work that ran at the start: no policy changes that")
	if h.quotaChanged {
		r.Notes = append(r.Notes, "quotas were set while tasks ran: the bound has each as loose as it was, and none that "+
			"was new")
	}
	note(h.clipped, "task", " reported with a time longer than the stay: it was cut to the stay")
	h.settle(v.instance)
	if len(v.jobs) > 0 {
		if err := v.instance.Validate(); err != nil {
			return nil, fmt.Errorf("regret: %w", err)
		}
	}
	return v, nil
}

// times returns, by type, the least measured times of a job's tasks, or the times
// of the job's profile where no task ran on the type. unknown counts the types
// without either.
func (h *Hindsight) times(j *pastJob) (on []hare.Profile, unknown int) {
	least := map[string]hare.Profile{}
	for _, t := range j.done {
		kind := h.gpus[t.gpu].kind
		p, seen := least[kind]
		if !seen {
			p = hare.Profile{Type: kind, ComputeUs: t.computeUs, SyncUs: t.syncUs}
		}
		p.ComputeUs, p.SyncUs = min(p.ComputeUs, t.computeUs), min(p.SyncUs, t.syncUs)
		least[kind] = p
	}
	for _, given := range j.job.On {
		p, seen := least[given.Type]
		if !seen {
			p = given
		}
		if p.ComputeUs == 0 {
			unknown++
			continue
		}
		p.SyncAt = slices.Clone(p.SyncAt) // for settle
		on = append(on, p)
	}
	return on, unknown
}

// observedSync returns the strictest sync that the tasks of whole rounds kept to.
// That is the job's own, or one that allows more where a task was repeated, moved
// or paused. Every plan of a rigid job is also a plan of a gang, and every plan of a
// gang is also a plan of a relaxed job.
func (h *Hindsight) observedSync(j *hare.Job, tasks []taskRun) hare.Sync {
	if j.Sync == hare.Relaxed {
		return hare.Relaxed
	}
	k := int(j.Tasks)
	keep := j.Sync
	var first []int // GPUs of the first round, sorted
	var endUs int64 // the end of the round before
	for from := 0; from < len(tasks); from += k {
		round := tasks[from : from+k]
		gpus := make([]int, 0, k)
		for _, t := range round {
			if t.startUs != round[0].startUs || !j.Mix && h.gpus[t.gpu].kind != h.gpus[round[0].gpu].kind {
				return hare.Relaxed
			}
			gpus = append(append(gpus, t.gpu), t.others...)
		}
		slices.Sort(gpus)
		if int64(len(slices.Compact(slices.Clone(gpus)))) != j.Tasks*j.TaskGPUs() {
			return hare.Relaxed
		}
		if first == nil {
			first, endUs = gpus, round[0].startUs
		}
		if j.Sync == hare.Rigid && (!slices.Equal(first, gpus) || round[0].startUs != endUs) {
			keep = hare.Gang
		}
		for _, t := range round {
			endUs = max(endUs, t.endsAt)
		}
	}
	return keep
}

// realisedCluster returns the cluster with the GPUs as they joined and left. A
// node all of whose GPUs were always in service keeps its name. Each GPU of another
// node becomes a node of its own, which can have windows of its own: a/1 is then
// a:1/0.
func (h *Hindsight) realisedCluster() (c hare.Cluster, lanes []string) {
	lanes = make([]string, len(h.gpus))
	always := []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
	whole, used := map[string]bool{}, map[string]bool{} // nodes that keep their names; names in use
	for _, n := range h.cluster.Nodes {
		whole[n.Name], used[n.Name] = true, true
	}
	original := len(h.gpus) // the GPUs of the first cluster come first in h.gpus, in the cluster's order
	count := 0
	for _, n := range h.cluster.Nodes {
		for _, g := range n.GPUs {
			count += g.Count
		}
	}
	original = min(original, count)
	for i, g := range h.gpus {
		node := g.name[:strings.LastIndexByte(g.name, '/')]
		if i >= original || !slices.Equal(g.windows, always) {
			whole[node] = false
		}
	}
	for _, n := range h.cluster.Nodes {
		if whole[n.Name] {
			c.Nodes = append(c.Nodes, hare.Node{Name: n.Name, GPUs: n.GPUs, CPUMilli: n.CPUMilli, MemoryMiB: n.MemoryMiB,
				Labels: n.Labels})
		}
	}
	for i, g := range h.gpus {
		at := strings.LastIndexByte(g.name, '/')
		if whole[g.name[:at]] {
			lanes[i] = g.name
			continue
		}
		if len(g.windows) == 0 {
			continue
		}
		name := g.name[:at] + ":" + g.name[at+1:]
		for used[name] {
			name += "'" // the name is that of a node, or of the GPU while it had another type
		}
		used[name] = true
		n := hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: g.kind, Count: 1}}, Windows: slices.Clone(g.windows)}
		if slices.Equal(g.windows, always) {
			n.Windows = nil
		}
		c.Nodes = append(c.Nodes, n)
		lanes[i] = name + "/0"
	}
	return c, lanes
}

// Followed is the plan that a session followed.
type Followed struct {
	Seq, AtUs int64
	// Result is a schedule of the jobs that ended, which passes verification for
	// Instance. Result is nil where there is no such schedule; Why says why.
	Instance *hare.Instance
	Result   *hare.Result
	Why      string
	// Renamed maps the names of GPUs in Instance to the session's names, for those
	// GPUs whose names differ.
	Renamed map[string]string
	// Tasks are the tasks of all jobs that ended, sorted by start; set where Result
	// is nil.
	Tasks []hare.Task
}

// Followed returns the schedule that the session followed where the measured times
// of each job agree, and its tasks otherwise.
func (h *Hindsight) Followed(version string) (*Followed, error) {
	f := &Followed{Seq: h.seq, AtUs: h.atUs}
	v, err := h.build(&Report{})
	if err != nil {
		return nil, err
	}
	switch {
	case len(v.jobs) == 0:
		f.Why = "no job has ended with a whole round"
	case slices.ContainsFunc(v.jobs, func(j *pastOutcome) bool { return j.job.Running() }):
		f.Why = "work ran at the start, of which tasks may have taken other times"
	case slices.ContainsFunc(v.jobs, func(j *pastOutcome) bool { return !j.exact }):
		f.Why = "tasks of a job took different times on GPUs of one type"
	default:
		res := h.schedule(v, version)
		if rep := verify.Check(v.instance, res); !rep.OK {
			f.Why = rep.Faults[0].String()
			break
		}
		f.Instance, f.Result, f.Renamed = v.instance, res, map[string]string{}
		for i, lane := range v.lanes {
			if lane != "" && lane != h.gpus[i].name {
				f.Renamed[lane] = h.gpus[i].name
			}
		}
		return f, nil
	}
	for _, j := range h.jobs {
		for _, t := range j.done {
			f.Tasks = append(f.Tasks, hare.Task{Job: j.job.ID, Round: t.round, GPU: h.gpus[t.gpu].name,
				StartUs: max(0, t.startUs), ComputeEndUs: t.startUs + t.computeUs, EndUs: t.endsAt})
		}
	}
	slices.SortStableFunc(f.Tasks, func(a, b hare.Task) int {
		return cmp.Or(cmp.Compare(a.StartUs, b.StartUs), cmp.Compare(a.GPU, b.GPU))
	})
	return f, nil
}

// schedule arranges the tasks of jobs with exact times in lanes.
func (h *Hindsight) schedule(v *hindsightInstance, version string) *hare.Result {
	s := &hare.Schedule{}
	value := hare.Amount{}
	res := &hare.Result{
		InstanceSHA256: wire.SHA256(v.instance), Version: version, Status: hare.StatusSucceeded, Reproducible: true,
		Objective: hare.ObjectiveWeightedJCT, Options: hare.Options{Detail: "lanes"}, Schedule: s,
	}
	type entry struct {
		job int32
		run taskRun
	}
	lanes := make([][]entry, len(h.gpus))
	for i, j := range v.jobs {
		job := &v.instance.Jobs[i]
		s.Jobs = append(s.Jobs, job.ID)
		out := hare.JobResult{ID: job.ID, StartUs: j.tasks[0].startUs}
		for _, t := range j.tasks {
			for _, g := range append([]int{t.gpu}, t.others...) {
				lanes[g] = append(lanes[g], entry{int32(i), t})
			}
			out.StartUs, out.EndUs = min(out.StartUs, t.startUs), max(out.EndUs, t.startUs+t.computeUs+t.syncUs)
		}
		res.Jobs = append(res.Jobs, out)
		value = value.Add(hare.Product(job.WeightMicro, out.EndUs-job.ReleaseUs))
	}
	for i, entries := range lanes {
		if len(entries) == 0 {
			continue
		}
		slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.run.startUs, b.run.startUs) })
		l := hare.Lane{GPU: v.lanes[i]}
		for _, e := range entries {
			l.Job, l.Round, l.StartUs = append(l.Job, e.job), append(l.Round, e.run.round),
				append(l.StartUs, e.run.startUs)
		}
		s.Lanes = append(s.Lanes, l)
	}
	res.Value = &value
	return res
}
