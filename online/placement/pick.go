package placement

import (
	"cmp"
	"slices"
)

// Pick chooses free GPUs of a type for tasks of a shape and appends their numbers, those of
// each task together: on the nodes with the fewest free GPUs that have room. It chooses for
// fewer tasks where there is no more room, and takes nothing. The tasks of a gang with levels
// are in one domain of the finest level that has room for all of them, in the fullest one, or
// nowhere. Pick takes O(nodes log nodes).
func (ns *Nodes) Pick(to []int, s Shape, gpuType int, tasks int64, avoid Avoid) []int {
	return ns.pick(to, s, gpuType, tasks, avoid, ns.shapes[s].levels)
}

// pick is Pick by some levels of the shape; nil means that the tasks may be on any nodes.
func (ns *Nodes) pick(to []int, s Shape, gpuType int, tasks int64, avoid Avoid, levels []int) []int {
	sh := &ns.shapes[s]
	if len(sh.quotas) > 0 {
		if levels != nil && ns.QuotaRoom(s, gpuType) < tasks {
			return to
		}
		tasks = min(tasks, ns.QuotaRoom(s, gpuType))
		if tasks <= 0 {
			return to
		}
	}
	all := ns.candidates[:0]
	for n := range ns.nodes {
		x := &ns.nodes[n]
		at, ok := x.find(gpuType)
		if !ok || int64(len(x.types[at].free)) < sh.gpus || !sh.allows(n) || avoid != nil && avoid(int32(n)) {
			continue
		}
		free := x.types[at].free
		if room := sh.room(x, int64(len(free)), x.cpuMilli, x.memoryMiB); room > 0 {
			all = append(all, candidate{int64(len(free)), free[0], int32(n), room, at})
		}
	}
	ns.candidates = all
	if levels != nil {
		if all = ns.inOneDomain(all, levels, tasks); all == nil {
			return to
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.free, b.free), cmp.Compare(a.first, b.first))
	})
	for i := range all {
		all[i].room = min(all[i].room, tasks)
		if tasks -= all[i].room; tasks == 0 {
			all = all[:i+1]
			break
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.first, b.first) })
	for _, c := range all {
		for _, g := range ns.nodes[c.node].types[c.at].free[:c.room*sh.gpus] {
			to = append(to, int(g))
		}
	}
	return to
}

// fuller reports whether a domain is fuller than another one, both with room.
func (dr *domainRoom) fuller(o *domainRoom) bool {
	return cmp.Or(cmp.Compare(dr.free, o.free), cmp.Compare(dr.first, o.first)) < 0
}

// roomsAt are the rooms of nodes by domain of a level.
func (ns *Nodes) roomsAt(level int, all []candidate) []domainRoom {
	ns.rooms = append(ns.rooms[:0], make([]domainRoom, ns.domainCount(level))...)
	for i := range all {
		c := &all[i]
		x := &ns.rooms[ns.domain(level, c.node)]
		if x.tasks == 0 || c.first < x.first {
			x.first = c.first
		}
		x.tasks += c.room
		x.free += c.free
	}
	return ns.rooms
}

// inOneDomain keeps the candidates in the fullest domain with room for all tasks, of the first of
// some levels that has one; nil where none has.
func (ns *Nodes) inOneDomain(all []candidate, levels []int, tasks int64) []candidate {
	for _, level := range levels {
		rooms, best := ns.roomsAt(level, all), -1
		for d := range rooms {
			if rooms[d].tasks >= tasks && (best < 0 || rooms[d].fuller(&rooms[best])) {
				best = d
			}
		}
		if best >= 0 {
			return slices.DeleteFunc(all, func(c candidate) bool { return ns.domain(level, c.node) != int32(best) })
		}
	}
	return nil
}

// PickMixed chooses free GPUs of several types for tasks of a shape, the first type first; nil
// where there is no room for all of them. Levels count as for Pick.
func (ns *Nodes) PickMixed(s Shape, types []int, tasks int64, avoid Avoid) []int {
	if ns.shapes[s].levels == nil {
		return ns.pickMixed(s, types, tasks, avoid)
	}
	return ns.pickMixedAt(s, types, tasks, avoid)
}

func (ns *Nodes) pickMixed(s Shape, types []int, tasks int64, avoid Avoid) []int {
	size, distinct := int(ns.shapes[s].gpus), ns.shapes[s].distinct
	var all []int
	used := map[int32]bool{} // the nodes of tasks on distinct nodes
	for _, k := range types {
		from := len(all)
		all = ns.pick(all, s, k, tasks, func(node int32) bool { return used[node] || avoid != nil && avoid(node) }, nil)
		for at, g := range all[from:] {
			ns.Take(g)
			used[ns.Node(g)] = distinct
			if at%size == 0 {
				ns.Hold(g, s, 1)
			}
		}
		if tasks -= int64((len(all) - from) / size); tasks == 0 {
			break
		}
	}
	for at, g := range all {
		ns.Free(g)
		if at%size == 0 {
			ns.Hold(g, s, -1)
		}
	}
	if tasks > 0 {
		return nil
	}
	return all
}

// pickMixedAt is PickMixed for a gang with levels. It takes O(nodes log nodes) for each domain that
// may have room.
func (ns *Nodes) pickMixedAt(s Shape, types []int, tasks int64, avoid Avoid) []int {
	sh := &ns.shapes[s]
	for _, level := range sh.levels {
		rooms := make([]domainRoom, ns.domainCount(level))
		for n := range ns.nodes {
			x := &ns.nodes[n]
			if x.gpus == 0 || !sh.allows(n) || avoid != nil && avoid(int32(n)) {
				continue
			}
			for at := range x.types {
				free := x.types[at].free
				if len(free) == 0 || !slices.Contains(types, x.types[at].gpuType) {
					continue
				}
				r := &rooms[ns.domain(level, int32(n))]
				if r.free == 0 || free[0] < r.first {
					r.first = free[0]
				}
				r.free += int64(len(free))
				r.tasks += sh.room(x, int64(len(free)), x.cpuMilli, x.memoryMiB)
			}
		}
		var order []int
		for d := range rooms {
			if rooms[d].tasks >= tasks {
				order = append(order, d)
			}
		}
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Or(cmp.Compare(rooms[a].free, rooms[b].free), cmp.Compare(rooms[a].first, rooms[b].first))
		})
		for _, d := range order {
			outside := func(n int32) bool { return ns.domain(level, n) != int32(d) || avoid != nil && avoid(n) }
			if gpus := ns.pickMixed(s, types, tasks, outside); gpus != nil {
				return gpus
			}
		}
	}
	return nil
}
