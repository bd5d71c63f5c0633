package place

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// Schedule assigns the blocks to single GPUs of each class by interval colouring: blocks
// in order of start, each on free GPUs, with preference for GPUs that last ran the same
// job. Where gang or rigid jobs run on a class with several nodes, a block fills as few
// nodes as it can, unless GPUs would then change jobs more often. Schedule always
// succeeds for a plan within the capacity. It takes O(blocks · width · log).
func (p *Plan) Schedule(m *model.Model) (*hare.Schedule, error) {
	if p.Shapes != nil {
		one := *p
		one.Shapes = nil
		s, err := one.Schedule(InShapes(m, p.Shapes))
		if err == nil {
			p.markShapes(m, s)
		}
		return s, err
	}
	s := &hare.Schedule{Jobs: make([]string, len(m.Jobs)), Lanes: make([]hare.Lane, len(m.GPUs))}
	for i := range m.Jobs {
		s.Jobs[i] = m.Instance.Jobs[i].ID
	}
	for g := range m.GPUs {
		s.Lanes[g] = hare.Lane{GPU: m.GPUs[g].ID}
	}
	if m.Placed {
		if err := p.scheduleOnNodes(m, s.Lanes); err != nil {
			return nil, err
		}
		s.Lanes = slices.DeleteFunc(s.Lanes, func(l hare.Lane) bool { return len(l.Job) == 0 })
		return s, nil
	}
	runs := runningJobs(m)
	byClass := make([][]jobBlock, len(m.Classes))
	for i := range p.Jobs {
		for x := range p.Jobs[i] {
			b := &p.Jobs[i][x]
			byClass[b.Class] = append(byClass[b.Class], jobBlock{int32(i), int32(x), b})
		}
	}
	// No two classes share a GPU, so classes are coloured in parallel.
	var all sync.WaitGroup
	errs := make([]error, len(byClass))
	for c, blocks := range byClass {
		all.Go(func() {
			slices.SortFunc(blocks, compareHeld)
			if errs[c] = colour(m, c, blocks, s.Lanes, runs); errs[c] == nil && runs == nil &&
				packsNodes(m, c, blocks) {
				errs[c] = colourFewNodes(m, c, blocks, s.Lanes)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s.Lanes = slices.DeleteFunc(s.Lanes, func(l hare.Lane) bool { return len(l.Job) == 0 })
	return s, nil
}

func colour(m *model.Model, c int, blocks []jobBlock, lanes []hare.Lane, runs []int32) error {
	gpus := m.Classes[c].GPUs
	last := make([]int32, len(gpus)) // the job that ran last, −1 at first
	free := make([]bool, len(gpus))
	var idle []int32                      // a stack; entries that are no longer free are skipped
	byJob := make([][]int32, len(m.Jobs)) // stacks of free GPUs by the job that they ran last
	for g := len(gpus) - 1; g >= 0; g-- {
		last[g], free[g] = -1, true
		idle = append(idle, int32(g))
		if runs != nil && runs[gpus[g]] >= 0 {
			last[g] = runs[gpus[g]]
			byJob[last[g]] = append(byJob[last[g]], int32(g))
		}
	}
	var busy eventHeap // the busy GPUs by the time at which they become free
	for _, b := range blocks {
		from := b.TakenFromUs()
		for len(busy) > 0 && busy[0].time <= from {
			g := busy.pop().at
			free[g] = true
			idle = append(idle, g)
			byJob[last[g]] = append(byJob[last[g]], g)
		}
		for range b.Width {
			g := int32(-1)
			for own := byJob[b.job]; len(own) > 0 && g < 0; {
				if x := own[len(own)-1]; free[x] && last[x] == b.job {
					g = x
				}
				own = own[:len(own)-1]
				byJob[b.job] = own
			}
			for len(idle) > 0 && g < 0 {
				if x := idle[len(idle)-1]; free[x] {
					g = x
				}
				idle = idle[:len(idle)-1]
			}
			if g < 0 {
				return fmt.Errorf("greedy: class %d has no free GPU at %d µs for job %q", c, b.StartUs,
					m.Instance.Jobs[b.job].ID)
			}
			free[g], last[g] = false, b.job
			busy.push(event{b.EndUs(), g})
			appendEntry(&lanes[gpus[g]], b, m.Jobs[b.job].FirstRound)
		}
	}
	return nil
}
