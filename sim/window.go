package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// count numbers the jobs where there is a window, and says how many are in it.
func (e *engine) count(w Window) error {
	n := len(e.inst.Jobs)
	if w.Last == 0 {
		w = Window{}
	} else if w.First < 0 || w.Last >= n || w.First > w.Last {
		return fmt.Errorf("sim: jobs %d to %d are not a window of %d jobs, which are numbered from 0", w.First, w.Last, n)
	}
	e.window, e.books.counted = w, n
	e.books.until, e.books.lack = e.books.held, e.books.down
	if w.Last == 0 {
		return nil
	}
	e.books.counted = w.Last - w.First + 1
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

// counts notes the end of a job. With the last that counts it closes the books
// of use: what tasks have held so far, those that run included.
func (e *engine) counts(ji int32) {
	if e.number != nil && !e.window.has(int(e.number[ji])) {
		return
	}
	if e.books.counted--; e.books.counted > 0 {
		return
	}
	e.close()
}

// close ends the books of use.
func (e *engine) close() {
	b := &e.books
	b.endUs, b.until, b.lack = e.nowUs, slices.Clone(b.held), slices.Clone(b.down)
	for i := range e.gpus {
		x, k := &e.gpus[i], e.model.GPUs[i].Type
		if x.job != none {
			b.until[k] = b.until[k].Add(hare.Product(1, max(0, e.nowUs-x.sinceUs)))
		}
		if x.faults > 0 && !x.closed {
			b.lack[k] = b.lack[k].Add(hare.Product(1, e.nowUs-x.changedUs))
		}
	}
}

// resumes counts a preemption where a gang or rigid job whose round starts now
// stood still since its last one, or went to other GPUs.
func (e *engine) resumes(ji int32) {
	j := &e.jobs[ji]
	if j.over || j.round == 0 || j.round >= e.inst.Jobs[ji].Rounds {
		return
	}
	if j.openedUs == e.nowUs && e.inst.Jobs[ji].Sync == hare.Rigid {
		return
	}
	if j.openedUs == e.nowUs && sameGPUs(j.held, j.last) {
		return
	}
	if e.preemptions == nil {
		e.preemptions = make([]int64, len(e.jobs))
	}
	e.preemptions[ji]++
}

// sameGPUs compares sets; it may sort them.
func sameGPUs(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	if !slices.Equal(a, b) {
		slices.Sort(a)
		slices.Sort(b)
	}
	return slices.Equal(a, b)
}
