// Package jobgraph models how a neural network is trained on several GPUs: a graph whose vertices are the GPUs'
// parts of the network, and whose edges carry activations between stages and all-reduces between replicas. It says
// how long an iteration takes where the vertices are placed, and places them: Heavy-Edge, first fit, and the best
// placement by trying all. It is pure and knows no jobs, policies or clocks.
//
// # Time of an iteration
//
// A vertex is one GPU. The time of an iteration, α of a placement, is the greatest sum, over the vertices, of
//
//	compute      (Σ forward + Σ backward over the layers) × samples / (replicas × tensor)
//	inter-stage  Σ over its partners: bytes that it sends / bandwidth
//	all-reduce   2(n − 1)/n × bytes / bandwidth of the slowest link, for each of its rings
//
// Replica i of r has the samples from i/r to (i + 1)/r, and sends each replica of the next stage what both share.
// The bandwidth is that of the finest level with both GPUs in one domain; a ring goes through its members node by
// node, rack by rack. Nothing overlaps, links are not shared, and the filling of the pipeline is left out. Stage s
// of S keeps the samples of at most S − s micro-batches.
//
// # Placement
//
// Heavy-Edge takes the server with the most free GPUs and fills it with vertices along the heaviest edges, then
// the next server; what is left goes together where it fits. docs/lab/experiments.md says how far it is from the
// best placement. From Go:
//
//	graphs, net, err := jobgraph.Builtin().Graphs(&instance.Cluster)
//	nodes := graphs[0].HeavyEdge([]jobgraph.Server{{Node: 0, Free: 4}, {Node: 1, Free: 4}})
//	us := graphs[0].IterationUs("V100", nodes, net)
//
// # Built-in models
//
// Builtin has resnet-50, vgg-19, bert-large, gpt-1.5b and gpt-6.7b in 21 configurations such as bert-large/p4d2t1:
// four stages of two replicas of one GPU. Their times are assumed from operations: 140, 50 and 20 · 10¹² a second
// on A100, V100 and T4 for transformers, and 75, 30 and 10 for convolutions. Spreading over nodes hardly costs
// pipelines anything (gpt-1.5b/p8d1t1: 1.03 times the least α), costs data parallelism of large models much
// (bert-large/p1d8t1: 2.79) and tensor parallelism most (gpt-1.5b/p1d2t4: 4.73).
//
// # Source
//
// The vertices, the rings between replicas, the three terms and the idea of Heavy-Edge are A-SRPT's (arXiv
// 2501.05563), which we know from its abstract and from second sources; everything else is our own choice.
// docs/reference/model.md has the fields of the document.
package jobgraph

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare/internal/saturating"
)

// Document holds models, and configurations in which they are trained.
type Document struct {
	Models         []Model
	Configurations []Configuration
}

// Model is a neural network as a chain of layers.
type Model struct {
	Name   string
	Layers []Layer
	// GradientBytes are all-reduced for each parameter; zero means 2, half precision.
	GradientBytes int64
	// StateBytes are kept on a GPU for each parameter; zero means 16: parameters and gradients in half
	// precision, and parameters and both moments of Adam in single precision.
	StateBytes int64
}

// Layer is a layer, or several equal ones that follow each other. All times and bytes are for one sample.
type Layer struct {
	Name  string
	Count int64 // how many such layers follow each other; zero means 1
	// Parameters of one layer.
	Parameters int64
	// ActivationBytes go to the next layer; as many bytes of gradients come back.
	ActivationBytes int64
	// StoredBytes are kept from the forward to the backward pass; zero means ActivationBytes, as where
	// activations are computed again.
	StoredBytes int64
	// TensorBytes are all-reduced between the ranks of a tensor-parallel replica; zero means four times
	// ActivationBytes, as in Megatron-LM: twice forward and twice backward.
	TensorBytes int64
	On          []LayerTime // by GPU type, sorted
}

// LayerTime is how long a layer takes on a GPU type, in nanoseconds for one sample.
type LayerTime struct {
	Type                  string
	ForwardNs, BackwardNs int64
}

// Configuration says how a model is trained.
type Configuration struct {
	Name, Model string
	Samples     int64 // of an iteration: the global batch
	// MicroBatches are the parts in which the samples of a replica go through the pipeline; zero means 1.
	// They are needed for the memory alone: the time of an iteration is that of a full pipeline.
	MicroBatches int64
	Stages       []Stage // of the pipeline; their layers follow each other and are all layers of the model
}

// Stage is consecutive layers of a model, on Replicas × Tensor GPUs.
type Stage struct {
	Layers int64
	// Replicas share the samples evenly (data parallelism); zero means 1.
	Replicas int64
	// Tensor is how many GPUs share each layer of a replica (tensor parallelism); zero means 1.
	Tensor int64
}

// Vertex is what one GPU of a job does: a rank of a replica of a stage. Without tensor parallelism a vertex
// is a replica of a stage.
type Vertex struct{ Stage, Replica, Rank int }

