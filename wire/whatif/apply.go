package whatif

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// At is the pointer of the scenario in its document; "" where it comes from none.
func (s *Scenario) At() string { return s.at }

// atPart is the pointer of element k of a part.
func (s *Scenario) atPart(name string, k int) string {
	if slices.Contains(s.single, name) {
		return s.at + "/" + name
	}
	return s.at + "/" + name + "/" + strconv.Itoa(k)
}

// atFactor is the pointer of a factor.
func (s *Scenario) atFactor(name string, f Factor) string {
	if f.Job == "" {
		return s.at + "/" + name
	}
	return s.at + "/" + name + "/" + hare.EscapePointer(f.Job)
}

// atNode is the pointer of the element of add_nodes that is node k, or of which node k is a copy.
func (s *Scenario) atNode(k int) string {
	if k < len(s.nodesOf) {
		k = s.nodesOf[k]
	}
	return s.atPart("add_nodes", k)
}

// ScaleOfAll is the factor of all weights, in 1e-6, if there is one.
func (s *Scenario) ScaleOfAll() (factorMicro int64, ok bool) {
	for _, f := range s.ScaleWeights {
		if f.Job == "" {
			return f.Micro, true
		}
	}
	return 0, false
}

// Apply makes the scenario's instance of a base to which its patch, if any,
// has been applied. The base is not changed; what is the same is shared. The
// error is InvalidErrors with pointers into the request. O(nodes + jobs +
// changes·log).
func (s *Scenario) Apply(base *hare.Instance) (*hare.Instance, error) {
	inst := *base
	var found hare.InvalidErrors
	inst.Jobs = s.applyJobs(base.Jobs, &found)
	inst.Cluster.Nodes = s.applyNodes(&base.Cluster, &found)
	if len(s.ScaleDurations)+len(s.AddJobs) > 0 {
		s.settleLevels(&inst)
	}
	inst.Quota = s.applyQuota(base.Quota)
	if len(s.RemoveJobs) > 0 {
		inst.Cluster.Reservations = withoutJobs(base.Cluster.Reservations, inst.Jobs)
	}
	if len(found) > 0 {
		return nil, found
	}
	if err := inst.Validate(); err != nil {
		for _, f := range err.(hare.InvalidErrors) {
			found.Add(s.at, f.Code, "the scenario's instance at %s: %s", f.Pointer, f.Detail)
		}
		return nil, found
	}
	return &inst, nil
}

func (s *Scenario) applyJobs(jobs []hare.Job, found *hare.InvalidErrors) []hare.Job {
	if len(s.RemoveJobs)+len(s.ScaleWeights)+len(s.AddJobs)+len(s.ScaleDurations)+len(s.DropAfter) == 0 {
		return jobs
	}
	index := make(map[string]int, len(jobs))
	ids := make([]string, len(jobs))
	for i := range jobs {
		index[jobs[i].ID], ids[i] = i, jobs[i].ID
	}
	gone := make([]bool, len(jobs))
	for k, id := range s.RemoveJobs {
		i, ok := index[id]
		switch {
		case !ok:
			found.Add(s.atPart("remove_jobs", k), "unknown_job", "%s", unknownName("job", id, ids))
		case gone[i]:
			found.Add(s.atPart("remove_jobs", k), "duplicate_id", "job %q is removed twice: once is enough", hare.Clip(id))
		default:
			gone[i] = true
		}
	}
	jobs = slices.Clone(jobs)
	for _, f := range s.ScaleWeights {
		at := s.atFactor("scale_weights", f)
		if f.Job == "" {
			for i := range jobs {
				if !gone[i] {
					f.scaleWeight(&jobs[i], at, found)
				}
			}
			continue
		}
		i, ok := index[f.Job]
		if !ok || gone[i] {
			found.Add(at, "unknown_job", "%s", unknownName("job", f.Job, ids))
			continue
		}
		f.scaleWeight(&jobs[i], at, found)
	}
	s.scaleDurations(jobs, gone, index, found)
	s.dropAfter(jobs, gone, index, found)
	kept := jobs[:0]
	for i := range jobs {
		if !gone[i] {
			kept = append(kept, jobs[i])
		} else {
			delete(index, jobs[i].ID)
		}
	}
	for k := range s.AddJobs {
		added := s.AddJobs[k]
		if _, twice := index[added.ID]; twice {
			found.Add(s.atPart("add_jobs", k)+"/id", "duplicate_id",
				"there is a job %q already: give another id, or remove that one with remove_jobs",
				hare.Clip(added.ID))
			continue
		}
		index[added.ID] = len(kept)
		kept = append(kept, added)
	}
	return kept
}

// scaleWeight multiplies exactly, or refuses.
func (f Factor) scaleWeight(j *hare.Job, at string, found *hare.InvalidErrors) {
	hi, lo := bits.Mul64(uint64(j.WeightMicro), uint64(f.Micro))
	if hi >= 1e6 {
		found.Add(at, "too_large", "the weight of job %q becomes too large", hare.Clip(j.ID))
		return
	}
	q, r := bits.Div64(hi, lo, 1e6)
	switch {
	case r != 0:
		found.Add(at, "too_many_decimals",
			"%s × %s, the weight of job %q, has more than six decimals and is not rounded: take another factor, or "+
				"patch its weight", hare.FormatMicros(j.WeightMicro), hare.FormatMicros(f.Micro),
			hare.Clip(j.ID))
	case q > hare.MaxExact:
		found.Add(at, "too_large", "the weight of job %q becomes more than %s", hare.Clip(j.ID),
			hare.FormatMicros(hare.MaxExact))
	default:
		j.WeightMicro = int64(q)
	}
}

