package brute

import (
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
)

// RandomWithShapes returns an instance of RandomMixed, of which some jobs have setups, or shapes in
// place of tasks and times as docs/reference/model.md says. All other rules stay.
func RandomWithShapes(r *rand.Rand) *hare.Instance {
	for {
		inst := RandomMixed(r)
		changed := false
		for i := range inst.Jobs {
			changed = addSetups(r, &inst.Jobs[i]) || changed
			changed = addShapes(r, &inst.Jobs[i]) || changed
		}
		if changed && inst.Validate() == nil {
			return inst
		}
	}
}

func addSetups(r *rand.Rand, j *hare.Job) bool {
	if r.IntN(2) == 0 {
		return false
	}
	for x := range j.On {
		j.On[x].SwitchUs = int64(1+r.IntN(4)) * tick / 2
	}
	return true
}

// addShapes gives a job two or three shapes; a job that runs at 0 runs in the first or last one.
func addShapes(r *rand.Rand, j *hare.Job) bool {
	if r.IntN(2) == 0 {
		return false
	}
	own := hare.Shape{Tasks: j.Tasks, GPUsPerTask: j.GPUsPerTask, Counts: int64(1 + r.IntN(2)), On: j.On}
	j.Shapes = []hare.Shape{own}
	for range 1 + r.IntN(3)/2 {
		s := hare.Shape{Tasks: int64(1 + r.IntN(2)), GPUsPerTask: []int64{0, 0, 2}[r.IntN(3)], Counts: int64(1 + r.IntN(3)),
			On: slices.Clone(j.On)}
		for x := range s.On {
			s.On[x].ComputeUs = int64(1+r.IntN(4)) * tick
		}
		j.Shapes = append(j.Shapes, s)
	}
	j.Tasks, j.GPUsPerTask, j.On = 0, 0, nil
	if j.Running() && r.IntN(2) == 0 {
		last := len(j.Shapes) - 1
		j.Shapes[0], j.Shapes[last], j.Progress.Shape = j.Shapes[last], j.Shapes[0], last
	}
	j.Rounds += int64(r.IntN(2))
	if j.Sync == hare.Gang && r.IntN(3) > 0 {
		// Units that no single shape does in whole rounds let a change of the shape pay.
		j.Reshape, j.ReshapeUs = true, int64(r.IntN(4)/2*r.IntN(3))*tick/2
		j.Rounds += int64(1 - j.Rounds%2)
		j.Shapes[0].Counts, j.Shapes[1].Counts = 2, 1
	}
	return true
}
