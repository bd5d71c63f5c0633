package jobgraph_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/jobgraph"
	"github.com/hare-sched/hare/wire"
)

// cluster has nodes of so many GPUs of type A, with 100 bytes a microsecond inside them and 10 between them.
func cluster(nodes ...int) *hare.Cluster {
	c := &hare.Cluster{Bandwidths: []hare.LevelBandwidth{{Level: "any", Mbps: 80}, {Level: "node", Mbps: 800}}}
	for i, n := range nodes {
		c.Nodes = append(c.Nodes, hare.Node{Name: fmt.Sprint("n", i), GPUs: []hare.TypeCount{{Type: "A", Count: n}}})
	}
	return c
}

func servers(c *hare.Cluster) (all []jobgraph.Server) {
	for i, n := range c.Nodes {
		all = append(all, jobgraph.Server{Node: i, Free: n.GPUs[0].Count})
	}
	return all
}

func on(forwardUs, backwardUs int64) []jobgraph.LayerTime {
	return []jobgraph.LayerTime{{Type: "A", ForwardNs: forwardUs * 1000, BackwardNs: backwardUs * 1000}}
}

// two is a model of two layers in two stages of two replicas, with two samples each.
func two() *jobgraph.Document {
	return &jobgraph.Document{
		Models: []jobgraph.Model{{Name: "m", Layers: []jobgraph.Layer{
			{Parameters: 1000, ActivationBytes: 500, On: on(10, 20)}, {Parameters: 4000, On: on(20, 40)}}}},
		Configurations: []jobgraph.Configuration{{Name: "c", Model: "m", Samples: 4,
			Stages: []jobgraph.Stage{{Layers: 1, Replicas: 2}, {Layers: 1, Replicas: 2}}}},
	}
}

func one(t *testing.T, d *jobgraph.Document, c *hare.Cluster) (*jobgraph.Graph, *jobgraph.Network) {
	t.Helper()
	graphs, net, err := d.Graphs(c)
	if err != nil {
		t.Fatal(err)
	}
	return graphs[0], net
}

// A replica of the first stage computes for 2 × 30 µs and sends 2 × 500 B, and its all-reduce is of 2,000 B;
// one of the second computes for 2 × 60 µs and has an all-reduce of 8,000 B. 100 B take 1 µs inside a node
// and 10 µs between two.
func TestIterationByHand(t *testing.T) {
	g, net := one(t, two(), cluster(4, 4))
	if want := "[{0 1 4000} {0 2 2000} {1 3 2000} {2 3 16000}]"; fmt.Sprint(g.Edges) != want {
		t.Errorf("edges %v, want %s", g.Edges, want)
	}
	for _, c := range []struct {
		nodes []int
		want  int64
	}{
		{[]int{0, 0, 0, 0}, 120 + 10 + 80},
		{[]int{0, 0, 1, 1}, 120 + 100 + 80},
		{[]int{0, 1, 0, 1}, 120 + 10 + 800},
		{[]int{0, 1, 1, 0}, 120 + 100 + 800},
	} {
		if got := g.IterationUs("A", c.nodes, net); got != c.want {
			t.Errorf("%v: %d µs, want %d", c.nodes, got, c.want)
		}
	}
	if least, most := g.LeastUs("A", net), g.MostUs("A", net); least != 210 || most != 1020 {
		t.Errorf("least %d, most %d", least, most)
	}
	if got := g.IterationUs("B", []int{0, 0, 0, 0}, net); got != 0 {
		t.Errorf("a type without times takes %d µs", got)
	}
	if got := g.MemoryBytes(1); got != 64_000 {
		t.Errorf("the second stage needs %d bytes", got)
	}
	if got := fmt.Sprint(g.HeavyEdge([]jobgraph.Server{{Node: 0, Free: 2}, {Node: 1, Free: 2}})); got != "[1 1 0 0]" {
		t.Errorf("placed on %s", got)
	}
	if got := fmt.Sprint(g.FirstFit([]jobgraph.Server{{Node: 0, Free: 1}, {Node: 1, Free: 3}})); got != "[0 1 1 1]" {
		t.Errorf("first fit on %s", got)
	}
	three := []jobgraph.Server{{Node: 0, Free: 3}}
	if g.HeavyEdge(three) != nil || g.FirstFit(three) != nil {
		t.Error("four vertices fit on three GPUs")
	}
}

