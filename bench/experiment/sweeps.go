package experiment

import "github.com/hare-sched/hare"

// gpuSweep uses 200 jobs that arrive over 1,200 s on 1/2, 3/4, 1, 5/4 and 3/2 of the
// standard cluster, seeds 1 to 5.
var gpuSweep = Info{
	Name:      "gpus",
	Title:     "Weighted JCT against the number of GPUs",
	Text:      "200 relaxed jobs that arrive over 1200 s, on 80 to 240 GPUs, four types in the same proportions.",
	Published: "Hare (HPDC 2022) varies the number of GPUs; the parts of the paper that we have give no figure.",
	axis:      "GPUs",
	schemes:   six,
	cases: func(s set) ([]Case, error) {
		return s.sweep("arrivals over 1200 s", []float64{80, 120, 160, 200, 240}, func(x float64) setting {
			return setting{gpus: cluster(int(x), 160), arrivals: arriving()}
		})
	},
}

// jobSweep uses 100 to 300 jobs that arrive over 1,200 s on the standard cluster, seeds 1
// to 5.
var jobSweep = Info{
	Name:      "jobs",
	Title:     "Weighted JCT against the number of jobs",
	Text:      "100 to 300 relaxed jobs that arrive over 1200 s, on 160 GPUs.",
	Published: "Hare (HPDC 2022): at 300 jobs weighted JCT 54.6 to 80.5 % lower than the other schemes.",
	axis:      "jobs",
	schemes:   six,
	cases: func(s set) ([]Case, error) {
		return s.sweep("arrivals over 1200 s", []float64{100, 150, 200, 250, 300}, func(x float64) setting {
			return setting{jobs: int(x), arrivals: arriving()}
		})
	},
}

// mix uses 200 jobs that arrive over 1,200 s on 160 GPUs, seeds 1 to 5. Of the GPUs, 0 to
// 160 are V100s, and the others are K80s.
var mix = Info{
	Name:  "mix",
	Title: "Weighted JCT against the mix of GPU types",
	Text: "200 relaxed jobs that arrive over 1200 s, on 160 GPUs: the axis gives the number of V100, and the " +
		"others are K80.",
	Published: "Hare (HPDC 2022) varies the mix; the parts of the paper that we have give no figure.",
	axis:      "V100 among 160 GPUs",
	schemes:   six,
	cases: func(s set) ([]Case, error) {
		return s.sweep("arrivals over 1200 s", []float64{0, 32, 64, 96, 128, 160}, func(x float64) setting {
			return setting{gpus: []hare.TypeCount{{Type: "V100", Count: int(x)}, {Type: "K80", Count: 160 - int(x)}},
				arrivals: arriving()}
		})
	},
}
