package jobgraph

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/saturating"
	"github.com/hare-sched/hare/wire"
)

// DocumentForm is the value of "hare" in documents of job graphs.
const DocumentForm = "job-graphs/v1"

// Limits of a document.
const (
	maxModels         = 256
	maxConfigurations = 256
	maxLayers         = 10_000 // of a model, each of several like ones counted
	maxGPUs           = 256    // of a configuration
	maxTypes          = 64     // of a layer
	maxBytes          = 1 << 50
	maxSamples        = 1 << 24
)

// Form is what a specification says of documents.
var Form wire.Form = documentTable

// document is what documentTable reads.
type document struct {
	Document
	form string
}

var documentTable = wire.NewTable("JobGraphs",
	"JobGraphs says how neural networks are trained on several GPUs.",
	wire.OneOf("hare", func(d *document) *string { return &d.form }, DocumentForm).
		Required(`start with "hare": "`+DocumentForm+`"`),
	wire.Objects("models", func(d *document) *[]Model { return &d.Models }, modelTable).
		Required("give an array of models"),
	wire.Objects("configurations", func(d *document) *[]Configuration { return &d.Configurations }, configurationTable).
		Required("give an array of configurations of the models"),
).Check(func(d *document, _ wire.Members, found *hare.InvalidErrors) { d.check(found) })

const giveName = "give a name that no other has"

var modelTable = wire.NewTable("JobGraphModel", "JobGraphModel is a neural network as a chain of layers.",
	wire.String("name", func(m *Model) *string { return &m.Name }).Required(giveName),
	wire.Objects("layers", func(m *Model) *[]Layer { return &m.Layers }, layerTable).Required("give an array of layers"),
	wire.Integer("gradient_bytes", func(m *Model) *int64 { return &m.GradientBytes }, 1, 64).Default(2).
		About("gradient_bytes are all-reduced for each parameter."),
	wire.Integer("state_bytes", func(m *Model) *int64 { return &m.StateBytes }, 1, 256).Default(16).
		About("state_bytes are kept on a GPU for each parameter."),
)

var layerTable = wire.NewTable("JobGraphLayer",
	"JobGraphLayer is a layer, or several equal ones. Times and bytes are for one sample.",
	wire.String("name", func(l *Layer) *string { return &l.Name }),
	wire.Integer("count", func(l *Layer) *int64 { return &l.Count }, 1, maxLayers).Default(1).
		About("count is how many such layers follow each other."),
	wire.Integer("parameters", func(l *Layer) *int64 { return &l.Parameters }, 0, maxBytes).
		About("parameters of one layer."),
	wire.Integer("activation_bytes", func(l *Layer) *int64 { return &l.ActivationBytes }, 0, maxBytes).
		About("activation_bytes go to the next layer, and as many bytes of gradients come back."),
	wire.Integer("stored_bytes", func(l *Layer) *int64 { return &l.StoredBytes }, 0, maxBytes).
		About("stored_bytes are kept from the forward to the backward pass; left out: activation_bytes."),
	wire.Integer("tensor_bytes", func(l *Layer) *int64 { return &l.TensorBytes }, 0, maxBytes).
		About("tensor_bytes are all-reduced between the ranks of a tensor-parallel replica; left out: four times "+
			"activation_bytes."),
	wire.NewField("on", wire.MapOf(wire.RefTo(timeTable)), readTimes, writeTimes).
		Required(`give the times by GPU type, e.g. {"V100": {"forward_us": 80, "backward_us": 160}}`),
)

var timeTable = wire.NewTable("JobGraphTime", "JobGraphTime is how long a layer takes on a GPU type for one sample.",
	wire.Millis("forward_us", func(t *LayerTime) *int64 { return &t.ForwardNs }, 0, maxBytes).
		Required("give microseconds, with at most three decimals").
		About("forward_us is in microseconds, with at most three decimals."),
	wire.Millis("backward_us", func(t *LayerTime) *int64 { return &t.BackwardNs }, 0, maxBytes).
		Required("give microseconds, with at most three decimals"),
)

