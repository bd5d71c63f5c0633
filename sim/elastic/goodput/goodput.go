// Package goodput is Pollux's model of how fast a job trains: the throughput of synchronous
// data-parallel steps with accumulated gradients, times the statistical efficiency of their
// batch. Model.Best chooses the batch of a job for given GPUs, and Fit fits the throughput to
// measured steps.
//
// Source: Pollux (OSDI 2021), sections 3 and 4.1, and its simulator (petuum/adaptdl, branch
// osdi21-artifact, commit c793c70) where the paper leaves a choice open [V].
package goodput

import "math"

// Params describe how long a step takes. A pass of b samples on each GPU computes for
// ComputeS + SampleS · b seconds. Gradients are exchanged once in a step, for
//
//	NodesS + NodesGPUS · (gpus − 2)   on several nodes
//	LocalS + LocalGPUS · (gpus − 2)   on several GPUs of one node
//
// seconds, and for no time on one GPU. The last pass overlaps with the exchange: with the
// times c and x they take (c^Overlap + x^Overlap)^(1/Overlap) together. Overlap is at least 1
// (no overlap); the greater, the closer is the time to the longer of the two.
type Params struct {
	ComputeS, SampleS float64
	NodesS, NodesGPUS float64
	LocalS, LocalGPUS float64
	Overlap           float64
}

// PassS is how long a pass of local samples computes on each GPU.
func (p *Params) PassS(local int) float64 { return p.ComputeS + float64(p.SampleS*float64(local)) }

// ExchangeS is how long gradients are exchanged. Times below least count as least, so that
// their logarithms and powers are finite.
func (p *Params) ExchangeS(nodes, gpus int) float64 {
	further := math.Max(float64(gpus-2), least)
	switch {
	case nodes > 1:
		return p.NodesS + float64(p.NodesGPUS*further)
	case gpus > 1:
		return p.LocalS + float64(p.LocalGPUS*further)
	}
	return least + float64(least*further)
}

// least is the least value of a time in seconds, as in Pollux's simulator.
const least = 1e-8

// overlapS is how long a pass and the exchange of gradients take together.
func (p *Params) overlapS(passS, exchangeS float64) float64 {
	if p.Overlap == 1 {
		return passS + exchangeS
	}
	long, short := math.Max(passS, exchangeS), math.Min(passS, exchangeS)
	return long * math.Pow(1+math.Pow(short/long, p.Overlap), 1/p.Overlap)
}

// StepS is how long a step of passes takes, each of local samples on each of gpus GPUs on
// that many nodes.
func (p *Params) StepS(nodes, gpus, local, passes int) float64 {
	passS := p.PassS(local)
	return float64(float64(passes-1)*passS) + p.overlapS(passS, p.ExchangeS(nodes, gpus))
}

// Noise holds the square and the variance of the gradients of steps of the initial batch.
// Their ratio times the initial batch is the noise scale of the gradients.
type Noise struct{ Sqr, Variance float64 }

// Limits bound batches, in samples.
type Limits struct {
	Init     int // the least batch of a step
	Max      int // the greatest batch of a step
	MinLocal int // the least batch of a pass on one GPU
	MaxLocal int // the greatest batch of a pass on one GPU
}

// Model is the goodput of a job.
type Model struct {
	Params
	Noise  Noise
	Limits Limits
}

// Throughput is the number of samples in a second.
func (m *Model) Throughput(nodes, gpus, local, passes int) float64 {
	return float64(gpus*local*passes) / m.StepS(nodes, gpus, local, passes)
}

// Efficiency is the progress of a sample in a step of batch samples, relative to the progress
// of a sample in a step of Limits.Init samples. With the noise scale φ, the efficiency is
// (φ + Init) / (φ + batch), which is 1 for the initial batch and falls as the batch grows.
func (m *Model) Efficiency(batch int) float64 {
	scale := float64(batch) / float64(m.Limits.Init)
	gain := 1.
	if rest := m.Noise.Variance/scale + m.Noise.Sqr; rest > 0 {
		gain = (m.Noise.Variance + m.Noise.Sqr) / rest
	}
	return gain / scale
}

// Goodput is the product of throughput and efficiency: progress in samples of the initial
// batch in a second.
func (m *Model) Goodput(nodes, gpus, local, passes int) float64 {
	return m.Throughput(nodes, gpus, local, passes) * m.Efficiency(gpus*local*passes)
}

// candidates is the number of batches that Best compares.
const candidates = 50

// Best returns the split of a step over GPUs with the greatest goodput. It compares batches
// from the least that the GPUs allow to Limits.Max, in a geometric row. A batch is split into
// as few passes as MaxLocal allows, and into two passes at least on one GPU if the batch is
// above Init, since the noise of gradients cannot be measured otherwise. Batches of a GPU are
// rounded up, so that the batch of the step can exceed Max by less than passes · gpus; Cap mends
// that where the batch is used, as in Pollux's simulator. Best returns zeros where no batch fits
// the GPUs. nodes must be from 1 to gpus. Best takes O(candidates).
func (m *Model) Best(nodes, gpus int) (goodput float64, local, passes int) {
	lim, n := &m.Limits, float64(gpus)
	if lim.MinLocal*gpus > lim.Max {
		return 0, 0, 0
	}
	first := math.Max(float64(lim.Init), float64(lim.MinLocal*gpus))
	from, to := math.Log10(first), math.Log10(float64(lim.Max))
	exchangeS := m.ExchangeS(nodes, gpus)
	seenLocal, seenPasses := 0, 0
	for i := range candidates {
		batch := math.Pow(10, from+float64(float64(i)*((to-from)/(candidates-1))))
		share := batch / n
		k := int(math.Ceil(share/float64(lim.MaxLocal) - splitSlack))
		if gpus == 1 && share > float64(lim.Init)+splitSlack {
			k = max(k, 2)
		}
		k = max(k, 1)
		b := int(math.Ceil(share/float64(k) - splitSlack))
		if b == seenLocal && k == seenPasses {
			continue
		}
		if seenLocal, seenPasses = b, k; b < lim.MinLocal || b > lim.MaxLocal {
			continue
		}
		passS := m.PassS(b)
		samples := gpus * b * k
		g := float64(samples) / (float64(float64(k-1)*passS) + m.overlapS(passS, exchangeS)) * m.Efficiency(samples)
		if g > goodput {
			goodput, local, passes = g, b, k
		}
	}
	return goodput, local, passes
}

// splitSlack absorbs the rounding errors of the geometric row where a batch is rounded up.
const splitSlack = 1e-8

// Cap is the greatest batch of a pass, up to local, with which a step is not above Max.
func (li *Limits) Cap(gpus, local, passes int) int { return min(local, li.Max/(gpus*passes)) }
