package verify

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// jobs adds what is left of the jobs of the whole.
func (rb *remainderBuilder) jobs() {
	index := make(map[string]int, len(rb.whole.Jobs))
	for i := range rb.whole.Jobs {
		index[rb.whole.Jobs[i].ID] = i
	}
	if rb.whole.Objective == hare.ObjectiveMakespan {
		rb.constant.Mul(big.NewInt(1e6), big.NewInt(rb.at)) // the clock of the rest starts at the instant
	}
	for i := range rb.whole.Jobs {
		left, j := &rb.left[i], rb.whole.Jobs[i]
		if left.gone {
			rb.addCost(j.WeightMicro, left.end-j.ReleaseUs)
			rb.addCost(lateWeight(rb.whole, &j), max(0, left.end-j.DeadlineUs))
			continue
		}
		from := max(left.release, j.ReleaseUs)
		var after []hare.Predecessor
		if !left.started {
			for _, p := range j.After {
				if of := &rb.left[index[p.Job]]; of.gone {
					from = max(from, of.end+p.LagUs)
				} else {
					after = append(after, p)
				}
			}
		}
		if left.progress != nil && len(left.progress.GPUs) > 0 {
			from = rb.at
		}
		rb.addCost(j.WeightMicro, from-j.ReleaseUs)
		if j.DeadlineUs > 0 {
			rb.addCost(lateWeight(rb.whole, &j), max(0, rb.at+1-j.DeadlineUs))
			j.DeadlineUs = max(1, j.DeadlineUs-rb.at)
		}
		j.After, j.ReleaseUs = after, from-rb.at
		if only := rb.shape[i]; only >= 0 {
			s := j.Shapes[only]
			if j.Shapes = []hare.Shape{s}; s.Counts == 1 {
				j.Shapes, j.Tasks, j.GPUsPerTask, j.On = nil, s.Tasks, s.GPUsPerTask, s.On
			}
		}
		if j.Progress = left.progress; !rb.placed {
			j.Progress = nil
			j.Rounds -= rb.done[i]
			rb.shift[i] = rb.done[i]
		}
		rb.rest.Jobs = append(rb.rest.Jobs, j)
	}
	for i := range rb.whole.Jobs {
		for _, holder := range rb.left[i].holders {
			holder.ID = rb.whole.Jobs[i].ID + ".started"
			for _, taken := index[holder.ID]; taken; _, taken = index[holder.ID] {
				holder.ID += "'"
			}
			index[holder.ID] = i
			rb.rest.Jobs = append(rb.rest.Jobs, holder)
		}
	}
}

// addCost adds a weight in micro-units times a time to the constant. A makespan has no weights.
func (rb *remainderBuilder) addCost(weightMicro, us int64) {
	if rb.whole.Objective == hare.ObjectiveMakespan {
		return
	}
	x := times(weightMicro)
	rb.constant.Add(rb.constant, x.Mul(x, big.NewInt(us)))
}

// addFixed adds what the jobs of the rest cost that end with their running work.
func (rb *remainderBuilder) addFixed() error {
	if err := plausible(rb.rest); err != nil {
		return fmt.Errorf("what is left is no instance: %w", err)
	}
	ru, err := newRunning(rb.rest)
	if err != nil {
		return err
	}
	for i, at := range ru.jobs {
		if job := &rb.rest.Jobs[i]; at.fixed {
			rb.addCost(job.WeightMicro, at.until)
			rb.addCost(lateWeight(rb.rest, job), max(0, at.until-job.DeadlineUs))
		}
	}
	return nil
}

// reservations adds the reservations that have not ended, without the jobs that have.
func (rb *remainderBuilder) reservations() {
	there := map[string]bool{}
	for i := range rb.rest.Jobs {
		there[rb.rest.Jobs[i].ID] = true
	}
	for _, r := range rb.whole.Cluster.Reservations {
		if r.UntilUs <= rb.at {
			continue
		}
		r.FromUs, r.UntilUs = max(0, r.FromUs-rb.at), r.UntilUs-rb.at
		r.Jobs = slices.DeleteFunc(slices.Clone(r.Jobs), func(id string) bool { return !there[id] })
		rb.rest.Cluster.Reservations = append(rb.rest.Cluster.Reservations, r)
	}
}
