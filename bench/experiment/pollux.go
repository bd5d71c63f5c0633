package experiment

import (
	"context"
	"fmt"
	"slices"

	"github.com/hare-sched/hare/sim/elastic"
	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/trace"
)

// polluxMeasurement uses workload 6 of Pollux's artifact. Seeds are of the search; the other
// policies need none.
var polluxMeasurement = Measurement{
	Name:  "pollux",
	Title: "Pollux beside Optimus and Tiresias, and what each of its parts is worth",
	Text: "Workload 6 of Pollux's artifact: 160 jobs of six applications on 16 nodes of 4 T4. --scale k keeps every " +
		"k-th job and a k-th of the nodes. The parts of Pollux are left out or changed with the first two seeds.",
	Published: "Pollux (OSDI 2021) has on this workload a mean JCT of 2446 s, Optimus+Oracle of 5302 s and Tiresias of " +
		"3470 s (its artifact, one run each).",
	plan: planPollux,
}

const polluxNodes, polluxNodeGPUs, ablationSeeds = 16, 4, 2

func planPollux(cfg *Config) ([]measured, error) {
	jobs, err := polluxJobs(cfg.Scale)
	if err != nil {
		return nil, err
	}
	cluster := elastic.Cluster{GPUType: "T4", Nodes: slices.Repeat([]int{polluxNodeGPUs},
		max(1, polluxNodes/cfg.Scale))}
	var runs []measured
	add := func(group, row string, seeds int, engine elastic.RunConfig, make func(uint64) (elastic.Policy, error)) {
		for k := range seeds {
			seed := cfg.FirstSeed + uint64(k)
			runs = append(runs, measured{group, row, seed, func(ctx context.Context) ([]figure, error) {
				p, err := make(seed)
				if err != nil {
					return nil, err
				}
				o, err := elastic.Run(ctx, row, cluster, jobs, p, engine)
				if err != nil {
					return nil, err
				}
				m := o.Metrics(cluster, jobs)
				return []figure{{"mean JCT s", m.MeanJCTS, 1}, {"p50 s", m.P50JCTS, 0}, {"p99 s", m.P99JCTS, 0},
					{"makespan s", o.MakespanS, 0}, {"use %", 100 * o.Utilization, 1},
					{"restarts a job", float64(o.Starts)/float64(len(jobs)) - 1, 2}}, nil
			}})
		}
	}
	own := func(c elastic.PolluxConfig) func(uint64) (elastic.Policy, error) {
		return func(seed uint64) (elastic.Policy, error) { return elastic.NewPollux(c, seed) }
	}
	add("policies", "pollux", cfg.Repeat, elastic.RunConfig{}, own(elastic.PolluxConfig{}))
	for _, name := range []string{"pollux:optimus", "pollux:tiresias"} {
		add("policies", name, 1, elastic.RunConfig{}, func(uint64) (elastic.Policy, error) {
			info, err := registry.Find(name)
			if err != nil {
				return nil, err
			}
			p, ok := info.New(leases.Config{}).(elastic.Policy)
			if !ok {
				return nil, fmt.Errorf("policy %s changes no widths", name)
			}
			return p, nil
		})
	}
	for _, v := range []struct {
		row    string
		policy elastic.PolluxConfig
		engine elastic.RunConfig
	}{
		{"as published: power −1", elastic.PolluxConfig{}, elastic.RunConfig{}},
		{"batches as submitted", elastic.PolluxConfig{KeepBatch: true}, elastic.RunConfig{}},
		{"power 1", elastic.PolluxConfig{Power: 1}, elastic.RunConfig{}},
		{"power 0 (geometric)", elastic.PolluxConfig{Power: elastic.FairGeometric}, elastic.RunConfig{}},
		{"power −4", elastic.PolluxConfig{Power: -4}, elastic.RunConfig{}},
		{"restarts cost nothing in the search", elastic.PolluxConfig{RestartS: -1}, elastic.RunConfig{}},
		{"10 generations", elastic.PolluxConfig{Generations: 10}, elastic.RunConfig{}},
		{"30 generations", elastic.PolluxConfig{Generations: 30}, elastic.RunConfig{}},
		{"nodes shared by jobs that span nodes", elastic.PolluxConfig{Crowded: true}, elastic.RunConfig{}},
		{"the same, which slows them by 25 %", elastic.PolluxConfig{Crowded: true}, elastic.RunConfig{Interference: .25}},
		{"the same, by 50 %", elastic.PolluxConfig{Crowded: true}, elastic.RunConfig{Interference: .5}},
		{"an interval of 30 s", elastic.PolluxConfig{}, elastic.RunConfig{IntervalS: 30}},
		{"an interval of 240 s", elastic.PolluxConfig{}, elastic.RunConfig{IntervalS: 240}},
	} {
		add("parts of pollux", v.row, min(ablationSeeds, cfg.Repeat), v.engine, own(v.policy))
	}
	return runs, nil
}

// polluxJobs is every so many jobs of the shipped workload.
func polluxJobs(every int) ([]elastic.Job, error) {
	tables, err := trace.ShippedElasticTables()
	if err != nil {
		return nil, err
	}
	workload, err := trace.Shipped("pollux_workload_6.csv")
	if err != nil {
		return nil, err
	}
	read, err := trace.ReadElastic(workload, tables)
	if err != nil {
		return nil, err
	}
	var jobs []elastic.Job
	for i, j := range read.Jobs {
		if i%every == 0 {
			a := j.Training
			jobs = append(jobs, elastic.Job{
				ID: j.ID, Kind: a.Application, ArrivalS: j.ArrivalS, Weight: 1, GPUs: j.GPUs, MaxGPUs: j.MaxGPUs,
				Batch: j.Batch, FixedBatch: j.FixedBatch, Epochs: a.Epochs, Training: a,
				Limits: elastic.BatchLimits{Init: a.InitBatch, Max: a.MaxBatch, MinLocal: a.MinLocal, MaxLocal: a.MaxLocal},
			})
		}
	}
	return jobs, nil
}
