package hare

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Validate finds up to 100 faults of an instance that a program built, with the pointers
// and codes of wire.DecodeInstance. It changes nothing: types must be in order, and
// windows and busy GPUs must be as the fields say. A valid instance equals what decoding
// its encoded form gives.
func (inst *Instance) Validate() error { return inst.validate(false) }

// ValidateLong is Validate for instances that are simulated and not planned. Each job
// alone must fit into the representable times, 285 years, but all jobs one after another
// need not. A simulation refuses later times when it meets them.
func (inst *Instance) ValidateLong() error { return inst.validate(true) }

func (inst *Instance) validate(long bool) error {
	var all InvalidErrors
	if !slices.Contains(Objectives(), inst.Objective) {
		all.Add("/objective", "unknown_value", "objective %q: must be one of %s", Clip(inst.Objective),
			strings.Join(Objectives(), ", "))
	}
	if !utf8.ValidString(inst.Name) {
		all.Add("/name", "bad_name", "must be UTF-8")
	}
	nodes := make(map[string]int, len(inst.Cluster.Nodes))
	var gpus int64
	for i := range inst.Cluster.Nodes {
		n := &inst.Cluster.Nodes[i]
		at := "/cluster/nodes/" + strconv.Itoa(i)
		all.CheckNode(at, n, true)
		all.checkOrder(at, n)
		if first, twice := nodes[n.Name]; twice {
			all.Add(at+"/name", "duplicate_id", "node %q appears twice, first at /cluster/nodes/%d: names must differ",
				Clip(n.Name), first)
		} else {
			nodes[n.Name] = i
		}
		if gpus += n.GPUCount(); gpus > MaxGPUs {
			all.Add(at, "too_large", "the cluster has more than %d GPUs up to here: split it", MaxGPUs)
			break
		}
		if len(all) >= MaxFaults {
			return all
		}
	}
	all.CheckTopology("/cluster", &inst.Cluster, func(n int) int { return n })
	all.CheckHardware("/cluster", &inst.Cluster)
	if len(inst.Cluster.Nodes) == 0 {
		all.Add("/cluster/nodes", "no_gpus", "the cluster has no GPUs: give at least one node with gpus")
	}
	ids := make(map[string]int, len(inst.Jobs))
	var h horizon
	over := false
	h.cluster(&inst.Cluster)
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		at := "/jobs/" + strconv.Itoa(i)
		before := len(all)
		if j.Mix && j.Sync != Gang {
			all.Add(at+"/mix", "not_allowed", "mix is a choice of gang jobs alone")
		}
		all.CheckJob(at, j)
		all.checkNormal(at, j)
		if first, twice := ids[j.ID]; twice {
			all.Add(at+"/id", "duplicate_id", "id %q appears twice, first at /jobs/%d: ids must differ", Clip(j.ID),
				first)
		} else {
			ids[j.ID] = i
		}
		if long {
			h.work = 0
		}
		if len(all) == before && !over && !h.add(j) {
			over = true
			all.addHorizonFault(at, &h)
		}
		if len(all) >= MaxFaults {
			return all
		}
	}
	for i := range inst.Cluster.Reservations {
		all.CheckReservation("/cluster/reservations/"+strconv.Itoa(i), &inst.Cluster.Reservations[i])
	}
	for i := range inst.Quota {
		all.CheckQuota("/quota/"+strconv.Itoa(i), &inst.Quota[i])
	}
	if len(all) == 0 {
		all.CheckTogether("", inst)
	}
	if len(all) == 0 {
		all.checkSettled(inst)
	}
	if len(all) > 0 {
		return all
	}
	return nil
}

