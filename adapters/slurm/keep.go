package slurm

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/adapters/advice"
)

// keepMargin is by how many percent of the time until its end a job may end later because it, or
// another one, keeps the type that it has been given; keepLeastS is a delay that is always allowed.
const (
	keepMargin = 10
	keepLeastS = 5
)

// slot is the place that the plan has for an entry: a type, a start, and how many GPUs; none where the
// plan leaves the type open.
type slot struct {
	gpuType string
	startS  int64
	gpus    int64
}

// endS is when a job would end in a slot; false where it cannot run there.
func (s slot) endS(spec *hare.Job) (int64, bool) {
	us := advice.ExpectedUs(spec, s.gpuType)
	return s.startS + us/1e6, us > 0
}

// keepTypes lets entries keep the types that they have been given while the plan changes little.
// Plans that are equally good often differ in which of several alike jobs gets which type, and every
// such difference would be a write. An entry that the plan moves to another type changes places with
// one of its size that the plan moves to the type which it has, where neither ends later by this than
// the plan says by more than the margin. Each type keeps as many entries as the plan gives it. It takes
// O(n²) for the n entries of the head.
func keepTypes(list []entryAdvice, given map[int64]string, specs map[int64]*hare.Job) {
	slots := make([]slot, len(list))
	for i, a := range list {
		if spec := specs[a.entry]; spec != nil && len(a.types) == 1 && a.startS >= 0 {
			slots[i] = slot{a.types[0], a.startS, spec.Tasks * spec.TaskGPUs()}
		}
	}
	fits := func(i, k int) bool { // entry i does nearly as well in slot k
		planned, _ := slots[i].endS(specs[list[i].entry])
		end, ok := slots[k].endS(specs[list[i].entry])
		return ok && end <= planned+max(keepLeastS, planned*keepMargin/100)
	}
	for i, a := range list {
		t := given[a.entry]
		if slots[i].gpuType == "" || t == "" || t == slots[i].gpuType {
			continue
		}
		for k, b := range list {
			if slots[k].gpuType == t && given[b.entry] != t && slots[k].gpus == slots[i].gpus && fits(i, k) && fits(k, i) {
				slots[i], slots[k] = slots[k], slots[i]
				break
			}
		}
	}
	for i := range list {
		if slots[i].gpuType != "" {
			list[i].types = []string{slots[i].gpuType}
		}
	}
}
