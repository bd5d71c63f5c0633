package placement

import (
	"cmp"
	"slices"
)

// Use is when a GPU is expected to be free, and what is given back then.
type Use struct {
	AtUs int64
	// Never says that the GPU may not be counted on.
	Never bool
	// CPUMilli and MemoryMiB are what the task holds of which the GPU is the first.
	CPUMilli, MemoryMiB int64
}

// Uses is what tasks of a shape hold of CPUs and memory.
func (ns *Nodes) Uses(s Shape) (cpuMilli, memoryMiB int64) {
	return ns.shapes[s].cpuMilli, ns.shapes[s].memoryMiB
}

// chance is a task that can start on a node at a time.
type chance struct {
	atUs  int64
	free  int   // GPUs of the type that are free on the node now
	first int32 // the first GPU of the type on the node
	list  int   // in Earliest
}

// Earliest finds the time at which tasks of a shape are expected to have room together, on GPUs
// of some types, and the GPUs to keep for them, those of each task together: of a gang that keeps
// within a level, in one domain. use describes the
// GPUs in service, of which the free ones are free at 0. ok is false where there is never room.
// Earliest takes O(GPUs log GPUs).
func (ns *Nodes) Earliest(s Shape, types []int, tasks int64, use func(gpu int) Use) (atUs int64, gpus []int,
	ok bool) {
	sh := &ns.shapes[s]
	type release struct {
		Use
		gpu int
	}
	// What a node without GPUs of the types gives back makes no room. The lists are by key, a node and a
	// type; listOf has the number of a list plus 1.
	counts := make([]bool, len(ns.nodes))
	for n := range ns.nodes {
		x := &ns.nodes[n]
		counts[n] = slices.ContainsFunc(types, func(k int) bool { _, has := x.find(k); return has }) && sh.allows(n)
	}
	listOf := make([]int32, len(ns.nodes)*len(types))
	var lists [][]release
	var keys [][2]int32
	byNode := make([][]Use, len(ns.nodes)) // what the GPUs of the node give back, those of other types too
	for g := range ns.gpus {
		x := &ns.gpus[g]
		if !x.here || !counts[x.node] {
			continue
		}
		k := slices.Index(types, int(x.gpuType))
		if k < 0 && sh.cpuMilli+sh.memoryMiB == 0 {
			continue
		}
		u := use(g)
		if sh.cpuMilli+sh.memoryMiB > 0 && u.CPUMilli+u.MemoryMiB > 0 {
			byNode[x.node] = append(byNode[x.node], u)
		}
		if u.Never || k < 0 {
			continue
		}
		at := &listOf[int(x.node)*len(types)+k]
		if *at == 0 {
			keys = append(keys, [2]int32{x.node, x.gpuType})
			lists = append(lists, make([]release, 0, ns.nodes[x.node].gpus))
			*at = int32(len(keys))
		}
		lists[*at-1] = append(lists[*at-1], release{u, g})
	}
	var chances []chance
	for i, key := range keys {
		list, node := lists[i], &ns.nodes[key[0]]
		first, free := int32(list[0].gpu), 0
		slices.SortFunc(list, func(a, b release) int { return cmp.Or(cmp.Compare(a.AtUs, b.AtUs), a.gpu-b.gpu) })
		given := byNode[key[0]]
		slices.SortFunc(given, func(a, b Use) int { return cmp.Compare(a.AtUs, b.AtUs) })
		for _, r := range list {
			if r.AtUs <= 0 {
				free++
			}
		}
		cpuMilli, memoryMiB, room := node.cpuMilli, node.memoryMiB, int64(0)
		for n, back := 0, 0; n < len(list) || back < len(given); {
			at := int64(0)
			if n < len(list) {
				at = list[n].AtUs
			}
			if back < len(given) && (n == len(list) || given[back].AtUs < at) {
				at = given[back].AtUs
			}
			for n < len(list) && list[n].AtUs <= at {
				n++
			}
			for back < len(given) && given[back].AtUs <= at {
				if !given[back].Never {
					cpuMilli, memoryMiB = cpuMilli-given[back].CPUMilli, memoryMiB-given[back].MemoryMiB
				}
				back++
			}
			for have := sh.room(node, int64(n), cpuMilli, memoryMiB); room < have; room++ {
				chances = append(chances, chance{at, free, first, i})
			}
		}
	}
	if int64(len(chances)) < tasks {
		return 0, nil, false
	}
	slices.SortStableFunc(chances, func(a, b chance) int {
		return cmp.Or(cmp.Compare(a.atUs, b.atUs), cmp.Compare(a.free, b.free), cmp.Compare(a.first, b.first))
	})
	if within := ns.withinOf(sh); within < ns.domains.levels.Any() {
		chances = ns.firstDomain(chances, within, tasks, sh.distinct, func(c *chance) int32 { return keys[c.list][0] })
	}
	used := make([]int, len(keys))
	nodes := map[int32]bool{}
	for _, c := range chances {
		if n := keys[c.list][0]; sh.distinct {
			if nodes[n] {
				continue // another type of the node is taken
			}
			nodes[n] = true
		}
		used[c.list]++
		atUs = max(atUs, c.atUs)
		if tasks--; tasks == 0 {
			break
		}
	}
	if tasks > 0 {
		return 0, nil, false
	}
	for i, n := range used {
		list := lists[i][:n*int(sh.gpus)]
		slices.SortFunc(list, func(a, b release) int { return a.gpu - b.gpu })
		for _, r := range list {
			gpus = append(gpus, r.gpu)
		}
	}
	return atUs, gpus, true
}

