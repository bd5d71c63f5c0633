package shadow

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/sim"
)

// DocumentVersion names the form of a Report.
const DocumentVersion = "shadow/v1"

// Report is what Compare found. Times are in seconds. Means and percentiles are over the jobs that
// did not run yet when the window began; a wait counts from the submission, or from the begin of
// the window where the job was submitted before.
type Report struct {
	Hare    string `json:"hare"`
	Version string `json:"version"`
	// Source says what was read, assumed and left out.
	Source *history.Report `json:"source"`
	// OriginUs is the begin of the window, in microseconds since 1970, and WindowS the time from there
	// to the last end of a job.
	OriginUs int64   `json:"origin_us"`
	WindowS  float64 `json:"window_s"`
	Seed     uint64  `json:"seed"`
	// Jobs are the jobs that the figures count.
	Jobs int `json:"jobs"`
	// RunningAtBegin are jobs that no scheduler could move any more: they hold their GPUs and are in no
	// mean. WaitingAtBegin are counted, with waits from the begin of the window. RunningAtEnd are
	// counted as if they had ended with the log. WaitingAtEnd are left out.
	RunningAtBegin int        `json:"running_at_begin"`
	WaitingAtBegin int        `json:"waiting_at_begin"`
	RunningAtEnd   int        `json:"running_at_end"`
	WaitingAtEnd   int        `json:"waiting_at_end"`
	GPUs           []TypeGPUs `json:"gpus"`
	// WeightsOne says that all jobs weigh the same, so that means by weight are plain means.
	WeightsOne bool `json:"weights_one"`

	Happened Row `json:"happened"`
	Slurm    Row `json:"slurm"`
	Online   Row `json:"online"`
	// Coarse says that Hare's policy was told the jobs without estimates and classes, as there are many.
	Coarse    bool `json:"coarse,omitempty"`
	Hindsight Row  `json:"hindsight"`
	// Bound is what no scheduler could have gone below.
	Bound Bound `json:"bound"`
	// Check compares the simulated Slurm with what happened.
	Check Check `json:"check"`
	// Saved is what Hare would have saved against what happened, and SavedSimulated against the
	// simulated Slurm.
	Saved          Saving `json:"saved"`
	SavedSimulated Saving `json:"saved_simulated"`
	// Gain and Pay count the jobs that would have ended over a minute earlier or later than they did.
	Gain   Change   `json:"gain"`
	Pay    Change   `json:"pay"`
	Users  []User   `json:"users"`
	Most   []JobRow `json:"gain_most"`
	Least  []JobRow `json:"pay_most"`
	Losses Losses   `json:"losses"`

	samples []plot.Sample // the completion times of the rows, for the page
}

// TypeGPUs is a number of GPUs of one type.
type TypeGPUs struct {
	Type string `json:"type"`
	GPUs int64  `json:"gpus"`
}

// Row are the figures of one schedule of the jobs.
type Row struct {
	MeanWaitS       float64 `json:"mean_wait_s"`
	P95WaitS        float64 `json:"p95_wait_s"`
	MeanCompletionS float64 `json:"mean_completion_s"`
	P95CompletionS  float64 `json:"p95_completion_s"`
	// WeightedMeanS is the mean completion by weight, which the bound is about.
	WeightedMeanS float64 `json:"weighted_mean_completion_s"`
	// AboveBound is by which fraction WeightedMeanS is above the bound, rounded up; null where the bound
	// is 0.
	AboveBound *float64 `json:"above_bound"`
	MakespanS  float64  `json:"makespan_s"`
	// GPUHours are the hours that jobs held GPUs, by type.
	GPUHours []TypeHours `json:"gpu_hours"`
	// Verified says that the verifier accepts the schedule; Refused says why not.
	Verified bool   `json:"verified"`
	Refused  string `json:"refused,omitempty"`
	// Lost counts tasks that ended because a node left service.
	Lost int `json:"lost_tasks"`
}

// TypeHours are hours of GPUs of one type.
type TypeHours struct {
	Type  string  `json:"type"`
	Hours float64 `json:"hours"`
}

