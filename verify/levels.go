package verify

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// topology knows the levels of a cluster and the domains of nodes (docs/reference/model.md).
type topology struct {
	names  []string  // from fine to coarse: node, the labels of the cluster from the last on, any
	domain [][]int32 // by level and node
}

// newTopology takes O(nodes · labels).
func newTopology(c *hare.Cluster) *topology {
	labels, n := c.Topology, len(c.Nodes)
	tp := &topology{names: make([]string, len(labels)+2), domain: make([][]int32, len(labels)+2)}
	any := len(labels) + 1
	tp.names[0], tp.names[any] = "node", "any"
	tp.domain[0], tp.domain[any] = make([]int32, n), make([]int32, n)
	for i := range n {
		tp.domain[0][i] = int32(i)
	}
	for x, label := range labels {
		level := any - 1 - x
		tp.names[level], tp.domain[level] = label, make([]int32, n)
		numbers := map[string]int32{}
		for i := range n {
			at := slices.IndexFunc(c.Nodes[i].Labels, func(l hare.Label) bool { return l.Name == label })
			value := ""
			if at >= 0 {
				value = c.Nodes[i].Labels[at].Value
			}
			key := fmt.Sprint(tp.domain[level+1][i], " ", value)
			number, ok := numbers[key]
			if !ok {
				number = int32(len(numbers))
				numbers[key] = number
			}
			tp.domain[level][i] = number
		}
	}
	return tp
}

// levelOf returns the number of a level, or −1. A job without within has the coarsest.
func (tp *topology) levelOf(name string) int {
	if name == "" {
		return len(tp.names) - 1
	}
	return slices.Index(tp.names, name)
}

// spreadOf returns the finest level that has all nodes in one domain.
func (tp *topology) spreadOf(nodes []int32) int {
	level := 0
	for _, n := range nodes {
		for tp.domain[level][n] != tp.domain[level][nodes[0]] {
			level++
		}
	}
	return level
}

// syncAt returns the synchronisation time of a round of a spread: that of the finest level in
// the profile that is no finer.
func (tp *topology) syncAt(p *hare.Profile, spread int) int64 {
	if p.SyncAt == nil {
		return p.SyncUs
	}
	for _, name := range tp.names[spread:] {
		at := slices.IndexFunc(p.SyncAt, func(s hare.LevelSync) bool { return s.Level == name })
		if at >= 0 {
			return p.SyncAt[at].SyncUs
		}
	}
	return p.SyncUs
}

// modeLevels returns the levels of the modes of a job on a type, from fine to coarse: that of
// within, and each finer one with less time than the next coarser one.
//
// Proof that these suffice. Let a round have the spread λ₀. The coarsest level up to within whose time is that of λ₀
// is the level of a mode, and one domain of it holds the round too. ∎
func (tp *topology) modeLevels(job *hare.Job, p *hare.Profile) []int {
	within := tp.levelOf(job.Within)
	var out []int
	for level := range within {
		if tp.syncAt(p, level) < tp.syncAt(p, level+1) {
			out = append(out, level)
		}
	}
	return append(out, within)
}

// leastSync returns the least synchronisation time of a profile.
func leastSync(p *hare.Profile) int64 {
	least := p.SyncUs
	for _, s := range p.SyncAt {
		least = min(least, s.SyncUs)
	}
	return least
}

// profilesOf returns the profiles of a job, shape by shape.
func profilesOf(job *hare.Job) []hare.Profile {
	if job.Shapes == nil {
		return job.On
	}
	var all []hare.Profile
	for i := range job.Shapes {
		all = append(all, job.Shapes[i].On...)
	}
	return all
}

// goesByLevels reports whether a job must keep together, or has times by spread.
func goesByLevels(job *hare.Job) bool {
	if job.Within != "" {
		return true
	}
	for i := range job.On {
		if job.On[i].SyncAt != nil {
			return true
		}
	}
	for i := range job.Shapes {
		if slices.ContainsFunc(job.Shapes[i].On, func(p hare.Profile) bool { return p.SyncAt != nil }) {
			return true
		}
	}
	return false
}

// levelsMatter reports whether some job goes by levels.
func levelsMatter(inst *hare.Instance) bool {
	for i := range inst.Jobs {
		if goesByLevels(&inst.Jobs[i]) {
			return true
		}
	}
	return false
}

// plausibleLevels refuses levels that are not as the decoder returns them.
func plausibleLevels(inst *hare.Instance) error {
	labels := inst.Cluster.Topology
	for i, label := range labels {
		if slices.Contains([]string{"", "node", "any", "all"}, label) || slices.Contains(labels[:i], label) {
			return fmt.Errorf("the label %.40q of the topology stands twice or has a bad name", label)
		}
		for n := range inst.Cluster.Nodes {
			node := &inst.Cluster.Nodes[n]
			if !slices.ContainsFunc(node.Labels, func(l hare.Label) bool { return l.Name == label }) {
				return fmt.Errorf("node %.40q lacks the label %.40q of the topology", node.Name, label)
			}
		}
	}
	if !levelsMatter(inst) {
		return nil
	}
	tp := &topology{names: append([]string{"node"}, labels...)}
	slices.Reverse(tp.names[1:])
	tp.names = append(tp.names, "any")
	for i := range inst.Jobs {
		job := &inst.Jobs[i]
		if !goesByLevels(job) {
			continue
		}
		within := tp.levelOf(job.Within)
		if within < 0 || job.Sync == hare.Relaxed {
			return fmt.Errorf("job %.40q is relaxed or names the unknown level %.40q", job.ID, job.Within)
		}
		for _, p := range profilesOf(job) {
			if err := tp.plausibleTimes(&p, within); err != nil {
				return fmt.Errorf("job %.40q on type %.40q %w", job.ID, p.Type, err)
			}
		}
	}
	return nil
}

