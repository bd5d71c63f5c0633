package shadow

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/sim"
)

// fill computes the figures of a schedule.
func (cp *comparison) fill(row *Row, o *outcome, res *hare.Result) {
	var waits, ends []float64
	weighted, weight := 0.0, 0.0
	for _, i := range cp.counted {
		j := &cp.inst.Jobs[i]
		w := float64(j.WeightMicro) / 1e6
		waits = append(waits, seconds(o.startUs[i]-j.ReleaseUs))
		ends = append(ends, seconds(o.endUs[i]-j.ReleaseUs))
		weighted += w * ends[len(ends)-1]
		weight += w
	}
	sample := plot.Sample{Name: cp.rep.rows()[len(cp.rep.samples)].name}
	for _, s := range ends {
		sample.Us = append(sample.Us, int64(math.Round(s*1e6)))
	}
	cp.rep.samples = append(cp.rep.samples, sample)
	cp.rep.queues = append(cp.rep.queues, plot.Curve{Name: sample.Name, Points: cp.queue(o)})
	hours := make([]float64, len(cp.rep.GPUs))
	for i, gpus := range o.gpus {
		row.MakespanS = max(row.MakespanS, seconds(o.endUs[i]))
		for _, gpu := range gpus {
			k := slices.IndexFunc(cp.rep.GPUs, func(t TypeGPUs) bool { return t.Type == cp.kinds[gpu] })
			hours[k] += seconds(o.endUs[i]-o.startUs[i]) / 3600
		}
	}
	row.MeanWaitS, row.P95WaitS = mean(waits), percentile(waits, 0.95)
	row.MeanCompletionS, row.P95CompletionS = mean(ends), percentile(ends, 0.95)
	row.WeightedMeanS = weighted / weight
	if b := cp.rep.Bound.WeightedMeanS; b > 0 {
		above := math.Ceil((row.WeightedMeanS/b-1)*1e4) / 1e4
		row.AboveBound = &above
	}
	for k, t := range cp.rep.GPUs {
		row.GPUHours = append(row.GPUHours, TypeHours{t.Type, hours[k]})
	}
	row.Lost = o.lost
	row.Verified, row.Refused = accepted(cp.inst, res)
}

// queueParts is into how many parts of equal length the window is cut where a queue is drawn.
const queueParts = 200

// queue returns the mean number of jobs that wait, by part of the window, over the hours since it began.
// It takes O(jobs + parts of their waits).
func (cp *comparison) queue(o *outcome) []plot.Point {
	part := cp.rep.WindowS / queueParts
	waiting := make([]float64, queueParts)
	for _, i := range cp.counted {
		from, to := seconds(cp.inst.Jobs[i].ReleaseUs), min(seconds(o.startUs[i]), cp.rep.WindowS)
		for k := int(from / part); k < queueParts && float64(k)*part < to; k++ {
			waiting[k] += (min(to, float64(k+1)*part) - max(from, float64(k)*part)) / part
		}
	}
	points := make([]plot.Point, queueParts)
	for k, n := range waiting {
		points[k] = plot.Point{X: (float64(k) + 0.5) * part / 3600, Y: n}
	}
	return points
}

// compareJobs compares the schedules job by job.
func (cp *comparison) compareJobs(was, slurm, online *outcome) {
	r := cp.rep
	fraction := func(now, before float64) *float64 {
		if before == 0 {
			return nil
		}
		x := now/before - 1
		return &x
	}
	r.Check = Check{MeanWait: fraction(r.Slurm.MeanWaitS, r.Happened.MeanWaitS),
		P95Wait:        fraction(r.Slurm.P95WaitS, r.Happened.P95WaitS),
		MeanCompletion: fraction(r.Slurm.MeanCompletionS, r.Happened.MeanCompletionS),
		AnyType:        cp.cfg.Slurm.AnyType}
	near := 0
	users := map[string]*User{}
	saved := func(i int) int64 { return was.endUs[i] - online.endUs[i] }
	for _, i := range cp.counted {
		if off := was.startUs[i] - slurm.startUs[i]; off >= -60e6 && off <= 60e6 {
			near++
		}
		name := cp.built.Jobs[i].User
		u := users[name]
		if u == nil {
			u = &User{User: name}
			users[name] = u
		}
		release := cp.inst.Jobs[i].ReleaseUs
		u.Jobs++
		u.HappenedS += seconds(was.endUs[i] - release)
		u.OnlineS += seconds(online.endUs[i] - release)
		hours := seconds(saved(i)) / 3600
		u.Hours += hours
		switch us := saved(i); {
		case us > 60e6:
			u.Gain++
			r.Gain.Jobs++
			r.Gain.Hours += hours
		case us < -60e6:
			u.Pay++
			r.Pay.Jobs++
			r.Pay.Hours -= hours
		}
	}
	r.Check.WithinMinute = float64(near) / float64(len(cp.counted))
	for _, u := range users {
		u.HappenedS /= float64(u.Jobs)
		u.OnlineS /= float64(u.Jobs)
		r.Users = append(r.Users, *u)
	}
	slices.SortFunc(r.Users, func(a, b User) int {
		return cmp.Or(cmp.Compare(b.Hours, a.Hours), cmp.Compare(a.User, b.User))
	})
	order := slices.Clone(cp.counted)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(saved(b), saved(a)) })
	r.Most, r.Least = []JobRow{}, []JobRow{}
	for x := range min(listed, len(order)) {
		if saved(order[x]) > 0 {
			r.Most = append(r.Most, cp.jobRow(order[x], was, online))
		}
		if last := order[len(order)-1-x]; saved(last) < 0 {
			r.Least = append(r.Least, cp.jobRow(last, was, online))
		}
	}
	r.Saved, r.SavedSimulated = cp.saving(was, online), cp.saving(slurm, online)
}

