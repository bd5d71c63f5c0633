package hare

import (
	"slices"
	"strconv"
	"strings"
)

// LevelAny is the coarsest level: all nodes. The finest level is LabelNode, each node by
// itself, and the labels of Cluster.Topology lie between them.
const LevelAny = "any"

// MaxTopology limits the labels of a topology.
const MaxTopology = 16

// Levels are the levels of a cluster, numbered from fine to coarse. A level splits the nodes
// into domains: nodes share a domain of a label if they agree in the label and in all coarser
// ones, so that racks of one name in two zones are two domains. Levels are read-only and may
// be shared.
type Levels struct {
	// Names are LabelNode, the labels of the topology from the last to the first, and LevelAny.
	Names   []string
	nodes   int
	domains [][]int32 // by level of a label, from Names[1] on, and node
	counts  []int     // the number of domains, as domains
}

// NewLevels finds the levels of a valid cluster. It takes O(nodes · labels).
func NewLevels(c *Cluster) *Levels {
	lv := &Levels{Names: levelNames(c.Topology), nodes: len(c.Nodes), domains: make([][]int32, len(c.Topology)),
		counts: make([]int, len(c.Topology))}
	type domain struct {
		within int32
		value  string
	}
	coarser := make([]int32, len(c.Nodes)) // the domains of the next coarser level
	for i, label := range c.Topology {
		known := map[domain]int32{}
		at := make([]int32, len(c.Nodes))
		for n := range c.Nodes {
			value, _ := c.Nodes[n].Label(label)
			d, ok := known[domain{coarser[n], value}]
			if !ok {
				d = int32(len(known))
				known[domain{coarser[n], value}] = d
			}
			at[n] = d
		}
		coarser = at
		lv.domains[len(c.Topology)-1-i], lv.counts[len(c.Topology)-1-i] = at, len(known)
	}
	return lv
}

// Any returns the number of the coarsest level.
func (lv *Levels) Any() int { return len(lv.Names) - 1 }

// Index returns the number of a level by its name; "" is LevelAny.
func (lv *Levels) Index(name string) (level int, ok bool) {
	if name == "" {
		return lv.Any(), true
	}
	level = slices.Index(lv.Names, name)
	return level, level >= 0
}

// Domains returns the number of domains of a level.
func (lv *Levels) Domains(level int) int {
	switch level {
	case 0:
		return lv.nodes
	case lv.Any():
		return 1
	default:
		return lv.counts[level-1]
	}
}

// Domain returns the domain of a node at a level, as a number from 0.
func (lv *Levels) Domain(level, node int) int {
	switch level {
	case 0:
		return node
	case lv.Any():
		return 0
	default:
		return int(lv.domains[level-1][node])
	}
}

// Join returns the finest level, from least on, that has two nodes in one domain. The spread of
// a set of nodes is what Join gives for one of them with each of the others in turn, from
// level 0 on.
func (lv *Levels) Join(least, a, b int) int {
	for lv.Domain(least, a) != lv.Domain(least, b) {
		least++
	}
	return least
}

// SyncUs returns the time by spread of a profile: that of the finest level from spread on that
// has one, or of the coarsest that has one.
func (lv *Levels) SyncUs(p *Profile, spread int) int64 {
	for level := spread; p.SyncAt != nil && level < len(lv.Names); level++ {
		for _, at := range p.SyncAt {
			if at.Level == lv.Names[level] {
				return at.SyncUs
			}
		}
	}
	return p.SyncUs
}

// Spreads reports whether some time of the job goes by the spread of a round.
func (j *Job) Spreads() bool {
	return j.spreadField() != ""
}

// UsesLevels reports whether a job of the instance has within, or a time by spread.
func (inst *Instance) UsesLevels() bool {
	for i := range inst.Jobs {
		if inst.Jobs[i].Within != "" || inst.Jobs[i].Spreads() {
			return true
		}
	}
	return false
}

