package ledger

import (
	"maps"
	"slices"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maxHalvings is how often Smaller halves a job.
const maxHalvings = 3

// Smaller are jobs that do the same work and may start earlier, the nearest first: on all of the given types, and with
// half the GPUs, a quarter, an eighth, as far as the shape of the job allows. A relaxed round job has fewer tasks
// instead. With fewer GPUs a job is taken to need as many more seconds.
func Smaller(n *clusterdoc.NewJob, types []string) (all []clusterdoc.NewJob) {
	add := func(x clusterdoc.NewJob) {
		if CheckJob(&x) == nil {
			all = append(all, x)
		}
	}
	job := WithSync(*n)
	if len(job.On) > 0 {
		wider := job
		wider.On = maps.Clone(job.On)
		for _, t := range types {
			if _, has := wider.On[t]; !has {
				wider.On[t] = 0
			}
		}
		if len(wider.On) > len(job.On) {
			add(wider)
		}
	}
	for k := range maxHalvings {
		by := 2 << k
		if x := job; Shares(&job) {
			if x.Tasks = RoundTasks(&job) / by; x.Tasks > 0 {
				add(x)
			}
		} else if gpus := max(1, job.GPUs); gpus%by == 0 {
			add(narrowed(x, gpus/by, by))
		}
	}
	return all
}

// narrowed is a job with GPUs of its own that has fewer of them.
func narrowed(x clusterdoc.NewJob, gpus, by int) clusterdoc.NewJob {
	switch {
	case x.Module != "" && x.Sync == SyncGang:
		x.Tasks = 0 // one for each GPU
	case x.Module != "":
		x.Tasks = RoundTasks(&x)
	}
	switch {
	case x.Nodes > 0 && x.GPUsPerTask > 0:
		x.Nodes = gpus / x.GPUsPerTask
	case x.Nodes > 0 && gpus%x.Nodes != 0:
		x.Nodes = max(1, x.Nodes/by)
	}
	x.GPUs, x.On = gpus, maps.Clone(x.On)
	for _, t := range slices.Collect(maps.Keys(x.On)) {
		x.On[t] *= float64(by)
	}
	if x.EstimateS != nil {
		s := *x.EstimateS * float64(by)
		x.EstimateS = &s
	}
	return x
}
