package study

import (
	"github.com/hare-sched/hare/sim"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// figure is a figure of a run that has a mean over repeats.
type figure struct {
	name string
	of   func(*Run) float64
}

// figures lists the figures in the order of Run.
var figures = []figure{
	{"mean_jct_s", func(r *Run) float64 { return r.MeanJCTS }},
	{"weighted_mean_jct_s", func(r *Run) float64 { return r.WeightedMeanJCTS }},
	{"weighted_jct_s", func(r *Run) float64 { return r.WeightedJCTS }},
	{"p50_jct_s", func(r *Run) float64 { return r.P50JCTS }},
	{"p90_jct_s", func(r *Run) float64 { return r.P90JCTS }},
	{"p99_jct_s", func(r *Run) float64 { return r.P99JCTS }},
	{"mean_wait_s", func(r *Run) float64 { return r.MeanWaitS }},
	{"p99_wait_s", func(r *Run) float64 { return r.P99WaitS }},
	{"mean_slowdown", func(r *Run) float64 { return r.MeanSlowdown }},
	{"p99_slowdown", func(r *Run) float64 { return r.P99Slowdown }},
	{"mean_rho", func(r *Run) float64 { return r.MeanRho }},
	{"worst_rho", func(r *Run) float64 { return r.WorstRho }},
	{"jain", func(r *Run) float64 { return r.Jain }},
	{"total_duration_s", func(r *Run) float64 { return r.TotalS }},
	{"makespan_s", func(r *Run) float64 { return r.MakespanS }},
	{"utilization", func(r *Run) float64 { return r.Utilization }},
	{"switches", func(r *Run) float64 { return float64(r.Switches) }},
	{"switch_gpu_s", func(r *Run) float64 { return r.SwitchS }},
	{"preemptions", func(r *Run) float64 { return float64(r.Preemptions) }},
	{"lost_tasks", func(r *Run) float64 { return float64(r.LostTasks) }},
	{"failures", func(r *Run) float64 { return float64(r.Failures) }},
	{"lost_gpu_s", func(r *Run) float64 { return r.LostS }},
	{"down_gpu_s", func(r *Run) float64 { return r.DownS }},
}

// meansOf returns the means of each policy. The repeats of a policy must be
// consecutive in runs.
func meansOf(runs []Run, repeats int) []simulatedoc.Means {
	var out []simulatedoc.Means
	for ; len(runs) >= repeats; runs = runs[repeats:] {
		m := simulatedoc.Means{Policy: runs[0].Policy, Engine: runs[0].Engine, Repeats: int64(repeats),
			Figures: map[string]simulatedoc.MeanInterval{}}
		values := make([]float64, repeats)
		for _, f := range figures {
			for i := range values {
				values[i] = f.of(&runs[i])
			}
			m.Figures[f.name] = interval(values)
		}
		out = append(out, m)
	}
	return out
}

// interval returns the mean of values with its confidence interval, which a single
// value does not have.
func interval(values []float64) simulatedoc.MeanInterval {
	var s sim.Stat
	for _, v := range values {
		s.Add(v)
	}
	if len(values) < 2 {
		return simulatedoc.MeanInterval{Mean: s.Mean}
	}
	return simulatedoc.MeanInterval{Mean: s.Mean, Half: &s.Half}
}