// CheckTopology adds the faults of the topology of a cluster. at is the pointer of the cluster,
// and index returns the number of a node in the document.
func (es *InvalidErrors) CheckTopology(at string, c *Cluster, index func(node int) int) {
	if len(c.Topology) > MaxTopology {
		es.Add(at+"/topology", "too_many", "has %d labels: at most %d are allowed", len(c.Topology), MaxTopology)
		return
	}
	before := len(*es)
	for i, label := range c.Topology {
		p := at + "/topology/" + strconv.Itoa(i)
		es.checkLabelName(p, label, `, e.g. "rack"`)
		switch {
		case label == LabelNode || label == LevelAny || label == PerAll:
			es.Add(p, "not_allowed", "%q is always a level or the name of all nodes: rename the label, or leave "+
				"it out", label)
		case slices.Contains(c.Topology[:i], label):
			es.Add(p, "duplicate_id", "label %q appears twice: give each label once, coarse ones first", Clip(label))
		}
	}
	if len(*es) > before {
		return
	}
	last := -1
	for n := range c.Nodes {
		at := at + "/nodes/"
		for _, label := range c.Topology {
			if _, ok := c.Nodes[n].Label(label); ok {
				continue
			}
			if x := index(n); x != last {
				last = x
				es.Add(at+strconv.Itoa(x)+"/labels", "missing_field", "node %q lacks the label %q of the topology: add it, "+
					"e.g. {%q: \"1\"}", Clip(c.Nodes[n].Name), Clip(label), Clip(label))
			}
			break
		}
		if len(*es) >= MaxFaults {
			return
		}
	}
}

// checkWithin adds the faults of the levels of a job that can be seen without the cluster.
func (es *InvalidErrors) checkWithin(at string, j *Job) {
	switch {
	case j.Within == "":
	case j.Sync == Relaxed:
		es.Add(at+"/within", "not_allowed",
			"belongs to gang and rigid jobs, whose tasks run at the same time: leave it out, or use sync gang")
	case j.Within == LevelAny:
		es.Add(at+"/within", "unordered", "%q is the default: leave it out", LevelAny)
	}
	for i := range j.ShapeCount() {
		on := j.Shape(i).On
		for x := range on {
			if p := &on[x]; p.SyncAt != nil {
				p.checkSyncAt(at+"/"+j.profilePointer(i, p)+"/sync_s", j.Sync, es)
			}
		}
	}
}

func (p *Profile) checkSyncAt(at string, sync Sync, es *InvalidErrors) {
	switch {
	case sync == Relaxed:
		es.Add(at, "not_allowed", "times by spread belong to gang and rigid jobs, whose tasks run at the same time: give "+
			"one number of seconds")
		return
	case len(p.SyncAt) == 0:
		es.Add(at, "missing_field", `names no level: give seconds, or {"node": 0.02, "any": 0.2}`)
		return
	case len(p.SyncAt) > MaxTopology+2:
		es.Add(at, "too_many", "names %d levels: there are at most %d", len(p.SyncAt), MaxTopology+2)
		return
	}
	longest := int64(0)
	for i, s := range p.SyncAt {
		if s.SyncUs < 0 || s.SyncUs > MaxExact {
			es.Add(at+"/"+EscapePointer(s.Level), "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
		}
		if i > 0 && p.SyncAt[i-1].Level >= s.Level {
			es.Add(at, "unordered", "levels must be sorted by name, each once")
		}
		longest = max(longest, s.SyncUs)
	}
	if p.SyncUs != longest {
		es.Add(at, "unordered", "the time without levels must be the longest of the times by spread")
	}
}

// checkLevels adds the faults of levels that jobs name and the cluster lacks, and of times by
// spread that fall or are missing.
func (es *InvalidErrors) checkLevels(at string, inst *Instance) {
	lv := &Levels{Names: levelNames(inst.Cluster.Topology)}
	for i := range inst.Jobs {
		if len(*es) >= MaxFaults {
			return
		}
		if j := &inst.Jobs[i]; j.Within != "" || j.Spreads() {
			es.checkJobLevels(at+"/jobs/"+strconv.Itoa(i), lv, j)
		}
	}
}

// CheckJobLevels adds the faults of the levels of a job that arrives in a session on a cluster with
// a topology.
func (es *InvalidErrors) CheckJobLevels(at string, j *Job, topology []string) {
	before := len(*es)
	if es.checkWithin(at, j); len(*es) == before {
		es.checkJobLevels(at, &Levels{Names: levelNames(topology)}, j)
	}
}

// checkJobLevels is checkLevels for one job.
func (es *InvalidErrors) checkJobLevels(job string, lv *Levels, j *Job) {
	within, ok := lv.Index(j.Within)
	if !ok {
		es.Add(job+"/within", "unknown_level", "there is no level %q: use one of %s, which are node, the labels of "+
			`"topology" of the cluster, and any`, Clip(j.Within), lv.list())
		within = 0
	}
	for s := range j.ShapeCount() {
		on := j.Shape(s).On
		for x := range on {
			if p := &on[x]; p.SyncAt != nil {
				es.checkTimes(job+"/"+j.profilePointer(s, p)+"/sync_s", lv, p, within)
			}
		}
	}
}

// checkTimes adds the faults of the times by spread of a profile.
func (es *InvalidErrors) checkTimes(at string, lv *Levels, p *Profile, within int) {
	before := len(*es)
	for _, s := range p.SyncAt {
		if _, ok := lv.Index(s.Level); !ok || s.Level == "" {
			es.Add(at+"/"+EscapePointer(s.Level), "unknown_level", "there is no level %q: use some of %s, which are node, "+
				`the labels of "topology" of the cluster, and any`, Clip(s.Level), lv.list())
		}
	}
	if len(*es) > before {
		return
	}
	times := slices.Clone(p.SyncAt)
	lv.sort(times)
	for i := 1; i < len(times); i++ {
		if times[i].SyncUs < times[i-1].SyncUs {
			es.Add(at+"/"+EscapePointer(times[i].Level), "out_of_range", "must be at least %s, the time of the finer level "+
				"%q", FormatMicros(times[i-1].SyncUs), Clip(times[i-1].Level))
			return
		}
	}
	if coarsest, _ := lv.Index(times[len(times)-1].Level); coarsest < within {
		es.Add(at, "missing_field", "has no time for a round that is spread over level %q: add %q, or restrict the job "+
			`by "within": %q`, Clip(lv.Names[within]), Clip(lv.Names[within]), Clip(times[len(times)-1].Level))
	}
}

// checkSettled adds the faults of valid times by spread that are not as SettleLevels leaves them.
func (es *InvalidErrors) checkSettled(inst *Instance) {
	lv := &Levels{Names: levelNames(inst.Cluster.Topology)}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		for s := range j.ShapeCount() {
			on := j.Shape(s).On
			for x := range on {
				p := &on[x]
				if p.SyncAt != nil && len(lv.settle(slices.Clone(p.SyncAt))) != len(p.SyncAt) {
					es.Add("/jobs/"+strconv.Itoa(i)+"/"+j.profilePointer(s, p)+"/sync_s", "unordered", "a level has the time of "+
						"the next coarser one: leave the level out, and give one number where a single level remains")
				}
			}
		}
	}
}

