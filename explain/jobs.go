package explain

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// jobOrders are the keys by which ListJobs can sort. All keys but start and end
// put the greatest figure first.
var jobOrders = map[string]func(a, b *explaindoc.ListedJob) int{
	"share":   func(a, b *explaindoc.ListedJob) int { return b.Cost.Cmp(a.Cost) },
	"stretch": func(a, b *explaindoc.ListedJob) int { return cmp.Compare(b.Stretch, a.Stretch) },
	"wait":    func(a, b *explaindoc.ListedJob) int { return cmp.Compare(b.WaitS, a.WaitS) },
	"jct":     func(a, b *explaindoc.ListedJob) int { return cmp.Compare(b.JCTS, a.JCTS) },
	"start":   func(a, b *explaindoc.ListedJob) int { return cmp.Compare(a.StartS, b.StartS) },
	"end":     func(a, b *explaindoc.ListedJob) int { return cmp.Compare(a.EndS, b.EndS) },
}

// ListJobs returns the figures of up to limit jobs of a result, sorted by share
// (the default), stretch, wait, jct, start or end. Jobs with equal keys stay in the
// instance's order. The result must be one for inst. O(jobs log jobs).
func ListJobs(inst *hare.Instance, res *hare.Result, by string, limit int) ([]explaindoc.ListedJob, error) {
	if by == "" {
		by = "share"
	}
	inst, err := withObjective(inst, res)
	if err != nil {
		return nil, err
	}
	order := jobOrders[by]
	switch {
	case order == nil:
		return nil, &hare.InvalidError{Pointer: "/sort", Code: "unknown_value",
			Detail: "sort must be share, stretch, wait, jct, start or end"}
	case limit < 0:
		return nil, &hare.InvalidError{Pointer: "/limit", Code: "out_of_range", Detail: "limit must not be negative"}
	case res.Value == nil:
		return []explaindoc.ListedJob{}, nil
	case len(res.Jobs) != len(inst.Jobs):
		return nil, errNoLanes
	}
	empty := newEmptyCluster(model.New(inst))
	times := make(map[string]hare.JobResult, len(res.Jobs))
	for _, j := range res.Jobs {
		times[j.ID] = j
	}
	list := make([]explaindoc.ListedJob, len(inst.Jobs))
	for i := range inst.Jobs {
		id := inst.Jobs[i].ID
		list[i] = explaindoc.ListedJob{Job: id,
			Times: *jobTimes(inst, empty, i, times[id].StartUs, times[id].EndUs, *res.Value)}
	}
	slices.SortStableFunc(list, func(a, b explaindoc.ListedJob) int { return order(&a, &b) })
	return list[:min(limit, len(list))], nil
}
