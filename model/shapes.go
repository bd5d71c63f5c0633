package model

import (
	"github.com/hare-sched/hare"
	"slices"
)

// Shape is one shape in which the rounds of a job may run.
type Shape struct {
	Index       int // in Job.Shapes, as the column Lane.Shape has it
	Tasks, GPUs int64
	Counts      int64  // u, the units that one round does
	Modes       []Mode // as Job.Modes
}

// RoundsFor returns how many rounds in the shape do so many units.
func (ms *Shape) RoundsFor(units int64) int64 { return (units + ms.Counts - 1) / ms.Counts }

// InShape returns the job as it is if all rounds that are left have shape number i of j.Shapes:
// a job without Shapes whose Rounds are rounds and not units. FirstRound still counts units. A
// job without Shapes is returned as it is.
func (j *Job) InShape(i int) Job {
	one := *j
	if j.Shapes == nil {
		return one
	}
	s := &j.Shapes[i]
	one.Tasks, one.GPUs, one.Modes = s.Tasks, s.GPUs, s.Modes
	one.Rounds = s.RoundsFor(j.Rounds)
	one.Shapes, one.Reshape, one.ReshapeUs = nil, false, 0
	return one
}

// addShapes fills in the shapes of a job, in the order of the document. modes resolves profiles.
// A job that runs at time 0 and may not change its shape has only the shape in which it runs.
func (j *Job) addShapes(spec *hare.Job, modes func([]hare.Profile) []Mode) {
	if spec.Shapes == nil {
		return
	}
	j.Reshape, j.ReshapeUs = spec.Reshape, spec.ReshapeUs
	j.GPUs = 0
	if spec.Running() {
		j.RunsShape = spec.Progress.Shape
	}
	for i := range spec.Shapes {
		if s := &spec.Shapes[i]; !spec.Running() || j.Reshape || i == j.RunsShape {
			j.Shapes = append(j.Shapes, Shape{Index: i, Tasks: s.Tasks, GPUs: s.TaskGPUs(), Counts: s.Counts,
				Modes: modes(s.On)})
		}
	}
}

// dropModes removes the modes of a job for which drop says so, in each shape.
func (j *Job) dropModes(drop func(in *Job, md Mode) bool) {
	if j.Shapes == nil {
		j.Modes = slices.DeleteFunc(j.Modes, func(md Mode) bool { return drop(j, md) })
		return
	}
	for i := range j.Shapes {
		in := j.InShape(i)
		j.Shapes[i].Modes = slices.DeleteFunc(j.Shapes[i].Modes, func(md Mode) bool { return drop(&in, md) })
	}
}
