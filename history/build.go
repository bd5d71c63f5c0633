package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/wire"
)

// Build makes an instance of the jobs that had GPUs in the window, one round each with the time
// that it took, and the schedule that the cluster followed. It takes O(n log n) for n jobs, and
// O(GPUs) a job.
func (l *Log) Build(cfg Config) (*Built, error) {
	b, err := l.newBuilder(cfg)
	if err != nil {
		return nil, err
	}
	b.choose()
	if len(b.jobs) == 0 {
		return nil, &NothingError{Report: b.rep}
	}
	b.completeNodes()
	b.place()
	return b.build()
}

// newBuilder checks the configuration and copies what the building changes.
func (l *Log) newBuilder(cfg Config) (*builder, error) {
	switch cfg.Weights = cmp.Or(cfg.Weights, "one"); cfg.Weights {
	case "one", "share", "slowdown":
	default:
		return nil, fmt.Errorf("history: weights are %.40q: they must be one, share or slowdown", cfg.Weights)
	}
	if cfg.Speeds == nil {
		cfg.Speeds = ShippedSpeeds()
	}
	rep := *l.Report
	b := &builder{cfg: cfg, log: l, rep: &rep, nodes: slices.Clone(l.Nodes)}
	b.rep.Warnings = slices.Clone(rep.Warnings)
	for _, notes := range []*[]Note{&b.rep.Assumed, &b.rep.LeftOut, &b.rep.Doubtful, &b.rep.SetAside} {
		*notes = slices.Clone(*notes)
	}
	b.log = l.sharing(b.rep)
	return b, nil
}

// choose takes the jobs of the window that had GPUs.
func (b *builder) choose() {
	until := cmp.Or(b.cfg.UntilUs, hare.Forever)
	origin := hare.Forever
	b.findRunaways()
	b.jobs = make([]*placedJob, 0, len(b.log.Jobs))
	var chunk []placedJob
	for i := range b.log.Jobs {
		j := &b.log.Jobs[i]
		p := placedJob{Job: j, submitUs: j.SubmitUs, startUs: j.StartUs, endUs: j.EndUs}
		switch {
		case j.SubmitUs >= until:
			b.rep.leaveOut("submitted after the window", j.Place)
			continue
		case j.noStart:
			b.rep.leaveOut("had not started, as the table has no column start", j.Place)
			continue
		case j.StartUs == 0 && j.State != Pending:
			b.rep.leaveOut("never started ("+j.State.String()+")", j.Place)
			continue
		case j.GPUs == 0 && (j.StartUs > 0 || !j.stays):
			b.rep.leaveOut("had and wanted no GPUs", j.Place)
			continue
		case j.StartUs == 0:
			b.rep.leaveOut("had not started when the log ended", j.Place)
			continue
		case j.EndUs > 0 && j.EndUs <= b.cfg.FromUs:
			b.rep.leaveOut("ended before the window", j.Place)
			continue
		case len(j.On) == 0:
			b.rep.leaveOut("the log does not say on which nodes the job ran", j.Place)
			continue
		}
		if b.runaway[i] {
			b.rep.doubt(runsNoMore, j.Place)
			continue
		}
		if j.EndUs == 0 && !j.noEnd && j.State != Running && j.State != Unknown {
			b.rep.doubt("has ended, and nothing says when: left out", j.Place)
			continue
		}
		if j.EndUs == 0 {
			p.endUs = max(b.log.NowUs, j.StartUs+1e6)
			what := "still ran when the log ended"
			if j.noEnd {
				what += ", as the table has no column end"
			}
			b.rep.assume(what+": counts as if it had ended then", j.Place)
		}
		if p.endUs <= p.startUs {
			b.rep.leaveOut("ran for no time", j.Place)
			continue
		}
		if p.startUs < p.submitUs {
			b.rep.doubt("started before it was submitted: counts as submitted at its start", j.Place)
			p.submitUs = p.startUs
		}
		origin = min(origin, p.submitUs)
		if len(chunk) == cap(chunk) {
			chunk = make([]placedJob, 0, 256)
		}
		chunk = append(chunk, p)
		b.jobs = append(b.jobs, &chunk[len(chunk)-1])
	}
	b.originUs = origin
	if b.cfg.FromUs > 0 {
		b.originUs = b.cfg.FromUs
	}
	slices.SortStableFunc(b.jobs, func(a, c *placedJob) int {
		return cmp.Or(cmp.Compare(a.startUs, c.startUs), strings.Compare(a.ID, c.ID))
	})
}