func (cp *comparison) jobRow(i int, was, online *outcome) JobRow {
	j := cp.built.Jobs[i]
	spec := &cp.inst.Jobs[i]
	return JobRow{ID: j.ID, User: j.User, Name: j.Name, GPUs: spec.Tasks * spec.TaskGPUs(),
		ReleaseS: seconds(spec.ReleaseUs), HappenedS: seconds(was.startUs[i]), HappenedEndS: seconds(was.endUs[i]),
		HappenedTypes: typesOf(was, cp.kinds, i), OnlineS: seconds(online.startUs[i]),
		OnlineEndS: seconds(online.endUs[i]), OnlineTypes: typesOf(online, cp.kinds, i)}
}

// typesOf names the types on which a job ran.
func typesOf(o *outcome, kinds map[string]string, i int) string {
	var names []string
	for name := range ranOn(o, kinds, i) {
		names = append(names, name)
	}
	slices.Sort(names)
	text := ""
	for _, name := range names {
		if text != "" {
			text += "+"
		}
		text += name
	}
	return text
}

// saving is what one schedule saves against another, with intervals by drawing the days of
// submission again, with replacement.
func (cp *comparison) saving(before, after *outcome) Saving {
	type sums struct{ before, after, waitBefore, waitAfter float64 }
	const day = 86400 * int64(1e6)
	index := map[int64]int{}
	var days []sums
	for _, i := range cp.counted {
		release := cp.inst.Jobs[i].ReleaseUs
		at := (cp.rep.OriginUs + release) / day
		d, known := index[at]
		if !known {
			d = len(days)
			index[at] = d
			days = append(days, sums{})
		}
		days[d].before += seconds(before.endUs[i] - release)
		days[d].after += seconds(after.endUs[i] - release)
		days[d].waitBefore += seconds(before.startUs[i] - release)
		days[d].waitAfter += seconds(after.startUs[i] - release)
	}
	fractions := func(draw func() int) (completion, wait float64) {
		var s sums
		for range days {
			d := &days[draw()]
			s.before += d.before
			s.after += d.after
			s.waitBefore += d.waitBefore
			s.waitAfter += d.waitAfter
		}
		return 1 - s.after/s.before, 1 - s.waitAfter/s.waitBefore
	}
	next := -1
	completion, wait := fractions(func() int { next++; return next })
	out := Saving{Completion: Interval{Days: len(days)}, Wait: Interval{Days: len(days)}}
	set := func(to **float64, x float64) {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			*to = &x
		}
	}
	set(&out.Completion.Value, completion)
	set(&out.Wait.Value, wait)
	if len(days) < leastDays {
		return out
	}
	rng := rand.New(rand.NewPCG(cp.cfg.Seed, 16))
	var completions, waits []float64
	for range cp.cfg.Draws {
		c, w := fractions(func() int { return rng.IntN(len(days)) })
		if !math.IsNaN(c) && !math.IsInf(c, 0) {
			completions = append(completions, c)
		}
		if !math.IsNaN(w) && !math.IsInf(w, 0) {
			waits = append(waits, w)
		}
	}
	for _, x := range []struct {
		draws []float64
		of    *Interval
	}{{completions, &out.Completion}, {waits, &out.Wait}} {
		if len(x.draws) > 0 && x.of.Value != nil {
			set(&x.of.Low, percentile(x.draws, 0.025))
			set(&x.of.High, percentile(x.draws, 0.975))
		}
	}
	return out
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, x := range all {
		sum += x
	}
	return sum / float64(max(1, len(all)))
}

// percentile is that of the nearest rank.
func percentile(all []float64, share float64) float64 {
	return sim.Percentile(slices.Sorted(slices.Values(all)), share)
}
