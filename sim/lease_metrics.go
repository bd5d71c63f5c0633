package sim

import (
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// Metrics computes the figures that Outcome.Metrics gives, of a run of jobs on
// cluster. A job's least time is that of its steps on its fastest type that is
// wide enough, its work that of its GPUs meanwhile, where it is least. Means,
// waits and use are those of the outcome, to the last digit.
// O(jobs log jobs).
func (o *LeaseOutcome) Metrics(cluster LeaseCluster, jobs []online.LeaseJob, w Window) *Metrics {
	x := &Metrics{TotalS: o.TotalS, LostTasks: o.Lost, LostS: o.LostS, Switches: o.Switches, SwitchS: o.SwitchS, DownS: o.DownS}
	var in, out []int64
	us := func(s float64) int64 { return int64(math.Round(s * 1e6)) }
	for i, r := range o.Jobs {
		spec := &jobs[i]
		f := JobFigures{ID: r.ID, Weight: spec.Weight, ArrivalS: r.ArrivalS, StartS: r.StartS, EndS: r.EndS,
			Preemptions: r.Preemptions, Dropped: r.Dropped, Counts: w.has(i)}
		if r.EndS >= 0 {
			f.JCTS = r.EndS - r.ArrivalS
		}
		if r.StartS >= 0 {
			f.WaitS = r.StartS - r.ArrivalS
		}
		rate := 0.0
		for k, v := range spec.Rate {
			if cluster.GPUs[k] >= spec.GPUs {
				rate = max(rate, v)
			}
		}
		f.aloneS = float64(spec.Steps) / rate
		f.workS = f.aloneS * float64(spec.GPUs)
		x.Each = append(x.Each, f)
		end := o.TotalS
		if r.EndS >= 0 {
			end = r.EndS
		}
		in, out = append(in, us(r.ArrivalS)), append(out, us(end))
	}
	gpus := 0
	for k, n := range cluster.GPUs {
		gpus += n
		x.Use = append(x.Use, hare.TypeUse{Type: cluster.Types[k], Use: o.UtilizationByType[k]})
	}
	x.compute(newPresence(in, out), in, out, float64(gpus))
	x.MeanJCTS, x.WeightedMeanJCTS, x.MeanWaitS = o.MeanJCTS, o.WeightedJCTS, o.MeanWaitS
	x.Utilisation, x.Preemptions = o.Utilization, o.Preemptions
	return x
}