// build makes the instance and the schedule of jobs that have their GPUs.
func (b *builder) build() (*Built, error) {
	out := &Built{OriginUs: b.originUs, Report: b.rep}
	inst := &hare.Instance{Name: cmp.Or(b.cfg.Name, b.log.Source), Objective: hare.ObjectiveWeightedJCT}
	b.buildNodes(inst)
	b.listTypes()
	ids := map[string]bool{} // of jobs for which others may wait
	if b.cfg.Dependencies {
		for _, j := range b.jobs {
			ids[j.ID] = true
		}
	}
	inst.Jobs, out.Jobs = make([]hare.Job, 0, len(b.jobs)), make([]*Job, 0, len(b.jobs))
	kept := b.jobs[:0]
	for _, j := range b.jobs {
		if len(j.lanes) == 0 {
			b.rep.leaveOut("no GPU of the job's nodes is known", j.Place)
			continue
		}
		job, err := b.buildJob(j, ids)
		if err != nil {
			return nil, &RowError{j.Place, err.Error()}
		}
		j.instance = len(inst.Jobs)
		inst.Jobs = append(inst.Jobs, job)
		out.Jobs = append(out.Jobs, j.Job)
		kept = append(kept, j)
	}
	b.jobs = kept
	b.weigh(inst)
	b.reserveOrSay(inst)
	b.rep.Jobs = len(inst.Jobs)
	b.warnIfSmall()
	limited := func(j *placedJob) bool { return j.LimitUs > 0 }
	if b.log.Source == "slurm" && !slices.ContainsFunc(b.jobs, limited) {
		b.rep.Warnings = append(b.rep.Warnings, "no job has a time limit (column TimelimitRaw): the simulated Slurm cannot "+
			"start jobs ahead of others (backfill), so that a comparison with it flatters other policies")
	}
	if err := inst.ValidateLong(); err != nil {
		return nil, fmt.Errorf("history: the log gives no instance: %w", err)
	}
	out.Instance = inst
	out.Happened = b.happened(inst)
	return out, nil
}

// What a log should have at least, so that figures from it say something about the cluster: a day of the
// week is unlike another, and the mean wait of a few jobs is chance.
const (
	fewJobs    = 100
	fewHoursUs = 24 * 3600 * 1e6
)

// warnIfSmall says that the log has few jobs, or tells of little time.
func (b *builder) warnIfSmall() {
	var untilUs int64
	for _, j := range b.jobs {
		untilUs = max(untilUs, j.endUs)
	}
	length := untilUs - b.originUs
	if len(b.jobs) >= fewJobs && length >= fewHoursUs {
		return
	}
	b.rep.Warnings = append(b.rep.Warnings, fmt.Sprintf("the log is small: %s in %s; figures from fewer than %d "+
		"jobs or less than a day may say little about the cluster, a week is better", words.Count(len(b.jobs), "job"),
		words.Duration(length), fewJobs))
}

// listTypes lists the GPU types of all nodes.
func (b *builder) listTypes() {
	for i := range b.nodes {
		for _, g := range b.nodes[i].GPUs {
			b.types = append(b.types, g.Type)
		}
	}
	slices.Sort(b.types)
	b.types = slices.Compact(b.types)
}

// newJob makes a job of one round with its users.
func (b *builder) newJob(j *placedJob) hare.Job {
	out := hare.Job{ID: j.ID, WeightMicro: 1e6, Rounds: 1, Sync: hare.Rigid,
		ReleaseUs: max(0, j.submitUs-b.originUs)}
	for _, user := range []string{j.User, j.Account} {
		if user != "" && !slices.Contains(out.Users, user) {
			out.Users = append(out.Users, user)
		}
	}
	slices.Sort(out.Users)
	return out
}

