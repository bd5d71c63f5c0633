package elastic

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// optimus gives every job one GPU and then, one by one, each further GPU to the
// job whose remaining time it shortens most, until none gains or no GPU is left.
// A job's remaining time is its remaining steps at its own batch times the measured time
// of a step on so many GPUs, on as few nodes as possible: the policy knows sizes and
// speeds exactly. Jobs whose width stays keep their GPUs; the others are placed
// narrowest first.
//
// Source: Optimus (EuroSys 2018) [V]. In both forms there are no parameter
// servers but workers of a GPU each, and neither speeds nor sizes are estimated
// while jobs run.
//
// With paper, the gains of young jobs count 0.95 times [V], young being the
// first epoch [I]; a job takes even parts of the fewest nodes, of those with most
// free GPUs [V]; where no even parts fit, as many as there are of each [I].
//
// Without, it is the Optimus+Oracle of Pollux's simulator (OSDI 2021;
// petuum/adaptdl, branch osdi21-artifact, commit c793c70) [V]: young jobs count
// as others, and a job takes the nodes with most free GPUs, the first of equals,
// whole or as far as it needs. Oddities are kept: the remaining steps are
// counted from the end of the epoch that runs (1 in the last one), and a step on
// one GPU always takes two passes at least. Steps are predicted for nodes of four
// GPUs, also where nodes are not.
type optimus struct {
	paper bool
	young float64
	times map[stepKey]float64
}

// newOptimus makes the policy; young is Config.Young.
func newOptimus(paper bool, young float64) *optimus {
	return &optimus{paper: paper, young: cmp.Or(young, youngFactor)}
}

// polluxNodeGPUs is the number of GPUs of a node that Pollux's Optimus assumes when it
// predicts the time of steps, whatever the nodes have.
const polluxNodeGPUs = 4

// youngFactor multiplies the gains of jobs whose speed is not well known yet.
const youngFactor = 0.95

type stepKey struct {
	training    Training
	batch, gpus int
}

var _ Policy = (*optimus)(nil)

// Allocate is O(jobs × GPUs + moved jobs × nodes²) and the look-up of each step
// time once.
func (opt *optimus) Allocate(_ context.Context, s *State) ([][]NodeGPUs, error) {
	widths, err := opt.widths(s)
	if err != nil {
		return nil, err
	}
	all := make([][]NodeGPUs, len(s.Jobs))
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
		switch {
		case all[i] != nil:
		case opt.paper:
			all[i] = evenParts(free, widths[i])
		default:
			all[i] = mostFree(free, widths[i])
		}
	}
	return all, nil
}

func width(held []NodeGPUs) int {
	n := 0
	for _, h := range held {
		n += h.GPUs
	}
	return n
}

// widths is how many GPUs each job gets.
func (opt *optimus) widths(s *State) ([]int, error) {
	left, perNode := 0, 0
	for _, n := range s.Nodes {
		left += n
		perNode = max(perNode, n)
	}
	if !opt.paper {
		perNode = polluxNodeGPUs
	}
	widths, steps, gains := make([]int, len(s.Jobs)), make([]float64, len(s.Jobs)), make([]float64, len(s.Jobs))
	// gain computes how much time one more GPU would save.
	gain := func(i int) error {
		gains[i] = 0
		j := &s.Jobs[i]
		if left < 1 || widths[i] >= j.MaxGPUs {
			return nil
		}
		now, err := opt.stepS(j.Job, widths[i], perNode)
		if err != nil {
			return err
		}
		then, err := opt.stepS(j.Job, widths[i]+1, perNode)
		gains[i] = (now - then) * steps[i]
		if opt.paper && j.Epoch == 0 {
			gains[i] *= opt.young
		}
		return err
	}
	for i := range s.Jobs {
		if left < 1 {
			break
		}
		var err error
		if steps[i], err = opt.stepsLeft(&s.Jobs[i]); err != nil {
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

// stepsLeft is the number of steps from the start of the current epoch, or without paper
// from its end, to the end of the job.
func (opt *optimus) stepsLeft(j *View) (float64, error) {
	from := j.Epoch
	if opt.paper {
		from--
	} else if from >= j.Epochs-1 {
		return 1, nil
	}
	_, _, steps, err := j.Training.Epoch(j.Batch, j.Epochs-1)
	if err == nil && from >= 0 {
		var done float64
		_, _, done, err = j.Training.Epoch(j.Batch, from)
		steps -= done
	}
	if err != nil {
		return 0, fmt.Errorf("job %.60q: %w", j.ID, err)
	}
	return steps, nil
}

// stepS is the time of a step of the job on so many GPUs, on nodes of perNode GPUs.
func (opt *optimus) stepS(j *Job, gpus, perNode int) (float64, error) {
	key := stepKey{j.Training, j.Batch, gpus}
	if v, ok := opt.times[key]; ok {
		return v, nil
	}
	local, passes := j.Split(gpus)
	if gpus == 1 && !opt.paper {
		local, passes = j.SplitPasses(gpus, 2)
	}
	var placement []int
	for n := gpus; n > 0; n -= perNode {
		placement = append(placement, min(n, perNode))
	}
	step, sync, err := j.Training.Step(placement, local)
	if err != nil {
		return 0, fmt.Errorf("job %.60q: %w", j.ID, err)
	}
	v := step + float64(float64(step-sync)*float64(passes-1))
	if opt.times == nil {
		opt.times = map[stepKey]float64{}
	}
	opt.times[key] = v
	return v, nil
}

// evenParts takes GPUs in equal parts from the fewest nodes that have room for them. Nodes
// with the most free GPUs come first, and equal nodes in their order. Where no equal parts
// fit, evenParts does what mostFree does.
func evenParts(free []int, gpus int) []NodeGPUs {
	order := make([]int, len(free))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return free[b] - free[a] })
	for k := 1; k <= min(gpus, len(order)); k++ {
		var held []NodeGPUs
		for i, n := range order[:k] {
			part := gpus / k
			if i < gpus%k {
				part++
			}
			if free[n] < part {
				break
			}
			held = append(held, NodeGPUs{Node: n, GPUs: part})
		}
		if len(held) == k {
			for _, h := range held {
				free[h.Node] -= h.GPUs
			}
			return held
		}
	}
	return mostFree(free, gpus)
}
