// Package task holds the policies that place tasks on GPUs, a small file each,
// for the engine sim.Run and for sessions. docs/task-policies.md lists them, with
// what each knows and what is assumed.
package task

import (
	"context"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/relax"
)

// Knowledge is what a task policy is told beyond the events.
type Knowledge string

// The kinds of knowledge, each with that before it.
const (
	Nothing Knowledge = "nothing"
	// Distribution is how sizes are distributed over the jobs, not which has which.
	Distribution Knowledge = "distribution"
	Sizes        Knowledge = "sizes"  // the rounds of a job, when it arrives
	Future       Knowledge = "future" // all jobs, and when GPUs are in service
)

// Config is what task policies are made with. The zero value is good.
type Config struct {
	// LP is for hare_paper and hare_offline; nil means none.
	LP lp.Solver
	// ThresholdUs is where jobs leave the first queue of hlas and tiresias, in
	// GPU-microseconds; zero means one GPU-hour.
	ThresholdUs int64
	// LeaseUs is how long gandiva and themis let a job keep its GPUs, in
	// microseconds; zero means 60 and 600 s.
	LeaseUs int64
	// Kappa is the patience of hlas's starvation guard; zero means its default, a
	// million (its most) next to no guard.
	Kappa float64
	// Moves is the work of hare_offline's search; see HareConfig.
	Moves int64
	// Seed is of hare_offline's search.
	Seed int64
	// OneNode makes the policies of the desk (all but hlas, fifo and the plans)
	// start a round on GPUs of one node where one has enough of them free, the
	// fullest first: best fit. [I] They wait for no node.
	OneNode bool
	// Assign is the rule by which hare_paper and hare_offline give tasks to GPUs;
	// see HareConfig.
	Assign greedy.Rule
}

// Info describes a policy of the task engine.
type Info struct {
	Name  string
	Knows Knowledge
	// Text says in a line what it does.
	Text string
	make func(context.Context, *hare.Instance, *hare.Cluster, Config) (online.Policy, error)
}