// demand sets the CPUs and the memory of a task.
func (b *builder) demand(j *placedJob, out *hare.Job) {
	if !b.cfg.GPUsOnly && out.Tasks > 0 {
		out.CPUMilliPerTask, out.MemoryMiBPerTask = j.CPUMilli/out.Tasks, j.MemoryMiB/out.Tasks
	}
}

// buildJob makes a job of the instance.
func (b *builder) buildJob(j *placedJob, ids map[string]bool) (hare.Job, error) {
	out := b.newJob(j)
	b.shape(j, &out)
	b.selectNodes(j, &out)
	if err := b.profiles(j, &out); err != nil {
		return out, err
	}
	b.demand(j, &out)
	if j.startUs < b.originUs {
		out.ReleaseUs = 0
		out.Progress = &hare.Progress{ElapsedUs: b.originUs - j.startUs}
		for _, ref := range j.lanes {
			out.Progress.GPUs = append(out.Progress.GPUs, b.gpuName(ref))
		}
		return out, nil
	}
	for _, id := range j.After {
		if !b.cfg.Dependencies || !ids[id] || id == j.ID {
			continue
		}
		out.After = append(out.After, hare.Predecessor{Job: id})
	}
	slices.SortFunc(out.After, func(a, c hare.Predecessor) int { return strings.Compare(a.Job, c.Job) })
	out.After = slices.CompactFunc(out.After, func(a, c hare.Predecessor) bool { return a.Job == c.Job })
	if eligible := min(j.EligibleUs, j.startUs); eligible > j.submitUs && len(out.After) == 0 {
		b.rep.assume("is released when the cluster let it start, later than it was submitted (dependencies, begin times, "+
			"limits of arrays and users)", j.Place)
		out.ReleaseUs = max(0, eligible-b.originUs)
	}
	return out, nil
}

// profiles sets how long the job takes on each type that it may use: what it took on the type that
// it had, and elsewhere by Speeds.
func (b *builder) profiles(j *placedJob, out *hare.Job) error {
	ran := func(name string) bool {
		return slices.ContainsFunc(j.lanes, func(ref laneRef) bool { return ref.gpuType == name })
	}
	elapsed := j.endUs - j.startUs
	slowest, worst := "", 0.0
	for _, name := range b.types {
		if ran(name) {
			if t := b.cfg.Speeds.relativeTime(j.Job, name); t > worst {
				slowest, worst = name, t
			}
		}
	}
	if j.Type == "" && !j.stays {
		out.On = make([]hare.Profile, 0, len(b.types))
	}
	for _, name := range b.types {
		us := elapsed
		if !ran(name) {
			if j.Type != "" && !strings.EqualFold(name, j.Type) || !b.comparable(j, slowest, name) {
				continue
			}
			var how string
			us, how = b.cfg.Speeds.Time(j.Job, slowest, name, elapsed)
			b.rep.assume("time on a GPU type on which the job did not run: "+how, j.Place)
		}
		if us < 1 || us > hare.MaxExact {
			return fmt.Errorf("the time on %s is out of range", name)
		}
		out.On = append(out.On, hare.Profile{Type: name, ComputeUs: us})
	}
	return nil
}

// keepsToParts is what is assumed of a job that could otherwise change between parts of GPUs and whole ones.
const keepsToParts = "may not use a part of a GPU (MIG, time slices) in place of another GPU, since no table tells " +
	"its speed"

// comparable reports whether a job that ran on a type may use another one: not where the log does not tell what the
// job asked for, and not a part of a GPU in place of a whole one or the other way, unless something says how long it
// takes there.
func (b *builder) comparable(j *placedJob, ran, name string) bool {
	if j.stays {
		b.rep.assume("the log does not tell what the job asked for (no ReqTRES): it may use only the type on which it ran",
			j.Place)
		return false
	}
	if IsPart(ran) || IsPart(name) {
		if !b.cfg.Speeds.knows(j.Job, ran, name) {
			b.rep.assume(keepsToParts, j.Place)
			return false
		}
	}
	return true
}