// firstDomain keeps the chances, sorted by time, in the domain of a level that has room for all tasks
// first, and of several in the fullest one: where the fewest GPUs of its nodes are free now. It keeps
// none where no domain ever has room.
func (ns *Nodes) firstDomain(chances []chance, level int, tasks int64, distinct bool,
	nodeOf func(*chance) int32) []chance {
	type progress struct {
		domainRoom
		atUs  int64          // when there is room for all tasks
		nodes map[int32]bool // those that have a chance
		lists map[int]bool
	}
	all := make([]progress, ns.domainCount(level))
	for i := range chances {
		c := &chances[i]
		n := nodeOf(c)
		x := &all[ns.domain(level, n)]
		if x.nodes == nil {
			x.nodes, x.lists, x.first = map[int32]bool{}, map[int]bool{}, c.first
		}
		if !x.lists[c.list] {
			x.lists[c.list] = true
			x.free += int64(c.free)
			x.first = min(x.first, c.first)
		}
		if distinct && x.nodes[n] {
			continue
		}
		x.nodes[n] = true
		if x.tasks++; x.tasks == tasks {
			x.atUs = c.atUs
		}
	}
	best := -1
	for d := range all {
		x := &all[d]
		if x.tasks >= tasks && (best < 0 || x.atUs < all[best].atUs ||
			x.atUs == all[best].atUs && x.fuller(&all[best].domainRoom)) {
			best = d
		}
	}
	return slices.DeleteFunc(chances, func(c chance) bool { return ns.domain(level, nodeOf(&c)) != int32(best) })
}

// Group orders GPUs so that those of one node and type follow each other, and so those of each
// task of several GPUs.
func (ns *Nodes) Group(gpus []int) []int {
	first := map[[2]int32]int{}
	key := func(g int) [2]int32 { return [2]int32{ns.gpus[g].node, ns.gpus[g].gpuType} }
	out := slices.Clone(gpus)
	slices.Sort(out)
	for _, g := range out {
		if _, known := first[key(g)]; !known {
			first[key(g)] = g
		}
	}
	slices.SortFunc(out, func(a, b int) int { return cmp.Or(first[key(a)]-first[key(b)], a-b) })
	return out
}
