package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"gonum.org/v1/gonum/stat"
)

// Metrics are the figures by which policies of all engines are compared. Times are in
// seconds. Means and percentiles are over the jobs that count, percentiles by nearest
// rank; all are 0 without jobs.
type Metrics struct {
	// Jobs is the number of jobs that count, Dropped the number of those that were
	// dropped; means leave dropped jobs out.
	Jobs, Dropped int
	// MeanJCTS is the mean of C − a, WeightedJCTS is Σ w (C − a), the objective, and
	// WeightedMeanJCTS is WeightedJCTS / Σ w.
	MeanJCTS, WeightedJCTS, WeightedMeanJCTS float64
	P50JCTS, P90JCTS, P99JCTS                float64
	// MakespanS is the last end of a job that counts, TotalS the time at which the run
	// ended; a run of leases goes on to the end of its last round.
	MakespanS, TotalS float64
	// MeanWaitS and P99WaitS are the mean and a percentile of first start − a.
	MeanWaitS, P99WaitS float64
	// MeanSlowdown and P99Slowdown are of the slowdowns (C − a) / (R τ), where τ is the
	// time of the job's fastest task. A slowdown is at least 1.
	MeanSlowdown, P99Slowdown float64
	// Jain is Jain's fairness index (Σ x)² / (n Σ x²) of the slowdowns x; 1 where all are
	// equal.
	Jain float64
	// MeanRho and WorstRho are of the jobs' finish-time fairness ρ after Themis: C − a
	// over the time that the job would take with an equal share of the cluster, which is
	// max(R τ, N W / M). W is the job's work in GPU-seconds on its fastest type, M the
	// greatest number of GPUs of all types in service at one time, N the mean number of
	// jobs in the system from a to C. A job with ρ above 1 was treated worse than by equal
	// shares.
	MeanRho, WorstRho float64
	// Use is, by type, the share of the GPU time in service up to TotalS that tasks or
	// leases held; Utilization is the same share over all types.
	Use         []hare.TypeUse
	Utilization float64
	// Switches counts changes of job on a GPU, SwitchS the GPU-seconds that they took.
	// For elastic jobs they are the allocations (elastic.Outcome.Starts) and the restarts.
	Switches int64
	SwitchS  float64
	// Preemptions counts how often a job that had not ended lost its GPUs or moved; see
	// Outcome.Preemptions and leases.Outcome.Preemptions.
	Preemptions int64
	// LostTasks counts the tasks, or leases, that were lost to faults and failures, LostS
	// their GPU-seconds. Failures counts the failures of tasks.
	LostTasks, Failures int64
	LostS               float64
	// DownS are the GPU-seconds up to TotalS that faults took out of service; Use does
	// not count them as in service.
	DownS float64
	// JCTsS are the completion times of all jobs, ascending: their CDF.
	JCTsS []float64
	// Each is every job, by number.
	Each []JobFigures
}

