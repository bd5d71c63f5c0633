package experiment

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/solver"
)

// boundWork limits the work of a bound. Without the limit, small instances would take
// longer than large instances, because the bounds of small instances are searched longer.
const boundWork = 5000

// Run simulates every case under every scheme. The same configuration gives the same
// report. The errors are those of the policies, the simulator, Config.Check and ctx. After
// an error there is no report.
func (info Info) Run(ctx context.Context, cfg Config) (*Report, error) {
	if info.OfLeases() {
		return info.runLeases(ctx, &cfg)
	}
	p, err := info.prepare(&cfg)
	if err != nil {
		return nil, err
	}
	w := &work{ctx: ctx, cfg: &cfg, total: p.size()}
	rels := make([]*hare.Relaxation, len(p.instances))
	err = w.each(len(rels), func(i int) error {
		inst := p.instances[i]
		w.begin("%s: bound", inst.Name)
		var err error
		if rels[i], err = solver.Bound(ctx, inst, hare.MethodPrice, cfg.Solver); err != nil {
			return fmt.Errorf("%s: %w", inst.Name, err)
		}
		return ctx.Err()
	})
	runs := make([]Run, len(p.cases)*len(p.schemes))
	if err == nil {
		err = w.each(len(runs), func(i int) error {
			c, s := &p.cases[i/len(p.schemes)], i%len(p.schemes)
			w.begin("%s: %s", c.Inst.Name, p.schemes[s].name())
			run, err := cfg.one(ctx, c, &p.schemes[s], p.infos[s], rels[p.instance[c.Inst]])
			if err != nil {
				return fmt.Errorf("%s: %s: %w", c.Inst.Name, p.schemes[s].name(), err)
			}
			runs[i] = *run
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("experiment %s: %w", info.Name, err)
	}
	compare(runs)
	return &Report{Info: info, Runs: runs}, nil
}

// Size returns the number of bounds and runs of the experiment, which is Progress.Total.
func (info Info) Size(cfg Config) (int, error) {
	if info.OfLeases() {
		cases, err := info.prepareLeases(&cfg)
		return len(cases) * len(info.leaseSchemes), err
	}
	p, err := info.prepare(&cfg)
	if err != nil {
		return 0, err
	}
	return p.size(), nil
}

// prepared holds the instances, cases and schemes of an experiment.
type prepared struct {
	schemes   []Scheme
	infos     []policies.Info
	cases     []Case
	instances []*hare.Instance       // the instances of the cases, each once
	instance  map[*hare.Instance]int // the index in instances
}

func (p *prepared) size() int { return len(p.instances) + len(p.cases)*len(p.schemes) }

// prepare fills in defaults and makes the instances.
func (info Info) prepare(cfg *Config) (*prepared, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Solver.BoundWork == 0 {
		cfg.Solver.BoundWork = boundWork
	}
	if cfg.Parallel > 1 {
		cfg.Solver.Workers = 1
	}
	p := &prepared{schemes: info.schemes, cases: cfg.Instances, instance: map[*hare.Instance]int{}}
	if cfg.Policies != nil {
		p.schemes = named(cfg.Policies...)
	}
	if err := cfg.giveParameters(p.schemes); err != nil {
		return nil, err
	}
	for _, s := range p.schemes {
		found, err := registry.FindTask(s.Policy)
		if err != nil {
			return nil, err
		}
		p.infos = append(p.infos, found)
	}
	if p.cases == nil {
		var err error
		s := set{scale: max(1, cfg.Scale), first: cfg.FirstSeed, count: cfg.Repeat}
		if p.cases, err = info.cases(s.resolve()); err != nil {
			return nil, fmt.Errorf("experiment %s: %w", info.Name, err)
		}
	}
	for i := range p.cases {
		inst := p.cases[i].Inst
		if _, ok := p.instance[inst]; !ok {
			p.instance[inst] = len(p.instances)
			p.instances = append(p.instances, inst)
		}
	}
	return p, nil
}

// giveParameters gives the schemes their parameters and names them by these.
func (cfg *Config) giveParameters(schemes []Scheme) error {
	for _, name := range slices.Sorted(maps.Keys(cfg.Parameters)) {
		i := slices.Index(cfg.Policies, name)
		if i < 0 {
			return fmt.Errorf("experiment: parameters are of the policies that are named, and %.60q is not", name)
		}
		if _, err := registry.SimulationParameters(name, cfg.Parameters[name], false, false); err != nil {
			return fmt.Errorf("experiment: parameters of %s: %w", name, err)
		}
		schemes[i].Config.Parameters = cfg.Parameters[name]
		schemes[i].Name = fmt.Sprintf("%s %s", name, cfg.Parameters[name])
	}
	return nil
}

// one simulates one case under one scheme.
func (cfg *Config) one(ctx context.Context, c *Case, s *Scheme, info policies.Info, rel *hare.Relaxation) (*Run,
	error) {
	tc, sc := s.Config, c.Sim
	tc.LP, sc.Name = cfg.Solver.LP, s.name()
	if tc.Moves == 0 {
		tc.Moves = cfg.Moves
	}
	if c.ThresholdUs > 0 {
		tc.ThresholdUs = c.ThresholdUs
	}
	if cfg.PlanLatencyUs > 0 {
		sc.PlanLatencyUs = cfg.PlanLatencyUs
	}
	tc.Rolling.Aside = sc.PlanLatencyUs > 0
	if tc.Parameters != nil && tc.Rolling.Aside {
		tc.Parameters = registry.PlansAside(s.Policy, tc.Parameters)
	}
	about, err := registry.Find(s.Policy)
	if err != nil {
		return nil, err
	}
	p, err := newPolicy(ctx, c, info, tc)
	if err != nil {
		return nil, err
	}
	out, err := sim.Run(ctx, c.Inst, p, sc)
	if err != nil {
		return nil, err
	}
	run := &Run{
		Group: c.Group, Variant: c.Variant, Instance: c.Inst.Name, Scheme: s.name(), X: c.X, Seed: c.Seed,
		Policy: about, Metrics: out.Metrics(c.Inst),
	}
	run.LongJCTS, run.WorstSlowdown = longest(c.Inst, out)
	if out.Varied > 0 {
		return run, nil // what was run is not a schedule of the instance, so no bound holds
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
	if res.Bound != nil {
		run.Bound = res.Bound.Float()
	}
	if run.Bound > 0 {
		run.Ratio = run.Metrics.WeightedJCTS / run.Bound
	}
	return run, nil
}