// CheckTogether adds the faults that concern several jobs, or jobs and the cluster: members of
// reservations, predecessors and levels that are not there, times by spread that fall or are
// missing, jobs that wait for each other, running work that contradicts the cluster, and too
// many reservations or quotas. Everything by itself must be without faults. at is the pointer
// of inst. It takes O(size).
func (es *InvalidErrors) CheckTogether(at string, inst *Instance) {
	if len(inst.Cluster.Reservations) > MaxReservations {
		es.Add(at+"/cluster/reservations", "too_many", "there are %d: at most %d are allowed",
			len(inst.Cluster.Reservations), MaxReservations)
	}
	if len(inst.Quota) > MaxQuotas {
		es.Add(at+"/quota", "too_many", "there are %d: at most %d are allowed", len(inst.Quota), MaxQuotas)
	}
	listed := slices.ContainsFunc(inst.Cluster.Reservations, func(r Reservation) bool { return len(r.Jobs) > 0 })
	waits, levels := false, false
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		waits, levels = waits || len(j.After) > 0, levels || j.Within != "" || j.Spreads()
	}
	if listed || waits {
		ids := make(map[string]int, len(inst.Jobs))
		for i := range inst.Jobs {
			ids[inst.Jobs[i].ID] = i
		}
		es.checkListedJobs(at, inst, ids)
		es.checkOrderOfJobs(at, inst, ids)
	}
	if levels {
		es.checkLevels(at, inst)
	}
	es.checkRunning(at, inst)
}

