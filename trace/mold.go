package trace

import (
	"errors"
	"fmt"
	"math"

	"github.com/hare-sched/hare"
)

// MoldConfig describes what Mold adds to the jobs of an instance.
type MoldConfig struct {
	// Widths are the numbers of GPUs on which each gang or rigid job may run; nil leaves jobs as they are.
	Widths []int64
	// PerNode is the greatest number of GPUs of a task; a job of w GPUs has tasks of the greatest divisor
	// of w that is at most PerNode. Zero means tasks of one GPU.
	PerNode int
	// Reshape lets gangs change their shape between rounds, with ReshapeUs between two of them.
	Reshape   bool
	ReshapeUs int64
	// SwitchUs is the setup of a GPU for each job.
	SwitchUs int64
}

// moldExponent says how jobs gain by more GPUs: w times as many make them w^moldExponent times as fast.
const moldExponent = 0.8

// Mold gives jobs shapes and setups. A job that needs a time on v GPUs needs (v/w)^0.8 of it on w GPUs, so
// that twice as many GPUs make it 1.74 times as fast and take 15 % more GPU-time.
func Mold(inst *hare.Instance, cfg MoldConfig) error {
	for _, w := range cfg.Widths {
		if w < 1 || w > hare.MaxGPUs {
			return fmt.Errorf("a shape of %d GPUs: a width is between 1 and %d", w, hare.MaxGPUs)
		}
	}
	if cfg.Reshape && len(cfg.Widths) < 2 {
		return errors.New("shapes change only where there are several: give at least two widths")
	}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		for x := range j.On {
			j.On[x].SwitchUs = cfg.SwitchUs
		}
		if len(cfg.Widths) == 0 {
			continue
		}
		if j.Sync == hare.Relaxed || j.Running() {
			return errors.New("gangs and rigid jobs that do not run at 0 get shapes: give --sync gang or rigid")
		}
		shape := hare.Shape{Tasks: j.Tasks, GPUsPerTask: j.GPUsPerTask, Counts: 1, On: j.On}
		width := float64(shape.Tasks * shape.TaskGPUs())
		for _, w := range cfg.Widths {
			tasks, gpus := tasksOfWidth(w, int64(cfg.PerNode))
			s := hare.Shape{Tasks: tasks, Counts: 1}
			if gpus > 1 {
				s.GPUsPerTask = gpus
			}
			for _, p := range shape.On {
				p.ComputeUs = max(1, int64(float64(p.ComputeUs)*math.Pow(width/float64(w), moldExponent)+0.5))
				s.On = append(s.On, p)
			}
			j.Shapes = append(j.Shapes, s)
		}
		j.Tasks, j.GPUsPerTask, j.On = 0, 0, nil
		j.Reshape, j.ReshapeUs = cfg.Reshape && j.Sync == hare.Gang, 0
		if j.Reshape {
			j.ReshapeUs = cfg.ReshapeUs
		}
		j.NormaliseShapes()
	}
	return nil
}

// tasksOfWidth cuts so many GPUs into tasks that a node of perNode GPUs holds.
func tasksOfWidth(width, perNode int64) (tasks, gpus int64) {
	for gpus = max(1, min(width, perNode)); width%gpus != 0; gpus-- {
	}
	return width / gpus, gpus
}