// SettleLevels brings times by spread into the form of a decoded instance, which must be valid
// otherwise: levels with the time of the next coarser one are left out, and a single level is
// one time for all. It returns at once where no time goes by spread.
func (inst *Instance) SettleLevels() {
	var lv *Levels
	for i := range inst.Jobs {
		for s := range inst.Jobs[i].ShapeCount() {
			on := inst.Jobs[i].Shape(s).On
			for x := range on {
				if p := &on[x]; p.SyncAt != nil {
					if lv == nil {
						lv = &Levels{Names: levelNames(inst.Cluster.Topology)}
					}
					p.SyncAt = lv.settle(p.SyncAt)
				}
			}
		}
	}
}

// settle returns times by spread, sorted by name, without levels that have the time of the next
// coarser one, or nil where a single level remains.
func (lv *Levels) settle(times []LevelSync) []LevelSync {
	lv.sort(times)
	kept := times[:0]
	for i, s := range times {
		if i+1 == len(times) || times[i+1].SyncUs > s.SyncUs {
			kept = append(kept, s)
		}
	}
	if len(kept) < 2 {
		return nil
	}
	slices.SortFunc(kept, func(a, b LevelSync) int { return strings.Compare(a.Level, b.Level) })
	return kept
}

// sort sorts times by spread from fine to coarse.
func (lv *Levels) sort(times []LevelSync) {
	slices.SortFunc(times, func(a, b LevelSync) int {
		return slices.Index(lv.Names, a.Level) - slices.Index(lv.Names, b.Level)
	})
}

// list returns the names of the levels for people.
func (lv *Levels) list() string {
	names := make([]string, len(lv.Names))
	for i, name := range lv.Names {
		names[i] = Clip(name)
	}
	return strings.Join(names, ", ")
}

// levelNames returns the names of levels from fine to coarse.
func levelNames(topology []string) []string {
	names := []string{LabelNode}
	for i := len(topology) - 1; i >= 0; i-- {
		names = append(names, topology[i])
	}
	return append(names, LevelAny)
}

// spreadField returns the pointer, within the job, of its first time that goes by spread.
func (j *Job) spreadField() string {
	for i := range j.ShapeCount() {
		on := j.Shape(i).On
		for x := range on {
			if p := &on[x]; p.SyncAt != nil {
				return j.profilePointer(i, p) + "/sync_s"
			}
		}
	}
	return ""
}
