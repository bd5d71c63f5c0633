package experiment

import (
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

// weightedJCT is the papers' main comparison. Its instances were fixed before
// its first run: the generator's setting of 200 jobs on 160 GPUs (V100=64,
// T4=48, K80=24, M60=24), seeds 1 to 3, once all at time 0 and once evenly over
// 1,200 s; small ones have a fifth of jobs and GPUs and seeds 1 to 5.
var weightedJCT = Info{
	Name:      "weighted-jct",
	Title:     "Weighted job completion time of the paper's six schemes",
	Text:      "Relaxed jobs of 8 models on four GPU types; the same instances for every scheme, each beside the certified bound.",
	Published: "Hare (HPDC 2022): weighted JCT 47.6 to 75.3 % lower than the other schemes, 160 GPUs, 200 jobs, arrivals of a Google trace.",
	policies:  []string{"hare_offline", "hare_paper", "hlas", "sched_allox", "sched_homo", "srtf", "gavel_fifo"},
	cases: func(small bool) ([]Case, error) {
		base, seeds := trace.GenerateConfig{}, uint64(3)
		span := 1200
		if small {
			base = trace.GenerateConfig{Jobs: 40, GPUs: []hare.TypeCount{{Type: "V100", Count: 13}, {Type: "T4", Count: 10}, {Type: "K80", Count: 5}, {Type: "M60", Count: 4}}}
			seeds = 5
		}
		var cases []Case
		for _, g := range []struct{ name, arrivals string }{
			{"all at time 0", "none"}, {fmt.Sprintf("arrivals over %d s", span), fmt.Sprintf("uniform:%d", span)},
		} {
			for seed := uint64(1); seed <= seeds; seed++ {
				cfg := base
				cfg.Arrivals, cfg.Seed = g.arrivals, seed
				inst, err := trace.Generate(cfg)
				if err != nil {
					return nil, fmt.Errorf("experiment: %w", err)
				}
				if g.arrivals != "none" {
					inst.Name += "-arrivals"
				}
				cases = append(cases, Case{g.name, inst})
			}
		}
		return cases, nil
	},
}
