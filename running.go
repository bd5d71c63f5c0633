package hare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Running reports whether the job runs at time 0.
func (j *Job) Running() bool { return j.Progress != nil && len(j.Progress.GPUs) > 0 }

// FirstRound returns the first unit of the job that is not done at time 0.
func (j *Job) FirstRound() int64 {
	if j.Progress == nil {
		return 0
	}
	return j.Progress.RoundsDone
}

// Admits reports whether the reservation lets a job use its nodes.
func (r *Reservation) Admits(j *Job) bool {
	if _, found := slices.BinarySearch(r.Jobs, j.ID); found {
		return true
	}
	return slices.ContainsFunc(j.Users, func(user string) bool {
		_, found := slices.BinarySearch(r.Users, user)
		return found
	})
}

// Holds reports whether the reservation has the node.
func (r *Reservation) Holds(n *Node) bool {
	for i := range r.Nodes {
		if !r.Nodes[i].matches(n) {
			return false
		}
	}
	return true
}

// Limits reports whether the quota counts what a job holds on a GPU type.
func (q *Quota) Limits(j *Job, gpuType string) bool {
	if _, found := slices.BinarySearch(j.Users, q.User); !found {
		return false
	}
	if q.Types == nil {
		return true
	}
	_, found := slices.BinarySearch(q.Types, gpuType)
	return found
}

// Limits of the members of running work, reservations and quotas.
const (
	MaxReservations = 10_000
	MaxQuotas       = 100_000
	MaxNames        = 1000 // users of a job, users of a reservation, types of a quota
	MaxListedJobs   = 1e6  // jobs of a reservation
)

