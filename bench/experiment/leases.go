package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/trace"
)

// OfLeases says that the experiment compares policies of leases. Its cases and policies cannot be
// replaced, its instances are traces as they are, and its runs have no bound.
func (info Info) OfLeases() bool { return info.leaseCases != nil }

func (info Info) prepareLeases(cfg *Config) ([]leaseCase, error) {
	if cfg.Policies != nil || cfg.Instances != nil {
		return nil, fmt.Errorf("experiment %s compares policies of leases on traces: policies and instances cannot "+
			"be replaced", info.Name)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cases, err := info.leaseCases(max(1, cfg.Scale))
	if err != nil {
		return nil, fmt.Errorf("experiment %s: %w", info.Name, err)
	}
	return cases, nil
}

// runLeases is Run for policies of leases.
func (info Info) runLeases(ctx context.Context, cfg *Config) (*Report, error) {
	cases, err := info.prepareLeases(cfg)
	if err != nil {
		return nil, err
	}
	runs := make([]Run, len(cases)*len(info.leaseSchemes))
	w := &work{ctx: ctx, cfg: cfg, total: len(runs)}
	err = w.each(len(runs), func(i int) error {
		c, s := &cases[i/len(info.leaseSchemes)], &info.leaseSchemes[i%len(info.leaseSchemes)]
		w.begin("%s: %s", c.Group, s.name())
		p, err := registry.Find(s.Policy)
		if err != nil {
			return err
		}
		with := s.Config
		if cfg.Solver.LP != nil {
			with.Solver = &registry.Programs{Primary: cfg.Solver.LP}
		}
		rules := c.Config
		rules.Fork = s.Fork
		out, err := leases.Run(ctx, s.Policy, c.Cluster, c.Jobs, p.New(with), rules)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", c.Group, s.name(), err)
		}
		m := out.Metrics(c.Cluster, c.Jobs)
		if m.MakespanS == 0 {
			m.MakespanS = out.TotalS
		}
		if out.Dropped > 0 {
			return fmt.Errorf("%s: %s: %w", c.Group, s.name(), errDropped)
		}
		runs[i] = Run{Group: c.Group, Instance: c.Group, X: c.X, Seed: c.Seed, Scheme: s.name(), Policy: p, Metrics: m}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("experiment %s: %w", info.Name, err)
	}
	compare(runs)
	return &Report{Info: info, Runs: runs}, nil
}

// errDropped says that a run has jobs that no mean would count.
var errDropped = errors.New("jobs were dropped")

// hadars are the schemes and traces for Hadar.
var hadars = Info{
	Name:  "hadar",
	Title: "Hadar beside Gavel's policies, and what each of its choices is worth",
	Text: "Gavel's traces with Gavel's rates, measured on one server and across servers, on nodes of four GPUs of " +
		"one type, in rounds of 360 s of which a gang on new GPUs loses 10 s. Each line below Gavel's policies " +
		"changes one choice of hadar.",
	Published: "Hadar: 2.5 times better mean JCT than Gavel (IPDPS 2024), 1.20 times better total duration than " +
		"Gavel (arXiv 2503.10918, 2025), on clusters and traces that are not public in full.",
	measures: []measure{meanJCT, p99Slowdown},
	leaseSchemes: []leaseScheme{
		{Policy: "hadar"},
		{Policy: "gavel:max_min_fairness_perf"}, {Policy: "gavel:min_total_duration_perf"},
		{Policy: "gavel:finish_time_fairness_perf"}, {Policy: "gavel:fifo_perf"},
		hadarOf("utility inverse_remaining", leases.HadarConfig{Utility: leases.InverseRemaining}),
		hadarOf("utility inverse_slowdown", leases.HadarConfig{Utility: leases.InverseSlowdown}),
		hadarOf("utility least_attained", leases.HadarConfig{Utility: leases.LeastAttained}),
		hadarOf("utility speed", leases.HadarConfig{Utility: leases.EffectiveSpeed}),
		hadarOf("utility longest_first", leases.HadarConfig{Utility: leases.LongestFirst}),
		hadarOf("η = 16", leases.HadarConfig{Eta: 16}),
		hadarOf("beam 1", leases.HadarConfig{Beam: 1}),
		hadarOf("beam 16", leases.HadarConfig{Beam: 16}),
		hadarOf("no exchanges", leases.HadarConfig{Exchanges: -1}),
		hadarOf("64 exchanges", leases.HadarConfig{Exchanges: 64}),
		hadarOf("by arrival", leases.HadarConfig{ByArrival: true}),
		hadarOf("one type", leases.HadarConfig{OneType: true}),
		hadarOf("one node", leases.HadarConfig{OneNode: true}),
		hadarOf("GPUs idle", leases.HadarConfig{Strict: true}),
	},
	leaseCases: func(scale int) ([]leaseCase, error) {
		var cases []leaseCase
		for _, x := range []struct {
			name string
			gpus int // of each of three types
			jobs int
		}{
			{"generated500_multi", 8, 500}, {"max_min_fairness", 8, 96}, {"generated1000_single", 8, 1000},
			{"generated500_multi", 36, 500}, {"continuous5600_single", 36, 1000},
		} {
			c, err := ratedCase(x.name, x.gpus, max(2, x.jobs/scale))
			if err != nil {
				return nil, err
			}
			cases = append(cases, c)
		}
		return cases, nil
	},
}

func hadarOf(name string, cfg leases.HadarConfig) leaseScheme {
	return leaseScheme{Policy: "hadar", Name: "hadar, " + name, Config: leases.Config{Hadar: cfg}}
}

// ratedCase is the first jobs of a trace of Gavel's on so many GPUs of each of three types. Steps are
// rounded up to whole rounds of the gang, so that no job is dropped.
func ratedCase(name string, gpus, jobs int) (leaseCase, error) {
	rated, err := shippedRates(name, fmt.Sprintf("v100=%[1]d,p100=%[1]d,k80=%[1]d", gpus))
	if err != nil {
		return leaseCase{}, err
	}
	c := leaseCase{
		Group:   fmt.Sprintf("%s, %d GPUs of each type", name, gpus),
		Cluster: leases.Cluster{Types: rated.Types, GPUs: rated.GPUs, NodeSize: []int{4, 4, 4}},
		Config:  leases.RunConfig{RestartS: 10},
	}
	for _, j := range rated.Jobs[:min(jobs, len(rated.Jobs))] {
		gpus := int64(j.GPUs)
		c.Jobs = append(c.Jobs, leases.Job{ID: j.ID, ArrivalS: j.ArrivalS, Weight: j.Weight, GPUs: j.GPUs,
			Steps: (j.Steps + gpus - 1) / gpus * gpus, Rounds: true, Rate: j.Rate, SpreadRate: j.SpreadRate,
			Kind: j.Kind})
	}
	return c, nil
}

// hadarEs are the schemes and batches for HadarE.
var hadarEs = Info{
	Name:  "hadare",
	Title: "HadarE beside Hadar and Gavel on small clusters of unlike nodes, and what each of its choices is worth",
	Text: "Five nodes with one GPU each, and batches of 1 to 12 jobs that need one GPU, all there at the start, with " +
		"Gavel's rates. Rounds are 360 s, of which a job loses 10 s on a GPU that it did not have before; with several " +
		"copies, 10 s more at the end for merging their parameters. Of each size there are five batches.",
	axis: "jobs in the batch",
	Published: "HadarE: the total time of batches is 50 % (AWS) and 80 % (laboratory) lower than Gavel's, and the use " +
		"of the cluster 1.45 times Hadar's (arXiv 2503.10918), on five unlike nodes.",
	measures: []measure{makespan, meanJCT, use},
	leaseSchemes: []leaseScheme{
		{Policy: "hadare", Config: leases.Config{HadarE: leases.HadarEConfig{MergeShare: mergeS / 360}},
			Fork: leases.Fork{MergeS: mergeS}},
		{Policy: "hadar"},
		{Policy: "gavel:max_min_fairness_perf"}, {Policy: "gavel:min_total_duration_perf"}, {Policy: "gavel:fifo_perf"},
		hadarEOf("two copies", leases.HadarEConfig{MaxCopies: 2}, leases.Fork{MergeS: mergeS}),
		hadarEOf("merging is free", leases.HadarEConfig{}, leases.Fork{}),
		hadarEOf("merging 60 s", leases.HadarEConfig{}, leases.Fork{MergeS: 60}),
		hadarEOf("efficiency 0.8", leases.HadarEConfig{}, leases.Fork{MergeS: mergeS, Efficiency: 0.8}),
		hadarEOf("efficiency 0.5", leases.HadarEConfig{}, leases.Fork{MergeS: mergeS, Efficiency: 0.5}),
		hadarEOf("rates misjudged", leases.HadarEConfig{}, leases.Fork{MergeS: mergeS, Guess: alike}),
		hadarEOf("utility inverse_remaining",
			leases.HadarEConfig{Hadar: leases.HadarConfig{Utility: leases.InverseRemaining}},
			leases.Fork{MergeS: mergeS}),
	},
	leaseCases: func(scale int) ([]leaseCase, error) {
		var cases []leaseCase
		for _, cluster := range []string{"k80=2,p100=1,v100=2", "k80=3,p100=1,v100=1"} {
			for _, jobs := range []int{1, 3, 5, 8, 12} {
				for batch := range max(1, 5/scale) {
					c, err := batchCase(cluster, jobs, batch)
					if err != nil {
						return nil, err
					}
					cases = append(cases, c)
				}
			}
		}
		return cases, nil
	},
}

const mergeS = 10 // of a lease with several copies

func hadarEOf(name string, cfg leases.HadarEConfig, fork leases.Fork) leaseScheme {
	cfg.MergeShare, cfg.Efficiency = fork.MergeS/360, fork.Efficiency
	return leaseScheme{Policy: "hadare", Name: "hadare, " + name, Config: leases.Config{HadarE: cfg}, Fork: fork}
}

// alike makes the tracker take all types for equally fast until it has measured them.
func alike(j *leases.Job, gpuType int) float64 { return 1 / j.Rate[gpuType] }

// batchCase is so many jobs of one GPU from a trace of Gavel's, on nodes of one GPU. Batches of a size share no
// jobs.
func batchCase(cluster string, jobs, batch int) (leaseCase, error) {
	rated, err := shippedRates("generated1000_single", cluster)
	if err != nil {
		return leaseCase{}, err
	}
	c := leaseCase{
		Group:   cluster,
		X:       float64(jobs),
		Seed:    uint64(batch + 1),
		Cluster: leases.Cluster{Types: rated.Types, GPUs: rated.GPUs, NodeSize: []int{1, 1, 1}},
		Config:  leases.RunConfig{RestartS: 10},
	}
	for _, j := range rated.Jobs[jobs*batch : jobs*(batch+1)] {
		c.Jobs = append(c.Jobs, leases.Job{ID: j.ID, Weight: 1, GPUs: 1, Steps: j.Steps, Rate: j.Rate, Kind: j.Kind})
	}
	return c, nil
}

// shippedRates reads a trace of Gavel's with rates on a cluster.
func shippedRates(name, cluster string) (*trace.RatedTrace, error) {
	source, err := trace.Shipped(name)
	if err != nil {
		return nil, err
	}
	table, err := trace.Shipped("gavel_throughputs.csv")
	if err != nil {
		return nil, err
	}
	types, err := trace.ParseGPUs(cluster)
	if err != nil {
		return nil, err
	}
	return trace.ReadRated(source, table, types)
}
