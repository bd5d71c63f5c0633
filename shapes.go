package hare

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// Limits of the shapes and the durations of a job.
const (
	MaxShapes    = 1000
	MaxDurations = 1000
)

// MaxTasks limits the tasks of a round. A gang that is wider than its type is
// infeasible, which the solver reports; a gang that is wider than any cluster is refused
// here.
func MaxTasks(s Sync) int64 {
	if s == Relaxed {
		return 1<<31 - 1
	}
	return MaxGPUs
}

// rounds returns how many rounds in this shape do so many units.
func (s *Shape) rounds(units int64) int64 { return (units + s.Counts - 1) / s.Counts }

// ShapeCount returns the number of shapes of the job, which is 1 where Shapes is nil.
func (j *Job) ShapeCount() int { return max(1, len(j.Shapes)) }

// Shape returns shape number i of the job, from 0 to ShapeCount()−1. Where Shapes is nil, shape
// 0 is what Tasks, GPUsPerTask and On say, and each of its rounds does one unit.
func (j *Job) Shape(i int) Shape {
	if len(j.Shapes) == 0 {
		return Shape{Tasks: j.Tasks, GPUsPerTask: j.GPUsPerTask, Counts: 1, On: j.On}
	}
	return j.Shapes[i]
}

// firstSwitch returns the pointer, relative to the job, of the first switch_s of the job; "" means
// that there is none.
func (j *Job) firstSwitch() string {
	for i := range j.ShapeCount() {
		for _, p := range j.Shape(i).On {
			if p.SwitchUs > 0 {
				return j.profilePointer(i, &p) + "/switch_s"
			}
		}
	}
	return ""
}

// profilePointer returns the pointer, within the job, of a profile of one of its shapes.
func (j *Job) profilePointer(shape int, p *Profile) string {
	at := "on/" + EscapePointer(p.Type)
	if j.Shapes != nil {
		at = "shapes/" + strconv.Itoa(shape) + "/" + at
	}
	return at
}

// NormaliseShapes writes one shape alone as Tasks, GPUsPerTask and On if each of its rounds does
// one unit, and drops what it costs to change the shape where there is one alone.
func (j *Job) NormaliseShapes() {
	if len(j.Shapes) != 1 {
		return
	}
	j.Reshape, j.ReshapeUs = false, 0
	if s := j.Shapes[0]; s.Counts == 1 {
		j.Tasks, j.GPUsPerTask, j.On, j.Shapes = s.Tasks, s.GPUsPerTask, s.On, nil
	}
}

