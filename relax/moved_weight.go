package relax

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// addEdges fills in the edges, those of later jobs first. The times of jobs that end with their
// running work are known, so that weight need not move there.
func (pr *problem) addEdges() {
	if !slices.ContainsFunc(pr.specs, func(j model.Job) bool { return len(j.After) > 0 }) {
		return
	}
	at := make([]int, len(pr.model.Jobs))
	for i := range at {
		at[i] = -1
	}
	for i, x := range pr.index {
		at[x] = i
	}
	order := jobOrder(pr.model)
	slices.Reverse(order)
	for _, x := range order {
		i := at[x]
		if i < 0 {
			continue
		}
		least := pr.leastUs[i] + pr.setup(x)
		for _, p := range pr.specs[i].After {
			if before := at[p.Job]; before >= 0 {
				gain := p.LagUs + least
				pr.edges = append(pr.edges, edge{i, before, float64(gain), gain, pr.jobs[i].path})
			}
		}
	}
	pr.ownWeight = make([]int64, len(pr.specs))
	for i := range pr.specs {
		pr.ownWeight[i] = pr.specs[i].WeightMicro
	}
}

// share returns moved weights, in 1e-9, where each job passes a share of its weight on, in equal
// parts.
func (pr *problem) share(share float64) []float64 {
	out := make([]float64, len(pr.edges))
	have := make([]float64, len(pr.jobs))
	for i, w := range pr.ownWeight {
		have[i] = float64(w) * nano
	}
	for from := 0; from < len(pr.edges); {
		to := pr.lastEdge(from)
		each := share * have[pr.edges[from].job] / float64(to-from)
		for x := from; x < to; x++ {
			out[x] = each
			have[pr.edges[x].before] += each
		}
		from = to
	}
	return out
}

// lastEdge returns the end of the edges of the job of edge from.
func (pr *problem) lastEdge(from int) int {
	to := from + 1
	for to < len(pr.edges) && pr.edges[to].job == pr.edges[from].job {
		to++
	}
	return to
}

// setWeights sets the weights of jobs in floats, and lowers moved weights of which a job has
// less. It returns what the moved weights gain.
func (pr *problem) setWeights(moved []float64) float64 {
	for i, w := range pr.ownWeight {
		pr.jobs[i].w = float64(w) * nano
	}
	gain := 0.0
	for from := 0; from < len(pr.edges); {
		to := pr.lastEdge(from)
		j, sum := &pr.jobs[pr.edges[from].job], 0.0
		for _, x := range moved[from:to] {
			sum += x
		}
		for x := from; x < to; x++ {
			if sum > j.w {
				moved[x] *= j.w / sum
			}
			gain += moved[x] * pr.edges[x].gain
			pr.jobs[pr.edges[x].before].w += moved[x]
		}
		j.w = max(0, j.w-sum)
		from = to
	}
	return gain
}

// setExactWeights rounds moved weights down to whole millionths and gives the jobs the weights
// that are left. It returns the rounded weights and what they gain, in 1e-15.
func (pr *problem) setExactWeights(moved []float64) ([]int64, *big.Int) {
	micro, gain := make([]int64, len(moved)), new(big.Int)
	for i, w := range pr.ownWeight {
		pr.specs[i].WeightMicro = w
	}
	for x := range pr.edges {
		e := &pr.edges[x]
		micro[x] = max(0, min(int64(math.Floor(moved[x]/nano)), pr.specs[e.job].WeightMicro))
		// The sum of the weights is limited, so that no weight is too large.
		pr.specs[e.job].WeightMicro -= micro[x]
		pr.specs[e.before].WeightMicro += micro[x]
		gain.Add(gain, product(micro[x], nano, e.gainUs))
	}
	for i := range pr.specs {
		pr.jobs[i].w = float64(pr.specs[i].WeightMicro) * nano
	}
	return micro, gain
}

// afterWeights returns the moved weights of a certificate.
func (pr *problem) afterWeights(micro []int64) []hare.AfterWeight {
	var out []hare.AfterWeight
	id := func(i int) string { return pr.model.Instance.Jobs[pr.index[i]].ID }
	for x, e := range pr.edges {
		if micro[x] > 0 {
			out = append(out, hare.AfterWeight{Job: id(e.job), Before: id(e.before), Micro: micro[x]})
		}
	}
	slices.SortFunc(out, func(a, b hare.AfterWeight) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Before, b.Before))
	})
	return out
}

// movedOf returns the weights that an earlier certificate moves along the edges; nil means none.
func (pr *problem) movedOf(rel *hare.Relaxation) []float64 {
	if rel == nil || rel.Certificate == nil || len(rel.Certificate.After) == 0 {
		return nil
	}
	type pair struct{ job, before string }
	weights := map[pair]float64{}
	for _, w := range rel.Certificate.After {
		weights[pair{w.Job, w.Before}] = float64(w.Micro) * nano
	}
	out := make([]float64, len(pr.edges))
	id := func(i int) string { return pr.model.Instance.Jobs[pr.index[i]].ID }
	for x, e := range pr.edges {
		out[x] = weights[pair{id(e.job), id(e.before)}]
	}
	return out
}
