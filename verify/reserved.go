package verify

import (
	"cmp"
	"slices"
	"sort"

	"github.com/hare-sched/hare"
)

// reservedNodes finds when nodes are reserved against jobs.
type reservedNodes struct {
	inst   *hare.Instance
	byNode [][]int32 // the reservations of each node
	closed map[nodeJob][]hare.Window
}

type nodeJob struct{ node, job int }

func newReservedNodes(inst *hare.Instance) *reservedNodes {
	return &reservedNodes{inst: inst, byNode: reservationsOf(inst), closed: map[nodeJob][]hare.Window{}}
}

// reservationsOf returns the reservations of each node in order; nil without any. It takes
// O(nodes · reservations · labels), or less for reservations that name their nodes.
func reservationsOf(inst *hare.Instance) [][]int32 {
	if len(inst.Cluster.Reservations) == 0 {
		return nil
	}
	nodes := inst.Cluster.Nodes
	out := make([][]int32, len(nodes))
	index := newDirectory(&inst.Cluster)
	for i := range inst.Cluster.Reservations {
		selector := inst.Cluster.Reservations[i].Nodes
		add := func(n int) {
			for x := range selector {
				if !selects(&selector[x], &nodes[n]) {
					return
				}
			}
			out[n] = append(out[n], int32(i))
		}
		if names := valuesOf(selector, "node"); names != nil {
			for _, name := range names {
				if n, ok := index[name]; ok {
					add(n)
				}
			}
			continue
		}
		for n := range nodes {
			add(n)
		}
	}
	return out
}

// against returns when the node is reserved against the job, as windows in order.
func (rn *reservedNodes) against(node, job int) []hare.Window {
	if rn.byNode == nil || len(rn.byNode[node]) == 0 {
		return nil
	}
	closed, known := rn.closed[nodeJob{node, job}]
	if !known {
		closed = closedTimes(rn.inst.Cluster.Reservations, rn.byNode[node], &rn.inst.Jobs[job])
		rn.closed[nodeJob{node, job}] = closed
	}
	return closed
}

// closedTimes returns the times of those of some reservations that keep the job off, as windows
// in order that neither overlap nor touch.
func closedTimes(all []hare.Reservation, some []int32, job *hare.Job) []hare.Window {
	var times []hare.Window
	for _, i := range some {
		if keepsOff(&all[i], job) {
			times = append(times, hare.Window{StartUs: all[i].FromUs, EndUs: all[i].UntilUs})
		}
	}
	slices.SortFunc(times, func(a, b hare.Window) int { return cmp.Compare(a.StartUs, b.StartUs) })
	var out []hare.Window
	for _, w := range times {
		if last := len(out) - 1; last >= 0 && w.StartUs <= out[last].EndUs {
			out[last].EndUs = max(out[last].EndUs, w.EndUs)
		} else {
			out = append(out, w)
		}
	}
	return out
}

// nextClosed returns the first window that ends after t, or false.
func nextClosed(closed []hare.Window, t int64) (hare.Window, bool) {
	at := sort.Search(len(closed), func(i int) bool { return closed[i].EndUs > t })
	if at == len(closed) {
		return hare.Window{}, false
	}
	return closed[at], true
}
