package sim

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// Metrics are the figures by which policies are compared. Times are in seconds;
// means and percentiles are over jobs, percentiles by nearest rank; all are 0
// without jobs.
type Metrics struct {
	Jobs int
	// MeanJCTS is the mean of C − a, WeightedJCTS Σ w (C − a), the objective, and
	// WeightedMeanJCTS that over Σ w.
	MeanJCTS, WeightedJCTS, WeightedMeanJCTS float64
	P50JCTS, P90JCTS, P99JCTS                float64
	MakespanS                                float64
	// MeanWaitS and P99WaitS are of first start − a.
	MeanWaitS, P99WaitS float64
	// A job's slowdown is (C − a) / (R τ), τ its fastest task: at least 1.
	MeanSlowdown, P99Slowdown float64
	// Jain is (Σ x)² / (n Σ x²) of the slowdowns x; 1 where all are alike.
	Jain float64
	// A job's rho is its finish-time fairness after Themis: (C − a) over how long
	// it would take with an equal share of the cluster, max(R τ, N W / M): W its
	// GPU-seconds of work on its fastest type, M the most GPUs of all types that
	// are ever there together, N the mean number of jobs in the system from a to
	// C. Above 1, it was treated worse than by equal shares.
	MeanRho, WorstRho float64
	// Use is Outcome.Use, Utilisation that over all types, by GPU time.
	Use         []hare.TypeUse
	Utilisation float64
	// Switches are changes of job on a GPU; −1 where there is no schedule (Moved).
	Switches int64
	// LostTasks and LostS are work that GPUs took with them when they left; LostS
	// in GPU-seconds.
	LostTasks int64
	LostS     float64
	// JCTsS are the completion times of all jobs, ascending: their CDF.
	JCTsS []float64
}

// Share is the fraction of jobs that ended within limitS of their release.
// O(log jobs).
func (m *Metrics) Share(limitS float64) float64 {
	if m.Jobs == 0 {
		return 0
	}
	n, _ := slices.BinarySearchFunc(m.JCTsS, limitS, func(x, limit float64) int {
		if x <= limit {
			return -1
		}
		return 1
	})
	return float64(n) / float64(m.Jobs)
}

// Metrics computes the figures of a run of inst, which was simulated.
// O(jobs log jobs + entries of the schedule + GPUs).
func (o *Outcome) Metrics(inst *hare.Instance) *Metrics {
	model := hare.NewModel(inst)
	x := &Metrics{
		Jobs: len(o.Jobs), WeightedJCTS: o.Value.Float(), MakespanS: float64(o.MakespanUs) / 1e6, Use: o.Use,
		LostTasks: o.Lost, LostS: float64(o.LostUs) / 1e6, Switches: -1,
	}
	var waits, slows, rhos []float64
	var weights float64
	present := newPresence(inst, o)
	gpus := float64(mostGPUs(model))
	for i := range o.Jobs {
		j, m := &o.Jobs[i], &model.Jobs[i]
		jct := float64(j.EndUs-m.ReleaseUs) / 1e6
		x.JCTsS = append(x.JCTsS, jct)
		waits = append(waits, float64(j.StartUs-m.ReleaseUs)/1e6)
		weights += float64(m.WeightMicro) / 1e6
		long, work := math.Inf(1), math.Inf(1)
		for _, md := range m.Modes {
			long = min(long, float64(md.DurationUs())/1e6)
			held := md.DurationUs()
			if m.Sync == hare.Relaxed {
				held = md.ComputeUs
			}
			work = min(work, float64(held)/1e6)
		}
		alone := float64(m.Rounds) * long
		slows = append(slows, jct/alone)
		share := present.mean(m.ReleaseUs, j.EndUs) * float64(m.Rounds) * float64(m.Tasks) * work / gpus
		rhos = append(rhos, jct/max(alone, share))
	}
	slices.Sort(x.JCTsS)
	x.MeanJCTS, x.MeanWaitS, x.MeanSlowdown, x.MeanRho = mean(x.JCTsS), mean(waits), mean(slows), mean(rhos)
	slices.Sort(waits)
	slices.Sort(slows)
	slices.Sort(rhos)
	x.P50JCTS, x.P90JCTS, x.P99JCTS = percentile(x.JCTsS, .5), percentile(x.JCTsS, .9), percentile(x.JCTsS, .99)
	x.P99WaitS, x.P99Slowdown, x.WorstRho = percentile(waits, .99), percentile(slows, .99), percentile(rhos, 1)
	if weights > 0 {
		x.WeightedMeanJCTS = x.WeightedJCTS / weights
	}
	x.Jain = jain(slows)
	var held, service float64
	for k := range model.Types {
		s := o.serviceUs(model, k)
		held, service = held+o.Use[k].Use*s, service+s
	}
	if service > 0 {
		x.Utilisation = held / service
	}
	if o.Schedule != nil {
		x.Switches = 0
		for _, l := range o.Schedule.Lanes {
			for e := 1; e < len(l.Job); e++ {
				if l.Job[e] != l.Job[e-1] {
					x.Switches++
				}
			}
		}
	}
	return x
}