// CheckReservation adds the faults of a reservation by itself.
func (es *InvalidErrors) CheckReservation(at string, r *Reservation) {
	es.checkSelector(at+"/nodes", r.Nodes)
	if r.FromUs < 0 || r.FromUs > MaxExact {
		es.Add(at+"/from_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
	}
	switch {
	case r.UntilUs < 0 || r.UntilUs > MaxExact:
		es.Add(at+"/until_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
	case r.UntilUs <= r.FromUs:
		es.Add(at+"/until_s", "bad_window", "is empty: its end must lie after its start at %s", FormatMicros(r.FromUs))
	}
	es.checkNames(at+"/users", r.Users, MaxNames)
	es.checkNames(at+"/jobs", r.Jobs, MaxListedJobs)
}

// CheckQuota adds the faults of a quota.
func (es *InvalidErrors) CheckQuota(at string, q *Quota) {
	switch {
	case q.User == "":
		es.Add(at+"/user", "missing_field", "a quota needs the user whom it limits")
	case len(q.User) > MaxLabelText:
		es.Add(at+"/user", "bad_name", "has more than %d bytes", MaxLabelText)
	case !utf8.ValidString(q.User):
		es.Add(at+"/user", "bad_name", "must be UTF-8")
	}
	if q.GPUs < 0 || q.GPUs > MaxGPUs {
		es.Add(at+"/gpus", "out_of_range", "must be between 0 and %d", MaxGPUs)
	}
	if q.Types != nil && len(q.Types) == 0 {
		es.Add(at+"/types", "missing_field", "names no type: leave it out for all types")
	}
	es.checkNames(at+"/types", q.Types, MaxNames)
}

// CheckProgress adds the faults of the progress of a job that can be seen without the
// cluster.
func (es *InvalidErrors) CheckProgress(at string, j *Job) {
	p := j.Progress
	if p == nil {
		return
	}
	at += "/progress"
	if p.RoundsDone < 0 || p.RoundsDone >= max(1, j.Rounds) {
		es.Add(at+"/rounds_done", "out_of_range", "must be between 0 and %d, one less than the rounds: leave out a job "+
			"that has ended", max(1, j.Rounds)-1)
	}
	switch {
	case p.ElapsedUs < 0 || p.ElapsedUs > MaxExact:
		es.Add(at+"/elapsed_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
	case p.ElapsedUs > 0 && len(p.GPUs) == 0:
		es.Add(at+"/elapsed_s", "not_allowed", `belongs to work that runs: name its GPUs in "gpus"`)
	}
	switch {
	case p.Shape < 0 || p.Shape >= j.ShapeCount():
		es.Add(at+"/shape", "out_of_range", "must be between 0 and %d, a position in the shapes of the job",
			j.ShapeCount()-1)
		return
	case p.Shape > 0 && len(p.GPUs) == 0:
		es.Add(at+"/shape", "not_allowed", `belongs to work that runs: name its GPUs in "gpus"`)
	}
	if len(p.GPUs) == 0 {
		return
	}
	s := j.Shape(p.Shape)
	switch {
	case j.Sync == Relaxed:
		es.Add(at+"/gpus", "not_allowed", "belongs to gang and rigid jobs: for a relaxed job count what is done in "+
			"rounds_done and list the GPUs that finish a task under busy of their node")
	case j.ReleaseUs > 0:
		es.Add(at+"/gpus", "not_allowed", "the job runs at time 0, before its release_s: leave one of them out")
	case len(j.After) > 0:
		es.Add(at+"/gpus", "not_allowed", "the job runs, so that it waits for nothing: leave out after, or gpus")
	case s.Tasks <= MaxGPUs && s.TaskGPUs() <= MaxGPUs && int64(len(p.GPUs)) != s.Tasks*s.TaskGPUs():
		es.Add(at+"/gpus", "out_of_range", "names %d GPUs, and %d tasks of %d GPUs hold %d", len(p.GPUs), s.Tasks,
			s.TaskGPUs(), s.Tasks*s.TaskGPUs())
	}
}

// runningCheck finds the faults of running work that need the cluster.
type runningCheck struct {
	inst   *Instance
	at     string // the pointer of the instance
	faults *InvalidErrors
	byName map[string]int // node name to index
	held   map[string]int // GPU to the job that runs on it
	used   map[int]*held  // node to what runs there
	levels *Levels
}

// held is what running work holds on a node.
type held struct {
	cpuMilli, memoryMiB int64
}

// checkRunning adds the faults of running work that need the cluster: GPUs that are not
// there, busy, held twice, not allowed or not in service to the end of the work, and nodes
// without enough CPUs or memory.
func (es *InvalidErrors) checkRunning(at string, inst *Instance) {
	if !slices.ContainsFunc(inst.Jobs, func(j Job) bool { return j.Running() }) {
		return
	}
	c := runningCheck{inst: inst, at: at, faults: es, byName: map[string]int{}, held: map[string]int{},
		used: map[int]*held{}}
	for i := range inst.Cluster.Nodes {
		c.byName[inst.Cluster.Nodes[i].Name] = i
	}
	for i := range inst.Jobs {
		if len(*es) >= MaxFaults {
			return
		}
		if inst.Jobs[i].Running() {
			c.job(i)
		}
	}
}

// nodeGPUs are GPUs of one type on one node.
type nodeGPUs struct {
	node    int
	gpuType string
}

func (c *runningCheck) job(i int) {
	j := &c.inst.Jobs[i]
	at := c.at + "/jobs/" + strconv.Itoa(i) + "/progress/gpus"
	before := len(*c.faults)
	held := map[nodeGPUs]int64{}
	var places []nodeGPUs // in the order of their first GPUs
	for x, name := range j.Progress.GPUs {
		place, ok := c.gpu(at+"/"+strconv.Itoa(x), name, i)
		if !ok {
			continue
		}
		if held[place] == 0 {
			places = append(places, place)
		}
		held[place]++
	}
	if len(*c.faults) > before {
		return
	}
	spread, ok := c.spread(at, j, places)
	if !ok {
		return
	}
	durationUs, s := int64(0), j.Shape(j.Progress.Shape)
	for _, place := range places {
		if len(*c.faults) > before {
			return
		}
		p, ok := s.Profile(place.gpuType)
		switch n := &c.inst.Cluster.Nodes[place.node]; {
		case !ok:
			c.faults.Add(at, "not_allowed", "the job runs on type %q, for which it has no times: add it to \"on\"",
				Clip(place.gpuType))
		case !j.Mix && place.gpuType != places[0].gpuType:
			c.faults.Add(at, "not_allowed", "the GPUs are of types %q and %q: only a gang that may mix runs on several "+
				"types", Clip(places[0].gpuType), Clip(place.gpuType))
		case held[place]%s.TaskGPUs() != 0:
			c.faults.Add(at, "not_allowed", "names %d GPUs of type %q on node %q, which are not whole tasks of %d GPUs",
				held[place], Clip(place.gpuType), Clip(n.Name), s.TaskGPUs())
		case j.DistinctNodes && held[place] > s.TaskGPUs():
			c.faults.Add(at, "not_allowed", "several tasks are on node %q, and the job has distinct_nodes", Clip(n.Name))
		case !j.AllowsNode(n):
			c.faults.Add(at, "not_allowed", "the job runs on node %q, which its only and exclude forbid", Clip(n.Name))
		}
		durationUs = max(durationUs, p.ComputeUs+c.levels.SyncUs(&p, spread))
	}
	c.distinct(at, j, places)
	if len(*c.faults) > before {
		return
	}
	endUs, ok := j.RunningEnd(durationUs)
	if !ok {
		return // CheckHorizon reports it
	}
	if endUs <= 0 {
		c.faults.Add(c.at+"/jobs/"+strconv.Itoa(i)+"/progress/elapsed_s", "out_of_range",
			"must be less than %s, after which this work has ended: count it in rounds_done",
			FormatMicros(endUs+j.Progress.ElapsedUs))
		return
	}
	for _, place := range places {
		c.hold(at, j, place, held[place]/s.TaskGPUs(), endUs)
	}
}

// spread returns the level by which the GPUs of a job lie together, and adds a fault where it
// is coarser than the job allows.
func (c *runningCheck) spread(at string, j *Job, places []nodeGPUs) (level int, ok bool) {
	if c.levels == nil {
		c.levels = NewLevels(&c.inst.Cluster)
	}
	for _, place := range places {
		level = c.levels.Join(level, places[0].node, place.node)
	}
	if within, known := c.levels.Index(j.Within); known && level > within {
		c.faults.Add(at, "not_allowed", "the GPUs are not in one domain of level %q, which within of the job asks for",
			Clip(j.Within))
		return level, false
	}
	return level, true
}

// distinct adds a fault where a job with distinct nodes has tasks on several types of one
// node.
func (c *runningCheck) distinct(at string, j *Job, places []nodeGPUs) {
	if !j.DistinctNodes {
		return
	}
	for i, place := range places {
		if slices.ContainsFunc(places[:i], func(p nodeGPUs) bool { return p.node == place.node }) {
			c.faults.Add(at, "not_allowed", "several tasks are on node %q, and the job has distinct_nodes",
				Clip(c.inst.Cluster.Nodes[place.node].Name))
		}
	}
}

// gpu finds the node and type of a GPU by its name, and adds the faults of the name.
func (c *runningCheck) gpu(at, name string, job int) (nodeGPUs, bool) {
	slash := strings.LastIndexByte(name, '/')
	node, known := c.byName[name[:max(0, slash)]]
	index, err := strconv.ParseInt(name[slash+1:], 10, 32)
	if slash < 0 || !known || err != nil || strconv.FormatInt(index, 10) != name[slash+1:] {
		c.faults.Add(at, "unknown_gpu", "there is no GPU %q: GPUs are called node/index, e.g. %q", Clip(name),
			Clip(c.inst.Cluster.Nodes[0].Name+"/0"))
		return nodeGPUs{}, false
	}
	n := &c.inst.Cluster.Nodes[node]
	if index >= n.GPUCount() {
		c.faults.Add(at, "unknown_gpu", "node %q has %d GPUs, counted from 0", Clip(n.Name), n.GPUCount())
		return nodeGPUs{}, false
	}
	if first, twice := c.held[name]; twice {
		c.faults.Add(at, "duplicate_id", "job %q runs on GPU %q as well", Clip(c.inst.Jobs[first].ID), Clip(name))
		return nodeGPUs{}, false
	}
	c.held[name] = job
	if slices.ContainsFunc(n.Busy, func(b Busy) bool { return int64(b.GPU) == index }) {
		c.faults.Add(at, "not_allowed", "GPU %q is busy until later: leave out busy for GPUs of running work", Clip(name))
		return nodeGPUs{}, false
	}
	place := nodeGPUs{node: node}
	for _, t := range n.GPUs {
		place.gpuType = t.Type
		if index -= int64(t.Count); index < 0 {
			break
		}
	}
	return place, true
}

// hold adds the faults of tasks of running work on a node.
func (c *runningCheck) hold(at string, j *Job, place nodeGPUs, tasks, endUs int64) {
	n := &c.inst.Cluster.Nodes[place.node]
	if n.Windows != nil && (n.Windows[0].StartUs > 0 || n.Windows[0].EndUs < endUs) {
		c.faults.Add(at, "not_allowed", "node %q is not in service until the work ends at %s", Clip(n.Name),
			FormatMicros(endUs))
	}
	h := c.used[place.node]
	if h == nil {
		h = &held{}
		c.used[place.node] = h
	}
	h.cpuMilli += tasks * j.CPUMilliPerTask
	h.memoryMiB += tasks * j.MemoryMiBPerTask
	if n.CPUMilli > 0 && h.cpuMilli > n.CPUMilli {
		c.faults.Add(at, "too_many_cpus", "running work up to this job holds %s CPUs of node %q, which has %s",
			FormatMillis(h.cpuMilli), Clip(n.Name), FormatMillis(n.CPUMilli))
	}
	if n.MemoryMiB > 0 && h.memoryMiB > n.MemoryMiB {
		c.faults.Add(at, "too_much_memory", "running work up to this job holds %d MiB of node %q, which has %d",
			h.memoryMiB, Clip(n.Name), n.MemoryMiB)
	}
}

// RunningEnd returns E, when the running work of a job ends whose rounds take durationUs. It
// returns false where the time is too large.
func (j *Job) RunningEnd(durationUs int64) (int64, bool) {
	rounds := int64(1)
	if j.Sync == Rigid {
		s := j.Shape(j.Progress.Shape)
		rounds = s.rounds(j.Rounds - j.Progress.RoundsDone)
	}
	work, ok := product(durationUs, rounds)
	return work - j.Progress.ElapsedUs, ok
}

// checkListedJobs adds the faults of reservations that list jobs that are not there.
func (es *InvalidErrors) checkListedJobs(at string, inst *Instance, ids map[string]int) {
	for i := range inst.Cluster.Reservations {
		for x, id := range inst.Cluster.Reservations[i].Jobs {
			if _, ok := ids[id]; !ok {
				es.Add(fmt.Sprintf("%s/cluster/reservations/%d/jobs/%d", at, i, x), "unknown_job",
					"there is no job %q: give the id of a job of this instance", Clip(id))
			}
		}
	}
}