// plausibleTimes refuses times by spread that are unknown, fall or are missing.
func (tp *topology) plausibleTimes(p *hare.Profile, within int) error {
	if p.SyncAt == nil {
		return nil
	}
	found, last, covered := 0, int64(0), false
	for level, name := range tp.names {
		for _, s := range p.SyncAt {
			if s.Level != name {
				continue
			}
			if s.SyncUs < last {
				return fmt.Errorf("has less time for the coarser level %.40q", name)
			}
			last, covered = s.SyncUs, covered || level >= within
			found++
		}
	}
	if found != len(p.SyncAt) || !covered || last != p.SyncUs {
		return errors.New("has times by spread for unknown levels, or not for all")
	}
	return nil
}

// spreadChecker finds how far the rounds of one job after another are spread.
type spreadChecker struct {
	tp      *topology
	entries [][]int32 // by level and domain: how many entries of a stretch are there
	domains []int     // by level: in how many domains the entries of a stretch are
	edges   []spreadEdge
	levels  []int      // by stretch: the spread of its rounds
	ends    []envelope // by level: the latest ends of rounds of this spread
	sync    [][]int64  // by level and mode
	rows    []int      // by round that is examined: its spread
}

// spreadEdge says that an entry on a node begins or ends with a stretch.
type spreadEdge struct {
	stretch  int
	node, by int32
}

func newSpreadChecker(tp *topology) *spreadChecker {
	n := len(tp.names)
	sp := &spreadChecker{tp: tp, entries: make([][]int32, n), domains: make([]int, n), ends: make([]envelope, n),
		sync: make([][]int64, n)}
	for level := range sp.ends {
		sp.entries[level] = make([]int32, len(tp.domain[0]))
		sp.ends[level].value = func(x *piece, r int64) int64 { return x.startOf(r) + x.compute + sp.sync[level][x.mode] }
	}
	return sp
}

// find sets the spread of each stretch. cuts are the starts of the stretches and the end of the
// last. It takes O(n (log n + levels)).
func (sp *spreadChecker) find(cuts []int64, ps []piece, nodeOf []int32) {
	sp.edges, sp.levels = sp.edges[:0], sp.levels[:0]
	for i := range ps {
		x := &ps[i]
		from, _ := slices.BinarySearch(cuts, x.round)
		to, _ := slices.BinarySearch(cuts, x.round+x.rounds)
		sp.edges = append(sp.edges, spreadEdge{from, nodeOf[x.gpu], 1}, spreadEdge{to, nodeOf[x.gpu], -1})
	}
	slices.SortFunc(sp.edges, func(a, b spreadEdge) int { return cmp.Compare(a.stretch, b.stretch) })
	at := 0
	for s := range cuts {
		for ; at < len(sp.edges) && sp.edges[at].stretch == s; at++ {
			e := sp.edges[at]
			for level, domain := range sp.tp.domain {
				n := &sp.entries[level][domain[e.node]]
				before := *n
				if *n += e.by; before == 0 {
					sp.domains[level]++
				} else if *n == 0 {
					sp.domains[level]--
				}
			}
		}
		if s+1 < len(cuts) {
			sp.levels = append(sp.levels, slices.Index(sp.domains, 1))
		}
	}
}

// syncTimes sets the synchronisation times of a job by spread.
func (sp *spreadChecker) syncTimes(job *hare.Job) {
	profiles := profilesOf(job)
	for level := range sp.sync {
		sp.sync[level] = sp.sync[level][:0]
		for m := range profiles {
			sp.sync[level] = append(sp.sync[level], sp.tp.syncAt(&profiles[m], level))
		}
	}
}

// rigid sets the synchronisation times of the entries of a rigid job, which is on the same GPUs
// throughout.
func (sp *spreadChecker) rigid(ps []piece, nodeOf []int32) {
	spread := 0
	for i := range ps {
		for sp.tp.domain[spread][nodeOf[ps[i].gpu]] != sp.tp.domain[spread][nodeOf[ps[0].gpu]] {
			spread++
		}
	}
	for i := range ps {
		ps[i].after = sp.sync[spread][ps[i].mode]
	}
}

// envelopes sets the spread of each round that is examined, and returns the envelopes of the
// spreads that occur. first has the first round that is examined of each stretch.
func (sp *spreadChecker) envelopes(first []int) []*envelope {
	sp.rows = sp.rows[:0]
	seen := make([]bool, len(sp.ends))
	var out []*envelope
	for s, level := range sp.levels {
		for range first[s+1] - first[s] {
			sp.rows = append(sp.rows, level)
		}
		if !seen[level] {
			seen[level] = true
			out = append(out, &sp.ends[level])
		}
	}
	return out
}
