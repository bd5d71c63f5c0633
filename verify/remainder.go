package verify

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// remainderOf returns what is left of whole at the instant at if s, a feasible schedule of
// before, has been followed until then. An error says that s has started work that
// contradicts whole. remainderOf takes O(entries log entries + jobs + nodes + GPUs of nodes
// that are split), whatever the number of rounds.
func remainderOf(whole, before *hare.Instance, s *hare.Schedule, at int64) (*remainder, error) {
	p := &remainderBuilder{
		remainder: remainder{at: at, constant: new(big.Int), done: make([]int64, len(whole.Jobs)),
			shift: make([]int64, len(whole.Jobs)), shape: slices.Repeat([]int64{-1}, len(whole.Jobs))},
		whole: whole, before: before, placed: nodesMatter(whole) || switches(whole) || hasShapes(whole),
		nodes: newDirectory(&whole.Cluster), was: newTopology(&before.Cluster), is: newTopology(&whole.Cluster),
		held: map[int]map[int][]span{}, left: make([]leftJob, len(whole.Jobs)),
	}
	p.rest = &hare.Instance{Name: whole.Name, Objective: whole.Objective, Quota: whole.Quota}
	old := indexOf(before)
	entries := laneEntries(before, s, old)
	ru, err := newRunning(before)
	if err != nil {
		return nil, err
	}
	for i := range whole.Jobs {
		job := &whole.Jobs[i]
		b, ok := old[job.ID]
		if !ok {
			p.added = append(p.added, job.ID)
			if err := p.fresh(i); err != nil {
				return nil, err
			}
			continue
		}
		delete(old, job.ID)
		if err := p.job(i, &before.Jobs[b], ru.jobs[b], entries[b]); err != nil {
			return nil, err
		}
	}
	for i := range before.Jobs {
		if _, gone := old[before.Jobs[i].ID]; gone {
			p.removed = append(p.removed, before.Jobs[i].ID)
		}
	}
	p.jobs()
	if err := p.cluster(); err != nil {
		return nil, err
	}
	if len(p.rest.Cluster.Nodes) == 0 {
		return nil, fmt.Errorf("no GPU of the instance is in service from at_s on")
	}
	if err := p.addFixed(); err != nil {
		return nil, err
	}
	return &p.remainder, nil
}

// jobs adds what is left of the jobs of the whole.
func (rb *remainderBuilder) jobs() {
	index := indexOf(rb.whole)
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
		return fmt.Errorf("what is left is not an instance: %w", err)
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
