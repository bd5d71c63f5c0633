package admission

import (
	"math"

	"github.com/hare-sched/hare"
)

// DecodeFactor is how many bytes are claimed for each byte of a JSON document while it is decoded: the document
// itself, what it becomes, and what the collector has not freed yet. The worst document, an instance of jobs of
// which each says as little as it can, keeps 11 bytes for each of its own, and its slice of jobs is twice as large
// while it grows.
const DecodeFactor = 24

// These are the bytes of memory at the peak of a solve, with what the collector has not freed yet, measured as the
// growth of the resident set of hare serve: 200,000 jobs of two lines took 1,060 MiB and a million small jobs 6.7
// GiB, a million GPUs of one node 550, of as many nodes 1,120, and a million tasks 630. A bound or a check takes
// about half.
const (
	jobBytes   = 7 << 10
	gpuBytes   = 600
	nodeBytes  = 600
	entryBytes = 650
	// mostSteps is the number of tasks of relaxed jobs beyond which a schedule keeps runs of rounds in place of tasks.
	mostSteps = 5_000_000
)

// Footprint estimates the bytes of memory that a call on an instance takes at most: a small document may describe a
// million GPUs, or jobs of a million tasks. O(jobs + nodes).
func Footprint(inst *hare.Instance) int64 {
	if inst == nil {
		return 0
	}
	gpus := GPUsOf(&inst.Cluster)
	steps, entries := 0.0, 0.0
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		width := float64(j.Tasks) * float64(j.TaskGPUs())
		for k := range j.Shapes {
			width = max(width, float64(j.Shapes[k].Tasks)*float64(max(1, j.Shapes[k].GPUsPerTask)))
		}
		if j.Sync == hare.Relaxed {
			steps += float64(j.Rounds) * width
		}
		entries += min(width, float64(gpus))
	}
	entries += min(steps, mostSteps)
	bytes := jobBytes*float64(len(inst.Jobs)) + gpuBytes*float64(gpus) + nodeBytes*float64(len(inst.Cluster.Nodes)) +
		entryBytes*entries
	return int64(min(bytes, math.MaxInt64/4))
}

// GPUsOf counts the GPUs of a cluster.
func GPUsOf(c *hare.Cluster) (n int64) {
	for i := range c.Nodes {
		for _, g := range c.Nodes[i].GPUs {
			n += int64(g.Count)
		}
	}
	return n
}
