package leases

import (
	"cmp"
	"slices"
)

// hadarPiece is the GPUs of a chosen job on a node.
type hadarPiece struct{ choice, units int }

// hadarFill is what a node of a class is to run. Any node of the class may run it.
type hadarFill struct {
	class, given int
	pieces       []hadarPiece
}

// place gives the chosen jobs their GPUs: of nodes of a class, the one that already ran most of
// what the node is to run, and on the node the GPUs that a job holds.
func (ha *hadar) place(chosen []hadarChoice, previous []Hold) []Hold {
	fills, byClass := ha.fill(chosen)
	held := map[int][]int32{}
	for _, h := range previous {
		held[h.Job] = h.GPUs
	}
	nodeOf := ha.match(chosen, fills, byClass, held)
	holds := make([]Hold, len(chosen))
	for i, c := range chosen {
		holds[i].Job = ha.queue[c.job].at
	}
	var free []int32
	for f := range fills {
		free = append(free[:0], ha.nodes[nodeOf[f]].gpus...)
		want := make([]int, len(fills[f].pieces))
		for p, piece := range fills[f].pieces {
			h := &holds[piece.choice]
			want[p] = piece.units
			for _, g := range held[h.Job] {
				if i, found := slices.BinarySearch(free, g); found && want[p] > 0 {
					free = slices.Delete(free, i, i+1)
					h.GPUs = append(h.GPUs, g)
					want[p]--
				}
			}
		}
		for p, piece := range fills[f].pieces {
			holds[piece.choice].GPUs = append(holds[piece.choice].GPUs, free[:want[p]]...)
			free = free[want[p]:]
		}
	}
	for i := range holds {
		slices.Sort(holds[i].GPUs)
	}
	slices.SortFunc(holds, func(a, b Hold) int { return cmp.Compare(a.Job, b.Job) })
	return holds
}

// fill says what the nodes of each class are to run.
func (ha *hadar) fill(chosen []hadarChoice) (fills []hadarFill, byClass [][]int) {
	byClass = make([][]int, len(ha.classes))
	for i := range ha.classes {
		for range ha.classes[i].nodes {
			byClass[i] = append(byClass[i], len(fills))
			fills = append(fills, hadarFill{class: i})
		}
	}
	for i, c := range chosen {
		var at []int // fills of the takes; two takes are of two nodes
		for _, t := range c.takes {
			for _, f := range byClass[t.class] {
				if fills[f].given == t.given && !slices.Contains(at, f) {
					at = append(at, f)
					break
				}
			}
		}
		for p, t := range c.takes {
			f := &fills[at[p]]
			f.given += t.units
			f.pieces = append(f.pieces, hadarPiece{i, t.units})
		}
	}
	return fills, byClass
}

// match gives each fill a node of its class, greedily by the number of GPUs that jobs keep.
func (ha *hadar) match(chosen []hadarChoice, fills []hadarFill, byClass [][]int, held map[int][]int32) []int {
	nodeOfGPU := map[int32]int{}
	for n := range ha.nodes {
		for _, g := range ha.nodes[n].gpus {
			nodeOfGPU[g] = n
		}
	}
	type overlap struct{ kept, fill, node int }
	var overlaps []overlap
	for f := range fills {
		from := len(overlaps)
		for _, piece := range fills[f].pieces {
			var mine []overlap // of this piece
			for _, g := range held[ha.queue[chosen[piece.choice].job].at] {
				n, ok := nodeOfGPU[g]
				if !ok || ha.nodes[n].class != fills[f].class {
					continue
				}
				i := slices.IndexFunc(mine, func(o overlap) bool { return o.node == n })
				if i < 0 {
					mine, i = append(mine, overlap{0, f, n}), len(mine)
				}
				mine[i].kept = min(mine[i].kept+1, piece.units)
			}
			for _, o := range mine {
				if i := slices.IndexFunc(overlaps[from:], func(p overlap) bool { return p.node == o.node }); i >= 0 {
					overlaps[from+i].kept += o.kept
				} else {
					overlaps = append(overlaps, o)
				}
			}
		}
	}
	slices.SortFunc(overlaps, func(a, b overlap) int {
		return cmp.Or(cmp.Compare(b.kept, a.kept), cmp.Compare(a.fill, b.fill), cmp.Compare(a.node, b.node))
	})
	nodeOf, used := make([]int, len(fills)), make([]bool, len(ha.nodes))
	for f := range nodeOf {
		nodeOf[f] = -1
	}
	for _, o := range overlaps {
		if nodeOf[o.fill] < 0 && !used[o.node] {
			nodeOf[o.fill], used[o.node] = o.node, true
		}
	}
	for i, all := range byClass {
		next := 0
		for _, f := range all {
			if nodeOf[f] >= 0 {
				continue
			}
			for used[ha.classes[i].nodes[next]] {
				next++
			}
			nodeOf[f] = ha.classes[i].nodes[next]
			used[nodeOf[f]] = true
		}
	}
	return nodeOf
}
