package jobgraph_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/jobgraph"
)

// Equal layers give the graph that the same layers give one by one, also where a stage ends among them.
func TestEqualLayersAreAsOneByOne(t *testing.T) {
	together := two()
	together.Models[0].Layers[0].Count, together.Models[0].Layers[1].Count = 3, 2
	together.Configurations[0].Stages = []jobgraph.Stage{{Layers: 2}, {Layers: 2}, {Layers: 1}}
	single := *together
	a, b := together.Models[0].Layers[0], together.Models[0].Layers[1]
	a.Count, b.Count = 0, 1
	single.Models = []jobgraph.Model{{Name: "m", Layers: []jobgraph.Layer{a, a, a, b, b}}}
	got, _ := one(t, together, cluster(4))
	want, _ := one(t, &single, cluster(4))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for stage, us := range []int64{2 * 4 * 30, 4 * (30 + 60), 4 * 60} {
		if got.ComputeUs("A", stage) != us {
			t.Errorf("stage %d computes for %d µs, want %d", stage, got.ComputeUs("A", stage), us)
		}
	}
}

// A small document with the most of everything that is counted takes no time: one layer by one took half a minute.
func TestManyEqualLayers(t *testing.T) {
	l := jobgraph.Layer{Count: 10_000}
	for k := range 64 {
		l.On = append(l.On, jobgraph.LayerTime{Type: fmt.Sprintf("A%02d", k), ForwardNs: 1})
	}
	d := &jobgraph.Document{Models: []jobgraph.Model{{Name: "m", Layers: []jobgraph.Layer{l}}}}
	for i := range 256 {
		d.Configurations = append(d.Configurations, jobgraph.Configuration{Name: fmt.Sprint(i), Model: "m", Samples: 1,
			Stages: []jobgraph.Stage{{Layers: 10_000}}})
	}
	c := cluster(4)
	c.Nodes[0].GPUs[0].Type = "A63"
	begin := time.Now()
	graphs, _, err := d.Graphs(c)
	if err != nil || graphs[255].ComputeUs("A63", 0) != 10 {
		t.Fatalf("%v, %v", graphs, err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("took %v for %d bytes", took, len(d.Append(nil)))
	}
}

// What no document says is refused where it is made in Go, too.
func TestRefusesDocumentsMadeInGo(t *testing.T) {
	const huge = math.MaxInt64
	for _, c := range []struct {
		pointer string
		set     func(m *jobgraph.Model, c *jobgraph.Configuration)
	}{
		{"/configurations/0/stages/0/layers", func(_ *jobgraph.Model, c *jobgraph.Configuration) {
			c.Stages[0].Layers, c.Stages[1].Layers = 0, 2
		}},
		{"/configurations/0/stages/1/layers", func(_ *jobgraph.Model, c *jobgraph.Configuration) {
			c.Stages[0].Layers, c.Stages[1].Layers = 3, -1
		}},
		{"/configurations/0/stages/0/replicas", func(_ *jobgraph.Model, c *jobgraph.Configuration) {
			c.Stages[0].Replicas = huge
		}},
		{"/configurations/0/stages/0/tensor", func(_ *jobgraph.Model, c *jobgraph.Configuration) {
			c.Stages[0].Tensor = -1
		}},
		{"/configurations/0/micro_batches", func(_ *jobgraph.Model, c *jobgraph.Configuration) {
			c.MicroBatches = huge
		}},
		{"/configurations/0/samples", func(_ *jobgraph.Model, c *jobgraph.Configuration) { c.Samples = 0 }},
		{"/models/0/layers/1/count", func(m *jobgraph.Model, _ *jobgraph.Configuration) { m.Layers[1].Count = huge }},
		{"/models/0/layers/0/parameters", func(m *jobgraph.Model, _ *jobgraph.Configuration) {
			m.Layers[0].Parameters = -1
		}},
		{"/models/0/layers/0/activation_bytes", func(m *jobgraph.Model, _ *jobgraph.Configuration) {
			m.Layers[0].ActivationBytes = huge
		}},
		{"/models/0/layers/0/stored_bytes", func(m *jobgraph.Model, _ *jobgraph.Configuration) {
			m.Layers[0].StoredBytes = -1
		}},
		{"/models/0/layers/0/tensor_bytes", func(m *jobgraph.Model, _ *jobgraph.Configuration) {
			m.Layers[0].TensorBytes = -1
		}},
		{"/models/0/layers/0/on", func(m *jobgraph.Model, _ *jobgraph.Configuration) { m.Layers[0].On[0].ForwardNs = -1 }},
		{"/models/0/layers/0/on", func(m *jobgraph.Model, _ *jobgraph.Configuration) {
			m.Layers[0].On = append(m.Layers[0].On, m.Layers[0].On[0])
		}},
		{"/models/0/gradient_bytes", func(m *jobgraph.Model, _ *jobgraph.Configuration) { m.GradientBytes = -1 }},
		{"/models/0/state_bytes", func(m *jobgraph.Model, _ *jobgraph.Configuration) { m.StateBytes = 257 }},
		{"/models/0/layers", func(m *jobgraph.Model, _ *jobgraph.Configuration) { m.Layers = nil }},
	} {
		d := two()
		c.set(&d.Models[0], &d.Configurations[0])
		_, _, err := d.Graphs(cluster(4, 4))
		var found hare.InvalidErrors
		if !errors.As(err, &found) || len(found) != 1 || found[0].Pointer != c.pointer {
			t.Errorf("%s: %v", c.pointer, err)
		}
	}
}