// CheckNode adds the faults of a node whose windows and busy GPUs are in the order of
// the document. countable says whether the node's GPUs can be counted, without which
// busy GPUs cannot be checked.
func (es *InvalidErrors) CheckNode(at string, n *Node, countable bool) {
	switch {
	case n.Name == "":
		es.Add(at+"/name", "missing_field", "a node needs a name")
	case strings.Contains(n.Name, "/"):
		es.Add(at+"/name", "bad_name", "node name %q must not contain a slash: GPUs are called node/index",
			Clip(n.Name))
	case !utf8.ValidString(n.Name):
		es.Add(at+"/name", "bad_name", "must be UTF-8")
	}
	if len(n.GPUs) == 0 && countable {
		es.Add(at+"/gpus", "missing_field", `"gpus" names no GPU: give at least one type, e.g. {"V100": 4}`)
	}
	for _, g := range n.GPUs {
		p := at + "/gpus/" + EscapePointer(g.Type)
		es.typeName(p, g.Type)
		if g.Count < 1 || g.Count > MaxGPUs {
			es.Add(p, "out_of_range", "%d must be between 1 and %d", g.Count, MaxGPUs)
		}
	}
	if n.Windows != nil && len(n.Windows) == 0 {
		es.Add(at+"/in_service_s", "bad_window",
			"there is no window, so the node is never in service: leave out the node, or this field if it is always in service")
	}
	end := int64(-1) // the latest end of the windows so far
	for i, w := range n.Windows {
		p := at + "/in_service_s/" + strconv.Itoa(i)
		switch {
		case w.StartUs < 0 || w.StartUs > MaxExact || w.EndUs < 0 || w.EndUs > MaxExact && w.EndUs != Forever:
			es.Add(p, "bad_window", "must lie between 0 and %s", FormatMicros(MaxExact))
		case w.EndUs <= w.StartUs:
			es.Add(p, "bad_window", "is empty: its end must lie after its start at %s", FormatMicros(w.StartUs))
		case end == Forever:
			es.Add(p, "bad_window", "follows a window that never ends: put windows in order, disjoint")
		case w.StartUs < end:
			es.Add(p, "bad_window", "starts at %s, before the end of the last one at %s: put windows in order, "+
				"disjoint",
				FormatMicros(w.StartUs), FormatMicros(end))
		default:
			end = w.EndUs
		}
	}
	each := n.GPUCount()
	place := make(map[int]int, len(n.Busy))
	for i, b := range n.Busy {
		p := at + "/busy/" + strconv.Itoa(i)
		if b.GPU < 0 || countable && int64(b.GPU) >= each {
			es.Add(p+"/gpu", "out_of_range", "GPU %d: this node has %d, counted from 0", b.GPU, each)
		} else if first, twice := place[b.GPU]; twice {
			es.Add(p+"/gpu", "duplicate_id", "GPU %d appears twice, first at busy/%d: give its last until_s once",
				b.GPU, first)
		} else {
			place[b.GPU] = i
		}
		if b.UntilUs < 0 || b.UntilUs > MaxExact {
			es.Add(p+"/until_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
		}
	}
	if n.CPUMilli < 0 || n.CPUMilli > MaxPerTask {
		es.Add(at+"/cpus", "out_of_range", "must be between 0.001 and %s; leave it out for no limit",
			FormatMillis(MaxPerTask))
	}
	if n.MemoryMiB < 0 || n.MemoryMiB > MaxPerTask {
		es.Add(at+"/memory_mib", "out_of_range", "must be between 1 and %d; leave it out for no limit",
			int64(MaxPerTask))
	}
	es.checkLabels(at+"/labels", n.Labels)
}

// checkOrder adds a fault where a node that a program built is not in the order of a
// decoded node.
func (es *InvalidErrors) checkOrder(at string, n *Node) {
	for i := 1; i < len(n.GPUs); i++ {
		if n.GPUs[i-1].Type >= n.GPUs[i].Type {
			es.Add(at+"/gpus", "unordered", "types must be sorted, each once")
			break
		}
	}
	for i := 1; i < len(n.Windows); i++ {
		if n.Windows[i-1].EndUs == n.Windows[i].StartUs {
			es.Add(at+"/in_service_s/"+strconv.Itoa(i), "unordered", "touches the window before: make them one")
		}
	}
	if !slices.IsSortedFunc(n.Busy, func(a, b Busy) int { return a.GPU - b.GPU }) {
		es.Add(at+"/busy", "unordered", "must be sorted by GPU")
	}
}

// Normalise merges touching windows, sorts busy GPUs and drops those that are free from
// 0. The node must have no faults.
func (n *Node) Normalise() {
	var merged []Window
	for _, w := range n.Windows {
		if m := len(merged); m > 0 && w.StartUs == merged[m-1].EndUs {
			merged[m-1].EndUs = w.EndUs
			continue
		}
		merged = append(merged, w)
	}
	if len(merged) == 1 && merged[0] == (Window{0, Forever}) {
		merged = nil
	}
	n.Windows = merged
	n.Busy = slices.DeleteFunc(n.Busy, func(b Busy) bool { return b.UntilUs == 0 })
	slices.SortFunc(n.Busy, func(a, b Busy) int { return a.GPU - b.GPU })
	if len(n.Busy) == 0 {
		n.Busy = nil
	}
}

// CheckJob adds the faults of one job.
func (es *InvalidErrors) CheckJob(at string, j *Job) {
	switch {
	case j.ID == "":
		es.Add(at+"/id", "missing_field", "a job needs an id")
	case !utf8.ValidString(j.ID):
		es.Add(at+"/id", "bad_name", "must be UTF-8")
	}
	if j.WeightMicro < 0 || j.WeightMicro > MaxExact {
		es.Add(at+"/weight", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
	}
	if j.ReleaseUs < 0 || j.ReleaseUs > MaxExact {
		es.Add(at+"/release_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
	}
	if j.Rounds < 1 || j.Rounds > MaxExact {
		es.Add(at+"/rounds", "out_of_range", "must be between 1 and %d", int64(MaxExact))
	}
	if j.Sync > Rigid {
		es.Add(at+"/sync", "unknown_value", "must be relaxed, gang or rigid")
	}
	es.checkShapes(at, j)
	es.CheckHints(at, j.Hints)
	es.checkPlacement(at, j)
	es.checkNames(at+"/user", j.Users, MaxNames)
	es.CheckProgress(at, j)
	es.checkDependencies(at, j)
	es.checkDurations(at, j)
}

// horizon sums up how long the jobs of an instance take in any order, one task after
// another, when all jobs are released and all nodes are in service again. No time of a
// schedule without needless waiting lies beyond the sum. The sum must be within MaxExact, so
// that times add up in 64 bits, and the sum of the weights within 2^62, so that objectives
// add up in 128 bits.
type horizon struct {
	edge    int64 // the last change of the cluster, in µs
	release int64 // the last release, in µs
	work    int64 // in µs
	weight  int64 // in units of 1e-6
}

// node updates the last finite edge of a node's windows and busy GPUs.
func (h *horizon) node(n *Node) {
	for _, w := range n.Windows {
		h.edge = max(h.edge, w.StartUs)
		if w.EndUs != Forever {
			h.edge = max(h.edge, w.EndUs)
		}
	}
	for _, b := range n.Busy {
		h.edge = max(h.edge, b.UntilUs)
	}
}

// cluster updates the last finite edge of a cluster's windows, busy GPUs and reservations.
func (h *horizon) cluster(c *Cluster) {
	for i := range c.Nodes {
		h.node(&c.Nodes[i])
	}
	for i := range c.Reservations {
		h.edge = max(h.edge, c.Reservations[i].UntilUs)
	}
}

// longestRound returns the longest time of a round, task after task where they need not be together,
// with a setup and a change of the shape. It returns false if the time is too long.
func (j *Job) longestRound() (int64, bool) {
	most := int64(0)
	for i := range j.ShapeCount() {
		s := j.Shape(i)
		longest, setup := int64(0), int64(0)
		for _, p := range s.On {
			longest, setup = max(longest, p.DurationUs()), max(setup, p.SwitchUs)
		}
		if j.Sync == Relaxed {
			var ok bool
			if longest, ok = product(longest, s.Tasks); !ok {
				return 0, false
			}
		}
		most = max(most, longest+setup+j.ReshapeUs)
	}
	return most, most <= MaxExact
}

// maxWeight limits the sum of all weights, in units of 1e-6.
const maxWeight = 1 << 62

// add adds a job without faults. It returns false if the sums become too large.
func (h *horizon) add(j *Job) bool {
	if h.weight += j.WeightMicro + j.LateWeightMicro; h.weight > maxWeight {
		return false
	}
	h.release = max(h.release, j.ReleaseUs)
	lag := int64(0)
	for _, p := range j.After {
		lag = max(lag, p.LagUs)
	}
	h.work += lag
	work, ok := j.longestRound()
	if ok {
		work, ok = product(work, j.Rounds)
	}
	if ok {
		h.work += work
	}
	return ok && h.edge <= MaxExact && h.edge+h.release+h.work <= MaxExact
}

// addHorizonFault adds the fault of the job at which h became too large.
func (es *InvalidErrors) addHorizonFault(at string, h *horizon) {
	if h.weight > maxWeight {
		es.Add(at+"/weight", "too_large", "the weights up to this one add up to more than %s: divide all by the "+
			"same number",
			FormatMicros(maxWeight))
		return
	}
	es.Add(at, "too_large",
		"the last change of the cluster, the last release, lags, and the work of all jobs up to this one, task after "+
			"task and with a setup and a change of shape for each round, add up to more than 2^53 µs (285 years): "+
			"shorten or split the instance")
}

// CheckHorizon adds the fault of the first job at which times or weights become too
// large. at is the pointer of inst. Jobs without rounds are ignored.
func (es *InvalidErrors) CheckHorizon(at string, inst *Instance) {
	var h horizon
	h.cluster(&inst.Cluster)
	for i := range inst.Jobs {
		if j := &inst.Jobs[i]; j.Rounds > 0 && !h.add(j) {
			es.addHorizonFault(at+"/jobs/"+strconv.Itoa(i), &h)
			return
		}
	}
}

// checkPlacement adds the faults of the rules of a job about nodes.
func (es *InvalidErrors) checkPlacement(at string, j *Job) {
	if j.CPUMilliPerTask < 0 || j.CPUMilliPerTask > MaxPerTask {
		es.Add(at+"/cpus_per_task", "out_of_range", "must be between 0 and %s", FormatMillis(MaxPerTask))
	}
	if j.MemoryMiBPerTask < 0 || j.MemoryMiBPerTask > MaxPerTask {
		es.Add(at+"/memory_mib_per_task", "out_of_range", "must be between 0 and %d", int64(MaxPerTask))
	}
	if j.DistinctNodes && j.Sync == Relaxed {
		es.Add(at+"/distinct_nodes", "not_allowed",
			"belongs to gang and rigid jobs, whose tasks run at the same time: leave it out, or use sync gang")
	}
	es.checkWithin(at, j)
	es.checkSelector(at+"/only", j.Only)
	es.checkSelector(at+"/exclude", j.Exclude)
}
