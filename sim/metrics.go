package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// Metrics are the figures by which policies are compared. Times are in seconds;
// means and percentiles are over jobs, percentiles by nearest rank; all are 0
// without jobs.
type Metrics struct {
	// Jobs that count, and those of them that were dropped, which no mean counts.
	Jobs, Dropped int
	// MeanJCTS is the mean of C − a, WeightedJCTS Σ w (C − a), the objective, and
	// WeightedMeanJCTS that over Σ w.
	MeanJCTS, WeightedJCTS, WeightedMeanJCTS float64
	P50JCTS, P90JCTS, P99JCTS                float64
	// MakespanS is the last end of a job that counts, TotalS when the run ended:
	// that of leases goes on to the end of its round.
	MakespanS, TotalS float64
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
	// Use is by type the share of the GPU time in service up to TotalS that tasks
	// or leases held, Utilisation that over all types, by GPU time (of leases, by
	// GPUs: all are always in service).
	Use         []hare.TypeUse
	Utilisation float64
	// Switches are changes of job on a GPU, SwitchS the GPU-seconds that they
	// took.
	Switches int64
	SwitchS  float64
	// Preemptions count gangs and rigid jobs that stopped between two rounds, or
	// went on on other GPUs; of leases, those that had not ended and lost their
	// GPUs, or moved, at the end of one. Relaxed jobs hold no GPU between tasks.
	Preemptions int64
	// LostTasks are tasks whose GPU left or that failed, and those of their gangs;
	// of leases, those that a fault ended or without a step for each GPU. LostS are
	// their GPU-seconds.
	LostTasks int64
	LostS     float64
	// Failures are tasks that failed and were done again, DownS the GPU-seconds up
	// to TotalS that faults took out of service, which Use does not count as there.
	Failures int64
	DownS    float64
	// JCTsS are the completion times of all jobs, ascending: their CDF.
	JCTsS []float64
	// Each is every job, by number.
	Each []JobFigures
}

// JobFigures are one job's. Jobs are numbered by arrival from 0, those of equal
// arrival as they are given. StartS is below 0 where the job held nothing, EndS
// where it had not ended when the run did: the rest is then 0.
type JobFigures struct {
	ID                     string
	Weight                 float64
	ArrivalS, StartS, EndS float64
	JCTS, WaitS            float64
	Slowdown, Rho          float64
	Preemptions            int64
	Dropped                bool
	Counts                 bool // it is in the window that figures are of

	aloneS, workS float64 // R τ and W
}

// Window is the numbers of the jobs that count. Last zero means all.
type Window struct{ First, Last int }

