package jobgraph

import (
	"slices"

	"github.com/hare-sched/hare/internal/saturating"
)

// Server is a node with so many free GPUs of the type on which a job is placed.
type Server struct{ Node, Free int }

// HeavyEdge places the vertices of a graph, and returns the node of each, or nil where the servers have too
// few free GPUs. It takes the server with the most free GPUs, the first of several, and fills it with a set
// of vertices: first both ends of the heaviest edge between vertices that are left, then always the vertex
// with the heaviest edge into the set. Then it takes the next server. The vertices that are left where they
// all fit go there together. Ties go to the vertex with more bytes into the set, then to the first one.
//
// After A-SRPT (arXiv 2501.05563), Heavy-Edge; how ties break, that a server with one free GPU takes the
// vertex with the fewest bytes to others, and that a set without heavy edges goes on at the next heaviest
// edge are our choices. It takes O(V² + V·servers + E).
func (g *Graph) HeavyEdge(servers []Server) []int {
	h := heavyEdge{g: g, nodes: unplaced(len(g.Vertices)), left: len(g.Vertices)}
	free := slices.Clone(servers)
	for h.left > 0 {
		s := 0
		for i := range free {
			if free[i].Free > free[s].Free {
				s = i
			}
		}
		if len(free) == 0 || free[s].Free <= 0 {
			return nil
		}
		h.fill(free[s].Node, free[s].Free)
		free[s].Free = 0
	}
	return h.nodes
}

// FirstFit places the vertices in their order on the servers in theirs, or returns nil. It takes
// O(V + servers).
func (g *Graph) FirstFit(servers []Server) []int {
	nodes := make([]int, 0, len(g.Vertices))
	for _, s := range servers {
		for range min(s.Free, len(g.Vertices)-len(nodes)) {
			nodes = append(nodes, s.Node)
		}
	}
	if len(nodes) < len(g.Vertices) {
		return nil
	}
	return nodes
}

// heavyEdge is a placement that grows. nodes has −1 for vertices that are left.
type heavyEdge struct {
	g     *Graph
	nodes []int
	left  int
}

func unplaced(n int) []int { return slices.Repeat([]int{-1}, n) }

// fill puts as many vertices on a node as it has room for.
func (h *heavyEdge) fill(node, room int) {
	if h.left <= room {
		for v := range h.nodes {
			if h.nodes[v] < 0 {
				h.nodes[v] = node
			}
		}
		h.left = 0
		return
	}
	heaviest, sum := make([]int64, len(h.nodes)), make([]int64, len(h.nodes))
	take := func(v int) {
		h.nodes[v] = node
		h.left--
		room--
		for _, l := range h.g.links[v] {
			heaviest[l.to] = max(heaviest[l.to], l.bytes)
			sum[l.to] = saturating.Add(sum[l.to], l.bytes)
		}
	}
	for room > 0 && h.left > 0 {
		best := -1
		for v := range h.nodes {
			if h.nodes[v] < 0 && heaviest[v] > 0 && (best < 0 || heaviest[v] > heaviest[best] ||
				heaviest[v] == heaviest[best] && sum[v] > sum[best]) {
				best = v
			}
		}
		if best >= 0 {
			take(best)
			continue
		}
		if room == 1 {
			take(h.lightest())
			continue
		}
		a, b := h.heaviestEdge()
		take(a)
		if b >= 0 {
			take(b)
		}
	}
}

// heaviestEdge is the heaviest edge between vertices that are left, or the first such vertex and −1.
func (h *heavyEdge) heaviestEdge() (a, b int) {
	best := int64(0)
	a, b = slices.Index(h.nodes, -1), -1
	for _, e := range h.g.Edges {
		if e.Bytes > best && h.nodes[e.A] < 0 && h.nodes[e.B] < 0 {
			best, a, b = e.Bytes, e.A, e.B
		}
	}
	return a, b
}

// lightest is the vertex that is left with the fewest bytes to others that are left.
func (h *heavyEdge) lightest() (best int) {
	best, least := -1, int64(0)
	for v := range h.nodes {
		if h.nodes[v] >= 0 {
			continue
		}
		bytes := int64(0)
		for _, l := range h.g.links[v] {
			if h.nodes[l.to] < 0 {
				bytes = saturating.Add(bytes, l.bytes)
			}
		}
		if best < 0 || bytes < least {
			best, least = v, bytes
		}
	}
	return best
}

// Best is a placement with the least α, by trying all but those that differ in which of several like
// servers is which; nil where there is none. It takes O(servers^V) and is for tests and small graphs.
func (g *Graph) Best(kind string, servers []Server, net *Network) (nodes []int, us int64) {
	free := slices.Clone(servers)
	at := unplaced(len(g.Vertices))
	var try func(v int)
	try = func(v int) {
		if v == len(at) {
			if t := g.IterationUs(kind, at, net); nodes == nil || t < us {
				nodes, us = slices.Clone(at), t
			}
			return
		}
		for s := range free {
			if free[s].Free == 0 || slices.ContainsFunc(free[:s], func(o Server) bool {
				return o.Free == free[s].Free && !slices.Contains(at[:v], o.Node) &&
					!slices.Contains(at[:v], free[s].Node) && net.alike(o.Node, free[s].Node)
			}) {
				continue
			}
			at[v] = free[s].Node
			free[s].Free--
			try(v + 1)
			free[s].Free++
			at[v] = -1
		}
	}
	try(0)
	return nodes, us
}