// JobFigures are the figures of one job. Jobs are numbered by arrival from 0; jobs of
// equal arrival keep their order. StartS is below 0 where the job never held a GPU, EndS
// where the job had not ended when the run ended; what is computed from them is then 0.
type JobFigures struct {
	ID                     string
	Weight                 float64
	ArrivalS, StartS, EndS float64
	JCTS, WaitS            float64
	Slowdown, Rho          float64
	Preemptions            int64
	Dropped                bool
	Counts                 bool // whether the job is in the window, so that means include it

	FromS, UntilS float64 // when the job was in the system, in any unit
	AloneS, WorkS float64 // R τ and W
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

// Metrics computes the figures of a run of inst over the jobs of Config.Window. The cost
// is O(jobs log jobs + GPUs).
func (o *Outcome) Metrics(inst *hare.Instance) *Metrics {
	model := model.New(withoutRunning(inst))
	x := &Metrics{
		TotalS: float64(o.EndUs) / 1e6, Use: o.Use, Switches: o.Switches, SwitchS: float64(o.SwitchUs) / 1e6,
		Preemptions: o.Preemptions, LostTasks: o.Lost, Failures: o.Failures, LostS: float64(o.LostUs) / 1e6,
		DownS: o.DownUs / 1e6,
	}
	order := make([]int, len(o.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(inst.Jobs[a].ReleaseUs, inst.Jobs[b].ReleaseUs)
	})
	x.Each = make([]JobFigures, 0, len(order))
	least := fastestRounds{model: model}
	for number, i := range order {
		j, m := &o.Jobs[i], &model.Jobs[i]
		long, work := math.Inf(1), math.Inf(1)
		for _, md := range m.Modes {
			held := md.DurationUs()
			if md.SyncByLevel != nil {
				held = least.us(i, &md)
			}
			long = min(long, float64(held)/1e6)
			if m.Sync == hare.Relaxed {
				held = md.ComputeUs
			}
			work = min(work, float64(held)/1e6)
		}
		f := JobFigures{
			ID: j.ID, Weight: float64(m.WeightMicro) / 1e6, ArrivalS: float64(m.ReleaseUs) / 1e6,
			StartS: float64(j.StartUs) / 1e6, EndS: float64(j.EndUs) / 1e6,
			JCTS: float64(j.EndUs-m.ReleaseUs) / 1e6, WaitS: float64(j.StartUs-m.ReleaseUs) / 1e6,
			Counts: o.window.has(number),
			FromS:  float64(m.ReleaseUs), UntilS: float64(j.EndUs), AloneS: float64(m.Rounds) * long,
			WorkS: float64(m.Rounds) * float64(m.Tasks) * work,
		}
		if spec := &inst.Jobs[i]; spec.Progress != nil {
			left, runsS := left(inst, i)
			f.AloneS = runsS + float64(left)*long
			f.WorkS = float64(m.Tasks) * (runsS + float64(left)*work)
		}
		if o.preempted != nil {
			f.Preemptions = o.preempted[i]
		}
		x.Each = append(x.Each, f)
	}
	x.Fill(float64(mostGPUs(model)))
	if o.window.Last == 0 {
		x.WeightedJCTS = o.Value.Float() // exact
		x.weigh()
	}
	var held, service float64
	for k := range model.Types {
		s := o.serviceUs(model, k)
		held, service = held+o.Use[k].Use*s, service+s
	}
	if service > 0 {
		x.Utilization = held / service
	}
	return x
}

// Fill computes the figures that follow from the times of the jobs, for a cluster of so
// many GPUs.
func (m *Metrics) Fill(gpus float64) {
	var waits, slows, rhos []float64
	present := newPresence(m.Each)
	for i := range m.Each {
		f := &m.Each[i]
		if f.EndS >= 0 && !f.Dropped {
			f.Slowdown = f.JCTS / f.AloneS
			f.Rho = f.JCTS / max(f.AloneS, present.mean(f.FromS, f.UntilS)*f.WorkS/gpus)
		}
		if !f.Counts {
			continue
		}
		if m.Jobs++; f.Dropped {
			m.Dropped++
			continue
		}
		m.JCTsS = append(m.JCTsS, f.JCTS)
		m.WeightedJCTS += f.Weight * f.JCTS
		m.MakespanS = max(m.MakespanS, f.EndS)
		waits, slows, rhos = append(waits, f.WaitS), append(slows, f.Slowdown), append(rhos, f.Rho)
	}
	m.weigh()
	m.MeanJCTS, m.MeanWaitS, m.MeanSlowdown, m.MeanRho = mean(m.JCTsS), mean(waits), mean(slows), mean(rhos)
	slices.Sort(m.JCTsS)
	slices.Sort(waits)
	slices.Sort(slows)
	slices.Sort(rhos)
	m.P50JCTS, m.P90JCTS, m.P99JCTS = Percentile(m.JCTsS, .5), Percentile(m.JCTsS, .9), Percentile(m.JCTsS, .99)
	m.P99WaitS, m.P99Slowdown, m.WorstRho = Percentile(waits, .99), Percentile(slows, .99), Percentile(rhos, 1)
	m.Jain = jain(slows)
}

// weigh computes WeightedMeanJCTS from WeightedJCTS and the weights of the jobs that count.
func (m *Metrics) weigh() {
	weights := 0.0
	for i := range m.Each {
		if f := &m.Each[i]; f.Counts && !f.Dropped {
			weights += f.Weight
		}
	}
	m.WeightedMeanJCTS = 0
	if weights > 0 {
		m.WeightedMeanJCTS = m.WeightedJCTS / weights
	}
}

// serviceUs is the GPU time of a type in service up to EndUs, without the time of faults.
func (o *Outcome) serviceUs(m *model.Model, kind int) float64 {
	sum := 0.0
	for _, c := range m.Classes {
		if c.Type != kind {
			continue
		}
		for _, w := range c.Windows {
			sum += float64(min(w.EndUs, o.EndUs)-min(w.StartUs, o.EndUs)) * float64(len(c.GPUs))
		}
	}
	return sum - o.downUs[kind]
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
func mostGPUs(m *model.Model) int64 {
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
		return int(a.by - b.by) // GPUs that leave come first
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
	at    []float64
	level []float64 // number of jobs from at on
	sum   []float64 // integral of the number of jobs up to at
}

func newPresence(records []JobFigures) *presence {
	var in, out []float64
	for i := range records {
		in, out = append(in, records[i].FromS), append(out, records[i].UntilS)
	}
	slices.Sort(in)
	slices.Sort(out)
	p := &presence{}
	level, sum, last := 0.0, 0.0, 0.0
	for len(in) > 0 || len(out) > 0 {
		var at float64
		by := 1.0
		if len(in) > 0 && (len(out) == 0 || in[0] <= out[0]) {
			at, in = in[0], in[1:]
		} else {
			at, out, by = out[0], out[1:], -1
		}
		sum += level * (at - last)
		level, last = level+by, at
		p.at, p.level, p.sum = append(p.at, at), append(p.level, level), append(p.sum, sum)
	}
	return p
}

// mean is the mean number of jobs from one time to a later one; both must be in at.
func (p *presence) mean(from, to float64) float64 {
	if to <= from {
		return 1
	}
	return (p.until(to) - p.until(from)) / (to - from)
}

func (p *presence) until(t float64) float64 {
	i, _ := slices.BinarySearch(p.at, t)
	return p.sum[i]
}

// Percentile is the one definition of a percentile in this module: the least of the sorted values that at least the
// share p of them do not exceed. It is 0 without values.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return stat.Quantile(p, stat.Empirical, sorted, nil)
}
