package whatif

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// Request asks what would change: a base, and scenarios that differ from it.
type Request struct {
	Base      Base
	Scenarios []Scenario
	// Options are the batch's; TimeLimit covers all of it.
	Options hare.Options
	// PruneBelow, where not nil, answers a scenario from its bound alone once
	// that shows that the value cannot fall by more than this.
	PruneBelow *hare.Amount
	// Ordered asks for the answers in the order of the scenarios.
	Ordered bool
}

// Base is what scenarios are compared with: an instance, to be solved or
// with its result, or the id of a solve that the server keeps.
type Base struct {
	Instance *hare.Instance
	// Text is the instance's document, which patches apply to.
	Text    []byte
	Result  *hare.Result // nil: to be solved
	SolveID string
}

// Scenario is one change. Its parts apply in the order of the fields here.
type Scenario struct {
	ID         string
	Patch      []PatchOperation // RFC 6902, on the instance's document
	RemoveJobs []JobRef
	// Scales multiply weights; a job without an ID stands for all.
	Scales []WeightScale
	// Durations multiply the times of jobs; a job without an ID stands for all.
	Durations  []DurationScale
	DropAfter  []DroppedAfter
	AddJobs    []AddedJob
	SetQuota   []ChangedQuota
	RemoveGPUs []RemovedGPUs
	Drain      []DrainedNode
	AddGPUs    []AddedGPUs
	AddNodes   []AddedNodes
	Options    hare.Options // the batch's, with the scenario's own before them; TimeLimit is its own alone
	at         string       // pointer
}

// PatchOperation is one operation of RFC 6902.
type PatchOperation struct {
	Op, Path, From string
	Value          json.RawMessage
}

// JobRef names a job of the base.
type JobRef struct{ ID, at string }

// WeightScale multiplies the weight of one job, or of all.
type WeightScale struct {
	ID          string // "" is all
	FactorMicro int64  // in 1e-6
	at          string
}

// DurationScale multiplies the times of one job, or of all, and rounds them up to
// microseconds.
type DurationScale struct {
	ID          string // "" is all
	FactorMicro int64  // in 1e-6, above 0
	at          string
}

// DroppedAfter lets a job no longer wait for another one; After may be "": then the job
// waits for nobody.
type DroppedAfter struct{ Job, After, at string }

// ChangedQuota is a quota in place of that of the same user and types, or a new one.
type ChangedQuota struct {
	Quota hare.Quota
	at    string
}

// AddedJob is a job that the base lacks.
type AddedJob struct {
	Job hare.Job
	at  string
}

// RemovedGPUs takes Count GPUs of a node away, those of the highest index
// first. Type may be "" where the node has one type.
type RemovedGPUs struct {
	Node, Type string
	Count      int64
	at         string
}

// DrainedNode ends the service of a node at AtUs.
type DrainedNode struct {
	Node string
	AtUs int64
	at   string
}

// AddedGPUs is a new node, always in service. Name may be "": then it is the
// first free one of added-0, added-1 and so on.
type AddedGPUs struct {
	Type  string
	Count int64
	Name  string
	at    string
}

// AddedNodes are a node of an instance's form and its copies.
type AddedNodes struct {
	Nodes []hare.Node
	at    string
}

// At is the pointer of the scenario in its request.
func (s *Scenario) At() string { return s.at }