// serviceUs is the GPU time of a type in service up to the makespan.
func (o *Outcome) serviceUs(m *hare.Model, kind int) float64 {
	sum := 0.0
	for _, c := range m.Classes {
		if c.Type != kind {
			continue
		}
		for _, w := range c.Windows {
			sum += float64(min(w.EndUs, o.MakespanUs)-min(w.StartUs, o.MakespanUs)) * float64(len(c.GPUs))
		}
	}
	return sum
}

func mean(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func jain(v []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range v {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(v)) * squares)
}

// mostGPUs is the most GPUs of all types in service at one time.
func mostGPUs(m *hare.Model) int64 {
	type change struct{ atUs, by int64 }
	var changes []change
	for k := range m.Types {
		level := int64(0)
		for _, s := range m.Capacity(k) {
			changes = append(changes, change{s.FromUs, s.Count - level})
			level = s.Count
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		if a.atUs != b.atUs {
			return int(min(1, max(-1, a.atUs-b.atUs)))
		}
		return int(a.by - b.by) // those that leave first
	})
	level, most := int64(0), int64(1)
	for _, c := range changes {
		level += c.by
		most = max(most, level)
	}
	return most
}

// presence integrates the number of jobs in the system over time.
type presence struct {
	atUs  []int64
	level []float64 // from atUs on
	sum   []float64 // job-µs up to atUs
}

func newPresence(inst *hare.Instance, o *Outcome) *presence {
	var in, out []int64
	for i := range o.Jobs {
		in, out = append(in, inst.Jobs[i].ReleaseUs), append(out, o.Jobs[i].EndUs)
	}
	slices.Sort(in)
	slices.Sort(out)
	p := &presence{}
	level, sum, last := 0.0, 0.0, int64(0)
	for len(in) > 0 || len(out) > 0 {
		var at int64
		by := 1.0
		if len(in) > 0 && (len(out) == 0 || in[0] <= out[0]) {
			at, in = in[0], in[1:]
		} else {
			at, out, by = out[0], out[1:], -1
		}
		sum += level * float64(at-last)
		level, last = level+by, at
		p.atUs, p.level, p.sum = append(p.atUs, at), append(p.level, level), append(p.sum, sum)
	}
	return p
}

// mean is the mean number from one time to a later one, which are among atUs.
func (p *presence) mean(fromUs, toUs int64) float64 {
	if toUs <= fromUs {
		return 1
	}
	return (p.until(toUs) - p.until(fromUs)) / float64(toUs-fromUs)
}

func (p *presence) until(us int64) float64 {
	i, _ := slices.BinarySearch(p.atUs, us)
	return p.sum[i]
}