func readTimes(r *wire.Reader, l *Layer) error {
	err := r.Object(nil, func(kind string) (bool, error) {
		if len(l.On) == maxTypes {
			return true, errors.Join(r.Skip(), r.Fault("too_many", "a layer has times on at most %d GPU types", maxTypes))
		}
		t := LayerTime{Type: kind}
		err := timeTable.Read(r, &t)
		l.On = append(l.On, t)
		return true, err
	})
	slices.SortFunc(l.On, func(a, b LayerTime) int { return cmp.Compare(a.Type, b.Type) })
	return err
}

func writeTimes(b []byte, l *Layer) []byte {
	return wire.AppendMap(b, l.On, func(t *LayerTime) string { return t.Type },
		func(b []byte, t *LayerTime) []byte { return timeTable.Append(b, t) })
}

var configurationTable = wire.NewTable("JobGraphConfiguration",
	"JobGraphConfiguration says how a model is trained.",
	wire.String("name", func(c *Configuration) *string { return &c.Name }).Required(giveName),
	wire.String("model", func(c *Configuration) *string { return &c.Model }).Required("name one of the models"),
	wire.Integer("samples", func(c *Configuration) *int64 { return &c.Samples }, 1, maxSamples).
		Required("give the samples of an iteration, the global batch"),
	wire.Integer("micro_batches", func(c *Configuration) *int64 { return &c.MicroBatches }, 1, maxSamples).Default(1).
		About("micro_batches are the parts in which the samples of a replica go through the pipeline."),
	wire.Objects("stages", func(c *Configuration) *[]Stage { return &c.Stages }, stageTable).
		Required("give the stages of the pipeline, one for data parallelism alone"),
)

var stageTable = wire.NewTable("JobGraphStage", "JobGraphStage is consecutive layers of a model.",
	wire.Integer("layers", func(s *Stage) *int64 { return &s.Layers }, 1, maxLayers).Required("give a number of layers"),
	wire.Integer("replicas", func(s *Stage) *int64 { return &s.Replicas }, 1, maxGPUs).Default(1).
		About("replicas share the samples."),
	wire.Integer("tensor", func(s *Stage) *int64 { return &s.Tensor }, 1, maxGPUs).Default(1).
		About("tensor is how many GPUs share each layer of a replica."),
)

// Read reads a document strictly. Errors are hare.InvalidErrors with pointers, or those of r.
func Read(r io.Reader, lim wire.Limits) (*Document, error) {
	var d document
	if err := documentTable.Decode(wire.NewReader(r, lim), &d); err != nil {
		return nil, err
	}
	return &d.Document, nil
}

// ReadPart reads a document that stands at a pointer of another one.
func ReadPart(text []byte, pointer string) (*Document, error) {
	var d document
	if err := documentTable.Decode(wire.NewPartReader(text, pointer), &d); err != nil {
		return nil, err
	}
	return &d.Document, nil
}

// Append appends the document as Read reads it.
func (d *Document) Append(b []byte) []byte {
	return documentTable.Append(b, &document{*d, DocumentForm})
}

// check finds what is wrong with a document beyond the forms of its fields.
func (d *Document) check(found *hare.InvalidErrors) {
	if len(d.Models) > maxModels {
		found.Add("/models", "too_many", "has %d models: at most %d are allowed", len(d.Models), maxModels)
		return
	}
	if len(d.Configurations) > maxConfigurations {
		found.Add("/configurations", "too_many", "has %d configurations: at most %d are allowed", len(d.Configurations),
			maxConfigurations)
		return
	}
	names := map[string]bool{}
	layers := map[string]int64{}
	for i := range d.Models {
		m, at := &d.Models[i], fmt.Sprintf("/models/%d", i)
		if m.Name == "" || names[m.Name] {
			found.Add(at+"/name", "duplicate_id", "%q is empty or another model's: %s", hare.Clip(m.Name), giveName)
		}
		names[m.Name] = true
		if !checkModel(at, m, found) {
			continue
		}
		n := m.layers()
		switch {
		case n == 0 || n > maxLayers:
			found.Add(at+"/layers", "out_of_range", "a model has 1 to %d layers, not %d", maxLayers, n)
		case len(kindsOf(m)) == 0:
			found.Add(at+"/layers", "missing_field", "no GPU type has times for all layers: give \"on\" of each layer the "+
				"same types")
		default:
			layers[m.Name] = n
		}
	}
	clear(names)
	for i := range d.Configurations {
		c, at := &d.Configurations[i], fmt.Sprintf("/configurations/%d", i)
		if c.Name == "" || names[c.Name] {
			found.Add(at+"/name", "duplicate_id", "%q is empty or another configuration's: %s", hare.Clip(c.Name), giveName)
		}
		names[c.Name] = true
		n, known := layers[c.Model]
		if !known {
			if !slices.ContainsFunc(d.Models, func(m Model) bool { return m.Name == c.Model }) {
				found.Add(at+"/model", "unknown_model", "there is no model %q in /models", hare.Clip(c.Model))
			}
			continue
		}
		c.checkStages(at, n, found)
	}
}

