package sim

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
)

// numberJobs checks the window and counts its jobs; with a window it numbers the jobs by
// arrival.
func (e *engine) numberJobs(w Window) error {
	n := len(e.inst.Jobs)
	if w.Last == 0 {
		w = Window{}
	} else if err := w.Check(n); err != nil {
		return err
	}
	e.window, e.totals.counted = w, n
	e.totals.until, e.totals.downUntil = e.totals.held, e.totals.down
	if w.Last == 0 {
		return nil
	}
	e.totals.counted = w.Last - w.First + 1
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Compare(e.inst.Jobs[a].ReleaseUs, e.inst.Jobs[b].ReleaseUs)
	})
	e.number = make([]int32, n)
	for number, i := range order {
		e.number[i] = int32(number)
	}
	return nil
}

// countEnd counts the end of a job. At the end of the last job of the window it stores
// the totals up to now: the GPU time that tasks have held, including the running tasks,
// and the GPU time that faults have taken out of service.
func (e *engine) countEnd(ji int32) {
	if e.number != nil && !e.window.has(int(e.number[ji])) {
		return
	}
	if e.totals.counted--; e.totals.counted > 0 {
		return
	}
	e.totals.endUs = e.nowUs
	e.totals.until, e.totals.downUntil = slices.Clone(e.totals.held), slices.Clone(e.totals.down)
	for i := range e.gpus {
		x, k := &e.gpus[i], e.model.GPUs[i].Type
		if x.job != none && e.nowUs > x.sinceUs && e.number != nil {
			e.totals.until[k] = e.totals.until[k].Add(hare.Product(1, e.nowUs-x.sinceUs))
		}
		if x.faults > 0 && !x.closed && e.nowUs > x.changedUs {
			e.totals.downUntil[k] = e.totals.downUntil[k].Add(hare.Product(1, e.nowUs-x.changedUs))
		}
	}
}