// ScaleOfAll is the factor of all weights, in 1e-6, if there is one.
func (s *Scenario) ScaleOfAll() (factorMicro int64, ok bool) {
	for _, ws := range s.Scales {
		if ws.ID == "" {
			return ws.FactorMicro, true
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
	inst.Cluster.Nodes = s.applyNodes(base.Cluster.Nodes, &found)
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
	if len(s.RemoveJobs)+len(s.Scales)+len(s.AddJobs)+len(s.Durations)+len(s.DropAfter) == 0 {
		return jobs
	}
	index := make(map[string]int, len(jobs))
	ids := make([]string, len(jobs))
	for i := range jobs {
		index[jobs[i].ID], ids[i] = i, jobs[i].ID
	}
	gone := make([]bool, len(jobs))
	for _, r := range s.RemoveJobs {
		i, ok := index[r.ID]
		switch {
		case !ok:
			found.Add(r.at, "unknown_job", "%s", unknownName("job", r.ID, ids))
		case gone[i]:
			found.Add(r.at, "duplicate_id", "job %q is removed twice: once is enough", hare.Clip(r.ID))
		default:
			gone[i] = true
		}
	}
	jobs = slices.Clone(jobs)
	for _, ws := range s.Scales {
		if ws.ID == "" {
			for i := range jobs {
				if !gone[i] {
					ws.scale(&jobs[i], found)
				}
			}
			continue
		}
		i, ok := index[ws.ID]
		if !ok || gone[i] {
			found.Add(ws.at, "unknown_job", "%s", unknownName("job", ws.ID, ids))
			continue
		}
		ws.scale(&jobs[i], found)
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
	for _, a := range s.AddJobs {
		if _, twice := index[a.Job.ID]; twice {
			found.Add(a.at+"/id", "duplicate_id",
				"there is a job %q already: give another id, or remove that one with remove_jobs",
				hare.Clip(a.Job.ID))
			continue
		}
		index[a.Job.ID] = len(kept)
		kept = append(kept, a.Job)
	}
	return kept
}

// scale multiplies exactly, or refuses.
func (ws *WeightScale) scale(j *hare.Job, found *hare.InvalidErrors) {
	hi, lo := bits.Mul64(uint64(j.WeightMicro), uint64(ws.FactorMicro))
	if hi >= 1e6 {
		found.Add(ws.at, "too_large", "the weight of job %q becomes too large", hare.Clip(j.ID))
		return
	}
	q, r := bits.Div64(hi, lo, 1e6)
	switch {
	case r != 0:
		found.Add(ws.at, "too_many_decimals",
			"%s × %s, the weight of job %q, has more than six decimals and is not rounded: take another factor, or "+
				"patch its weight", hare.FormatMicros(j.WeightMicro), hare.FormatMicros(ws.FactorMicro),
			hare.Clip(j.ID))
	case q > hare.MaxExact:
		found.Add(ws.at, "too_large", "the weight of job %q becomes more than %s", hare.Clip(j.ID),
			hare.FormatMicros(hare.MaxExact))
	default:
		j.WeightMicro = int64(q)
	}
}

func (s *Scenario) applyNodes(nodes []hare.Node, found *hare.InvalidErrors) []hare.Node {
	if len(s.RemoveGPUs)+len(s.Drain)+len(s.AddGPUs)+len(s.AddNodes) == 0 {
		return nodes
	}
	index := make(map[string]int, len(nodes))
	names := make([]string, len(nodes))
	for i := range nodes {
		index[nodes[i].Name], names[i] = i, nodes[i].Name
	}
	nodes = slices.Clone(nodes)
	for _, r := range s.RemoveGPUs {
		i, ok := index[r.Node]
		if !ok {
			found.Add(r.at+"/node", "unknown_node", "%s", unknownName("node", r.Node, names))
			continue
		}
		r.remove(&nodes[i], found)
	}
	for _, d := range s.Drain {
		i, ok := index[d.Node]
		if !ok {
			found.Add(d.at+"/node", "unknown_node", "%s", unknownName("node", d.Node, names))
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
	for _, a := range s.AddNodes {
		for _, n := range a.Nodes {
			if _, taken := index[n.Name]; taken {
				found.Add(a.at+"/name", "duplicate_id", "there is a node %q already: give another name", hare.Clip(n.Name))
				continue
			}
			index[n.Name] = len(kept)
			kept = append(kept, n)
		}
	}
	free := 0
	for _, a := range s.AddGPUs {
		name := a.Name
		for name == "" {
			try := "added-" + strconv.Itoa(free)
			if _, taken := index[try]; !taken {
				name = try
			}
			free++
		}
		if _, taken := index[name]; taken {
			found.Add(a.at+"/name", "duplicate_id", "there is a node %q already: give another name, or none",
				hare.Clip(name))
			continue
		}
		index[name] = len(kept)
		kept = append(kept, hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: a.Type, Count: int(a.Count)}}})
	}
	return kept
}

// remove takes GPUs off a node. What follows them is counted anew, and what was
// busy goes with its GPU.
func (r *RemovedGPUs) remove(n *hare.Node, found *hare.InvalidErrors) {
	var types []string
	for _, g := range n.GPUs {
		types = append(types, g.Type)
	}
	kind := r.Type
	switch {
	case kind == "" && len(types) == 1:
		kind = types[0]
	case kind == "" && len(types) > 1:
		found.Add(r.at, "missing_field", `node %q has several types: give "type", one of %s`, hare.Clip(n.Name),
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
			found.Add(r.at+"/count", "out_of_range", "%d: node %q has %d GPUs of type %s", r.Count, hare.Clip(n.Name),
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
	found.Add(r.at+"/type", "unknown_type", "node %q has no GPU of type %q left: its types are %s", hare.Clip(n.Name),
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
	if best := hare.Nearest(name, known); best != "" {
		return text + fmt.Sprintf(": did you mean %q?", hare.Clip(best))
	}
	if slices.Contains(known, name+"-0") {
		return text + fmt.Sprintf(": its copies are named %q and so on", hare.Clip(name+"-0"))
	}
	return text
}