// checkRange finds a number that no document may have: documents made in Go were not read field by field.
func checkRange(pointer string, n, least, most int64, found *hare.InvalidErrors) bool {
	if n < least || n > most {
		found.Add(pointer, "out_of_range", "is %d: it must be from %d to %d", n, least, most)
		return false
	}
	return true
}

// checkModel finds numbers of a model that are out of range, and times that are not sorted.
func checkModel(at string, m *Model, found *hare.InvalidErrors) bool {
	ok := checkRange(at+"/gradient_bytes", m.GradientBytes, 0, 64, found)
	ok = checkRange(at+"/state_bytes", m.StateBytes, 0, 256, found) && ok
	if len(m.Layers) > maxLayers {
		found.Add(at+"/layers", "out_of_range", "a model has 1 to %d layers, not %d", maxLayers, len(m.Layers))
		return false
	}
	for k := range m.Layers {
		l, layer := &m.Layers[k], fmt.Sprintf("%s/layers/%d", at, k)
		ok = checkRange(layer+"/count", l.Count, 0, maxLayers, found) && ok
		ok = checkRange(layer+"/parameters", l.Parameters, 0, maxBytes, found) && ok
		ok = checkRange(layer+"/activation_bytes", l.ActivationBytes, 0, maxBytes, found) && ok
		ok = checkRange(layer+"/stored_bytes", l.StoredBytes, 0, maxBytes, found) && ok
		ok = checkRange(layer+"/tensor_bytes", l.TensorBytes, 0, maxBytes, found) && ok
		for i, t := range l.On {
			ok = checkRange(layer+"/on", t.ForwardNs, 0, maxBytes, found) &&
				checkRange(layer+"/on", t.BackwardNs, 0, maxBytes, found) && ok
			if i > 0 && l.On[i-1].Type >= t.Type {
				found.Add(layer+"/on", "bad_value", "the times are not sorted by GPU type, each once")
				ok = false
			}
		}
	}
	return ok
}

func (c *Configuration) checkStages(at string, layers int64, found *hare.InvalidErrors) {
	ok := checkRange(at+"/samples", c.Samples, 1, maxSamples, found)
	ok = checkRange(at+"/micro_batches", c.MicroBatches, 0, maxSamples, found) && ok
	at += "/stages"
	for s := range c.Stages {
		st, stage := &c.Stages[s], fmt.Sprintf("%s/%d", at, s)
		ok = checkRange(stage+"/layers", st.Layers, 1, maxLayers, found) && ok
		ok = checkRange(stage+"/replicas", st.Replicas, 0, maxGPUs, found) && ok
		ok = checkRange(stage+"/tensor", st.Tensor, 0, maxGPUs, found) && ok
	}
	if !ok {
		return
	}
	sum, gpus := int64(0), int64(0)
	for s := range c.Stages {
		st := &c.Stages[s]
		sum += st.Layers
		gpus += one(st.Replicas) * one(st.Tensor)
		if parts := one(st.Replicas) * one(c.MicroBatches); c.Samples%parts != 0 {
			found.Add(fmt.Sprintf("%s/%d/replicas", at, s), "not_a_multiple", "%d samples cannot be shared evenly by %d "+
				"replicas × %d micro-batches", c.Samples, one(st.Replicas), one(c.MicroBatches))
		}
	}
	switch {
	case sum != layers:
		found.Add(at, "bad_value", "the stages have %d layers together, and model %q has %d", sum, hare.Clip(c.Model),
			layers)
	case gpus > maxGPUs:
		found.Add(at, "too_large", "the stages take %d GPUs: at most %d are allowed", gpus, maxGPUs)
	}
}