// Edge joins two vertices. Bytes cross it in an iteration, in both directions together.
type Edge struct {
	A, B  int
	Bytes int64
}

// Graph is a configuration of a model. A Graph is not changed after it was made.
type Graph struct {
	Name     string
	Kinds    []string // the GPU types on which all layers have times, sorted
	Vertices []Vertex // by stage, replica, rank
	Edges    []Edge   // by A, then B, each pair once

	stages  []builtStage
	links   [][]link // by vertex: all edges
	flows   [][]link // by vertex: bytes of activations or gradients that it sends in an iteration
	rings   []ring
	ringsOf [][]int32
}

// builtStage is what a vertex of a stage computes and keeps.
type builtStage struct {
	computeUs   []int64 // by kind
	memoryBytes int64
}

// link leads to a vertex.
type link struct {
	to    int
	bytes int64
}

// ring is an all-reduce of some vertices, of which each sends bytes to the next one.
type ring struct {
	members []int
	bytes   int64
}

// GPUs is how many GPUs the configuration takes.
func (g *Graph) GPUs() int { return len(g.Vertices) }

// MemoryBytes is what a GPU needs for a vertex of a stage: the state of its parameters, and the activations
// of the micro-batches that are under way there.
func (g *Graph) MemoryBytes(stage int) int64 { return g.stages[stage].memoryBytes }

// build makes the graph of a valid configuration. Micro-batch k of n is under way on stage s of S for at
// most min(n, S − s) micro-batches at once (one forward, one backward).
func build(m *Model, c *Configuration) *Graph {
	g := &Graph{Name: c.Name, Kinds: kindsOf(m)}
	layers := m.runs()
	sent := int64(0)                    // what the layer before the stage sends for one sample
	first := make([]int, len(c.Stages)) // the first vertex of each stage
	for s := range c.Stages {
		st := &c.Stages[s]
		var own []run
		own, layers = split(layers, st.Layers)
		first[s] = len(g.Vertices)
		replicas, tensor := int(one(st.Replicas)), int(one(st.Tensor))
		g.stages = append(g.stages, g.stageOf(m, c, s, own))
		for r := range replicas {
			for q := range tensor {
				g.Vertices = append(g.Vertices, Vertex{s, r, q})
			}
		}
		var parameters, tensorBytes int64
		for _, r := range own {
			parameters = saturating.Add(parameters, saturating.Mul(r.layers, r.of.Parameters))
			tensorBytes = saturating.Add(tensorBytes, saturating.Mul(r.layers, r.of.tensorBytes()))
		}
		perReplica := c.Samples / int64(replicas)
		for r := range replicas {
			g.addRing(members(first[s]+r*tensor, 1, tensor), saturating.Mul(tensorBytes, perReplica))
		}
		for q := range tensor {
			g.addRing(members(first[s]+q, tensor, replicas),
				saturating.Mul(parameters, m.gradientBytes())/int64(tensor))
		}
		if s > 0 {
			g.addFlows(c, s, first[s-1], first[s], sent)
		}
		sent = own[len(own)-1].of.ActivationBytes
	}
	g.finish()
	return g
}

// stageOf is what the vertices of a stage compute and keep.
func (g *Graph) stageOf(m *Model, c *Configuration, s int, own []run) builtStage {
	st := &c.Stages[s]
	replicas, tensor, parts := one(st.Replicas), one(st.Tensor), one(c.MicroBatches)
	b := builtStage{computeUs: make([]int64, len(g.Kinds))}
	var parameters, stored int64
	ns := make([]int64, len(g.Kinds))
	for _, r := range own {
		parameters = saturating.Add(parameters, saturating.Mul(r.layers, r.of.Parameters))
		stored = saturating.Add(stored, saturating.Mul(r.layers, r.of.storedBytes()))
		k := 0
		for _, t := range r.of.On { // it has all kinds, and both are sorted
			if k < len(ns) && t.Type == g.Kinds[k] {
				ns[k] = saturating.Add(ns[k], saturating.Mul(r.layers, saturating.Add(t.ForwardNs, t.BackwardNs)))
				k++
			}
		}
	}
	for k := range ns {
		b.computeUs[k] = saturating.MulDivUp(ns[k], c.Samples/replicas, 1000*tensor)
	}
	underWay := min(parts, int64(len(c.Stages)-s))
	b.memoryBytes = saturating.Add(saturating.Mul(parameters, m.stateBytes())/tensor,
		saturating.MulDivUp(saturating.Mul(stored, c.Samples/replicas), underWay, parts*tensor))
	return b
}

