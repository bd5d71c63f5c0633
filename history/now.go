package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// defaultUs is how long a job takes of which nothing is known.
const defaultUs = 3600 * 1e6

// BuildNow makes an instance of what runs and waits at the end of the log: running jobs with the GPUs
// that they hold and the time since they began, waiting jobs with what they asked for. The time that
// a job takes is the first of these that is known: its comment, the median of completed jobs of the
// same user, name and number of GPUs in the log, the estimate of its user, its limit, Config.DefaultUs.
// An estimate or a limit counts for the slowest type that the job may use. Config.FromUs and UntilUs
// do not count. BuildNow takes O(n log n) for n jobs, and O(GPUs) a running job.
func (l *Log) BuildNow(cfg Config) (*Built, error) {
	b, err := l.newBuilder(cfg)
	if err != nil {
		return nil, err
	}
	b.originUs = cmp.Or(cfg.AtUs, l.NowUs)
	b.medians = l.medians()
	running, waiting := b.chooseNow()
	for i := range b.nodes {
		if n := &b.nodes[i]; n.Out {
			n.Down = slices.Clone(n.Down)
			n.addDown(b.originUs, hare.Forever)
		}
	}
	b.jobs = running
	b.completeNodes()
	b.place()
	b.keepHolders()
	b.listTypes()
	for _, j := range b.jobs {
		profiles := b.expect(j.Job, b.typesOf(j))
		longest := int64(0)
		for _, p := range profiles {
			longest = max(longest, p.ComputeUs)
		}
		j.endUs = b.stretch(j, longest) + j.startUs
	}
	inst := &hare.Instance{Name: cmp.Or(cfg.Name, l.Source), Objective: hare.ObjectiveWeightedJCT}
	b.buildNodes(inst)
	b.closeNodes(inst)
	out := &Built{OriginUs: b.originUs, Report: b.rep}
	add := func(j *placedJob, job hare.Job) {
		j.instance = len(inst.Jobs)
		inst.Jobs = append(inst.Jobs, job)
		out.Jobs = append(out.Jobs, j.Job)
	}
	for _, j := range b.jobs {
		add(j, b.runningJob(j))
	}
	kept := b.jobs
	room := newRoom(inst)
	ids := make(map[string]bool, len(running)+len(waiting))
	for _, j := range slices.Concat(b.jobs, waiting) {
		ids[j.ID] = true
	}
	for _, j := range waiting {
		job := b.waitingJob(j, inst, room)
		b.fitWaiting(j, &job, room)
		if len(job.On) == 0 {
			b.rep.leaveOut("waits, and the nodes in service have no room for the job", j.Place)
			continue
		}
		if len(j.After) > 0 {
			b.waitFor(j, ids, &job)
		}
		add(j, job)
		kept = append(kept, j)
	}
	if b.jobs = kept; len(inst.Jobs) == 0 {
		return nil, &NothingError{Report: b.rep, now: true}
	}
	b.weigh(inst)
	b.reserveOrSay(inst)
	b.rep.Jobs = len(inst.Jobs)
	if err := inst.ValidateLong(); err != nil {
		return nil, fmt.Errorf("history: the log gives no instance: %w", err)
	}
	out.Instance = inst
	return out, nil
}

