// Package experiment re-runs the experiments of the papers: the same instances
// for every policy, each run beside a certified lower bound. Nothing is tuned to
// land on a published figure.
package experiment

import (
	"context"
	"fmt"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/policy"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/solver"
)

// Config tunes a run. The zero value is the experiment as it is described.
type Config struct {
	// Solver computes the bounds; its LP is also for policies that use one.
	Solver solver.Config
	// Policies replaces those of the experiment; nil keeps them.
	Policies []string
	// Instances replaces those of the experiment; nil keeps them.
	Instances []Case
	// Small takes instances with a fifth of the jobs and GPUs.
	Small bool
	// Check is called with each run as a result with its certificate, before any
	// of its figures is kept; nil checks nothing. The program passes the verifier.
	Check func(*hare.Instance, *hare.Result) error
	// Progress is called before each run; nil means nobody looks.
	Progress func(text string)
}

// Case is an instance, in a group over which figures are averaged.
type Case struct {
	Group string
	Inst  *hare.Instance
}

// Info describes an experiment.
type Info struct {
	Name string
	// Title is a headline, Text says what is asked and on what.
	Title, Text string
	// Published are the papers' figures, and what they compare.
	Published string
	policies  []string
	cases     func(small bool) ([]Case, error)
}

// All lists the experiments.
func All() []Info { return []Info{weightedJCT} }

// Names lists their names.
func Names() []string {
	var names []string
	for _, x := range All() {
		names = append(names, x.Name)
	}
	return names
}

// Find describes the named experiment, or says which name is nearest.
func Find(name string) (Info, error) {
	for _, x := range All() {
		if x.Name == name {
			return x, nil
		}
	}
	hint := "."
	if best := hare.Nearest(name, Names()); best != "" {
		hint = fmt.Sprintf(": did you mean %q?", best)
	}
	return Info{}, fmt.Errorf("unknown experiment %.60q%s The experiments are %s", name, hint, strings.Join(Names(), ", "))
}

// Run is one policy on one instance.
type Run struct {
	Group, Instance string
	Policy          policy.TaskInfo
	Metrics         *sim.Metrics
	// Bound is certified, on the weighted JCT, in weight-seconds.
	Bound float64
	// Ratio is the weighted JCT over Bound; 0 where the bound is no use.
	Ratio float64
}

// Report is what an experiment found.
type Report struct {
	Info Info
	Runs []Run // by instance, then policy
}

// Run plays every instance to every policy. The same configuration gives the
// same report. Errors are those of the policies, the simulator, Config.Check
// and ctx; none leaves figures behind.
func (x Info) Run(ctx context.Context, cfg Config) (*Report, error) {
	names := x.policies
	if cfg.Policies != nil {
		names = cfg.Policies
	}
	var infos []policy.TaskInfo
	for _, n := range names {
		info, err := policy.FindTask(n)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	cases := cfg.Instances
	if cases == nil {
		var err error
		if cases, err = x.cases(cfg.Small); err != nil {
			return nil, err
		}
	}
	r := &Report{Info: x}
	for _, c := range cases {
		cfg.say("%s: bound", c.Inst.Name)
		rel, err := solver.Bound(ctx, c.Inst, hare.MethodPrice, cfg.Solver)
		if err != nil {
			return nil, fmt.Errorf("experiment %s: %s: %w", x.Name, c.Inst.Name, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("experiment %s: %w", x.Name, err)
		}
		for _, info := range infos {
			cfg.say("%s: %s", c.Inst.Name, info.Name)
			run, err := cfg.one(ctx, c, info, rel)
			if err != nil {
				return nil, fmt.Errorf("experiment %s: %s: %s: %w", x.Name, c.Inst.Name, info.Name, err)
			}
			r.Runs = append(r.Runs, *run)
		}
	}
	return r, nil
}

func (cfg *Config) say(format string, a ...any) {
	if cfg.Progress != nil {
		cfg.Progress(fmt.Sprintf(format, a...))
	}
}

// one plays one instance to one policy.
func (cfg *Config) one(ctx context.Context, c Case, info policy.TaskInfo, rel *hare.Relaxation) (*Run, error) {
	p, err := info.New(ctx, c.Inst, sim.Cluster(c.Inst), policy.TaskConfig{LP: cfg.Solver.LP})
	if err != nil {
		return nil, err
	}
	out, err := sim.Run(ctx, c.Inst, p, sim.Config{Name: info.Name})
	if err != nil {
		return nil, err
	}
	res, err := out.Result(c.Inst, rel.Certificate)
	if err != nil {
		return nil, err
	}
	if cfg.Check != nil {
		if err := cfg.Check(c.Inst, res); err != nil {
			return nil, err
		}
	}
	run := &Run{Group: c.Group, Instance: c.Inst.Name, Policy: info, Metrics: out.Metrics(c.Inst)}
	if res.Bound != nil {
		run.Bound = res.Bound.Float()
	}
	if run.Bound > 0 {
		run.Ratio = run.Metrics.WeightedJCTS / run.Bound
	}
	return run, nil
}