// addFlows joins the vertices of two stages: replica i of r has the samples from i/r to (i+1)/r, and sends
// each replica of the next stage the part that is also that one's; the ranks of replicas likewise send and
// take equal parts of an activation.
func (g *Graph) addFlows(c *Configuration, s, from, to int, bytesPerSample int64) {
	a, b := &c.Stages[s-1], &c.Stages[s]
	all := saturating.Mul(bytesPerSample, c.Samples)
	ra, ta, rb, tb := one(a.Replicas), one(a.Tensor), one(b.Replicas), one(b.Tensor)
	for i := range ra {
		for j := range rb {
			for q := range ta {
				for p := range tb {
					part := saturating.MulDivUp(saturating.MulDivUp(all, overlap(i, ra, j, rb), ra*rb),
						overlap(q, ta, p, tb), ta*tb)
					if part > 0 {
						g.addFlow(from+int(i*ta+q), to+int(j*tb+p), part)
					}
				}
			}
		}
	}
}

// overlap is how much of [i/n, (i+1)/n) is in [j/m, (j+1)/m), in 1/(n·m).
func overlap(i, n, j, m int64) int64 { return max(0, min((i+1)*m, (j+1)*n)-max(i*m, j*n)) }

func (g *Graph) addFlow(a, b int, bytes int64) {
	for len(g.flows) < len(g.Vertices) {
		g.flows = append(g.flows, nil)
	}
	g.flows[a] = append(g.flows[a], link{b, bytes})
	g.flows[b] = append(g.flows[b], link{a, bytes})
}

// members are n vertices from first on.
func members(first, step, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = first + i*step
	}
	return all
}

// addRing adds an all-reduce of so many bytes of each member: on a ring of n, each sends 2(n−1)/n of them
// (Patarasuk and Yuan 2009).
func (g *Graph) addRing(of []int, bytes int64) {
	n := int64(len(of))
	if n < 2 || bytes == 0 {
		return
	}
	g.rings = append(g.rings, ring{of, saturating.MulDivUp(bytes, 2*(n-1), n)})
}

// finish makes the edges.
func (g *Graph) finish() {
	n := len(g.Vertices)
	g.links, g.ringsOf = make([][]link, n), make([][]int32, n)
	for len(g.flows) < n {
		g.flows = append(g.flows, nil)
	}
	var all []Edge
	add := func(a, b int, bytes int64) { all = append(all, Edge{min(a, b), max(a, b), bytes}) }
	for a := range g.flows {
		for _, f := range g.flows[a] {
			add(a, f.to, f.bytes)
		}
	}
	for r := range g.rings {
		of := g.rings[r].members
		for i, v := range of {
			g.ringsOf[v] = append(g.ringsOf[v], int32(r))
			add(v, of[(i+1)%len(of)], g.rings[r].bytes)
		}
	}
	slices.SortStableFunc(all, func(x, y Edge) int { return cmp.Or(cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B)) })
	for _, e := range all {
		if last := len(g.Edges) - 1; last >= 0 && g.Edges[last].A == e.A && g.Edges[last].B == e.B {
			g.Edges[last].Bytes = saturating.Add(g.Edges[last].Bytes, e.Bytes)
			continue
		}
		g.Edges = append(g.Edges, e)
	}
	for _, e := range g.Edges {
		g.links[e.A] = append(g.links[e.A], link{e.B, e.Bytes})
		g.links[e.B] = append(g.links[e.B], link{e.A, e.Bytes})
	}
}

// run is equal layers that follow each other.
type run struct {
	of     *Layer
	layers int64
}

// runs lists the layers.
func (m *Model) runs() []run {
	all := make([]run, len(m.Layers))
	for i := range m.Layers {
		all[i] = run{&m.Layers[i], one(m.Layers[i].Count)}
	}
	return all
}

// layers is how many layers there are.
func (m *Model) layers() (n int64) {
	for i := range m.Layers {
		n += one(m.Layers[i].Count)
	}
	return n
}

// split takes the first n layers, of which there are as many, from the others. It does not modify all.
func split(all []run, n int64) (first, rest []run) {
	for i, r := range all {
		if r.layers < n {
			n -= r.layers
			continue
		}
		first = append(slices.Clone(all[:i]), run{r.of, n})
		if rest = all[i+1:]; r.layers > n {
			rest = append([]run{{r.of, r.layers - n}}, rest...)
		}
		break
	}
	return first, rest
}

// kindsOf lists the types on which all layers have times. It takes O(layers · types) for layers that are not equal.
func kindsOf(m *Model) []string {
	var kinds []string
	for _, t := range m.Layers[0].On {
		kinds = append(kinds, t.Type)
	}
	for i := range m.Layers[1:] {
		on, at := m.Layers[1+i].On, 0
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { // both are sorted
			for at < len(on) && on[at].Type < kind {
				at++
			}
			return at == len(on) || on[at].Type != kind
		})
	}
	return kinds
}

func (l *Layer) storedBytes() int64 { return cmp.Or(l.StoredBytes, l.ActivationBytes) }

func (l *Layer) tensorBytes() int64 {
	return cmp.Or(l.TensorBytes, saturating.Mul(4, l.ActivationBytes))
}

func (m *Model) gradientBytes() int64 { return cmp.Or(m.GradientBytes, 2) }

func (m *Model) stateBytes() int64 { return cmp.Or(m.StateBytes, 16) }

// one is n, or 1 where n is left out.
func one(n int64) int64 { return max(1, n) }