// chooseNow takes the jobs that run or wait and have or want GPUs. Running jobs whose GPUs the log
// names by number stand first, so that the others get the GPUs that remain.
func (b *builder) chooseNow() (running, waiting []*placedJob) {
	alive := map[string]bool{}
	for i := range b.log.Jobs {
		if st := b.log.Jobs[i].State; st == Running || st == Pending {
			id, _, _ := strings.Cut(b.log.Jobs[i].ID, "_")
			alive[b.log.Jobs[i].ID], alive[id] = true, true
		}
	}
	b.findRunaways()
	for i := range b.log.Jobs {
		j := &b.log.Jobs[i]
		p := &placedJob{Job: j, submitUs: j.SubmitUs, startUs: min(j.StartUs, b.originUs), endUs: hare.Forever}
		switch {
		case j.State != Running && j.State != Pending:
		case j.GPUs == 0 && j.stays && j.State == Pending:
			b.rep.leaveOut("waits, and the log does not tell what the job asks for (no ReqTRES)", j.Place)
		case j.GPUs == 0:
			b.rep.leaveOut("has and wants no GPUs", j.Place)
		case b.runaway[i]:
			b.rep.doubt(runsNoMore, j.Place)
		case j.State == Running && (j.StartUs == 0 || len(j.On) == 0):
			b.rep.doubt("runs, and the log does not say since when and on which nodes: left out", j.Place)
		case j.State == Running:
			running = append(running, p)
		case j.OnHold:
			b.rep.leaveOut("is held by its user or an operator", j.Place)
		case !b.cfg.Dependencies && slices.ContainsFunc(j.After, func(id string) bool { return alive[id] }):
			b.rep.leaveOut("waits for the ends of other jobs", j.Place)
		default:
			waiting = append(waiting, p)
		}
	}
	numbered := func(p *placedJob) int {
		if slices.ContainsFunc(p.On, func(h Held) bool { return len(h.Numbers) == 0 }) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(running, func(a, c *placedJob) int {
		return cmp.Or(cmp.Compare(numbered(a), numbered(c)), cmp.Compare(a.startUs, c.startUs), strings.Compare(a.ID, c.ID))
	})
	return running, waiting
}

// keepHolders leaves out running jobs whose GPUs another running job holds, by the log, or that have
// no GPU that is known.
func (b *builder) keepHolders() {
	held := map[laneRef]bool{}
	kept := b.jobs[:0]
	for _, j := range b.jobs {
		if len(j.lanes) == 0 || slices.ContainsFunc(j.lanes, func(ref laneRef) bool { return held[ref] }) {
			b.rep.doubt("runs on GPUs that another running job holds or that are not known: left out", j.Place)
			continue
		}
		for _, ref := range j.lanes {
			held[ref] = true
		}
		kept = append(kept, j)
	}
	b.jobs = kept
}

// typesOf lists the GPU types on which a placed job runs.
func (b *builder) typesOf(j *placedJob) (types []string) {
	for _, name := range b.types {
		if slices.ContainsFunc(j.lanes, func(ref laneRef) bool { return ref.gpuType == name }) {
			types = append(types, name)
		}
	}
	return types
}

// medians returns the median time of completed jobs by group and GPU type.
func (l *Log) medians() map[group]map[string]int64 {
	times, groups := l.completed()
	out := make(map[group]map[string]int64, len(groups))
	for _, g := range groups {
		out[g] = map[string]int64{}
		for name, list := range times[g] {
			slices.Sort(list)
			out[g][name] = int64(median(list))
		}
	}
	return out
}

// expect returns how long a job takes on each of the types.
func (b *builder) expect(j *Job, types []string) []hare.Profile {
	known := map[string]int64{}
	how := "time of the job: by its comment"
	for _, d := range j.Seconds {
		known[d.Type] = d.Us
		for _, name := range types {
			if strings.EqualFold(name, d.Type) {
				known[name] = d.Us
			}
		}
	}
	if len(known) == 0 {
		how = "time of the job: the median of completed jobs of its user, name and number of GPUs"
		for name, us := range b.medians[group{j.User, j.Name, j.GPUs}] {
			known[name] = us
		}
	}
	if len(known) == 0 && len(types) > 0 {
		var us int64
		switch {
		case j.EstimateUs > 0:
			us, how = j.EstimateUs, "time of the job: the estimate of its user, for the slowest type that it may use"
		case j.LimitUs > 0:
			us, how = j.LimitUs, "time of the job: its limit, for the slowest type that it may use"
		default:
			us = cmp.Or(b.cfg.DefaultUs, int64(defaultUs))
			how = "time of the job: nothing is known, " + hare.FormatMicros(us) + " s for the slowest type that it may use"
		}
		slowest := types[0]
		for _, name := range types {
			if b.cfg.Speeds.relativeTime(j, name) > b.cfg.Speeds.relativeTime(j, slowest) {
				slowest = name
			}
		}
		known[slowest] = us
	}
	b.rep.assume(how, j.Place)
	bases := make([]string, 0, len(known))
	for name := range known {
		bases = append(bases, name)
	}
	slices.Sort(bases)
	var out []hare.Profile
	for _, name := range types {
		us, ok := known[name]
		if !ok {
			us, _ = b.cfg.Speeds.Time(j, bases[0], name, known[bases[0]])
		}
		out = append(out, hare.Profile{Type: name, ComputeUs: max(1, min(us, hare.MaxExact/4))})
	}
	return out
}

// stretch returns the whole time of a running job of which a time is expected. A job that has run for
// longer is taken to run for a tenth more, a minute at least, but not beyond its limit.
func (b *builder) stretch(j *placedJob, expectedUs int64) int64 {
	elapsed := b.originUs - j.startUs
	if expectedUs > elapsed {
		return expectedUs
	}
	b.rep.assume("has run for longer than expected: goes on for a tenth of its time, a minute at least, within its limit",
		j.Place)
	longer := elapsed + max(60e6, elapsed/10)
	if j.LimitUs > elapsed {
		longer = min(longer, j.LimitUs)
	}
	return longer
}

// runningJob makes a job of the instance of a job that runs.
func (b *builder) runningJob(j *placedJob) hare.Job {
	out := b.newJob(j)
	b.shape(j, &out)
	for _, name := range b.typesOf(j) {
		out.On = append(out.On, hare.Profile{Type: name, ComputeUs: j.endUs - j.startUs})
	}
	b.demand(j, &out)
	b.checkDemand(j, &out)
	out.ReleaseUs = 0
	out.Progress = &hare.Progress{ElapsedUs: b.originUs - j.startUs}
	for _, ref := range j.lanes {
		out.Progress.GPUs = append(out.Progress.GPUs, b.gpuName(ref))
	}
	return out
}

// checkDemand leaves out the CPUs and the memory of a running job where its nodes do not have as much
// beside the other running jobs.
func (b *builder) checkDemand(j *placedJob, out *hare.Job) {
	if b.used == nil {
		b.used = map[int][2]int64{}
	}
	tasks := map[int]int64{}
	for x, ref := range j.lanes {
		if int64(x)%max(1, out.GPUsPerTask) == 0 {
			tasks[ref.node]++
		}
	}
	for node, n := range tasks {
		has, used := &b.nodes[node], b.used[node]
		if has.CPUMilli > 0 && used[0]+n*out.CPUMilliPerTask > has.CPUMilli ||
			has.MemoryMiB > 0 && used[1]+n*out.MemoryMiBPerTask > has.MemoryMiB {
			b.rep.doubt("holds more CPUs or memory than its nodes have beside others: counts without", j.Place)
			out.CPUMilliPerTask, out.MemoryMiBPerTask = 0, 0
			return
		}
	}
	for node, n := range tasks {
		used := b.used[node]
		b.used[node] = [2]int64{used[0] + n*out.CPUMilliPerTask, used[1] + n*out.MemoryMiBPerTask}
	}
}

// waitingJob makes a job of the instance of a job that waits.
func (b *builder) waitingJob(j *placedJob, inst *hare.Instance, room room) hare.Job {
	out := b.newJob(j)
	out.ReleaseUs = max(0, j.EligibleUs-b.originUs)
	if out.ReleaseUs > 0 {
		b.rep.assume("has a begin time that is to come", j.Place)
	}
	b.selectNodes(j, &out)
	gpus := j.GPUs
	named := j.Types // of several types the job has some of each
	if j.Type != "" {
		named = []string{j.Type}
	}
	switch {
	case j.Exclusive:
		if whole := wholeNode(inst, &out, named); whole.gpus > 0 {
			nodes := max(1, j.Nodes)
			out.Tasks, out.GPUsPerTask, out.DistinctNodes = nodes, whole.gpus, nodes > 1
			if len(whole.types) > 1 && len(named) > 0 {
				named = whole.types
				excludeNodes(&out, whole.without)
				b.sortOnly(&out)
			}
			b.rep.assume("wants whole nodes: takes all GPUs of so many nodes", j.Place)
			break
		}
		b.rep.assume("wants whole nodes, which have unlike numbers of GPUs: takes those that it asked for", j.Place)
		fallthrough
	default:
		out.Tasks = gpus
		if j.PerTask > 1 && gpus%j.PerTask == 0 {
			out.Tasks, out.GPUsPerTask = gpus/j.PerTask, j.PerTask
		} else if j.PerTask == 0 && j.Nodes > 0 && gpus%j.Nodes == 0 {
			out.Tasks, out.GPUsPerTask, out.DistinctNodes = j.Nodes, gpus/j.Nodes, j.Nodes > 1
		}
	}
	if out.GPUsPerTask == 1 {
		out.GPUsPerTask = 0
	}
	var types []string
	for _, name := range b.types {
		if (len(named) == 0 || hasFold(named, name)) && room.hasType(&out, name) {
			types = append(types, name)
		}
	}
	out.On = b.expect(j.Job, types)
	b.demand(j, &out)
	return out
}

// fitWaiting keeps a waiting job to the types of which the nodes have enough. A job that names no type has whole GPUs
// before parts, and mixes types where no type alone has room, as Slurm lets it. So does a job that names several
// types, and one for which there is room only on nodes that have several.
func (b *builder) fitWaiting(j *placedJob, job *hare.Job, room room) {
	all := job.On
	parted := func(p hare.Profile) bool { return IsPart(p.Type) }
	if j.Type == "" && slices.ContainsFunc(all, parted) {
		job.On = slices.DeleteFunc(slices.Clone(all), parted)
		if job.On = room.fits(job); len(job.On) > 0 {
			b.rep.assume(keepsToParts, j.Place)
			return
		}
		job.On = all
	}
	several := len(j.Types) > 1 && len(all) > 1
	if job.On = room.fits(job); len(job.On) > 0 && !several || len(all) < 2 {
		return
	}
	mix := func(shape hare.Job) bool {
		shape.On = slices.DeleteFunc(slices.Clone(all), parted)
		if len(shape.On) < 2 || !room.fitsMixed(&shape) {
			shape.On = all
		}
		if !room.fitsMixed(&shape) {
			return false
		}
		*job = shape
		job.Sync, job.Mix = hare.Gang, true
		return true
	}
	const mixes = "has room only on several GPU types at once: may mix types"
	if !several && mix(*job) {
		b.rep.assume(mixes, j.Place)
		return
	}
	apart := *job
	each := max(1, apart.GPUsPerTask)
	apart.Tasks, apart.GPUsPerTask, apart.DistinctNodes = apart.Tasks*each, 0, false
	apart.CPUMilliPerTask, apart.MemoryMiBPerTask = apart.CPUMilliPerTask/each, apart.MemoryMiBPerTask/each
	switch {
	case !mix(apart):
		job.On = nil
	case several:
		b.rep.assume("asks for GPUs of several types: may mix these types, and have its GPUs on any nodes", j.Place)
	default:
		b.rep.assume(mixes, j.Place)
		b.rep.assume("has room only on nodes of several GPU types: may have its GPUs on any nodes", j.Place)
	}
}

// whole is what each node has that a job may use: so many GPUs, of these types. without are the nodes that have none
// of the types that the job names.
type whole struct {
	gpus           int64
	types, without []string
}

// wholeNode returns what each node has that the job may use and that has GPUs of the types that it names, if it names
// any; no GPUs if the nodes differ.
func wholeNode(inst *hare.Instance, j *hare.Job, named []string) (out whole) {
	for i := range inst.Cluster.Nodes {
		n := &inst.Cluster.Nodes[i]
		if !j.AllowsNode(n) {
			continue
		}
		if len(named) > 0 && !slices.ContainsFunc(n.GPUs, func(g hare.TypeCount) bool { return hasFold(named, g.Type) }) {
			out.without = append(out.without, n.Name)
			continue
		}
		if out.gpus != 0 && out.gpus != n.GPUCount() {
			return whole{}
		}
		out.gpus = n.GPUCount()
		for _, g := range n.GPUs {
			if !slices.Contains(out.types, g.Type) {
				out.types = append(out.types, g.Type)
			}
		}
	}
	return out
}

// hasFold reports whether a name is one of a list, in upper or lower case.
func hasFold(list []string, name string) bool {
	return slices.ContainsFunc(list, func(other string) bool { return strings.EqualFold(other, name) })
}

// excludeNodes keeps a job off nodes.
func excludeNodes(j *hare.Job, names []string) {
	if len(names) == 0 {
		return
	}
	at := slices.IndexFunc(j.Exclude, func(l hare.LabelValues) bool { return l.Label == hare.LabelNode })
	if at < 0 {
		at = len(j.Exclude)
		j.Exclude = append(j.Exclude, hare.LabelValues{Label: hare.LabelNode})
	}
	j.Exclude[at].Values = slices.Compact(slices.Sorted(slices.Values(slices.Concat(j.Exclude[at].Values, names))))
}

// waitFor adds the jobs of the instance for whose ends a job waits.
func (b *builder) waitFor(j *placedJob, ids map[string]bool, out *hare.Job) {
	after := slices.Clone(j.After)
	slices.Sort(after)
	for _, id := range slices.Compact(after) {
		if ids[id] && id != j.ID {
			out.After = append(out.After, hare.Predecessor{Job: id})
		}
	}
}

// closeNodes keeps the free GPUs of nodes that are about to leave service from new jobs, and leaves
// nodes out that are not in service and on which nothing runs.
func (b *builder) closeNodes(inst *hare.Instance) {
	held := map[string]bool{}
	for _, j := range b.jobs {
		for _, ref := range j.lanes {
			held[b.gpuName(ref)] = true
		}
	}
	out := map[string]bool{}
	for i := range b.nodes {
		out[b.nodes[i].Name] = b.nodes[i].Out
	}
	for i := range inst.Cluster.Nodes {
		n := &inst.Cluster.Nodes[i]
		if !out[n.Name] || len(n.Windows) == 0 {
			continue
		}
		for g := range int(n.GPUCount()) {
			if !held[n.Name+"/"+itoa(int64(g))] {
				n.Busy = append(n.Busy, hare.Busy{GPU: g, UntilUs: n.Windows[0].EndUs})
			}
		}
		b.rep.assume("a node that is to leave service lets its jobs end and takes no others", n.Name)
	}
}

// room counts what the nodes of an instance that stay in service have when nothing runs.
type room struct{ nodes []*hare.Node }

func newRoom(inst *hare.Instance) room {
	var r room
	for i := range inst.Cluster.Nodes {
		n := &inst.Cluster.Nodes[i]
		if w := n.Windows; len(w) == 0 || w[len(w)-1].EndUs == hare.Forever {
			r.nodes = append(r.nodes, n)
		}
	}
	return r
}

// hasType reports whether a node that a job may use has GPUs of a type.
func (r room) hasType(j *hare.Job, gpuType string) bool {
	return slices.ContainsFunc(r.nodes, func(n *hare.Node) bool {
		return slices.ContainsFunc(n.GPUs, func(g hare.TypeCount) bool { return g.Type == gpuType }) && j.AllowsNode(n)
	})
}

// fits returns the profiles of a job on types of which the nodes have enough.
func (r room) fits(j *hare.Job) (on []hare.Profile) {
	for _, p := range j.On {
		tasks := int64(0)
		for _, n := range r.nodes {
			if tasks >= j.Tasks || !j.AllowsNode(n) {
				continue
			}
			tasks += tasksOn(n, j, p.Type)
		}
		if tasks >= j.Tasks {
			on = append(on, p)
		}
	}
	return on
}

// fitsMixed reports whether the nodes have enough of all types of a job together.
func (r room) fitsMixed(j *hare.Job) bool {
	tasks := int64(0)
	for _, n := range r.nodes {
		if !j.AllowsNode(n) {
			continue
		}
		here := int64(0)
		for _, p := range j.On {
			here += tasksOn(n, j, p.Type)
		}
		if n.CPUMilli > 0 && j.CPUMilliPerTask > 0 {
			here = min(here, n.CPUMilli/j.CPUMilliPerTask)
		}
		if n.MemoryMiB > 0 && j.MemoryMiBPerTask > 0 {
			here = min(here, n.MemoryMiB/j.MemoryMiBPerTask)
		}
		if j.DistinctNodes {
			here = min(here, 1)
		}
		tasks += here
	}
	return tasks >= j.Tasks
}

// tasksOn returns how many tasks of a job an empty node holds on a type.
func tasksOn(n *hare.Node, j *hare.Job, gpuType string) int64 {
	tasks := int64(0)
	for _, g := range n.GPUs {
		if g.Type == gpuType {
			tasks = int64(g.Count) / max(1, j.GPUsPerTask)
		}
	}
	if n.CPUMilli > 0 && j.CPUMilliPerTask > 0 {
		tasks = min(tasks, n.CPUMilli/j.CPUMilliPerTask)
	}
	if n.MemoryMiB > 0 && j.MemoryMiBPerTask > 0 {
		tasks = min(tasks, n.MemoryMiB/j.MemoryMiBPerTask)
	}
	if j.DistinctNodes {
		tasks = min(tasks, 1)
	}
	return tasks
}