func (s *Scenario) applyNodes(c *hare.Cluster, found *hare.InvalidErrors) []hare.Node {
	nodes := c.Nodes
	if len(s.RemoveGPUs)+len(s.Drain)+len(s.AddGPUs)+len(s.AddNodes) == 0 {
		return nodes
	}
	index := make(map[string]int, len(nodes))
	names := make([]string, len(nodes))
	for i := range nodes {
		index[nodes[i].Name], names[i] = i, nodes[i].Name
	}
	nodes = slices.Clone(nodes)
	for k, r := range s.RemoveGPUs {
		at := s.atPart("remove_gpus", k)
		i, ok := index[r.Node]
		if !ok {
			found.Add(at+"/node", "unknown_node", "%s", unknownName("node", r.Node, names))
			continue
		}
		r.remove(&nodes[i], at, found)
	}
	for k, d := range s.Drain {
		i, ok := index[d.Node]
		if !ok {
			found.Add(s.atPart("drain", k)+"/node", "unknown_node", "%s", unknownName("node", d.Node, names))
			continue
		}
		if !drain(&nodes[i], d.AtUs) {
			nodes[i].GPUs = nil // never in service: it goes below
		}
	}
	kept := nodes[:0]
	for i := range nodes {
		if len(nodes[i].GPUs) > 0 {
			kept = append(kept, nodes[i])
		} else {
			delete(index, nodes[i].Name)
		}
	}
	for k, n := range s.AddNodes {
		if _, taken := index[n.Name]; taken {
			found.Add(s.atNode(k)+"/name", "duplicate_id", "there is a node %q already: give another name", hare.Clip(n.Name))
			continue
		}
		index[n.Name] = len(kept)
		kept = append(kept, n)
	}
	free := 0
	for k, a := range s.AddGPUs {
		if len(c.Topology) > 0 {
			found.Add(s.atPart("add_gpus", k), "not_allowed", "the nodes of the cluster lie in a topology (%s): add nodes "+
				"with these labels by add_nodes", hare.Clip(strings.Join(c.Topology, ", ")))
			continue
		}
		name := a.Name
		for name == "" {
			try := "added-" + strconv.Itoa(free)
			if _, taken := index[try]; !taken {
				name = try
			}
			free++
		}
		if _, taken := index[name]; taken {
			found.Add(s.atPart("add_gpus", k)+"/name", "duplicate_id",
				"there is a node %q already: give another name, or none",
				hare.Clip(name))
			continue
		}
		index[name] = len(kept)
		kept = append(kept, hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: a.Type, Count: int(a.Count)}}})
	}
	return kept
}

// remove takes GPUs off a node. What follows them is counted again, and what was
// busy goes with its GPU.
func (r *RemovedGPUs) remove(n *hare.Node, at string, found *hare.InvalidErrors) {
	var types []string
	for _, g := range n.GPUs {
		types = append(types, g.Type)
	}
	kind := r.Type
	switch {
	case kind == "" && len(types) == 1:
		kind = types[0]
	case kind == "" && len(types) > 1:
		found.Add(at, "missing_field", `node %q has several types: give "type", one of %s`, hare.Clip(n.Name),
			hare.Clip(strings.Join(types, ", ")))
		return
	}
	first := 0
	for i, g := range n.GPUs {
		if g.Type != kind {
			first += g.Count
			continue
		}
		if r.Count > int64(g.Count) {
			found.Add(at+"/count", "out_of_range", "%d: node %q has %d GPUs of type %s", r.Count, hare.Clip(n.Name),
				g.Count, hare.Clip(kind))
			return
		}
		count := int(r.Count)
		to := first + g.Count
		from := to - count
		var busy []hare.Busy
		for _, b := range n.Busy {
			if b.GPU >= to {
				b.GPU -= count
			} else if b.GPU >= from {
				continue
			}
			busy = append(busy, b)
		}
		n.Busy = busy
		n.GPUs = slices.Clone(n.GPUs)
		if n.GPUs[i].Count -= count; n.GPUs[i].Count == 0 {
			n.GPUs = slices.Delete(n.GPUs, i, i+1)
		}
		return
	}
	found.Add(at+"/type", "unknown_type", "node %q has no GPU of type %q left: its types are %s", hare.Clip(n.Name),
		hare.Clip(kind), hare.Clip(strings.Join(types, ", ")))
}

// drain cuts the windows at atUs; false says that none is left.
func drain(n *hare.Node, atUs int64) bool {
	windows := n.Windows
	if windows == nil {
		windows = []hare.Window{{EndUs: hare.Forever}}
	}
	var cut []hare.Window
	for _, w := range windows {
		if w.StartUs < atUs {
			cut = append(cut, hare.Window{StartUs: w.StartUs, EndUs: min(w.EndUs, atUs)})
		}
	}
	n.Windows = cut
	return len(cut) > 0
}

// unknownName names the nearest known one.
func unknownName(what, name string, known []string) string {
	text := fmt.Sprintf("there is no %s %q", what, hare.Clip(name))
	if len(known) > 10_000 || len(name) > 200 {
		return text
	}
	if guess := hare.Guess(name, known); guess != "" {
		return text + guess
	}
	if slices.Contains(known, name+"-0") {
		return text + fmt.Sprintf(": its copies are named %q and so on", hare.Clip(name+"-0"))
	}
	if len(known) > 0 {
		text += fmt.Sprintf("; the %ss are %s", what, hare.Names(known, 5))
	}
	return text
}
