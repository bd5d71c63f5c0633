package search

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// A surrogate is a gang in the place of a relaxed job, so that the annealing can place it. See mixed.go and gangs.go.

// gangSurrogates returns m with gangs in the place of some jobs. The gangs hold their GPUs while they synchronise:
// relaxed jobs seldom fill these times of each other, and with a smaller share of them the annealing makes plans that
// cannot be filled. A job with more tasks than its largest type has GPUs becomes a gang of that width, whose GPUs take
// several tasks of a round one after another.
func gangSurrogates(m *model.Model, jobs []int) *model.Model {
	gangs := *m
	gangs.Jobs = slices.Clone(m.Jobs)
	size := gpusByType(m)
	for _, i := range jobs {
		j := &gangs.Jobs[i]
		widest := int64(1)
		for _, md := range j.Modes {
			widest = max(widest, size[md.Type])
		}
		width := min(j.Tasks, widest)
		each := (j.Tasks + width - 1) / width
		j.Tasks, j.Sync, j.Mix = width, hare.Gang, false
		j.Modes = slices.Clone(j.Modes)
		for x := range j.Modes {
			j.Modes[x].ComputeUs *= each
		}
	}
	return &gangs
}

// atPlacesOfGangs returns plan with the relaxed jobs of m at the places of their surrogates, round by round. It takes
// time and memory in proportion to the rounds, so that no job may be one that is placed as runs.
func atPlacesOfGangs(m, gangs *model.Model, plan *place.Plan) *place.Plan {
	p := &place.Plan{Jobs: slices.Clone(plan.Jobs), EndUs: slices.Clone(plan.EndUs)}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if j.Sync != hare.Relaxed {
			continue
		}
		width := gangs.Jobs[i].Tasks
		each := (j.Tasks + width - 1) / width
		full := j.Tasks - width*(each-1) // the GPUs that take so many tasks; the others take one less
		p.Jobs[i] = nil
		taken := int64(0) // the GPUs of the present run
		for x := range plan.Jobs[i] {
			b := &plan.Jobs[i][x]
			if x > 0 && b.Round != plan.Jobs[i][x-1].Round {
				taken = 0
			}
			compute := int64(0)
			for _, md := range j.Modes {
				if md.Type == m.Classes[b.Class].Type {
					compute = md.ComputeUs
				}
			}
			n := max(0, min(int64(b.Width), full-taken))
			taken += int64(b.Width)
			for r := range b.Rounds {
				one := room.Block{Class: b.Class, Round: b.Round + r, Rounds: 1, StartUs: b.StartUs + r*b.PeriodUs}
				for _, part := range [...][2]int64{{n, each}, {int64(b.Width) - n, each - 1}} {
					if part[0] > 0 && part[1] > 0 {
						one.Width, one.Tasks, one.HoldUs = int32(part[0]), int32(part[1]), part[1]*compute
						p.Jobs[i] = append(p.Jobs[i], one)
					}
				}
			}
		}
		slices.SortStableFunc(p.Jobs[i], func(a, b room.Block) int { return cmp.Compare(a.Round, b.Round) })
	}
	return p
}

// gpusByType returns the GPUs of each type that are in service at some time.
func gpusByType(m *model.Model) []int64 {
	size := make([]int64, len(m.Types))
	for c := range m.Classes {
		if len(m.Classes[c].Windows) > 0 {
			size[m.Classes[c].Type] += int64(len(m.Classes[c].GPUs))
		}
	}
	return size
}
