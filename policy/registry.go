// Package policy holds the schedulers that Hare is compared with, a small file
// each. docs/policies.md lists them, with what is assumed and how far they agree
// with their own simulators.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/online"
)

// Engine is the kind of simulation that a policy decides for.
type Engine string

// Lease policies lend GPUs for a fixed time; see online.SharePolicy and
// online.HoldPolicy. Task policies place tasks; see online.Policy.
const (
	Lease Engine = "lease"
	Task  Engine = "task"
)

// Needs is what a policy must be given beyond jobs, rates and a cluster.
type Needs struct {
	LP        bool // linear programs: Config.Solver
	Sizes     bool // it knows how many steps a job has left
	PairRates bool // rates of jobs that share GPUs
	OneGPU    bool // every job needs one GPU
}

// Info describes a policy.
type Info struct {
	Name   string
	Engine Engine
	Needs  Needs
	// Text says in a line what it does.
	Text string
	make func(Config) any
}

// Config is what policies are made with.
type Config struct {
	// Solver is for policies with Needs.LP; nil means a Simplex of its own.
	Solver lp.Solver
	// Seed is of the policy's own draws.
	Seed uint64
}

var policies = []Info{
	{"gavel:allox", Lease, Needs{Sizes: true, OneGPU: true}, "least sum of completion times, by matching; no preemption",
		func(Config) any { return &gavelAlloX{} }},
	{"gavel:fifo", Lease, Needs{}, "first come first served, types at random",
		func(c Config) any { return &gavelFIFO{draws: online.NewTwister(c.Seed)} }},
	{"gavel:fifo_perf", Lease, Needs{}, "first come first served, the fastest type with room",
		func(Config) any { return &gavelFIFO{perf: true} }},
	{"gavel:finish_time_fairness", Lease, Needs{LP: true, Sizes: true}, "least worst finish-time fairness, all types as the fastest",
		func(c Config) any { return &gavelFinish{solver: c.Solver} }},
	{"gavel:finish_time_fairness_perf", Lease, Needs{LP: true, Sizes: true}, "least worst finish-time fairness",
		func(c Config) any { return &gavelFinish{perf: true, solver: c.Solver} }},
	{"gavel:gandiva", Lease, Needs{PairRates: true}, "equal shares; jobs paired at random where they do not fit",
		func(c Config) any { return &gavelGandiva{draws: online.NewTwister(c.Seed)} }},
	{"gavel:isolated", Lease, Needs{}, "an equal share of every type",
		func(Config) any { return gavelIsolated{} }},
	{"gavel:max_min_fairness", Lease, Needs{LP: true}, "LAS: greatest least share, all types alike",
		func(c Config) any { return &gavelMaxMin{solver: c.Solver} }},
	{"gavel:max_min_fairness_perf", Lease, Needs{LP: true}, "LAS: greatest least throughput, in equal shares",
		func(c Config) any { return &gavelMaxMin{perf: true, solver: c.Solver} }},
	{"gavel:max_sum_throughput_perf", Lease, Needs{LP: true}, "greatest sum of throughputs",
		func(c Config) any { return &gavelThroughput{solver: c.Solver} }},
	{"gavel:min_total_duration", Lease, Needs{LP: true, Sizes: true}, "least time until all could end, all types as the fastest",
		func(c Config) any { return &gavelDuration{solver: c.Solver} }},
	{"gavel:min_total_duration_perf", Lease, Needs{LP: true, Sizes: true}, "least time until all could end",
		func(c Config) any { return &gavelDuration{perf: true, solver: c.Solver} }},
}

// All lists the policies by name.
func All() []Info { return slices.Clone(policies) }

// Names lists their names, sorted.
func Names() []string {
	out := make([]string, len(policies))
	for i, p := range policies {
		out[i] = p.Name
	}
	return out
}

// Find describes the named policy, or says which name is nearest.
func Find(name string) (Info, error) {
	for _, p := range policies {
		if p.Name == name {
			return p, nil
		}
	}
	names := Names()
	best := hare.Nearest(name, names)
	if best == "" { // "gavel:" may have been left out
		short := make([]string, len(names))
		for i, n := range names {
			_, short[i], _ = strings.Cut(n, ":")
		}
		if i := slices.Index(short, hare.Nearest(name, short)); i >= 0 {
			best = names[i]
		}
	}
	hint := "."
	if best != "" {
		hint = fmt.Sprintf(": did you mean %q?", best)
	}
	return Info{}, fmt.Errorf("unknown policy %.60q%s The policies are %s", name, hint, strings.Join(names, ", "))
}

// New makes a fresh policy, an online.SharePolicy or an online.HoldPolicy where
// its engine is Lease.
func (p Info) New(cfg Config) any {
	if cfg.Solver == nil {
		cfg.Solver = &lp.Simplex{}
	}
	return p.make(cfg)
}
