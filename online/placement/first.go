package placement

import "slices"

// Ended is what jobs would give back that run. Its zero value is nothing.
type Ended struct {
	types               int     // more than the number of every type
	gpus                []int64 // by node and type
	cpuMilli, memoryMiB []int64 // by node
}

// Reset empties e for so many GPU types.
func (e *Ended) Reset(ns *Nodes, types int) {
	e.types = types
	for _, of := range []struct {
		list *[]int64
		n    int
	}{{&e.gpus, len(ns.nodes) * types}, {&e.cpuMilli, len(ns.nodes)}, {&e.memoryMiB, len(ns.nodes)}} {
		*of.list = slices.Grow((*of.list)[:0], of.n)[:of.n]
		clear(*of.list)
	}
}

// Add adds the GPUs that tasks of a shape hold, those of each task together.
func (e *Ended) Add(ns *Nodes, s Shape, gpus []int) {
	sh := &ns.shapes[s]
	for at, number := range gpus {
		g := &ns.gpus[number]
		e.gpus[int(g.node)*e.types+int(g.gpuType)]++
		if at%int(sh.gpus) == 0 {
			e.cpuMilli[g.node] += sh.cpuMilli
			e.memoryMiB[g.node] += sh.memoryMiB
		}
	}
}

// First chooses free GPUs for tasks of a shape, those of each task together, on the first nodes by the numbers of
// their GPUs: on the type that so has room for all tasks first, or on several types where mix is set. It is nil where
// there is no room. A gang of several types with levels or a quota gets what PickMixed chooses. First takes
// O(nodes · types).
func (ns *Nodes) First(s Shape, types []int, tasks int64, mix bool, avoid Avoid) (gpus []int) {
	sh := &ns.shapes[s]
	if mix && (sh.levels != nil || len(sh.quotas) > 0) {
		return ns.PickMixed(s, types, tasks, avoid)
	}
	if len(sh.quotas) > 0 {
		types = slices.DeleteFunc(slices.Clone(types), func(k int) bool { return ns.QuotaRoom(s, k) < tasks })
	}
	for _, p := range ns.first(sh, types, tasks, mix, avoid, nil) {
		x := &ns.nodes[p.node]
		at, _ := x.find(p.typ)
		for _, g := range x.types[at].free[:p.tasks*sh.gpus] {
			gpus = append(gpus, int(g))
		}
	}
	return gpus
}

// FirstNodes are the nodes that First would choose, beside quotas, once some jobs have ended.
func (ns *Nodes) FirstNodes(s Shape, types []int, tasks int64, mix bool, avoid Avoid, ended *Ended) (nodes []int32) {
	for _, p := range ns.first(&ns.shapes[s], types, tasks, mix, avoid, ended) {
		nodes = append(nodes, p.node)
	}
	return nodes
}

func (ns *Nodes) first(sh *shape, types []int, tasks int64, mix bool, avoid Avoid, ended *Ended) []part {
	for len(ns.found) < len(types) {
		ns.found, ns.sums = append(ns.found, nil), append(ns.sums, 0)
	}
	found, sums := ns.found[:len(types)], ns.sums[:len(types)]
	for i := range types {
		found[i], sums[i] = found[i][:0], 0
	}
	for _, n := range ns.inOrder() {
		if !sh.allows(int(n)) || avoid != nil && avoid(n) {
			continue
		}
		held := int64(0) // tasks on the node, of several types
		for i, k := range types {
			if mix {
				i = 0
			} else {
				held = 0
			}
			room := ns.roomAfter(sh, n, k, held, ended)
			if room <= 0 {
				continue
			}
			held += room
			found[i] = append(found[i], part{n, k, room})
			if sums[i] += room; sums[i] >= tasks && (sh.levels == nil || mix) {
				return firstOf(found[i], tasks)
			}
		}
	}
	for i := range found {
		if sh.levels != nil && sums[i] >= tasks {
			if parts := ns.firstInDomain(sh, found[i], tasks); parts != nil {
				return parts
			}
		}
	}
	return nil
}

// roomAfter is how many tasks fit on the GPUs of a type of a node beside so many others, once some jobs have ended.
func (ns *Nodes) roomAfter(sh *shape, n int32, gpuType int, others int64, ended *Ended) int64 {
	x := &ns.nodes[n]
	at, ok := x.find(gpuType)
	if !ok {
		return 0
	}
	free, cpuMilli, memoryMiB := int64(len(x.types[at].free)), x.cpuMilli, x.memoryMiB
	if ended != nil {
		free += ended.gpus[int(n)*ended.types+gpuType]
		cpuMilli, memoryMiB = cpuMilli-ended.cpuMilli[n], memoryMiB-ended.memoryMiB[n]
	}
	room := sh.room(x, free, cpuMilli+others*sh.cpuMilli, memoryMiB+others*sh.memoryMiB)
	if sh.distinct {
		room = min(room, 1-others)
	}
	return room
}

// RoomAfter is how many tasks of a shape fit on the GPUs of a type of a node, beside quotas, once some jobs have
// ended.
func (ns *Nodes) RoomAfter(s Shape, gpuType int, node int32, ended *Ended) int64 {
	sh := &ns.shapes[s]
	if !sh.allows(int(node)) {
		return 0
	}
	return ns.roomAfter(sh, node, gpuType, 0, ended)
}

// firstOf are the first of some parts that have so many tasks together.
func firstOf(parts []part, tasks int64) []part {
	for i := range parts {
		parts[i].tasks = min(parts[i].tasks, tasks)
		if tasks -= parts[i].tasks; tasks == 0 {
			return parts[:i+1]
		}
	}
	return nil
}

// firstInDomain is firstOf in one domain of the finest level that has room for all tasks.
func (ns *Nodes) firstInDomain(sh *shape, parts []part, tasks int64) []part {
	all := ns.candidates[:0]
	for i, p := range parts {
		all = append(all, candidate{free: p.tasks * sh.gpus, first: int32(i), node: p.node, room: p.tasks})
	}
	ns.candidates = all
	var in []part
	for _, c := range ns.inOneDomain(all, sh.levels, tasks) {
		in = append(in, parts[c.first])
	}
	slices.SortFunc(in, func(a, b part) int { return slices.Index(parts, a) - slices.Index(parts, b) })
	return firstOf(in, tasks)
}

// inOrder are the nodes with GPUs in service by their least numbers of GPUs.
func (ns *Nodes) inOrder() []int32 {
	if ns.orderAt == ns.version {
		return ns.order
	}
	ns.order, ns.orderAt = ns.order[:0], ns.version
	seen := make([]bool, len(ns.nodes))
	for _, g := range ns.gpus {
		if g.here && !seen[g.node] {
			seen[g.node] = true
			ns.order = append(ns.order, g.node)
		}
	}
	return ns.order
}
