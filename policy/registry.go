// Package policy holds the schedulers that Hare is compared with, a small file
// each. docs/policies.md lists them, with what is assumed and how far they agree
// with their own simulators.
package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/sim"
)

// Engine is the kind of simulation that a policy decides for.
type Engine string

// Lease policies lend GPUs for a fixed time; see sim.SharePolicy and
// sim.HoldPolicy. Task policies place tasks; see online.Policy. Elastic
// policies change widths; see sim.ElasticPolicy.
const (
	Lease   Engine = "lease"
	Task    Engine = "task"
	Elastic Engine = "elastic"
)

// Needs is what a policy must be given beyond jobs, rates and a cluster.
type Needs struct {
	LP        bool // linear programs: Config.Solver
	Sizes     bool // it knows how many steps a job has left
	PairRates bool // rates of jobs that share GPUs
	OneGPU    bool // every job needs one GPU
	Entities  bool // every job belongs to one
	SLOs      bool // some job has a deadline
	Prices    bool // of an hour of each GPU type: Config.Prices, CheckPrices
}

// Info describes a policy of any engine. Exactly one of New and NewTask makes
// it.
type Info struct {
	Name   string
	Engine Engine
	// Needs is of lease policies; LP of task policies too.
	Needs Needs
	// Knows is what the policy is told beyond the events and its shares so far.
	Knows Knowledge
	// Text says in a line what it does.
	Text string
	make func(Config) any
	task TaskInfo
}

// leaseInfo is a line of the list of lease and elastic policies.
type leaseInfo struct {
	Name   string
	Engine Engine // Lease or Elastic
	Needs  Needs
	Text   string
	make   func(Config) any
}

// Config is what policies are made with.
type Config struct {
	// Solver is for policies with Needs.LP; nil means a Simplex of its own.
	Solver lp.Solver
	// Seed is of the policy's own draws.
	Seed uint64
	// Prices are what an hour of a GPU costs, by type, for the policies of cost;
	// nil means GavelPrices.
	Prices map[string]float64
}

// policies are those that lend GPUs or change widths; taskPolicies, in tasks.go,
// place tasks.
var policies = []leaseInfo{
	{"gavel:allox", Lease, Needs{Sizes: true, OneGPU: true}, "least sum of completion times, by matching; no preemption",
		func(Config) any { return &gavelAlloX{} }},
	{"gavel:fifo", Lease, Needs{}, "first come first served, types at random",
		func(c Config) any { return &gavelFIFO{draws: sim.NewTwister(c.Seed)} }},
	{"gavel:fifo_perf", Lease, Needs{}, "first come first served, the fastest type with room",
		func(Config) any { return &gavelFIFO{perf: true} }},
	{"gavel:finish_time_fairness", Lease, Needs{Sizes: true}, "least worst finish-time fairness, all types as the fastest",
		func(Config) any { return &gavelFinish{} }},
	{"gavel:finish_time_fairness_perf", Lease, Needs{Sizes: true}, "least worst finish-time fairness",
		func(Config) any { return &gavelFinish{perf: true} }},
	{"gavel:gandiva", Lease, Needs{PairRates: true}, "equal shares; jobs paired at random where they do not fit",
		func(c Config) any { return &gavelGandiva{draws: sim.NewTwister(c.Seed)} }},
	{"gavel:hierarchical", Lease, Needs{Entities: true}, "water filling by entities and the jobs in them, all types alike",
		func(Config) any { return &gavelWaterFill{entities: true} }},
	{"gavel:hierarchical_perf", Lease, Needs{Entities: true}, "water filling by entities and the jobs in them",
		func(Config) any { return &gavelWaterFill{perf: true, entities: true} }},
	{"gavel:isolated", Lease, Needs{}, "an equal share of every type",
		func(Config) any { return gavelIsolated{} }},
	{"gavel:max_min_fairness", Lease, Needs{LP: true}, "LAS: greatest least share, all types alike",
		func(c Config) any { return &gavelMaxMin{solver: c.Solver} }},
	{"gavel:max_min_fairness_perf", Lease, Needs{LP: true}, "LAS: greatest least throughput, in equal shares",
		func(c Config) any { return &gavelMaxMin{perf: true, solver: c.Solver} }},
	{"gavel:max_min_fairness_water_filling", Lease, Needs{}, "LAS, then the least of those who can have more, all types alike",
		func(Config) any { return &gavelWaterFill{} }},
	{"gavel:max_min_fairness_water_filling_perf", Lease, Needs{}, "LAS, then the least of those who can have more",
		func(Config) any { return &gavelWaterFill{perf: true} }},
	{"gavel:max_sum_throughput_normalized_by_cost_perf", Lease, Needs{LP: true, Prices: true}, "most steps for a dollar",
		func(c Config) any { return &gavelCost{prices: c.Prices, solver: c.Solver} }},
	{"gavel:max_sum_throughput_normalized_by_cost_perf_SLOs", Lease, Needs{LP: true, Sizes: true, SLOs: true, Prices: true}, "most steps for a dollar, with deadlines kept where all can be",
		func(c Config) any { return &gavelCost{slos: true, prices: c.Prices, solver: c.Solver} }},
	{"gavel:max_sum_throughput_perf", Lease, Needs{LP: true}, "greatest sum of throughputs",
		func(c Config) any { return &gavelThroughput{solver: c.Solver} }},
	{"gavel:min_total_duration", Lease, Needs{LP: true, Sizes: true}, "least time until all could end, all types as the fastest",
		func(c Config) any { return &gavelDuration{solver: c.Solver} }},
	{"gavel:min_total_duration_perf", Lease, Needs{LP: true, Sizes: true}, "least time until all could end",
		func(c Config) any { return &gavelDuration{perf: true, solver: c.Solver} }},
	{"optimus", Elastic, Needs{Sizes: true}, "each GPU to the job whose remaining time it shortens most, in even parts of few nodes",
		func(Config) any { return &optimus{paper: true} }},
	{"pollux:optimus", Elastic, Needs{Sizes: true}, "the same in Pollux's form, on the nodes with most free GPUs",
		func(Config) any { return &optimus{} }},
	{"pollux:tiresias", Elastic, Needs{}, "two queues by GPUs × time, at the widths asked for",
		func(Config) any { return &polluxTiresias{} }},
}

