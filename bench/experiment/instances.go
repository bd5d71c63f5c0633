package experiment

import (
	"fmt"
	"iter"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

func (s set) resolve() set {
	if s.count == 0 {
		s.count = 5
	}
	if s.first == 0 {
		s.first = 1
	}
	return s
}

// seeds are those of the instances.
func (s set) seeds() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for n := range s.count {
			if !yield(s.first + uint64(n)) {
				return
			}
		}
	}
}

// spanS is the time in seconds over which jobs arrive by default.
const spanS = 1200

// setting describes an instance. Zero values mean the standard instance: 200 jobs on 160
// GPUs (V100=64, T4=48, K80=24, M60=24).
type setting struct {
	jobs     int
	gpus     []hare.TypeCount
	arrivals string
	sync     string
}

func (s set) generate(g setting, seed uint64) (*hare.Instance, error) {
	if g.jobs == 0 {
		g.jobs = 200
	}
	if g.gpus == nil {
		g.gpus = cluster(1, 1)
	}
	cfg := trace.GenerateConfig{Jobs: max(2, g.jobs/s.scale), Arrivals: g.arrivals, Sync: g.sync, Seed: seed}
	for _, t := range g.gpus {
		if t.Count > 0 {
			cfg.GPUs = append(cfg.GPUs, hare.TypeCount{Type: t.Type, Count: max(1, (t.Count+s.scale/2)/s.scale)})
		}
	}
	cfg.Name = fmt.Sprintf("%d-jobs-seed-%d", cfg.Jobs, seed)
	inst, err := trace.Generate(cfg)
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	return inst, nil
}

// cluster returns the standard cluster with a/b times as many GPUs.
func cluster(a, b int) []hare.TypeCount {
	return []hare.TypeCount{{Type: "V100", Count: 64 * a / b}, {Type: "T4", Count: 48 * a / b}, {Type: "K80",
		Count: 24 * a / b}, {Type: "M60", Count: 24 * a / b}}
}

// arriving returns arrivals that are uniformly at random over spanS.
func arriving() string { return fmt.Sprintf("uniform:%d", spanS) }

// sweep makes a case for each value of x and seed.
func (s set) sweep(group string, xs []float64, of func(x float64) setting) ([]Case, error) {
	var cases []Case
	for _, x := range xs {
		for seed := range s.seeds() {
			inst, err := s.generate(of(x), seed)
			if err != nil {
				return nil, err
			}
			inst.Name += fmt.Sprintf("-x-%g", x)
			cases = append(cases, Case{Group: group, X: x, Seed: seed, Inst: inst})
		}
	}
	return cases, nil
}

// again makes a case of each case and each of xs. with changes the case; instances are
// shared.
func again(cases []Case, xs []float64, with func(c *Case, x float64)) []Case {
	var all []Case
	for _, x := range xs {
		for _, c := range cases {
			c.X = x
			with(&c, x)
			all = append(all, c)
		}
	}
	return all
}

// twoLoads returns the standard instances twice: with all jobs at time 0, and with
// arrivals.
func (s set) twoLoads() ([]Case, error) {
	var cases []Case
	for _, g := range []struct{ name, arrivals string }{
		{"all at time 0", "none"}, {fmt.Sprintf("arrivals over %d s", spanS), arriving()},
	} {
		for seed := range s.seeds() {
			inst, err := s.generate(setting{arrivals: g.arrivals}, seed)
			if err != nil {
				return nil, err
			}
			if g.arrivals != "none" {
				inst.Name += "-arrivals"
			}
			cases = append(cases, Case{Group: g.name, Seed: seed, Inst: inst})
		}
	}
	return cases, nil
}
