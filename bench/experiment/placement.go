package experiment

import (
	"github.com/hare-sched/hare/online/market"
	"github.com/hare-sched/hare/online/policies"
)

// samplingWith is a scheme of sampling with other settings.
func samplingWith(name string, cfg policies.SamplingConfig) Scheme {
	return Scheme{Policy: "sampling", Name: name, Config: policies.Config{Sampling: cfg}}
}

// placements are the instances of syncs with relaxed jobs and gangs, for sampling with and without
// each of its choices.
var placements = Info{
	Name:  "placement",
	Title: "Sampling-based placement online, and what each choice is worth",
	Text: "The relaxed jobs and the gangs of sync. sampling divides the GPUs again at each arrival, end of a job " +
		"and change of the GPUs. Each further line changes one choice that the paper leaves open: how many " +
		"categories are drawn, how, whether half of them are skipped, what a GPU is worth to a job, whether GPUs " +
		"that are left over idle, and whether relaxed jobs wait for GPUs for all tasks of a round.",
	Published: "Liu et al. (TPDS 2024) place a batch at once; hare bench placement compares that with the optimum.",
	schemes: []Scheme{
		{Policy: "sampling"},
		samplingWith("one category", policies.SamplingConfig{Market: market.Config{Draws: 1}}),
		samplingWith("8 categories", policies.SamplingConfig{Market: market.Config{Draws: 8}}),
		samplingWith("none skipped", policies.SamplingConfig{Market: market.Config{Skip: -1}}),
		samplingWith("drawn evenly", policies.SamplingConfig{Market: market.Config{Drawing: market.Uniform}}),
		samplingWith("values are throughputs",
			policies.SamplingConfig{Market: market.Config{Valuation: market.Throughput}}),
		samplingWith("GPUs left over idle", policies.SamplingConfig{OnlyPlaced: true}),
		samplingWith("whole rounds", policies.SamplingConfig{WholeRounds: true}),
		{Policy: "srtf"}, {Policy: "hlas"},
	},
	cases: func(s set) ([]Case, error) {
		var cases []Case
		for _, sync := range []string{"relaxed", "gang"} {
			for seed := range s.seeds() {
				inst, err := s.generate(setting{arrivals: arriving(), sync: sync}, seed)
				if err != nil {
					return nil, err
				}
				inst.Name += "-" + sync
				cases = append(cases, Case{Group: sync + " jobs", Seed: seed, Inst: inst})
			}
		}
		return cases, nil
	},
}