// All lists the policies of all engines, by name.
func All() []Info {
	var out []Info
	for _, p := range policies {
		knows := Nothing
		if p.Needs.Sizes {
			knows = Sizes
		}
		out = append(out, Info{Name: p.Name, Engine: p.Engine, Needs: p.Needs, Knows: knows, Text: p.Text, make: p.make})
	}
	for _, p := range taskPolicies {
		out = append(out, Info{Name: p.Name, Engine: Task, Needs: Needs{Sizes: p.Knows == Sizes || p.Knows == Future}, Knows: p.Knows, Text: p.Text, task: p})
	}
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Names lists the names of All, sorted.
func Names() []string {
	all := All()
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.Name
	}
	return out
}

// ErrTooLarge says that a policy would need too much memory.
var ErrTooLarge = errors.New("policy: too large")

// UnknownError says that no policy has a name.
type UnknownError struct {
	Name    string
	Nearest string // "" where none is near
	Names   []string
}

func (e *UnknownError) Error() string {
	hint := "."
	if e.Nearest != "" {
		hint = fmt.Sprintf(": did you mean %q?", e.Nearest)
	}
	return fmt.Sprintf("unknown policy %.60q%s The policies are %s", e.Name, hint, strings.Join(e.Names, ", "))
}

// Find describes the named policy of any engine. The error is *UnknownError.
func Find(name string) (Info, error) {
	all := All()
	for _, p := range all {
		if p.Name == name {
			return p, nil
		}
	}
	names := Names()
	return Info{}, &UnknownError{name, nearest(name, names), names}
}

// nearest is the name that may have been meant: "gavel:" may have been left out.
func nearest(name string, names []string) string {
	if best := hare.Nearest(name, names); best != "" {
		return best
	}
	short := make([]string, len(names))
	for i, n := range names {
		_, short[i], _ = strings.Cut(n, ":")
	}
	if i := slices.Index(short, hare.Nearest(name, short)); i >= 0 && short[i] != "" {
		return names[i]
	}
	return ""
}

// New makes a fresh policy that lends GPUs, an sim.SharePolicy or an
// sim.HoldPolicy, or an sim.ElasticPolicy; nil where the engine is Task.
func (p Info) New(cfg Config) any {
	if p.make == nil {
		return nil
	}
	if cfg.Solver == nil {
		cfg.Solver = &lp.Simplex{}
	}
	return p.make(cfg)
}

// NewTask makes a fresh policy of tasks for inst, which must be valid; steady is
// sim.Cluster(inst).
func (p Info) NewTask(ctx context.Context, inst *hare.Instance, steady *hare.Cluster, cfg TaskConfig) (online.Policy, error) {
	if p.Engine != Task {
		return nil, fmt.Errorf("policy %s places no tasks", p.Name)
	}
	return p.task.New(ctx, inst, steady, cfg)
}

// Programs is a Solver for Config and TaskConfig that goes on in the process
// where an engine does not run, and counts that.
type Programs = lp.OrSimplex

// Lacks says what jobs must have for the policy and some do not, "" where
// nothing is missing. Rates of pairs and widths are not looked at.
func (p Info) Lacks(jobs []sim.LeaseJob) string {
	has := func(of func(j *sim.LeaseJob) bool) int {
		n := 0
		for i := range jobs {
			if of(&jobs[i]) {
				n++
			}
		}
		return n
	}
	if n := has(func(j *sim.LeaseJob) bool { return j.Entity != nil }); p.Needs.Entities && n < len(jobs) {
		return fmt.Sprintf("an entity for every job, and %d of %d have none: give the trace a column entity", len(jobs)-n, len(jobs))
	}
	if p.Needs.SLOs && has(func(j *sim.LeaseJob) bool { return j.SLO > 0 }) == 0 {
		return "a deadline for some job, and no job has one: give the trace a column slo"
	}
	return ""
}
