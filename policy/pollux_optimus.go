package policy

import (
	"context"
	"fmt"
	"slices"

	"github.com/hare-sched/hare/online"
)

// polluxOptimus gives every job one GPU and then, one by one, each further GPU
// to the job whose remaining time it shortens most, until none gains or no GPU
// is left. A job's remaining time is its remaining steps at its own batch times
// the measured step on so many GPUs, on as few nodes as can be: it knows sizes
// and speeds exactly (Pollux calls it Optimus+Oracle). Jobs whose width stays
// keep their GPUs; the others, narrowest first, take the nodes with most free
// GPUs, the first of equals.
//
// Source: Optimus (EuroSys 2018), as in Pollux's simulator (OSDI 2021;
// petuum/adaptdl, branch osdi21-artifact, commit c793c70) [V]. What that does
// otherwise than the paper: there are no parameter servers, and neither speeds
// nor sizes are estimated; gains are of a GPU, all jobs weigh the same, young
// ones too; nodes need not be few, nor hold equal parts of a job. Two oddities
// are kept: the remaining steps are counted from the end of the epoch that runs
// (1 in the last one), and a step on one GPU always takes two passes at least.
type polluxOptimus struct {
	times map[stepKey]float64
}

type stepKey struct {
	training    online.Training
	batch, gpus int
}

var _ online.ElasticPolicy = (*polluxOptimus)(nil)

// Allocate is O(jobs × GPUs + moved jobs × nodes²) and the look-up of each step
// time once.
func (p *polluxOptimus) Allocate(_ context.Context, s *online.ElasticState) ([][]online.NodeGPUs, error) {
	widths, err := p.widths(s)
	if err != nil {
		return nil, err
	}
	all := make([][]online.NodeGPUs, len(s.Jobs))
	order := make([]int, len(s.Jobs))
	for i := range s.Jobs {
		order[i] = i
		if width(s.Jobs[i].Held) == widths[i] {
			all[i] = s.Jobs[i].Held
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return widths[a] - widths[b] })
	free := freeGPUs(s.Nodes, all)
	for _, i := range order {
		if all[i] == nil {
			all[i] = mostFree(free, widths[i])
		}
	}
	return all, nil
}

func width(held []online.NodeGPUs) int {
	n := 0
	for _, h := range held {
		n += h.GPUs
	}
	return n
}

// widths is how many GPUs each job gets.
func (p *polluxOptimus) widths(s *online.ElasticState) ([]int, error) {
	left, perNode := 0, 0
	for _, n := range s.Nodes {
		left += n
		perNode = max(perNode, n)
	}
	widths, steps, gains := make([]int, len(s.Jobs)), make([]float64, len(s.Jobs)), make([]float64, len(s.Jobs))
	// gain is what one more GPU saves, were there one.
	gain := func(i int) error {
		gains[i] = 0
		j := &s.Jobs[i]
		if left < 1 || widths[i] >= j.MaxGPUs {
			return nil
		}
		now, err := p.stepS(j.ElasticJob, widths[i], perNode)
		if err != nil {
			return err
		}
		then, err := p.stepS(j.ElasticJob, widths[i]+1, perNode)
		gains[i] = (now - then) * steps[i]
		return err
	}
	for i := range s.Jobs {
		if left < 1 {
			break
		}
		var err error
		if steps[i], err = stepsLeft(&s.Jobs[i]); err != nil {
			return nil, err
		}
		widths[i] = 1
		left--
		if err := gain(i); err != nil {
			return nil, err
		}
	}
	for left > 0 {
		best := 0
		for i := range gains {
			if gains[i] > gains[best] {
				best = i
			}
		}
		if gains[best] <= 0 {
			break
		}
		widths[best]++
		left--
		if err := gain(best); err != nil {
			return nil, err
		}
	}
	return widths, nil
}

// stepsLeft counts from the end of the epoch that runs.
func stepsLeft(j *online.ElasticView) (float64, error) {
	if j.Epoch >= j.Epochs-1 {
		return 1, nil
	}
	_, _, last, err := j.Training.Epoch(j.Batch, j.Epochs-1)
	if err != nil {
		return 0, fmt.Errorf("job %.60q: %w", j.ID, err)
	}
	_, _, now, err := j.Training.Epoch(j.Batch, j.Epoch)
	if err != nil {
		return 0, fmt.Errorf("job %.60q: %w", j.ID, err)
	}
	return last - now, nil
}

// stepS is a step of the job on so many GPUs, on nodes of perNode.
func (p *polluxOptimus) stepS(j *online.ElasticJob, gpus, perNode int) (float64, error) {
	key := stepKey{j.Training, j.Batch, gpus}
	if v, ok := p.times[key]; ok {
		return v, nil
	}
	least := 1
	if gpus == 1 {
		least = 2
	}
	local, passes := j.SplitPasses(gpus, least)
	var placement []int
	for n := gpus; n > 0; n -= perNode {
		placement = append(placement, min(n, perNode))
	}
	step, sync, err := j.Training.Step(placement, local)
	if err != nil {
		return 0, fmt.Errorf("job %.60q: %w", j.ID, err)
	}
	v := step + float64(float64(step-sync)*float64(passes-1))
	if p.times == nil {
		p.times = map[stepKey]float64{}
	}
	p.times[key] = v
	return v, nil
}
