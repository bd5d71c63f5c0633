package explain

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// States of spans.
const (
	spanWaiting = "waiting"
	spanRunning = "running"
)

// pause is a time in which a job does not run.
type pause struct {
	before   int // the run that follows
	from, to int64
	cause    string              // after or reshape, or "" where the causes go by type
	after    []explaindoc.Holder // the jobs for which the job waits
}

// timeline returns the job's time as spans: its longest waits, and the spans
// between these waits.
func (v *laneView) timeline(job int, runs []roundRun, prices *jobPrices) (spans []explaindoc.Span) {
	at := 0
	running := func(to int) {
		if at < to {
			spans = append(spans, v.runningSpan(job, runs[at:to], prices))
			at = to
		}
	}
	for _, p := range longestPauses(v.pauses(job, runs), len(runs)) {
		running(p.before)
		spans = append(spans, v.waitingSpan(job, runs, &p))
	}
	running(len(runs))
	return spans
}

// pauses returns the pauses before the runs of a job, in order.
func (v *laneView) pauses(job int, runs []roundRun) (all []pause) {
	j := &v.model.Jobs[job]
	ready := j.ReleaseUs
	if last, jobs := v.after(job); last > ready {
		all = append(all, pause{0, ready, last, waitAfter, jobs})
		ready = last
	}
	for i := range runs {
		if i > 0 && runs[i-1].shape != runs[i].shape && j.ReshapeUs > 0 {
			changed := ready + j.ReshapeUs
			all = append(all, pause{before: i, from: ready, to: changed, cause: waitReshape})
			ready = changed
		}
		if runs[i].start > ready {
			all = append(all, pause{before: i, from: ready, to: runs[i].start})
		}
		ready = runs[i].end
	}
	return all
}

// longestPauses returns the pauses before those runs for which the job waited longest, in order: maxWaits of them,
// and all before a run of which one is among these.
func longestPauses(all []pause, runs int) []pause {
	long := make([]int64, runs) // the time before a run
	for _, p := range all {
		long[p.before] += p.to - p.from
	}
	slices.SortStableFunc(all, func(a, b pause) int {
		return cmp.Or(cmp.Compare(long[b.before], long[a.before]), cmp.Compare(a.before, b.before))
	})
	few := min(len(all), maxWaits)
	for 0 < few && few < len(all) && all[few-1].before == all[few].before {
		few++
	}
	all = all[:few]
	slices.SortFunc(all, func(a, b pause) int {
		return cmp.Or(cmp.Compare(a.before, b.before), cmp.Compare(a.from, b.from))
	})
	return all
}

// runningSpan describes some runs, one after the other.
func (v *laneView) runningSpan(job int, runs []roundRun, prices *jobPrices) explaindoc.Span {
	x := explaindoc.Span{State: spanRunning, FromS: hare.Seconds(max(0, runs[0].start)),
		ToS: hare.Seconds(runs[len(runs)-1].end), Round: runs[0].round, GPUs: map[string]int64{}}
	x.Spread, x.Shapes = v.spreadOf(job, runs), v.shapesOf(job, runs)
	if prices.charges != nil {
		x.Pays = map[string]float64{}
	}
	for i := range runs {
		r := &runs[i]
		x.Rounds += r.rounds
		x.PausedS += hare.Seconds(r.paused)
		if i > 0 {
			x.PausedS += hare.Seconds(r.start - runs[i-1].end)
		}
		for k, n := range r.gpus {
			x.GPUs[v.model.Types[k]] = max(x.GPUs[v.model.Types[k]], n)
		}
		if prices.charges == nil {
			continue
		}
		for p := range r.entries {
			x.Pays[v.model.Types[r.entries[p].kind]] += prices.paid(r, &r.entries[p])
		}
	}
	for k, paid := range x.Pays {
		x.Pays[k] = sixDecimals(paid)
	}
	return x
}

// waitingSpan describes a pause, with its causes.
func (v *laneView) waitingSpan(job int, runs []roundRun, p *pause) explaindoc.Span {
	r := &runs[p.before]
	x := explaindoc.Span{State: spanWaiting, FromS: hare.Seconds(p.from), ToS: hare.Seconds(p.to), Round: r.round}
	if p.cause != "" {
		until := x.ToS
		x.Waits = []explaindoc.Wait{{Cause: p.cause, FromS: x.FromS, ToS: x.ToS, ForS: x.ToS - x.FromS, UntilS: &until,
			Jobs: p.after}}
	} else {
		x.Waits = v.inShape(job, r.shape).waits(job, p.from, p.to)
		v.nameShape(job, r.shape, x.Waits)
	}
	if p.cause != waitAfter {
		x.Waits = append(x.Waits, v.shapeWaits(job, runs, p.before, p.from, p.to)...)
	}
	return x
}

// spreadOf says over which levels the rounds of some runs are spread, from fine to coarse, and by how
// much longer they take than rounds that are spread as little as the cluster allows.
func (v *laneView) spreadOf(job int, runs []roundRun) (out []explaindoc.Spread) {
	if !v.spreads(job) {
		return nil
	}
	for level, name := range v.model.Levels.Names {
		x := explaindoc.Spread{Level: name}
		for i := range runs {
			r := &runs[i]
			if r.spread != level {
				continue
			}
			longest, least := int64(0), int64(0)
			for k := range r.entries {
				longest = max(longest, r.entries[k].end)
				least = max(least, v.leastRound(job, r.shape, r.entries[k].kind))
			}
			x.Rounds += r.rounds
			x.RoundS = max(x.RoundS, hare.Seconds(longest))
			x.MoreS += hare.Seconds(r.rounds * max(0, longest-least))
		}
		if x.Rounds > 0 {
			out = append(out, x)
		}
	}
	return out
}

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