// Bound is a certified bound: no schedule of these jobs on these GPUs that starts no job before its
// release has a smaller mean, if the times by type are right.
type Bound struct {
	Method string `json:"method"`
	// Total is the bound on the sum of weight times completion.
	Total string `json:"total"`
	// WeightedMeanS is the bound on the mean completion by weight, rounded down.
	WeightedMeanS float64 `json:"weighted_mean_completion_s"`
	// MeanCompletionS is the same where all weights are one, and null elsewhere.
	MeanCompletionS *float64 `json:"mean_completion_s"`
	// LeastS is the part of WeightedMeanS that each job takes alone on its fastest type, and QueueS the
	// rest: the waiting, or the slower types, that no scheduler can avoid.
	LeastS float64 `json:"least_s"`
	QueueS float64 `json:"queue_s"`
	// P95CompletionS bounds the 95th percentile: the 95th percentile of the least times of the jobs.
	P95CompletionS float64 `json:"p95_completion_s"`
}

// Check says how far the simulated Slurm is from what happened, as fractions of what happened; null
// where that is 0.
type Check struct {
	MeanWait       *float64 `json:"mean_wait"`
	P95Wait        *float64 `json:"p95_wait"`
	MeanCompletion *float64 `json:"mean_completion"`
	// WithinMinute is the share of jobs that start within a minute of when they did.
	WithinMinute float64 `json:"within_minute"`
	// AnyType says that jobs that named no type could start on any, with the assumed times; otherwise
	// each job kept to the types where it ran.
	AnyType bool `json:"any_type"`
}

// Saving is the fraction of a mean that would have been saved, with its interval.
type Saving struct {
	Completion Interval `json:"completion"`
	Wait       Interval `json:"wait"`
}

// Interval is a figure with the 95 % interval of drawing the days again; Low and High are null where
// the window has fewer than three days with jobs, and Value is null where it has no meaning.
type Interval struct {
	Value *float64 `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	Days  int      `json:"days"`
}

// Change counts jobs, and the hours by which their completions change together.
type Change struct {
	Jobs  int     `json:"jobs"`
	Hours float64 `json:"hours"`
}

// User is what would have changed for the jobs of one user.
type User struct {
	User      string  `json:"user"`
	Jobs      int     `json:"jobs"`
	HappenedS float64 `json:"happened_mean_completion_s"`
	OnlineS   float64 `json:"online_mean_completion_s"`
	Gain      int     `json:"gain"`
	Pay       int     `json:"pay"`
	// Hours is by how much the completions of the user's jobs get shorter together.
	Hours float64 `json:"hours_saved"`
}

// JobRow is what would have changed for one job. Starts and ends count from the begin of the window.
type JobRow struct {
	ID            string  `json:"id"`
	User          string  `json:"user"`
	Name          string  `json:"name"`
	GPUs          int64   `json:"gpus"`
	ReleaseS      float64 `json:"release_s"`
	HappenedS     float64 `json:"happened_start_s"`
	HappenedEndS  float64 `json:"happened_end_s"`
	HappenedTypes string  `json:"happened_types"`
	OnlineS       float64 `json:"online_start_s"`
	OnlineEndS    float64 `json:"online_end_s"`
	OnlineTypes   string  `json:"online_types"`
}

// Losses say where completion times and GPU time go.
type Losses struct {
	// Steps take one limit away after the other; each has the mean completion by weight that is left.
	Steps    []Step `json:"steps,omitempty"`
	Happened []Idle `json:"happened"`
	Online   []Idle `json:"online"`
}

// Step is a mean completion by weight without some limit.
type Step struct {
	Code  string  `json:"code"`
	Text  string  `json:"text"`
	MeanS float64 `json:"weighted_mean_completion_s"`
}

// Idle says for a GPU type what its GPU time was used for until the last job had been submitted, as
// shares of the time in service, measured at instants that are evenly spread.
type Idle struct {
	Type string `json:"type"`
	// Held is the share that jobs held. Slower is the part of Held that was more than the job would have
	// needed on its fastest type.
	Held   float64 `json:"held"`
	Slower float64 `json:"slower"`
	// NoJob is idle while no waiting job could use the type. Order is idle although a waiting job had
	// room. Fragmented is idle while a waiting job found enough GPUs, but not on the nodes where it needs
	// them or not with the CPUs and memory. Narrow is idle while waiting jobs needed more GPUs than were
	// free.
	NoJob      float64 `json:"no_job"`
	Order      float64 `json:"order"`
	Fragmented float64 `json:"fragmented"`
	Narrow     float64 `json:"narrow"`
}

// JSON writes the report, indented.
func (r *Report) JSON(w io.Writer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

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

// leastDays is how many days with submissions an interval needs.
const leastDays = 3

// listed is how many jobs the lists of those that gain and pay most have.
const listed = 10

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
