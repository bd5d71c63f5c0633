package jobgraph

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/saturating"
)

// Network says what a cluster carries between two of its nodes, and inside one.
type Network struct {
	level      func(a, b int) int // the finest level of which one domain has two nodes
	mbps       []int64            // by level
	slow, fast int64              // the least and the greatest of mbps
}

// NewNetwork takes the bandwidths of a valid cluster (docs/reference/model.md). Where some level has none, the error
// is a *hare.InvalidError with a pointer into the cluster.
func NewNetwork(c *hare.Cluster) (*Network, error) {
	levels := hare.NewLevels(c)
	var all []int64
	for level := range levels.Names {
		mbps := c.BandwidthMbps(levels, level)
		if mbps == 0 {
			return nil, &hare.InvalidError{Pointer: "/cluster/bandwidth_gbps", Code: "missing_field",
				Detail: "job graphs need the bandwidth between nodes and inside them, e.g. {\"node\": 300, \"any\": 25}"}
		}
		all = append(all, mbps)
	}
	return NetworkOf(all, func(a, b int) int { return levels.Join(0, a, b) }), nil
}

// NetworkOf is the network of nodes that come and go: mbps are the megabits per second by level, from fine to
// coarse and at least 1, and level tells the finest level of which one domain has two nodes.
func NetworkOf(mbps []int64, level func(a, b int) int) *Network {
	return &Network{level: level, mbps: mbps, slow: slices.Min(mbps), fast: slices.Max(mbps)}
}

// Mbps are the megabits per second by level, from fine to coarse; they must not be written to.
func (n *Network) Mbps() []int64 { return n.mbps }

// between is the bandwidth between GPUs of two nodes, or of one.
func (n *Network) between(a, b int) int64 { return n.mbps[n.level(a, b)] }

// alike reports whether all other nodes are as far from one node as from another: no two nodes are nearer.
func (n *Network) alike(a, b int) bool { return n.level(a, b) <= 1 }

// Training is a job that trains by a graph.
type Training struct {
	Graph      *Graph
	Iterations int64 // of a round
}

// us is how long bytes take at so many megabits, which are bits a microsecond.
func us(bytes, mbps int64) int64 { return saturating.MulDivUp(bytes, 8, mbps) }

// IterationUs is α of a placement on GPUs of one type, in microseconds: the longest over the vertices of the
// time of its stage. nodes has the node of each vertex. A vertex computes, sends its activations and
// gradients one after another, and takes part in its all-reduces, each as fast as its slowest link: rings go
// through the members of a node, and of each wider domain, one after another. It takes O(flows + members² of
// the rings). It is 0 for a type on which the graph has no times.
func (g *Graph) IterationUs(kind string, nodes []int, net *Network) int64 {
	return g.iteration(kind, func(v, to int) int64 { return net.between(nodes[v], nodes[to]) },
		func(of []int) int64 { return net.slowest(of, nodes) })
}

// LeastUs is at most α of every placement: everything at the greatest bandwidth of all levels.
func (g *Graph) LeastUs(kind string, net *Network) int64 { return g.at(kind, net.fast) }

// MostUs is at least α of every placement, and α_max: everything at the least bandwidth of all levels, as
// where each vertex is on a node of its own.
func (g *Graph) MostUs(kind string, net *Network) int64 { return g.at(kind, net.slow) }

func (g *Graph) at(kind string, mbps int64) int64 {
	return g.iteration(kind, func(int, int) int64 { return mbps }, func([]int) int64 { return mbps })
}

// ComputeUs is how long a vertex of a stage computes in an iteration, 0 where the type has no times.
func (g *Graph) ComputeUs(kind string, stage int) int64 {
	if k := slices.Index(g.Kinds, kind); k >= 0 {
		return g.stages[stage].computeUs[k]
	}
	return 0
}

// LongestComputeUs is the longest time for which a vertex computes in an iteration, 0 where the type has no
// times.
func (g *Graph) LongestComputeUs(kind string) (longest int64) {
	for s := range g.stages {
		longest = max(longest, g.ComputeUs(kind, s))
	}
	return longest
}

func (g *Graph) iteration(kind string, between func(a, b int) int64, slowest func([]int) int64) (longest int64) {
	k := slices.Index(g.Kinds, kind)
	if k < 0 {
		return 0
	}
	rings := make([]int64, len(g.rings))
	for r := range g.rings {
		rings[r] = us(g.rings[r].bytes, slowest(g.rings[r].members))
	}
	for v := range g.Vertices {
		t := g.stages[g.Vertices[v].Stage].computeUs[k]
		for _, f := range g.flows[v] {
			t = saturating.Add(t, us(f.bytes, between(v, f.to)))
		}
		for _, r := range g.ringsOf[v] {
			t = saturating.Add(t, rings[r])
		}
		longest = max(longest, t)
	}
	return longest
}

// slowest is the bandwidth of the slowest link of a ring. Where two members share a domain of a level and of
// no finer one, some link of the ring is between such members.
func (n *Network) slowest(of, nodes []int) int64 {
	least := int64(0)
	for i, a := range of {
		for _, b := range of[:i] {
			if mbps := n.between(nodes[a], nodes[b]); least == 0 || mbps < least {
				if least = mbps; least == n.slow {
					return least
				}
			}
		}
	}
	return least
}