// Tensor parallelism divides compute, memory and what each rank sends, and adds an all-reduce of activations:
// 1 sample, 2 layers of 100 µs and 600 B, 2 ranks each: 50 + 50 µs, 2 × 2,400 B on a ring of two, once each way.
func TestTensorParallelByHand(t *testing.T) {
	d := two()
	d.Models[0].Layers = []jobgraph.Layer{{Count: 2, Parameters: 100, ActivationBytes: 600, On: on(40, 60)}}
	d.Configurations[0] = jobgraph.Configuration{Name: "c", Model: "m", Samples: 1, Stages: []jobgraph.Stage{
		{Layers: 2, Tensor: 2}}}
	g, net := one(t, d, cluster(2, 2))
	if got := g.IterationUs("A", []int{0, 0}, net); got != 100+48 {
		t.Errorf("%d µs", got)
	}
	if got := g.MemoryBytes(0); got != 100*2*16/2+2*600/2 {
		t.Errorf("%d bytes", got)
	}
}

// Stages with other numbers of replicas exchange what they have of the same samples: of 6, the first of two
// replicas has 3, which are the 2 of the first and 1 of the second of three.
func TestUnlikeReplicasShareSamples(t *testing.T) {
	d := two()
	d.Configurations[0].Samples = 6
	d.Configurations[0].Stages[1].Replicas = 3
	g, _ := one(t, d, cluster(4, 4))
	var got []string
	for _, e := range g.Edges {
		if g.Vertices[e.A].Stage != g.Vertices[e.B].Stage {
			got = append(got, fmt.Sprint(e))
		}
	}
	if want := "{0 2 2000} {0 3 1000} {1 3 1000} {1 4 2000}"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// random is a graph of at most seven vertices with random stages, times and bytes.
func random(rng *rand.Rand) *jobgraph.Document {
	d := &jobgraph.Document{Models: []jobgraph.Model{{Name: "m"}}}
	c := jobgraph.Configuration{Name: "c", Model: "m", Samples: 12}
	left := 3 + rng.IntN(5)
	for s := 0; left > 0 && s < 4; s++ {
		st := jobgraph.Stage{Layers: 1, Replicas: int64(1 + rng.IntN(min(left, 4))), Tensor: 1}
		if left >= 2*int(st.Replicas) && rng.IntN(4) == 0 {
			st.Tensor = 2
		}
		left -= int(st.Replicas * st.Tensor)
		c.Stages = append(c.Stages, st)
		d.Models[0].Layers = append(d.Models[0].Layers, jobgraph.Layer{Parameters: 1 + rng.Int64N(20_000),
			ActivationBytes: 1 + rng.Int64N(2_000), TensorBytes: 1 + rng.Int64N(4_000), On: on(rng.Int64N(20),
				rng.Int64N(40))})
	}
	d.Configurations = []jobgraph.Configuration{c}
	return d
}

var graphs = flag.Int("hare.graphs", 300, "random graphs of TestHeavyEdgeLoss")

// Heavy-Edge and first fit beside the best placement on random graphs and servers. No placement is below
// LeastUs or above MostUs. The figures of docs/lab/experiments.md are what -v prints.
func TestHeavyEdgeLoss(t *testing.T) {
	var heavy, first []float64
	for seed := range uint64(*graphs) {
		rng := rand.New(rand.NewPCG(seed, 0x6865617679))
		d := random(rng)
		c := cluster(4, 4, 4, 4)
		g, net := one(t, d, c)
		var free []jobgraph.Server
		for sum := 0; sum < g.GPUs(); {
			free, sum = nil, 0
			for n := range c.Nodes {
				free = append(free, jobgraph.Server{Node: n, Free: rng.IntN(5)})
				sum += free[n].Free
			}
		}
		oracle, best := g.Best("A", free, net)
		us := func(nodes []int) int64 {
			used := map[int]int{}
			for _, n := range nodes {
				used[n]++
			}
			for _, s := range free {
				if used[s.Node] > s.Free {
					t.Fatalf("seed %d: %v is not free on %v", seed, nodes, free)
				}
			}
			return g.IterationUs("A", nodes, net)
		}
		if n := us(oracle); n != best {
			t.Errorf("seed %d: the best placement takes %d, and is said to take %d", seed, n, best)
		}
		h, f := us(g.HeavyEdge(free)), us(g.FirstFit(free))
		if least, most := g.LeastUs("A", net), g.MostUs("A", net); best < least || h < best || f < best || h > most ||
			f > most {
			t.Errorf("seed %d: least %d, best %d, heavy %d, first %d, most %d", seed, least, best, h, f, most)
		}
		heavy, first = append(heavy, float64(h)/float64(best)), append(first, float64(f)/float64(best))
	}
	slices.Sort(heavy)
	slices.Sort(first)
	for _, x := range []struct {
		name  string
		ratio []float64
	}{{"Heavy-Edge", heavy}, {"first fit", first}} {
		mean, optimal, n := 0., 0, len(x.ratio)
		for _, r := range x.ratio {
			mean += r / float64(n)
			if r == 1 {
				optimal++
			}
		}
		t.Logf("%s: best on %d of %d graphs, median %.3f, mean %.3f, p95 %.3f, worst %.3f", x.name, optimal, n,
			x.ratio[n/2], mean, x.ratio[int(math.Ceil(.95*float64(n)))-1], x.ratio[n-1])
	}
	if heavy[len(heavy)/2] > first[len(first)/2] {
		t.Error("Heavy-Edge is worse than first fit")
	}
}

// On empty nodes α of Heavy-Edge is α_min where one node has room, and at least the best elsewhere.
func TestConsolidatedIsBestOnOneNode(t *testing.T) {
	for seed := range uint64(100) {
		g, net := one(t, random(rand.New(rand.NewPCG(seed, 1))), cluster(8, 8))
		all := servers(cluster(8, 8))
		if got := g.IterationUs("A", g.HeavyEdge(all), net); got != g.LeastUs("A", net) {
			t.Errorf("seed %d: %d, least %d", seed, got, g.LeastUs("A", net))
		}
	}
}

func TestRefusals(t *testing.T) {
	const head = `{"hare": "job-graphs/v1", "models": [{"name": "m", "layers": [{"count": 2, "parameters": 4000000000, ` +
		`"activation_bytes": 10, "on": {"A": {"forward_us": 1.5, "backward_us": 3}}}]}], "configurations": [`
	for _, c := range []struct{ name, text, want string }{
		{"no stages", head + `{"name": "c", "model": "m", "samples": 4, "stages": []}]}`,
			"/configurations/0/stages: the stages have 0 layers together"},
		{"unknown model", head + `{"name": "c", "model": "n", "samples": 4, "stages": [{"layers": 2}]}]}`,
			"/configurations/0/model: there is no model \"n\""},
		{"unknown field", head + `{"name": "c", "model": "m", "sample": 4, "stages": [{"layers": 2}]}]}`,
			"/configurations/0/sample: unknown field"},
		{"uneven", head + `{"name": "c", "model": "m", "samples": 4, "stages": [{"layers": 2, "replicas": 3}]}]}`,
			"/configurations/0/stages/0/replicas: 4 samples cannot be shared evenly"},
		{"no memory", head + `{"name": "c", "model": "m", "samples": 4, "stages": [{"layers": 1}, {"layers": 1}]}]}`,
			"/configurations/0/stages/0: a GPU of the stage needs 59.605 GiB, and the largest has 40"},
		{"too wide", head + `{"name": "c", "model": "m", "samples": 512, "stages": [{"layers": 1, "replicas": 256}, ` +
			`{"layers": 1}]}]}`, "/configurations/0/stages: the stages take 257 GPUs: at most 256 are allowed"},
		{"other form", strings.Replace(head, "job-graphs/v1", "v2", 1) + `]}`, "/hare"},
		{"twice", head + `{"name": "c", "model": "m", "samples": 4, "stages": [{"layers": 2, "tensor": 4}]}, ` +
			`{"name": "c", "model": "m", "samples": 4, "stages": [{"layers": 2, "tensor": 4}]}]}`, "/configurations/1/name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := jobgraph.Read(strings.NewReader(c.text), wire.Limits{})
			if err == nil {
				cl := cluster(4)
				cl.GPUTypes = []hare.GPUType{{Type: "A", MemoryMilliGiB: 40_000}}
				_, _, err = d.Graphs(cl)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	d := two()
	if _, _, err := d.Graphs(&hare.Cluster{}); err == nil || !strings.Contains(err.Error(), "/cluster/bandwidth_gbps") {
		t.Errorf("no bandwidth: %v", err)
	}
	c := cluster(4)
	c.Nodes[0].GPUs[0].Type = "B"
	if _, _, err := d.Graphs(c); err == nil || !strings.Contains(err.Error(), "/configurations/0/model") {
		t.Errorf("no type: %v", err)
	}
}

// The built-in document is read as it is written, and its configurations fit GPUs of 32 GiB.
func TestBuiltin(t *testing.T) {
	text := jobgraph.Builtin().Append(nil)
	d, err := jobgraph.Read(strings.NewReader(string(text)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if again := d.Append(nil); string(again) != string(text) {
		t.Error("the document is not read as it is written")
	}
	c := &hare.Cluster{GPUTypes: []hare.GPUType{{Type: "V100", MemoryMilliGiB: 32_000}},
		Bandwidths: []hare.LevelBandwidth{{Level: "any", Mbps: 25_000}, {Level: "node", Mbps: 300_000}},
		Nodes:      []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 16}}}}}
	all, net, err := d.Graphs(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		least, most := g.LeastUs("V100", net), g.MostUs("V100", net)
		t.Logf("%-20s %2d GPUs  α %9.3f to %9.3f ms  %5.2f ×  %5.2f GiB", g.Name, g.GPUs(), float64(least)/1e3,
			float64(most)/1e3, float64(most)/float64(least), float64(g.MemoryBytes(0))/(1<<30))
		if g.GPUs() == 1 && least != most || least <= 0 || least > most {
			t.Errorf("%s: α from %d to %d µs", g.Name, least, most)
		}
	}
}

// FuzzRead reads what may not be a document; what is read can be written, read again and made into graphs.
func FuzzRead(f *testing.F) {
	f.Add(jobgraph.Builtin().Append(nil))
	f.Add(two().Append(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := jobgraph.Read(strings.NewReader(string(text)), wire.Limits{})
		if err != nil {
			return
		}
		if _, err := jobgraph.Read(strings.NewReader(string(d.Append(nil))), wire.Limits{}); err != nil {
			t.Errorf("what was written is refused: %v", err)
		}
		if graphs, net, err := d.Graphs(cluster(4)); err == nil {
			for _, g := range graphs {
				if g.LeastUs("A", net) > g.MostUs("A", net) {
					t.Errorf("%s takes longer at best than at worst", g.Name)
				}
			}
		}
	})
}

func Example() {
	d := jobgraph.Builtin()
	graphs, net, err := d.Graphs(&hare.Cluster{
		Bandwidths: []hare.LevelBandwidth{{Level: "any", Mbps: 25_000}, {Level: "node", Mbps: 300_000}},
		Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 4}}},
			{Name: "b", GPUs: []hare.TypeCount{{Type: "V100", Count: 4}}}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range graphs {
		if g.Name != "gpt-1.5b/p4d2t1" {
			continue
		}
		nodes := g.HeavyEdge([]jobgraph.Server{{Node: 0, Free: 4}, {Node: 1, Free: 4}})
		fmt.Println(nodes, g.IterationUs("V100", nodes, net), "µs")
		spread := []int{0, 1, 0, 1, 0, 1, 0, 1}
		fmt.Println(spread, g.IterationUs("V100", spread, net), "µs")
	}
	// Output:
	// [0 0 0 0 1 1 1 1] 912769 µs
	// [0 1 0 1 0 1 0 1] 1127482 µs
}