// Graphs makes the graphs of all configurations for a cluster. A stage that fits no GPU type of its
// configuration is refused with a pointer, and so are configurations of which no GPU type is in the cluster,
// and clusters without bandwidths. The graph of a configuration keeps the types that have memory for all
// stages. A memory that the cluster does not say is enough.
func (d *Document) Graphs(c *hare.Cluster) ([]*Graph, *Network, error) {
	var found hare.InvalidErrors
	d.check(&found)
	if len(found) > 0 {
		return nil, nil, found
	}
	net, err := NewNetwork(c)
	if err != nil {
		return nil, nil, err
	}
	var there []string
	for _, n := range c.Nodes {
		for _, g := range n.GPUs {
			there = append(there, g.Type)
		}
	}
	var all []*Graph
	for i := range d.Configurations {
		cfg := &d.Configurations[i]
		m := slices.IndexFunc(d.Models, func(m Model) bool { return m.Name == cfg.Model })
		g := build(&d.Models[m], cfg)
		at := fmt.Sprintf("/configurations/%d", i)
		if !slices.ContainsFunc(g.Kinds, func(k string) bool { return slices.Contains(there, k) }) {
			found.Add(at+"/model", "unknown_type", "model %q has times on %v, and the cluster has none of these types",
				hare.Clip(cfg.Model), g.Kinds)
			continue
		}
		if s := g.tooLarge(c, there); s >= 0 {
			found.Add(fmt.Sprintf("%s/stages/%d", at, s), "no_memory", "a GPU of the stage needs %s GiB, and the largest has "+
				"%s: give the stage fewer layers, or more replicas, tensor or micro_batches", gib(g.stages[s].memoryBytes),
				hare.FormatMillis(g.largest(c, there)))
			continue
		}
		g.keep(func(k string) bool { return g.fits(k, c) })
		all = append(all, g)
	}
	if len(found) > 0 {
		return nil, nil, found
	}
	return all, net, nil
}

// tooLarge is the first stage that fits no type of the graph that is there, or, where no type fits all stages,
// the one that needs most; −1 where some type fits all.
func (g *Graph) tooLarge(c *hare.Cluster, there []string) int {
	for s := range g.stages {
		if !slices.ContainsFunc(g.Kinds, func(k string) bool { return slices.Contains(there, k) && g.stageFits(s, k, c) }) {
			return s
		}
	}
	if slices.ContainsFunc(g.Kinds, func(k string) bool { return slices.Contains(there, k) && g.fits(k, c) }) {
		return -1
	}
	most := 0
	for s := range g.stages {
		if g.stages[s].memoryBytes > g.stages[most].memoryBytes {
			most = s
		}
	}
	return most
}

func (g *Graph) largest(c *hare.Cluster, there []string) (milliGiB int64) {
	for _, k := range g.Kinds {
		if slices.Contains(there, k) {
			milliGiB = max(milliGiB, c.GPUMemoryMilliGiB(k))
		}
	}
	return milliGiB
}

// fits reports whether a GPU of a type has memory for each stage. A memory that is not known is enough.
func (g *Graph) fits(kind string, c *hare.Cluster) bool {
	for s := range g.stages {
		if !g.stageFits(s, kind, c) {
			return false
		}
	}
	return true
}

func (g *Graph) stageFits(stage int, kind string, c *hare.Cluster) bool {
	has := c.GPUMemoryMilliGiB(kind)
	return has == 0 || g.stages[stage].memoryBytes <= saturating.MulDivUp(has, 1<<30, 1000)
}

// keep keeps the times on some types.
func (g *Graph) keep(of func(kind string) bool) {
	var kinds []string
	times := make([][]int64, len(g.stages))
	for k, kind := range g.Kinds {
		if of(kind) {
			kinds = append(kinds, kind)
			for s := range g.stages {
				times[s] = append(times[s], g.stages[s].computeUs[k])
			}
		}
	}
	g.Kinds = kinds
	for s := range g.stages {
		g.stages[s].computeUs = times[s]
	}
}

// gib writes bytes in GiB, rounded up to three decimals.
func gib(bytes int64) string {
	whole, rest := bytes>>30, bytes&(1<<30-1)
	return hare.FormatMillis(whole*1000 + (rest*1000+1<<30-1)>>30)
}
