package kube

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare/history"
)

// state is what the API server says at one time.
type state struct {
	nowUs int64
	nodes []*room           // in service and with GPUs, by name
	jobs  []*job            // that have not ended, with GPUs, the oldest first
	over  []*job            // that have ended
	pods  map[string][]*pod // by job.podsUID, those that have not ended
	done  map[string]int64  // by job.podsUID, how many have succeeded
	alone []*pod            // with GPUs, of no Job
	// floating are pods with GPUs, of no Job, that wait for a node.
	floating []*pod
	flights  []*flight
	// waiting are the jobs of jobs that may be let go, by the ID that the session knows.
	waiting map[string]*job
	// left says why suspended Jobs that asked to take part are left alone, by reason.
	left      map[string]int
	unordered map[*clusterQueue]bool // of Result.Unordered
	// roots maps the UID of each Job to that of the object that owns it, such as a JobSet.
	roots map[string]string
}

// room is a node with what is free on it.
type room struct {
	name, gpuType         string
	labels                map[string]string
	taints                []taint
	gpus                  int64 // of the whole node
	free                  history.Demand
	podsFree              int64
	cpuKnown, memoryKnown bool
	// settled and settledPods are what is free next to the pods that are bound.
	settled     history.Demand
	settledPods int64
	whole       history.Demand // of the empty node
	amounts     map[string]history.Quantity
}

// fits is how many pods of a kind the node has room for.
func (r *room) fits(d history.Demand) int64 {
	n := r.podsFree
	for _, x := range []struct {
		need, free int64
		known      bool
	}{{d.GPUs, r.free.GPUs, true}, {d.CPUMilli, r.free.CPUMilli, r.cpuKnown},
		{d.MemoryMiB, r.free.MemoryMiB, r.memoryKnown}} {
		if x.need > 0 && x.known {
			n = min(n, x.free/x.need)
		}
	}
	return max(0, n)
}

func (r *room) take(d history.Demand, n int64) {
	r.free.GPUs -= d.GPUs * n
	r.free.CPUMilli -= d.CPUMilli * n
	r.free.MemoryMiB -= d.MemoryMiB * n
	r.podsFree -= n
}

// owner is the UID of the job that a pod belongs to, and not of a Job that this has made.
func (s *state) owner(p *pod) string {
	owner := p.owner()
	if root, ok := s.roots[owner]; ok {
		return root
	}
	return owner
}

// taintsLabel is the label by which a session tells nodes apart whose taints differ.
const taintsLabel = "hare.taints"

// taintsValue names a set of taints; "none" for none.
func taintsValue(taints []taint) string {
	if len(taints) == 0 {
		return "none"
	}
	f := fnv.New64a()
	for _, t := range taints {
		_, _ = f.Write([]byte(t.String() + "\n"))
	}
	return strconv.FormatUint(f.Sum64(), 36)
}

func (s *state) room(name string) *room {
	byName := func(r *room, name string) int { return strings.Compare(r.name, name) }
	i, ok := slices.BinarySearchFunc(s.nodes, name, byName)
	if !ok {
		return nil
	}
	return s.nodes[i]
}

// rules are what a pod asks of a node, room apart.
type rules struct {
	sel         selection
	tolerations *podSpec
	needs       []resource
}

func (s *podSpec) rules(typeLabel string) *rules {
	return &rules{sel: s.selects(typeLabel), tolerations: s, needs: s.resources()}
}

// allowed reports whether the rules of a pod allow a node: its type, labels, taints, and the resources of which the
// node has some.
func (r *room) allowed(by *rules) bool {
	return (by.sel.types == nil || slices.Contains(by.sel.types, r.gpuType)) && by.sel.allows(r.labels) &&
		by.tolerations.tolerated(r.taints) &&
		!slices.ContainsFunc(by.needs, func(n resource) bool { return r.amounts[n.name] < n.amount })
}

// roomy reports whether the node has room for a pod where nothing else is there.
func (r *room) roomy(d history.Demand) bool {
	return r.gpus >= d.GPUs && (!r.cpuKnown || r.whole.CPUMilli >= d.CPUMilli) &&
		(!r.memoryKnown || r.whole.MemoryMiB >= d.MemoryMiB)
}

// resource is a resource of a container that a node must have, besides CPUs and memory.
type resource struct {
	name   string
	amount history.Quantity
}

// resources are the most that any container asks for of each resource, CPUs and memory apart: the names of GPUs, of
// which nodes may have others, huge pages and room on disks.
func (s *podSpec) resources() (out []resource) {
	for _, c := range slices.Concat(s.Containers, s.InitContainers) {
		for _, list := range []map[string]history.Quantity{c.Resources.Requests, c.Resources.Limits} {
			for name, amount := range list {
				if name != "cpu" && name != "memory" && amount > 0 {
					out = append(out, resource{name, amount})
				}
			}
		}
	}
	return out
}

// flight are pods of one job that are let go and not bound yet.
type flight struct {
	template *podSpec
	need     history.Demand // of one pod, with GPUs
	pods     int64
	whole    bool // the helper let them go, so that all of them must find room
	rules    *rules
}

// allows reports whether pods of the flight may be on a node.
func (f *flight) allows(typeLabel string, r *room) bool {
	if f.rules == nil {
		f.rules = f.template.rules(typeLabel)
	}
	return r.allowed(f.rules)
}

// safe reports whether all pods in flight on a GPU type find GPUs even where the scheduler binds the others
// in the worst way: it may spread small pods over nodes, so that no node has room for a large one.
// It takes O(flights · nodes) besides a sort of the nodes for each flight.
func (s *state) safe(typeLabel, gpuType string) bool {
	total := int64(0)
	var here []*flight
	for _, f := range s.flights {
		if slices.ContainsFunc(s.nodes, func(r *room) bool { return r.gpuType == gpuType && f.allows(typeLabel, r) }) {
			here = append(here, f)
			total += f.pods * f.need.GPUs
		}
	}
	for _, f := range here {
		if f.whole && s.slots(f, typeLabel, gpuType, total-f.pods*f.need.GPUs) < f.pods {
			return false
		}
	}
	return true
}

// slots is how many pods of a flight fit on a GPU type, next to bound pods, after others have taken a
// number of GPUs in the way that leaves the least room.
func (s *state) slots(f *flight, typeLabel, gpuType string, others int64) (n int64) {
	var costs []int64 // of taking the first slot of each node
	for _, r := range s.nodes {
		if r.gpuType != gpuType || !f.allows(typeLabel, r) {
			continue
		}
		beside := *r
		beside.free, beside.podsFree = r.settled, r.settledPods
		if slots := beside.fits(f.need); slots > 0 {
			n += slots
			costs = append(costs, min(f.need.GPUs, beside.free.GPUs-slots*f.need.GPUs+1))
		}
	}
	slices.Sort(costs)
	for _, cost := range costs {
		if cost > others {
			return n
		}
		others -= cost
		n--
	}
	return n - others/f.need.GPUs
}

// types are the GPU types of the nodes in service, sorted.
func (s *state) types() (types []string) {
	for _, r := range s.nodes {
		types = append(types, r.gpuType)
	}
	slices.Sort(types)
	return slices.Compact(types)
}
