// Package leases lends GPUs to gangs for a time: the engine, Run, and its policies, a small
// file each. docs/use/policies.md lists them, with what
// is assumed and how far they agree with their own simulators.
package leases

import (
	"errors"
	"fmt"

	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/sim"
)

// Needs is what a policy must be given beyond jobs, rates and a cluster.
type Needs struct {
	LP        bool // linear programs: Config.Solver
	Sizes     bool // how many steps a job has left
	PairRates bool // rates of jobs that share GPUs
	OneGPU    bool // every job needs one GPU
	Entities  bool // every job belongs to an entity
	SLOs      bool // some job has a deadline
	Prices    bool // of an hour of each GPU type: Config.Prices, CheckPrices
}

// Config holds the settings of policies.
type Config struct {
	// Solver is for policies with Needs.LP; nil means a Simplex of its own.
	Solver lp.Solver
	// Seed is the seed of the policy's own draws.
	Seed uint64
	// Prices are what an hour of a GPU costs, by type, for the policies of cost;
	// nil means GavelPrices.
	Prices map[string]float64
	// Hadar are the settings of hadar, and HadarE those of hadare.
	Hadar  HadarConfig
	HadarE HadarEConfig
}

// Info describes a policy.
type Info struct {
	Name  string
	Needs Needs
	// Text says in a line what the policy does.
	Text string
	make func(Config) any
}

// New makes a fresh policy, a leases.SharePolicy or a leases.HoldPolicy.
func (info Info) New(cfg Config) any {
	if cfg.Solver == nil {
		cfg.Solver = &lp.Simplex{}
	}
	return info.make(cfg)
}

// ErrTooLarge says that a policy would need too much memory.
var ErrTooLarge = errors.New("policy: too large")

// All lists the policies of leases by name.
func All() []Info { return append([]Info(nil), policies...) }

var policies = []Info{
	{"gavel:allox", Needs{Sizes: true, OneGPU: true}, "least sum of completion times, by matching; no preemption",
		func(Config) any { return &gavelAlloX{} }},
	{"gavel:fifo", Needs{}, "first come first served, types at random",
		func(c Config) any { return &gavelFIFO{draws: sim.NewTwister(c.Seed)} }},
	{"gavel:fifo_perf", Needs{}, "first come first served, the fastest type with room",
		func(Config) any { return &gavelFIFO{perf: true} }},
	{"gavel:finish_time_fairness", Needs{Sizes: true}, "least worst finish-time fairness, all types as the fastest",
		func(Config) any { return &gavelFinish{} }},
	{"gavel:finish_time_fairness_perf", Needs{Sizes: true}, "least worst finish-time fairness",
		func(Config) any { return &gavelFinish{perf: true} }},
	{"gavel:gandiva", Needs{PairRates: true}, "equal shares; jobs paired at random where they do not fit",
		func(c Config) any { return &gavelGandiva{draws: sim.NewTwister(c.Seed)} }},
	{"gavel:hierarchical", Needs{Entities: true}, "water filling by entities and the jobs in them, all types alike",
		func(Config) any { return &gavelWaterFill{entities: true} }},
	{"gavel:hierarchical_perf", Needs{Entities: true}, "water filling by entities and the jobs in them",
		func(Config) any { return &gavelWaterFill{perf: true, entities: true} }},
	{"gavel:isolated", Needs{}, "an equal share of every type",
		func(Config) any { return gavelIsolated{} }},
	{"gavel:max_min_fairness", Needs{LP: true}, "LAS: greatest least share, all types alike",
		func(c Config) any { return &gavelMaxMin{solver: c.Solver} }},
	{"gavel:max_min_fairness_perf", Needs{LP: true}, "LAS: greatest least throughput, in equal shares",
		func(c Config) any { return &gavelMaxMin{perf: true, solver: c.Solver} }},
	{"gavel:max_min_fairness_water_filling", Needs{},
		"LAS, then the least of those who can have more, all types alike",
		func(Config) any { return &gavelWaterFill{} }},
	{"gavel:max_min_fairness_water_filling_perf", Needs{}, "LAS, then the least of those who can have more",
		func(Config) any { return &gavelWaterFill{perf: true} }},
	{"gavel:max_sum_throughput_normalized_by_cost_perf", Needs{LP: true, Prices: true}, "most steps for a dollar",
		func(c Config) any { return &gavelCost{prices: c.Prices, solver: c.Solver} }},
	{"gavel:max_sum_throughput_normalized_by_cost_perf_SLOs", Needs{LP: true, Sizes: true, SLOs: true, Prices: true},
		"most steps for a dollar, with deadlines kept where all can be",
		func(c Config) any { return &gavelCost{slos: true, prices: c.Prices, solver: c.Solver} }},
	{"gavel:max_sum_throughput_perf", Needs{LP: true}, "greatest sum of throughputs",
		func(c Config) any { return &gavelThroughput{solver: c.Solver} }},
	{"gavel:min_total_duration", Needs{LP: true, Sizes: true},
		"least time until all could end, all types as the fastest",
		func(c Config) any { return &gavelDuration{solver: c.Solver} }},
	{"gavel:min_total_duration_perf", Needs{LP: true, Sizes: true}, "least time until all could end",
		func(c Config) any { return &gavelDuration{perf: true, solver: c.Solver} }},
	{"hadar", Needs{Sizes: true}, "greatest payoff at prices that rise as nodes fill; gangs may mix types",
		func(c Config) any { return newHadar(c.Hadar) }},
	{"hadare", Needs{Sizes: true}, "as hadar, with copies of jobs on the nodes that are left",
		func(c Config) any { return newHadarE(c.HadarE) }},
}

// Lacks says what a policy with these needs requires of the jobs and some jobs do not
// have; "" means that nothing is missing. Lacks does not check rates of pairs and widths.
func (n Needs) Lacks(jobs []Job) string {
	has := func(of func(j *Job) bool) int {
		count := 0
		for i := range jobs {
			if of(&jobs[i]) {
				count++
			}
		}
		return count
	}
	if have := has(func(j *Job) bool { return j.Entity != nil }); n.Entities && have < len(jobs) {
		return fmt.Sprintf("an entity for every job, and %d of %d have none: give the trace a column entity",
			len(jobs)-have, len(jobs))
	}
	if n.SLOs && has(func(j *Job) bool { return j.SLO > 0 }) == 0 {
		return "a deadline for some job, and no job has one: give the trace a column slo"
	}
	return ""
}
