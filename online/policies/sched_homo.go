package policies

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/relax"
)

// NewSchedHomo is the baseline Sched_Homo of the Hare paper, after Zhang et al.
// (MobiHoc 2020): weighted completion time, as if all GPUs were alike, and no
// preemption. It knows all jobs beforehand.
//
// [V, one line] Like Hare, with speeds averaged over types and no job preemption. [I] The
// order comes from Hare's relaxation (prices, without linear programs) of the averaged
// instance, by the time at which half of a job is done; jobs that do not fit are passed
// over; types are taken by name.
func NewSchedHomo(ctx context.Context, inst *hare.Instance) (online.Policy, error) {
	m := model.New(averaged(inst))
	rel, err := relax.Run(ctx, m, relax.Config{MaxLPs: -1, Cells: 24})
	if err != nil {
		return nil, fmt.Errorf("policy: sched_homo: %w", err)
	}
	sums, rounds := make([]float64, len(m.Jobs)), make([]float64, len(m.Jobs))
	for _, it := range greedy.Order(m, rel, "relaxation") {
		sums[it.Job] += it.Key
		rounds[it.Job]++
	}
	order := make(map[string]float64, len(m.Jobs))
	for i := range m.Jobs {
		order[inst.Jobs[i].ID] = sums[i] / max(1, rounds[i])
	}
	return list.New(&inst.Cluster, list.Rule{
		Name: "sched_homo", Hold: hare.Rigid, TypesByName: true, Rounds: SizesOf(inst).Rounds,
		Priority: func(_ *list.Scheduler, j *list.JobState) float64 { return order[j.Spec().ID] },
	}), nil
}

// averaged is inst with one type of GPU, on which jobs take the means of their
// times.
func averaged(inst *hare.Instance) *hare.Instance {
	const kind = "any"
	out := &hare.Instance{Objective: inst.Objective}
	for _, n := range inst.Cluster.Nodes {
		count := 0
		for _, g := range n.GPUs {
			count += int(g.Count)
		}
		n.GPUs = []hare.TypeCount{{Type: kind, Count: count}}
		out.Cluster.Nodes = append(out.Cluster.Nodes, n)
	}
	for _, j := range inst.Jobs {
		var computeUs, syncUs int64
		for _, p := range j.On {
			computeUs += p.ComputeUs
			syncUs += p.SyncUs
		}
		n := int64(len(j.On))
		j.On = []hare.Profile{{Type: kind, ComputeUs: max(1, computeUs/n), SyncUs: syncUs / n}}
		out.Jobs = append(out.Jobs, j)
	}
	return out
}