// checkShapes adds the faults of what a round of the job may be: its tasks, its GPUs and their
// times, in one shape or in several.
func (es *InvalidErrors) checkShapes(at string, j *Job) {
	switch {
	case j.Reshape && j.Sync != Gang:
		es.Add(at+"/reshape_s", "not_allowed", "belongs to gang jobs: a %s job keeps its shape, so leave it out, or use "+
			"sync gang", j.Sync)
	case j.Reshape && j.Shapes == nil:
		es.Add(at+"/reshape_s", "not_allowed", "is what it takes to change the shape: give several shapes as well")
	case j.ReshapeUs != 0 && !j.Reshape, j.ReshapeUs < 0, j.ReshapeUs > MaxExact:
		es.Add(at+"/reshape_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
	}
	if j.Shapes == nil {
		es.checkShape(at, j.Sync, &Shape{Tasks: j.Tasks, GPUsPerTask: j.GPUsPerTask, Counts: 1, On: j.On})
		return
	}
	at += "/shapes"
	switch {
	case len(j.Shapes) == 0:
		es.Add(at, "missing_field", `names no shape: give at least one, e.g. {"tasks": 4, "on": {"V100": `+
			`{"compute_s": 1.2}}}, or tasks and on in place of shapes`)
	case len(j.Shapes) > MaxShapes:
		es.Add(at, "too_many", "a job has at most %d shapes", MaxShapes)
	case j.Tasks != 0 || j.GPUsPerTask != 0 || j.On != nil:
		es.Add(at, "not_allowed", "takes the place of tasks, gpus_per_task and on: give these in each shape, or leave out "+
			"shapes")
	default:
		for i := range j.Shapes {
			es.checkShape(at+"/"+strconv.Itoa(i), j.Sync, &j.Shapes[i])
		}
	}
}

// checkNormal adds a fault where NormaliseShapes would change the job.
func (es *InvalidErrors) checkNormal(at string, j *Job) {
	if len(j.Shapes) == 1 && (j.Reshape || j.Shapes[0].Counts == 1) {
		es.Add(at+"/shapes", "not_allowed", "one shape alone never changes, and if it counts 1, it is written as tasks, "+
			"gpus_per_task and on")
	}
}

// checkShape adds the faults of one shape.
func (es *InvalidErrors) checkShape(at string, sync Sync, s *Shape) {
	if most := MaxTasks(sync); s.Tasks < 1 || s.Tasks > most {
		es.Add(at+"/tasks", "out_of_range", "must be between 1 and %d for a %s job", most, sync)
	}
	if s.Counts < 1 || s.Counts > MaxExact {
		es.Add(at+"/counts", "out_of_range", "must be between 1 and %d: the units of rounds that one round in this shape "+
			"does", int64(MaxExact))
	}
	if len(s.On) == 0 {
		es.Add(at+"/on", "missing_field", `"on" names no GPU type: give at least one, e.g. {"V100": {"compute_s": 1.2}}`)
	}
	for i, p := range s.On {
		if !p.sound() || i > 0 && s.On[i-1].Type >= p.Type {
			es.profile(at+"/on/"+EscapePointer(p.Type), p)
			if i > 0 && s.On[i-1].Type >= p.Type {
				es.Add(at+"/on", "unordered", "types must be sorted, each once")
			}
		}
	}
	if s.GPUsPerTask < 0 || s.GPUsPerTask > MaxGPUs {
		es.Add(at+"/gpus_per_task", "out_of_range", "must be between 1 and %d", MaxGPUs)
	} else if sync != Relaxed && s.Tasks <= MaxGPUs && s.Tasks*s.TaskGPUs() > MaxGPUs {
		es.Add(at+"/gpus_per_task", "too_large",
			"a round of %d tasks of %d GPUs needs more than %d GPUs, which no cluster has", s.Tasks, s.GPUsPerTask,
			MaxGPUs)
	}
}

func (p *Profile) sound() bool {
	return p.Type != "" && p.ComputeUs >= 1 && p.ComputeUs <= MaxExact && p.SyncUs >= 0 && p.SyncUs <= MaxExact &&
		p.SwitchUs >= 0 && p.SwitchUs <= MaxExact && utf8.ValidString(p.Type)
}

func (es *InvalidErrors) profile(at string, p Profile) {
	es.typeName(at, p.Type)
	if p.ComputeUs < 1 || p.ComputeUs > MaxExact {
		es.Add(at+"/compute_s", "out_of_range", "must be positive and at most %s", FormatMicros(MaxExact))
	}
	if p.SyncUs < 0 || p.SyncUs > MaxExact {
		es.Add(at+"/sync_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
	}
	if p.SwitchUs < 0 || p.SwitchUs > MaxExact {
		es.Add(at+"/switch_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
	}
}

// checkDurations adds the faults of how long a job may take.
func (es *InvalidErrors) checkDurations(at string, j *Job) {
	if j.Durations == nil {
		return
	}
	at += "/durations"
	if len(j.Durations) > MaxDurations {
		es.Add(at, "too_many", "a job has at most %d durations", MaxDurations)
		return
	}
	sum := int64(0)
	for i, d := range j.Durations {
		where := at + "/" + strconv.Itoa(i)
		if d.Micro < 1 || d.Micro > 1e6 {
			es.Add(where+"/p", "out_of_range", "must be more than 0 and at most 1")
		}
		if d.FactorMicro < 1 || d.FactorMicro > MaxExact {
			es.Add(where+"/factor", "out_of_range", "must be more than 0 and at most %s", FormatMicros(MaxExact))
		}
		if i > 0 && j.Durations[i-1].FactorMicro == d.FactorMicro {
			es.Add(where+"/factor", "duplicate_id", "factor %s appears twice: give it once, with the sum of its p",
				FormatMicros(d.FactorMicro))
		} else if i > 0 && j.Durations[i-1].FactorMicro > d.FactorMicro {
			es.Add(at, "unordered", "durations must be sorted by factor")
		}
		sum += min(max(0, d.Micro), 1e6)
	}
	if sum != 1e6 {
		es.Add(at, "out_of_range", "the p add up to %s: they must add up to 1", FormatMicros(sum))
	}
}

// Uncertain reports whether some job has durations, so that its times may turn out otherwise.
func (inst *Instance) Uncertain() bool {
	return slices.ContainsFunc(inst.Jobs, func(j Job) bool { return j.Durations != nil })
}
