package placement

import (
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// This file says how many tasks have room, now or on an empty cluster, and whether a choice of GPUs is allowed.

// Room is how many tasks of a shape fit on free GPUs of a type now, or most if there are more:
// of a gang that keeps within a level, how many fit in one domain. It takes O(nodes).
func (ns *Nodes) Room(s Shape, gpuType int, most int64, avoid Avoid) int64 {
	sh, sum := &ns.shapes[s], int64(0)
	if len(sh.quotas) > 0 {
		most = min(most, ns.QuotaRoom(s, gpuType))
	}
	if sh.levels != nil && sh.within() < ns.domains.levels.Any() {
		return min(most, ns.roomWithin(s, gpuType, avoid))
	}
	for n := range ns.nodes {
		x := &ns.nodes[n]
		at, ok := x.find(gpuType)
		if !ok || int64(len(x.types[at].free)) < sh.gpus || !sh.allows(n) || avoid != nil && avoid(int32(n)) {
			continue
		}
		if sum += sh.room(x, int64(len(x.types[at].free)), x.cpuMilli, x.memoryMiB); sum >= most {
			return most
		}
	}
	return sum
}

// roomWithin is the most tasks of a shape that fit on free GPUs of a type in one domain of the
// level within.
func (ns *Nodes) roomWithin(s Shape, gpuType int, avoid Avoid) int64 {
	sh := &ns.shapes[s]
	most := ns.newDomainSums(sh.within())
	for n := range ns.nodes {
		x := &ns.nodes[n]
		at, ok := x.find(gpuType)
		if !ok || int64(len(x.types[at].free)) < sh.gpus || !sh.allows(n) || avoid != nil && avoid(int32(n)) {
			continue
		}
		most.add(int32(n), sh.room(x, int64(len(x.types[at].free)), x.cpuMilli, x.memoryMiB))
	}
	return most.greatest
}

// RoomOn is how many tasks of a shape fit on the free GPUs of a type of one node now, beside quotas.
func (ns *Nodes) RoomOn(s Shape, gpuType int, node int32) int64 {
	sh, x := &ns.shapes[s], &ns.nodes[node]
	at, ok := x.find(gpuType)
	if !ok || !sh.allows(int(node)) {
		return 0
	}
	return sh.room(x, int64(len(x.types[at].free)), x.cpuMilli, x.memoryMiB)
}

// MostOn is RoomOn if all GPUs of the node in service were free.
func (ns *Nodes) MostOn(s Shape, gpuType int, node int32) int64 {
	sh, x := &ns.shapes[s], &ns.nodes[node]
	at, ok := x.find(gpuType)
	if !ok || !sh.allows(int(node)) {
		return 0
	}
	return sh.room(x, x.types[at].inService, 0, 0)
}

// FreeGPUs is how many GPUs of a type are free on the nodes that may be used, and how many of them are on one node
// at most. It takes O(nodes).
func (ns *Nodes) FreeGPUs(gpuType int, avoid Avoid) (sum, onOne int64) {
	for n := range ns.nodes {
		x := &ns.nodes[n]
		if at, ok := x.find(gpuType); ok && len(x.types[at].free) > 0 && !avoid(int32(n)) {
			free := int64(len(x.types[at].free))
			sum, onOne = sum+free, max(onOne, free)
		}
	}
	return sum, onOne
}

// Most is how many tasks of a shape would fit on the GPUs of a type in service if all were
// free, in one domain of a gang that keeps within a level. It takes O(nodes) after a change of
// what is in service, else O(1).
func (ns *Nodes) Most(s Shape, gpuType int) int64 {
	sh := &ns.shapes[s]
	if sh.mostAt != ns.version {
		sh.most, sh.mostAt = sh.most[:0], ns.version
	}
	for len(sh.most) <= gpuType {
		sh.most = append(sh.most, -1)
	}
	if sh.most[gpuType] < 0 {
		sh.most[gpuType] = min(ns.mostAt(sh, gpuType, ns.withinOf(sh)), ns.quotaLimit(s, gpuType))
	}
	return sh.most[gpuType]
}

// mostAt is how many tasks of a shape would fit on the GPUs of a type in service in one domain
// of a level if all were free, beside quotas.
func (ns *Nodes) mostAt(sh *shape, gpuType, level int) int64 {
	most := ns.newDomainSums(level)
	for n := range ns.nodes {
		x := &ns.nodes[n]
		if at, ok := x.find(gpuType); ok && sh.allows(n) {
			most.add(int32(n), sh.room(x, x.types[at].inService, 0, 0))
		}
	}
	return most.greatest
}

// MostTogether is how many tasks of a shape would fit on the GPUs of some types in service
// together if all were free, in one domain of a gang that keeps within a level. It takes
// O(nodes · types).
func (ns *Nodes) MostTogether(s Shape, types []int) int64 {
	sh := &ns.shapes[s]
	most := ns.newDomainSums(ns.withinOf(sh))
	for n := range ns.nodes {
		x := &ns.nodes[n]
		if x.gpus == 0 || !sh.allows(n) {
			continue
		}
		room := int64(0)
		for _, k := range types {
			if at, ok := x.find(k); ok {
				room += x.types[at].inService / sh.gpus
			}
		}
		most.add(int32(n), min(room, sh.room(x, math.MaxInt64, 0, 0)))
	}
	sum := most.greatest
	if len(sh.quotas) == 0 {
		return sum
	}
	byQuota := int64(0)
	for _, k := range types {
		byQuota += ns.Most(s, k)
	}
	return min(sum, byQuota, ns.together(s, types, func(q *quotaUse) int64 { return q.GPUs }))
}

// LeastSyncUs is the time of synchronisation of a round of so many tasks of a shape on the GPUs of a
// type if all GPUs in service were free: at the finest level that has room then, or within.
func (ns *Nodes) LeastSyncUs(s Shape, p *hare.Profile, gpuType int, tasks int64) int64 {
	sh := &ns.shapes[s]
	if p.SyncAt == nil || sh.levels == nil {
		return p.SyncUs
	}
	for _, level := range sh.levels[:len(sh.levels)-1] {
		if ns.mostAt(sh, gpuType, level) >= tasks {
			return ns.domains.levels.SyncUs(p, level)
		}
	}
	return ns.domains.levels.SyncUs(p, sh.within())
}

// Check says why tasks of a shape cannot start on GPUs, those of each task together; "" means
// that they can. Distinct nodes are those of the GPUs given.
func (ns *Nodes) Check(s Shape, gpus []int) string { return ns.check(s, gpus, true) }

// CheckRunning is Check for work that runs already, which may exceed quotas.
func (ns *Nodes) CheckRunning(s Shape, gpus []int) string { return ns.check(s, gpus, false) }

func (ns *Nodes) check(s Shape, gpus []int, quotas bool) string {
	sh := &ns.shapes[s]
	if int64(len(gpus))%sh.gpus != 0 {
		return fmt.Sprintf("a task holds %d GPUs", sh.gpus)
	}
	ns.used = ns.used[:0]
	reason := ""
	for from := 0; from < len(gpus) && reason == ""; from += int(sh.gpus) {
		lead := ns.gpus[gpus[from]]
		x := &ns.nodes[lead.node]
		for _, g := range gpus[from : from+int(sh.gpus)] {
			if ns.gpus[g].node != lead.node || ns.gpus[g].gpuType != lead.gpuType {
				return "the GPUs of a task are of one type, on one node"
			}
		}
		switch {
		case !sh.allows(int(lead.node)):
			reason = "the job may not use the node"
		case sh.distinct && slices.Contains(ns.used, lead.node):
			reason = "the tasks of a round are on distinct nodes"
		case len(ns.used) > 0 && ns.domain(ns.withinOf(sh), lead.node) != ns.domain(ns.withinOf(sh), ns.used[0]):
			reason = fmt.Sprintf("the tasks of a round are within one %s", ns.domains.levels.Names[ns.withinOf(sh)])
		case sh.room(x, math.MaxInt64, x.cpuMilli, x.memoryMiB) < 1:
			reason = "the CPUs or the memory of the node are held by other tasks"
		case quotas && ns.QuotaRoom(s, int(lead.gpuType)) < 1:
			reason = "a quota of the job is held by other tasks"
		default:
			ns.used = append(ns.used, lead.node)
			ns.Hold(gpus[from], s, 1)
		}
	}
	for i := range ns.used {
		ns.Hold(gpus[i*int(sh.gpus)], s, -1)
	}
	return reason
}

// LackingForStart are the quotas that have no room for tasks of a shape on any of some types, or with mix on all of
// them together, where nodes have room for the tasks when they are empty; nil where the quotas have room, or nodes
// never do.
func (ns *Nodes) LackingForStart(s Shape, types []int, tasks int64, mix bool) (lacking []int32) {
	for _, t := range types {
		if ns.Most(s, t) < tasks {
			continue
		}
		if ns.QuotaRoom(s, t) >= tasks {
			return nil
		}
		lacking = append(lacking, ns.Lacking(s, t, tasks)...)
	}
	if mix && ns.MostTogether(s, types) >= tasks {
		if ns.QuotaRoomTogether(s, types) >= tasks {
			return nil
		}
		for _, t := range types {
			lacking = append(lacking, ns.Lacking(s, t, tasks)...)
		}
	}
	return lacking
}