// weigh sets the weights.
func (b *builder) weigh(inst *hare.Instance) {
	switch b.cfg.Weights {
	case "share":
		count := map[string]int{}
		for _, j := range b.jobs {
			count[j.User]++
		}
		for _, j := range b.jobs {
			w := float64(len(b.jobs)) / float64(len(count)) / float64(count[j.User])
			inst.Jobs[j.instance].WeightMicro = max(1, int64(math.Round(w*1e6)))
		}
	case "slowdown":
		sum := 0.0
		least := make([]float64, len(inst.Jobs))
		for i := range inst.Jobs {
			us := inst.Jobs[i].On[0].ComputeUs
			for _, p := range inst.Jobs[i].On {
				us = min(us, p.ComputeUs)
			}
			least[i] = float64(us)
			sum += float64(us)
		}
		for i := range inst.Jobs {
			w := sum / float64(len(inst.Jobs)) / least[i]
			inst.Jobs[i].WeightMicro = max(1, int64(math.Round(min(w, 1e6)*1e6)))
		}
	}
}

// reserveOrSay adds the reservations, or says that they are left out.
func (b *builder) reserveOrSay(inst *hare.Instance) {
	if b.cfg.Reservations {
		b.reserve(inst)
		return
	}
	for i := range b.log.Reservations {
		b.rep.leaveOut("reservations", b.log.Reservations[i].Name)
	}
}

// reserve adds the reservations of the window.
func (b *builder) reserve(inst *hare.Instance) {
	for _, r := range b.log.Reservations {
		from, until := max(0, r.FromUs-b.originUs), r.UntilUs-b.originUs
		if until <= from {
			continue
		}
		nodes := slices.Clone(r.Nodes)
		slices.Sort(nodes)
		users := append(slices.Clone(r.Users), r.Accounts...)
		slices.Sort(users)
		inst.Cluster.Reservations = append(inst.Cluster.Reservations, hare.Reservation{
			Nodes:  []hare.LabelValues{{Label: hare.LabelNode, Values: slices.Compact(nodes)}},
			FromUs: from, UntilUs: until, Users: slices.Compact(users)})
	}
}

// gpuName returns the name of a GPU in the instance.
func (b *builder) gpuName(ref laneRef) string {
	return b.nodes[ref.node].Name + "/" + itoa(int64(ref.gpu))
}

// happened writes down what the cluster did as a schedule.
func (b *builder) happened(inst *hare.Instance) *hare.Result {
	s := &hare.Schedule{Jobs: make([]string, len(inst.Jobs))}
	res := &hare.Result{InstanceSHA256: wire.SHA256(inst), Status: hare.StatusSucceeded, Reproducible: true,
		Objective: hare.ObjectiveWeightedJCT, Options: hare.Options{Detail: "lanes"}, Schedule: s,
		Jobs: make([]hare.JobResult, len(inst.Jobs))}
	lanes := make([][]*hare.Lane, len(b.nodes)) // by node and GPU
	var value hare.Amount
	for _, j := range b.jobs {
		job := &inst.Jobs[j.instance]
		s.Jobs[j.instance] = j.ID
		startUs, endUs := max(0, j.startUs-b.originUs), j.endUs-b.originUs
		res.Jobs[j.instance] = hare.JobResult{ID: j.ID, StartUs: startUs, EndUs: endUs}
		cost := hare.Product(job.WeightMicro, endUs-job.ReleaseUs)
		if job.Running() {
			if res.Constant == nil {
				res.Constant = &hare.Amount{}
			}
			*res.Constant = res.Constant.Add(cost)
			continue
		}
		value = value.Add(cost)
		for _, ref := range j.lanes {
			for len(lanes[ref.node]) <= ref.gpu {
				lanes[ref.node] = append(lanes[ref.node], nil)
			}
			l := lanes[ref.node][ref.gpu]
			if l == nil {
				l = &hare.Lane{GPU: b.gpuName(ref)}
				lanes[ref.node][ref.gpu] = l
			}
			l.Job = append(l.Job, int32(j.instance))
			l.StartUs = append(l.StartUs, startUs)
		}
	}
	for _, node := range lanes {
		for _, l := range node {
			if l != nil {
				s.Lanes = append(s.Lanes, *l)
			}
		}
	}
	res.Value = &value
	return res
}