var policies = []Info{
	{"easy_backfill", Sizes, "first come first served with EASY backfill",
		func(_ context.Context, i *hare.Instance, _ *hare.Cluster, _ Config) (online.Policy, error) {
			return NewEASY(i), nil
		}},
	{"fifo", Nothing, "first come first served, task by task",
		func(_ context.Context, _ *hare.Instance, c *hare.Cluster, _ Config) (online.Policy, error) {
			return online.NewFIFO(c)
		}},
	{"gandiva", Nothing, "time slicing in turn",
		func(_ context.Context, i *hare.Instance, _ *hare.Cluster, cfg Config) (online.Policy, error) {
			return NewGandiva(i, GandivaConfig{SliceUs: cfg.LeaseUs})
		}},
	{"gavel_fifo", Nothing, "the Hare paper's Gavel_FIFO: whole jobs by arrival, on the fastest type with room",
		func(_ context.Context, i *hare.Instance, _ *hare.Cluster, _ Config) (online.Policy, error) {
			return NewGavelFIFO(i), nil
		}},
	{"hare_offline", Future, "Hare's plan by prices and search, followed",
		func(ctx context.Context, i *hare.Instance, _ *hare.Cluster, c Config) (online.Policy, error) {
			return NewHare(ctx, i, HareConfig{LP: c.LP, Moves: c.Moves, Seed: c.Seed, Assign: c.Assign})
		}},
	{"hare_paper", Future, "the Hare paper's algorithm 1 on the repaired relaxation, followed",
		func(ctx context.Context, i *hare.Instance, _ *hare.Cluster, c Config) (online.Policy, error) {
			return NewHare(ctx, i, HareConfig{LP: c.LP, Paper: true, Assign: c.Assign})
		}},
	{"hlas", Nothing, "heterogeneity-aware least attained service, task by task",
		func(_ context.Context, _ *hare.Instance, c *hare.Cluster, cfg Config) (online.Policy, error) {
			h := online.HLASConfig{Kappa: cfg.Kappa}
			if cfg.ThresholdUs > 0 {
				h.ThresholdsUs = []int64{cfg.ThresholdUs}
			}
			return online.NewHLAS(c, h)
		}},
	{"kueue", Nothing, "gang FIFO as in Kueue, those that do not fit passed over",
		func(_ context.Context, i *hare.Instance, _ *hare.Cluster, _ Config) (online.Policy, error) {
			return NewKueue(i, false), nil
		}},
	{"kueue_strict", Nothing, "gang FIFO as in Kueue, nobody passed over",
		func(_ context.Context, i *hare.Instance, _ *hare.Cluster, _ Config) (online.Policy, error) {
			return NewKueue(i, true), nil
		}},
	{"sched_allox", Sizes, "the Hare paper's Sched_Allox: whole jobs matched to types and places in line",
		func(_ context.Context, i *hare.Instance, _ *hare.Cluster, _ Config) (online.Policy, error) {
			return NewSchedAlloX(i), nil
		}},
	{"sched_homo", Future, "the Hare paper's Sched_Homo: weighted completion time as if all GPUs were alike",
		func(ctx context.Context, i *hare.Instance, _ *hare.Cluster, _ Config) (online.Policy, error) {
			return NewSchedHomo(ctx, i)
		}},
	{"slurm", Sizes, "multifactor priority with backfill, as in Slurm",
		func(_ context.Context, i *hare.Instance, _ *hare.Cluster, _ Config) (online.Policy, error) {
			return NewSlurm(i, SlurmConfig{}), nil
		}},
	{"srtf", Sizes, "shortest remaining time first, round by round",
		func(_ context.Context, i *hare.Instance, _ *hare.Cluster, _ Config) (online.Policy, error) {
			return NewSRTF(i), nil
		}},
	{"themis", Sizes, "leases to the worst off by finish-time fairness, by auction",
		func(_ context.Context, i *hare.Instance, _ *hare.Cluster, cfg Config) (online.Policy, error) {
			return NewThemis(i, ThemisConfig{LeaseUs: cfg.LeaseUs})
		}},
	{"tiresias", Nothing, "discretised least attained GPU-time, round by round",
		func(_ context.Context, i *hare.Instance, _ *hare.Cluster, cfg Config) (online.Policy, error) {
			t := TiresiasConfig{}
			if cfg.ThresholdUs > 0 {
				t.ThresholdsUs = []int64{cfg.ThresholdUs}
			}
			return NewTiresias(i, t)
		}},
	{"tiresias_gittins", Distribution, "attained GPU-time, then the Gittins index, round by round",
		func(_ context.Context, i *hare.Instance, _ *hare.Cluster, cfg Config) (online.Policy, error) {
			t := TiresiasConfig{}
			if cfg.ThresholdUs > 0 {
				t.ThresholdsUs = []int64{cfg.ThresholdUs}
			}
			return NewTiresiasGittins(i, t)
		}},
}

// All lists the policies of the task engine by name.
func All() []Info { return append([]Info(nil), policies...) }

// Find describes the named policy; false where there is none.
func Find(name string) (Info, bool) {
	for _, p := range policies {
		if p.Name == name {
			return p, true
		}
	}
	return Info{}, false
}

// New makes a fresh policy for inst, which must be valid; steady is
// sim.Cluster(inst).
func (p Info) New(ctx context.Context, inst *hare.Instance, steady *hare.Cluster, cfg Config) (online.Policy, error) {
	made, err := p.make(ctx, inst, steady, cfg)
	if d, ok := made.(*desk); ok {
		d.oneNode = cfg.OneNode
	}
	return made, err
}

// ErrInfeasible is what policies with Future return where some job can never run.
var ErrInfeasible = relax.ErrInfeasible
