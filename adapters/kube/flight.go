package kube

import (
	"slices"

	"github.com/hare-sched/hare/history"
)

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

// slots is how many pods of a flight fit on a GPU type, beside bound pods, after others have taken a
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
