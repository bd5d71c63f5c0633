package experiment

import (
	"strconv"

	"github.com/hare-sched/hare/online/policies"
)

// clairvoyance uses 200 jobs on the standard cluster with Poisson arrivals of 1.5, 3, 6 and
// 12 jobs a minute, seeds 1 to 5.
var clairvoyance = Info{
	Name:  "clairvoyance",
	Title: "HLAS, which knows nothing, against schedulers that know more",
	Text: "200 relaxed jobs on 160 GPUs by Poisson arrivals. hare_offline knows the future, srtf and " +
		"sched_allox know sizes, the others nothing.",
	Published: "Hare (TCC 2024): HLAS improves the mean JCT by a factor of about 2.94; the parts of the paper that " +
		"we have do not name the baseline.",
	axis:     "jobs a minute",
	measures: []measure{meanJCT, meanOver},
	schemes:  named("hlas", "hare_offline", "srtf", "sched_allox", "tiresias", "fifo", "gavel_fifo"),
	cases: func(s set) ([]Case, error) {
		return s.sweep("Poisson arrivals", []float64{1.5, 3, 6, 12}, poisson(200, s))
	},
}

// poisson returns the setting in which x jobs arrive a minute on the standard cluster. The
// rate is divided by the scale, as the cluster is.
func poisson(jobs int, s set) func(float64) setting {
	return func(x float64) setting {
		return setting{jobs: jobs, arrivals: "poisson:" + strconv.FormatFloat(x/60/float64(s.scale), 'g', -1, 64)}
	}
}

// thresholds uses the instances of weightedJCT. The first threshold of HLAS and Tiresias is
// 1 to 120 GPU-minutes.
var thresholds = Info{
	Name:  "thresholds",
	Title: "Where jobs leave the first queue of HLAS",
	Text: "The instances of weighted-jct. HLAS counts seconds of a job's fastest type, Tiresias those of any; " +
		"the default of both is 3600 s. fifo is HLAS with one queue.",
	Published: "None: the papers do not give thresholds.",
	axis:      "threshold, GPU-seconds", logarithmic: true,
	measures: []measure{weighted, meanJCT},
	schemes:  named("hlas", "tiresias", "fifo"),
	cases: func(s set) ([]Case, error) {
		cases, err := s.twoLoads()
		return again(cases, []float64{60, 180, 600, 1800, 3600, 7200}, func(c *Case,
			x float64) {
			c.ThresholdUs = int64(x) * 1e6
		}), err
	},
}

// starvation uses 600 jobs on the standard cluster with Poisson arrivals of 3, 4.5, 6, 7.5,
// 10 and 15 jobs a minute, seeds 1 to 5, and a threshold of 600 GPU-seconds, which about
// half of the jobs pass. The rates 10 and 15 were added after the first run, which showed
// that 7.5 jobs a minute hardly overload the cluster.
var starvation = Info{
	Name:  "starvation",
	Title: "Long jobs under HLAS, with and without its guard",
	Text: "600 relaxed jobs on 160 GPUs by Poisson arrivals. Jobs leave the first queue at 600 GPU-seconds; " +
		"the guard returns those that have waited κ times as long as they have run. Long jobs are the tenth with " +
		"the most work.",
	Published: "None: Tiresias (NSDI 2019) has such a guard; we have no figures for it.",
	axis:      "jobs a minute",
	measures:  []measure{longJCT, meanJCT, p99Slowdown, worstSlowdown},
	schemes: []Scheme{
		{Policy: "hlas", Name: "hlas, κ = 2"},
		{Policy: "hlas", Name: "hlas, κ = 8", Config: policies.Config{Kappa: 8}},
		{Policy: "hlas", Name: "hlas, no guard", Config: policies.Config{Kappa: 1e6}},
		{Policy: "fifo"},
	},
	cases: func(s set) ([]Case, error) {
		cases, err := s.sweep("Poisson arrivals", []float64{3, 4.5, 6, 7.5, 10, 15}, poisson(600, s))
		for i := range cases {
			cases[i].ThresholdUs = 600e6
		}
		return cases, err
	},
}