func (w Window) has(number int) bool {
	return w.Last == 0 || number >= w.First && number <= w.Last
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

// Metrics computes the figures of a run of inst, which was simulated, over the
// jobs that Config.Window counts. O(jobs log jobs + entries of the schedule + GPUs).
func (o *Outcome) Metrics(inst *hare.Instance) *Metrics {
	model := hare.NewModel(inst)
	x := &Metrics{
		TotalS: float64(o.EndUs) / 1e6, Use: o.Use, Switches: o.Switches, SwitchS: float64(o.SwitchUs) / 1e6,
		LostTasks: o.Lost, LostS: float64(o.LostUs) / 1e6, Failures: o.Failures, DownS: o.DownUs / 1e6,
	}
	order := make([]int, len(o.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(inst.Jobs[a].ReleaseUs, inst.Jobs[b].ReleaseUs) })
	var in, out []int64
	for number, i := range order {
		j, m := &o.Jobs[i], &model.Jobs[i]
		f := JobFigures{
			ID: j.ID, Weight: float64(m.WeightMicro) / 1e6, ArrivalS: float64(m.ReleaseUs) / 1e6, StartS: float64(j.StartUs) / 1e6, EndS: float64(j.EndUs) / 1e6,
			JCTS: float64(j.EndUs-m.ReleaseUs) / 1e6, WaitS: float64(j.StartUs-m.ReleaseUs) / 1e6, Counts: o.window.has(number),
		}
		if o.Preemptions != nil {
			f.Preemptions = o.Preemptions[i]
		}
		long, work := math.Inf(1), math.Inf(1)
		for _, md := range m.Modes {
			long = min(long, float64(md.DurationUs())/1e6)
			held := md.DurationUs()
			if m.Sync == hare.Relaxed {
				held = md.ComputeUs
			}
			work = min(work, float64(held)/1e6)
		}
		f.aloneS, f.workS = float64(m.Rounds)*long, float64(m.Rounds)*float64(m.Tasks)*work
		x.Each = append(x.Each, f)
		in, out = append(in, m.ReleaseUs), append(out, j.EndUs)
	}
	x.compute(newPresence(in, out), in, out, float64(mostGPUs(model)))
	if o.window.Last == 0 {
		x.WeightedJCTS = o.Value.Float() // exact
		x.weigh()
	}
	var held, service float64
	for k := range model.Types {
		s := serviceUs(model, k, o.EndUs) - o.downUs[k]
		held, service = held+o.Use[k].Use*s, service+s
	}
	if service > 0 {
		x.Utilisation = held / service
	}
	return x
}

// compute fills in what follows from the times of jobs; inUs and outUs are when
// they came and went. M GPUs are the most that are ever there.
func (x *Metrics) compute(present *presence, inUs, outUs []int64, gpus float64) {
	var waits, slows, rhos []float64
	for i := range x.Each {
		f := &x.Each[i]
		x.Preemptions += f.Preemptions
		if f.EndS >= 0 && !f.Dropped {
			f.Slowdown = f.JCTS / f.aloneS
			f.Rho = f.JCTS / max(f.aloneS, present.mean(inUs[i], outUs[i])*f.workS/gpus)
		}
		if !f.Counts {
			continue
		}
		if x.Jobs++; f.Dropped {
			x.Dropped++
			continue
		}
		x.JCTsS = append(x.JCTsS, f.JCTS)
		x.WeightedJCTS += f.Weight * f.JCTS
		x.MakespanS = max(x.MakespanS, f.EndS)
		waits, slows, rhos = append(waits, f.WaitS), append(slows, f.Slowdown), append(rhos, f.Rho)
	}
	x.weigh()
	x.MeanJCTS = mean(x.JCTsS)
	slices.Sort(x.JCTsS)
	x.MeanWaitS, x.MeanSlowdown, x.MeanRho = mean(waits), mean(slows), mean(rhos)
	slices.Sort(waits)
	slices.Sort(slows)
	slices.Sort(rhos)
	x.P50JCTS, x.P90JCTS, x.P99JCTS = percentile(x.JCTsS, .5), percentile(x.JCTsS, .9), percentile(x.JCTsS, .99)
	x.P99WaitS, x.P99Slowdown, x.WorstRho = percentile(waits, .99), percentile(slows, .99), percentile(rhos, 1)
	x.Jain = jain(slows)
}

// weigh divides by the weights of the jobs that count.
func (x *Metrics) weigh() {
	weights := 0.0
	for i := range x.Each {
		if f := &x.Each[i]; f.Counts && !f.Dropped {
			weights += f.Weight
		}
	}
	x.WeightedMeanJCTS = 0
	if weights > 0 {
		x.WeightedMeanJCTS = x.WeightedJCTS / weights
	}
}

// serviceUs is the GPU time of a type in service up to endUs.
func serviceUs(m *hare.Model, kind int, endUs int64) float64 {
	sum := 0.0
	for _, c := range m.Classes {
		if c.Type != kind {
			continue
		}
		for _, w := range c.Windows {
			sum += float64(min(w.EndUs, endUs)-min(w.StartUs, endUs)) * float64(len(c.GPUs))
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

// newPresence takes the times at which jobs came and went.
func newPresence(in, out []int64) *presence {
	in, out = slices.Sorted(slices.Values(in)), slices.Sorted(slices.Values(out))
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
