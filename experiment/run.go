package experiment

import (
	"context"
	"fmt"
	"sync"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/policy"
	"github.com/hare-sched/hare/policy/task"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/solver"
)

// boundWork limits the cost of a bound. Without the limit small instances, which are
// bounded as tightly as possible, would take longer than large ones.
const boundWork = 5000

// Run is one scheme on one instance.
type Run struct {
	Group, Variant, Instance, Scheme string
	X                                float64
	Seed                             uint64
	Policy                           task.Info
	Metrics                          *sim.Metrics
	// Bound is certified, on the weighted JCT, in weight-seconds.
	Bound float64
	// Ratio is the weighted JCT over Bound; 0 where the bound is no use.
	Ratio float64
	// Lower is 1 − the weighted JCT of the first run of the same group, X and
	// seed over this one's, in percent: below 0 where this one is better.
	// MeanOver is the mean JCT over that run's.
	Lower, MeanOver float64
	// ShareThen is the share of jobs that have been completed by the JCT within
	// which that run completes 90.5 %.
	ShareThen float64
	// LongJCTS is the mean JCT of the tenth of the jobs with the most work, and
	// WorstSlowdown the greatest of all jobs.
	LongJCTS, WorstSlowdown float64
}

// Report is the result of an experiment.
type Report struct {
	Info Info
	Runs []Run // by case, then scheme
}

// Run plays every instance to every scheme. The same configuration gives the
// same report. Errors are those of the policies, the simulator, Config.Check
// and ctx; none leaves figures behind.
func (info Info) Run(ctx context.Context, cfg Config) (*Report, error) {
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

// Size is how many bounds and runs there are, Progress.Total.
func (info Info) Size(cfg Config) (int, error) {
	p, err := info.prepare(&cfg)
	if err != nil {
		return 0, err
	}
	return p.size(), nil
}

// prepared holds the instances, cases and schemes of an experiment.
type prepared struct {
	schemes   []Scheme
	infos     []task.Info
	cases     []Case
	instances []*hare.Instance
	instance  map[*hare.Instance]int
}

func (p *prepared) size() int { return len(p.instances) + len(p.cases)*len(p.schemes) }

// prepare fills in defaults and makes the instances.
func (x Info) prepare(cfg *Config) (*prepared, error) {
	if cfg.Scale < 0 || cfg.Repeat < 0 || cfg.Parallel < 0 || cfg.Scale > 1000 || cfg.Repeat > 10_000 ||
		cfg.Parallel > 1000 {
		return nil, fmt.Errorf("experiment: scale %d, repeat %d, parallel %d: must be from 0 to 1000, 10000 and 1000",
			cfg.Scale, cfg.Repeat, cfg.Parallel)
	}
	if cfg.Solver.BoundWork == 0 {
		cfg.Solver.BoundWork = boundWork
	}
	if cfg.Parallel > 1 {
		cfg.Solver.Workers = 1
	}
	p := &prepared{schemes: x.schemes, cases: cfg.Instances, instance: map[*hare.Instance]int{}}
	if cfg.Policies != nil {
		p.schemes = named(cfg.Policies...)
	}
	for _, s := range p.schemes {
		info, err := policy.FindTask(s.Policy)
		if err != nil {
			return nil, err
		}
		p.infos = append(p.infos, info)
	}
	if p.cases == nil {
		var err error
		if p.cases, err = x.cases(set{scale: max(1, cfg.Scale), seeds: cfg.Repeat}.resolve()); err != nil {
			return nil, fmt.Errorf("experiment %s: %w", x.Name, err)
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

// one simulates one case under one policy.
func (cfg *Config) one(ctx context.Context, c *Case, s *Scheme, info task.Info, rel *hare.Relaxation) (*Run, error) {
	tc, sc := s.Config, c.Sim
	tc.LP, sc.Name = cfg.Solver.LP, s.name()
	if tc.Moves == 0 {
		tc.Moves = cfg.Moves
	}
	if c.ThresholdUs > 0 {
		tc.ThresholdUs = c.ThresholdUs
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
		Policy: info, Metrics: out.Metrics(c.Inst),
	}
	run.LongJCTS, run.WorstSlowdown = longest(c.Inst, out)
	if out.Varied > 0 {
		return run, nil // no schedule of the instance, and no bound on it
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

// work distributes bounds and runs over goroutines.
type work struct {
	ctx   context.Context
	cfg   *Config
	total int
	mu    sync.Mutex
	begun int
}

// begin reports the next bound or run; the ones before it count as done.
func (w *work) begin(format string, a ...any) {
	if w.cfg.Progress == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cfg.Progress(Progress{Done: w.begun, Total: w.total, Text: fmt.Sprintf(format, a...)})
	w.begun++
}

// each calls do for 0 to n − 1, Config.Parallel at a time, and returns the error
// of the least index that it saw; none begins after an error.
func (w *work) each(n int, do func(int) error) error {
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		next   int
		failed = n
		first  error
	)
	for range max(1, w.cfg.Parallel) {
		group.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := first != nil
				mu.Unlock()
				if stop || i >= n {
					return
				}
				err := w.ctx.Err()
				if err == nil {
					err = do(i)
				}
				if err != nil {
					mu.Lock()
					if i < failed {
						failed, first = i, err
					}
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return first
}
