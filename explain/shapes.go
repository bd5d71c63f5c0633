package explain

import (
	"cmp"
	"slices"

	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// Limits of what an explanation says of the shapes in which a job does not run.
const (
	maxTriedShapes = 32 // shapes that are tried for a wait: the first of the job
	maxShapeWaits  = 6  // waits for a shape that are listed: the longest
)

// shapesOf says how many rounds of some runs have each shape, for jobs with shapes.
func (v *laneView) shapesOf(job int, runs []roundRun) (out []explaindoc.ShapeRounds) {
	if v.shapes[job] == nil {
		return nil
	}
	for i := range runs {
		r := &runs[i]
		at := slices.IndexFunc(out, func(x explaindoc.ShapeRounds) bool { return x.Shape == r.shape })
		if at < 0 {
			at = len(out)
			out = append(out, explaindoc.ShapeRounds{Shape: r.shape})
		}
		out[at].Rounds += r.rounds
	}
	return out
}

// nameShape writes the shape of a job with shapes into its waits.
func (v *laneView) nameShape(job, shape int, waits []explaindoc.Wait) {
	if v.shapes[job] == nil {
		return
	}
	for i := range waits {
		waits[i].Shape = &shape
	}
}

// shapeWaits says in which other shapes the first round of runs[run] could have started between from
// and to, the longest waits first. A job that may not change its shape had this choice before its first round alone.
func (v *laneView) shapeWaits(job int, runs []roundRun, run int, from, to int64) (all []explaindoc.Wait) {
	j := &v.model.Jobs[job]
	if v.shapes[job] == nil || run > 0 && !j.Reshape {
		return nil
	}
	for x := range j.Shapes[:min(len(j.Shapes), maxTriedShapes)] {
		shape := j.Shapes[x].Index
		if shape == runs[run].shape {
			continue
		}
		begin := from
		if run > 0 && shape != runs[run-1].shape {
			begin = max(begin, runs[run-1].end+j.ReshapeUs)
		}
		if begin >= to {
			continue
		}
		in := v.inShape(job, shape)
		could := slices.DeleteFunc(in.waits(job, begin, to), func(w explaindoc.Wait) bool { return w.Cause != waitChoice })
		for i := range could {
			could[i].Cause = waitShape
		}
		v.nameShape(job, shape, could)
		all = append(all, could...)
	}
	slices.SortStableFunc(all, func(a, b explaindoc.Wait) int { return cmp.Compare(b.ForS, a.ForS) })
	return all[:min(len(all), maxShapeWaits)]
}
