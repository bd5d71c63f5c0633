package jobgraph

import (
	"fmt"
	"slices"
)

// The built-in models. All of it is assumed, from the shapes of the published networks: a multiplication and
// an addition are two operations, the backward pass takes twice the operations of the forward pass, and
// activations are in half precision. Time is operations over the speed that a GPU type reaches.

// reached is the speed that a GPU type is assumed to reach in half precision, in 1e12 operations a second: 40,
// 45 and 31 % of the peaks of 125, 312 and 65 for transformers, and less for convolutions.
var reached = []struct {
	kind                     string
	transformer, convolution int64
}{{"A100", 140, 75}, {"T4", 20, 10}, {"V100", 50, 30}}

// layer is a layer with so many million operations in the forward pass.
func layer(name string, count, megaflop, parameters, activationBytes int64, convolution bool) Layer {
	l := Layer{Name: name, Count: count, Parameters: parameters, ActivationBytes: activationBytes}
	for _, r := range reached {
		speed := r.transformer
		if convolution {
			speed = r.convolution
		}
		ns := megaflop * 1000 / speed // 1e6 / 1e12 s
		l.On = append(l.On, LayerTime{r.kind, ns, 2 * ns})
	}
	return l
}

// transformer is a decoder or an encoder of equal blocks of width h on sequences of s tokens: 12h² + 13h
// parameters and 24sh² + 4s²h operations a block (Narayanan et al. 2021), with the embedding of a vocabulary
// before and, in GPT, the product with it behind the blocks. The two share their parameters, which count at
// the embedding.
func transformer(name string, blocks, h, s, vocabulary int64, head bool) Model {
	m := Model{Name: name, Layers: []Layer{
		layer("embedding", 1, 0, (vocabulary+s)*h, 2*s*h, false),
		layer("block", blocks, (24*s*h*h+4*s*s*h)/1e6, 12*h*h+13*h, 2*s*h, false),
	}}
	if head {
		m.Layers = append(m.Layers, layer("head", 1, 2*s*h*vocabulary/1e6, 0, 0, false))
	}
	return m
}

// Builtin returns the built-in models, in some configurations of data, pipeline and tensor parallelism.
func Builtin() *Document {
	d := &Document{Models: []Model{
		{Name: "resnet-50", Layers: []Layer{ // images of 224 × 224
			layer("stem", 1, 236, 9_536, 1_605_632, true),
			layer("blocks-1", 3, 453, 71_936, 1_605_632, true),
			layer("blocks-2", 4, 520, 304_896, 802_816, true),
			layer("blocks-3", 6, 490, 1_183_061, 401_408, true),
			layer("blocks-4", 3, 540, 4_988_245, 200_704, true),
			layer("classifier", 1, 4, 2_049_000, 2_000, true),
		}},
		{Name: "vgg-19", Layers: []Layer{
			layer("blocks-1", 1, 3_873, 38_720, 1_605_632, true),
			layer("blocks-2", 1, 5_549, 221_440, 802_816, true),
			layer("blocks-3", 1, 12_947, 2_065_408, 401_408, true),
			layer("blocks-4", 1, 12_947, 8_259_584, 200_704, true),
			layer("blocks-5", 1, 3_699, 9_439_232, 50_176, true),
			layer("classifier", 1, 247, 123_642_856, 2_000, true),
		}},
		transformer("bert-large", 24, 1024, 512, 30_522, false),
		transformer("gpt-1.5b", 48, 1600, 1024, 50_257, true),
		transformer("gpt-6.7b", 32, 4096, 2048, 50_257, true),
	}}
	add := func(model string, samples, parts int64, stages, replicas, tensor int64) {
		m := slices.IndexFunc(d.Models, func(m Model) bool { return m.Name == model })
		d.Configurations = append(d.Configurations, Configuration{
			Name: fmt.Sprintf("%s/p%dd%dt%d", model, stages, replicas, tensor), Model: model, Samples: samples,
			MicroBatches: parts, Stages: evenly(d.Models[m].layers(), stages, replicas, tensor)})
	}
	for _, gpus := range []int64{1, 2, 4, 8, 16} {
		add("resnet-50", 64*gpus, 1, 1, gpus, 1)
	}
	for _, gpus := range []int64{1, 2, 4, 8} {
		add("vgg-19", 32*gpus, 1, 1, gpus, 1)
	}
	for _, gpus := range []int64{2, 4, 8} {
		add("bert-large", 8*gpus, 1, 1, gpus, 1)
	}
	add("bert-large", 64, 4, 2, 2, 1)
	add("bert-large", 64, 4, 4, 2, 1)
	add("gpt-1.5b", 32, 8, 4, 2, 1)
	add("gpt-1.5b", 32, 8, 8, 1, 1)
	add("gpt-1.5b", 32, 4, 1, 2, 4)
	add("gpt-1.5b", 64, 8, 4, 4, 1)
	add("gpt-6.7b", 32, 32, 8, 1, 1)
	add("gpt-6.7b", 64, 16, 8, 2, 1)
	add("gpt-6.7b", 64, 32, 4, 2, 2)
	return d
}

// evenly splits layers into stages, whose lengths differ by one at most, the first ones longer.
func evenly(layers, stages, replicas, tensor int64) []Stage {
	var all []Stage
	for s := range stages {
		n := layers / stages
		if s < layers%stages {
			n++
		}
		all = append(all, Stage{Layers: n, Replicas: replicas, Tensor: tensor})
	}
	return all
}
