// Package policies has the policies that place tasks on GPUs, a small file each, and their registry, for the engine
// sim.Run and for sessions. The policies rolling and hgittins are in package rolling.
// docs/use/policies.md#policies-that-place-tasks lists all, with what each knows and what is assumed.
package policies

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/sim"
)

// Knowledge is what a task policy knows beyond the events.
type Knowledge string //	@name	Knowledge

// The kinds of knowledge; each one includes the ones before.
const (
	Nothing Knowledge = "nothing"
	// Estimates are what jobs that ended took, and the estimates that come with jobs. Only
	// sessions have policies that go by them where simulations would tell more.
	Estimates Knowledge = "estimates"
	// Distribution is the distribution of the sizes, without the size of each job.
	Distribution Knowledge = "distribution"
	Sizes        Knowledge = "sizes"  // the rounds of a job, when it arrives
	Future       Knowledge = "future" // all jobs, and when GPUs are in service
)

// Config holds the settings of task policies. The zero value means the defaults.
type Config struct {
	// LP is for hare_paper and hare_offline; nil means none.
	LP lp.Solver
	// ThresholdUs is the attained service at which jobs leave the first queue of hlas and
	// tiresias, in GPU-microseconds; zero means one GPU-hour.
	ThresholdUs int64
	// LeaseUs is how long gandiva and themis let a job keep its GPUs, in
	// microseconds; zero means 60 and 600 s.
	LeaseUs int64
	// Kappa is the factor of the starvation guard of hlas; zero means the default of hlas.
	// The largest value, a million, nearly switches the guard off.
	Kappa float64
	// Moves is the work of hare_offline's search; see HareConfig.
	Moves int64
	// Seed is the seed of hare_offline's search.
	Seed int64
	// HGittins is for hgittins.
	HGittins rolling.HGittinsConfig
	// ASRPT is for asrpt.
	ASRPT ASRPTConfig
	// Sampling is for sampling; Seed is the seed of its draws.
	Sampling SamplingConfig
	// Rolling is for rolling.
	Rolling rolling.Config
	// OneNode makes list schedulers (all policies except hlas, fifo and the plans) start a
	// round on GPUs of one node where a node has enough free GPUs, and of these nodes on
	// the one with the fewest free GPUs: best fit. [I] No job waits for a node.
	OneNode bool
	// Assign is the rule by which hare_paper and hare_offline give tasks to GPUs;
	// see HareConfig.
	Assign greedy.Rule
	// Parameters are those of the policy in sessions, as JSON, which replace all other settings of
	// the policy but Estimates; nil means that there are none. Policies that are given sizes
	// (Learned) take them with Estimates alone.
	Parameters json.RawMessage
	// Estimates makes policies that are given sizes in simulations (Learned) go by estimates
	// instead, as in sessions. The other settings are then the defaults of sessions.
	Estimates bool
}

// Info describes a policy of the task engine.
type Info struct {
	Name string
	// Text says in a line what the policy does.
	Text string
	// Maker makes the policy; the type of Maker says what the policy knows.
	Maker Maker
}

// Knows is what the policy knows beyond the events.
func (info Info) Knows() Knowledge { return info.Maker.knows() }

// Maker makes policies. It is one of FromEvents, FromDistribution, FromSizes and
// FromFuture, or one of these in a Learned: what a policy knows is what it is made from.
type Maker interface {
	knows() Knowledge
	make(context.Context, *hare.Instance, Config) (online.Policy, error)
}

// FromEvents makes a policy that knows nothing but the events, in simulations and in
// sessions.
type FromEvents struct {
	// New makes the policy for a simulation on a cluster; GPUs with windows of
	// service or work are not in service until they join.
	New func(*hare.Cluster, Config) (online.Durable, error)
	Session
}

// FromDistribution makes a policy that knows how sizes are distributed.
type FromDistribution func(*hare.Cluster, SizeDistribution, Config) (online.Policy, error)

// FromSizes makes a policy that knows the sizes of jobs.
type FromSizes func(*hare.Cluster, JobSizes, Config) (online.Policy, error)

// FromFuture makes a policy that knows all jobs and windows of service beforehand.
type FromFuture func(context.Context, *hare.Instance, Config) (online.Policy, error)

func (FromEvents) knows() Knowledge       { return Nothing }
func (FromDistribution) knows() Knowledge { return Distribution }
func (FromSizes) knows() Knowledge        { return Sizes }
func (FromFuture) knows() Knowledge       { return Future }

func (fe FromEvents) make(_ context.Context, inst *hare.Instance, cfg Config) (online.Policy, error) {
	if cfg.Parameters != nil {
		return orNil(fe.Open(inService(&inst.Cluster), cfg.Parameters))
	}
	return orNil(fe.New(&inst.Cluster, cfg))
}

func (fd FromDistribution) make(_ context.Context, inst *hare.Instance, cfg Config) (online.Policy, error) {
	return fd(&inst.Cluster, DistributionOf(inst), cfg)
}

func (fs FromSizes) make(_ context.Context, inst *hare.Instance, cfg Config) (online.Policy, error) {
	return fs(&inst.Cluster, SizesOf(inst), cfg)
}

func (ff FromFuture) make(ctx context.Context, inst *hare.Instance, cfg Config) (online.Policy, error) {
	return ff(ctx, inst, cfg)
}

func (le Learned) make(ctx context.Context, inst *hare.Instance, cfg Config) (online.Policy, error) {
	switch {
	case cfg.Estimates:
		return orNil(le.Open(inService(&inst.Cluster), cfg.Parameters))
	case cfg.Parameters != nil:
		return nil, errParameters
	}
	return le.Maker.make(ctx, inst, cfg)
}

var errParameters = errors.New("parameters of a policy that is given sizes")

// orNil keeps a nil pointer from becoming an interface that is not nil.
func orNil[P online.Policy](p P, err error) (online.Policy, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

func durable[P online.Durable](p P, err error) (online.Durable, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

// New makes a fresh policy for a simulation of inst, which must be valid.
func (info Info) New(ctx context.Context, inst *hare.Instance, cfg Config) (online.Policy, error) {
	if err := info.CheckRules(inst, cfg); err != nil {
		return nil, err
	}
	made, err := info.Maker.make(ctx, inst, cfg)
	switch l := made.(type) {
	case *list.Scheduler:
		l.SetOneNode(cfg.OneNode)
	case *rolling.Policy:
		l.SetOneNode(cfg.OneNode)
	}
	return made, err
}

// CheckRules refuses an instance with rules by which a simulation under the policy does not go.
func (info Info) CheckRules(inst *hare.Instance, cfg Config) error {
	if info.plansAll(cfg) {
		return RefuseRules(inst, info.Name)
	}
	return inst.RefuseRules("the simulator", sim.Rules)
}

// RefuseRules refuses an instance with any rules for a policy of any engine that goes by none.
func RefuseRules(inst *hare.Instance, policy string) error {
	return inst.RefuseForPolicy(policy, "rolling", sim.Rules)
}

// plansAll reports whether the policy plans all jobs beforehand, which goes by sums of GPUs.
func (info Info) plansAll(cfg Config) bool {
	maker := info.Maker
	if learned, ok := maker.(Learned); ok {
		if cfg.Estimates {
			return false
		}
		maker = learned.Maker
	}
	_, future := maker.(FromFuture)
	return future
}

// FromRule makes policies of a list scheduler that knows nothing but the events:
// simulated gives its rule for a simulation, session for the parameters of a
// session.
func FromRule(simulated func(Config) (list.Rule, error), session func(parameters []byte) (list.Rule,
	error)) FromEvents {
	return FromEvents{
		New: func(cluster *hare.Cluster, cfg Config) (online.Durable, error) {
			r, err := simulated(cfg)
			if err != nil {
				return nil, err
			}
			return list.New(cluster, r), nil
		},
		Session: SessionOf(session),
	}
}

// without makes policies of a rule that has no parameters.
func without(r list.Rule) FromEvents {
	return FromRule(func(Config) (list.Rule, error) { return r, nil }, withoutParameters(func() list.Rule { return r }))
}

var policies = []Info{
	{"asrpt", "whole jobs in the order in which one virtual machine completes them, the shortest first",
		Learned{FromSizes(func(c *hare.Cluster, s JobSizes, cfg Config) (online.Policy, error) {
			return orNil(NewASRPT(c, s, cfg.ASRPT))
		}), SessionOf(parseASRPT)}},
	{"easy_backfill", "first come first served with EASY backfill",
		Learned{FromSizes(func(c *hare.Cluster, s JobSizes, _ Config) (online.Policy, error) { return NewEASY(c, s), nil }),
			SessionOf(withoutParameters(func() list.Rule { return easy(nil) }))}},
	{"fifo", "first come first served, task by task", FromEvents{
		New: func(c *hare.Cluster, _ Config) (online.Durable, error) {
			return durable(online.NewFIFO(inService(c)))
		},
		Session: Session{
			Open: func(c *hare.Cluster, parameters []byte) (online.Durable, error) {
				if err := checkNoParameters(parameters); err != nil {
					return nil, err
				}
				return durable(online.NewFIFO(c))
			},
			Restore: func(snapshot []byte) (online.Durable, error) { return durable(online.RestoreFIFO(snapshot)) },
			Check:   checkNoParameters,
		},
	}},
	{"gandiva", "time slicing in turn", FromRule(
		func(cfg Config) (list.Rule, error) { return GandivaConfig{SliceUs: cfg.LeaseUs}.rule() }, parseGandiva)},
	{"gavel_fifo", "the Hare paper's Gavel_FIFO: whole jobs by arrival, on the fastest type with room",
		without(gavelFIFO())},
	{"hare_offline", "follows the plan that Hare finds by prices and search",
		Learned{FromFuture(func(ctx context.Context, i *hare.Instance, c Config) (online.Policy, error) {
			return NewHare(ctx, i, HareConfig{LP: c.LP, Moves: c.Moves, Seed: c.Seed, Assign: c.Assign})
		}), rollingSession(rolling.Config{Name: "hare_offline", Work: planner.Work{Moves: defaultMoves}})}},
	{"hare_paper", "follows the plan of the Hare paper's algorithm 1 on the repaired relaxation",
		Learned{FromFuture(func(ctx context.Context, i *hare.Instance, c Config) (online.Policy, error) {
			return NewHare(ctx, i, HareConfig{LP: c.LP, Paper: true, Assign: c.Assign})
		}), SessionOf(withoutParameters(hareInSessions))}},
	{"hgittins", "HLAS repaired: Gittins index of learned sizes over tasks, never on a far slower type", FromRule(
		func(cfg Config) (list.Rule, error) { return cfg.HGittins.Rule(), nil }, rolling.ParseHGittins)},
	{"hlas", "heterogeneity-aware least attained service, task by task", FromEvents{
		New: func(c *hare.Cluster, cfg Config) (online.Durable, error) {
			h := online.HLASConfig{Kappa: cfg.Kappa}
			if cfg.ThresholdUs > 0 {
				h.ThresholdsUs = []int64{cfg.ThresholdUs}
			}
			return durable(online.NewHLAS(inService(c), h))
		},
		Session: Session{
			Open: func(c *hare.Cluster, parameters []byte) (online.Durable, error) {
				cfg, err := online.ParseHLASConfig(parameters)
				if err != nil {
					return nil, err
				}
				return durable(online.NewHLAS(c, cfg))
			},
			Restore: func(snapshot []byte) (online.Durable, error) { return durable(online.RestoreHLAS(snapshot)) },
			Check: func(parameters []byte) error {
				_, err := online.ParseHLASConfig(parameters)
				return err
			},
		},
	}},
	{"kueue", "gang FIFO as in Kueue, which skips gangs that do not fit", without(kueue(false))},
	{"kueue_strict", "gang FIFO as in Kueue, in which a gang that does not fit blocks all others", without(kueue(true))},
	{"rolling", "a plan at each arrival, end and change of GPUs, followed by type and order; sizes are learned",
		rollingMaker},
	{"sampling", "divides the GPUs among the jobs by sampled numbers of GPUs and a matching market",
		Learned{FromSizes(func(c *hare.Cluster, s JobSizes, cfg Config) (online.Policy, error) {
			cfg.Sampling.Market.Seed = uint64(cfg.Seed)
			return orNil(NewSampling(c, s, cfg.Sampling))
		}), SessionOf(parseSampling)}},
	{"sched_allox", "the Hare paper's Sched_Allox: whole jobs matched to types and places in line",
		Learned{FromSizes(func(c *hare.Cluster, s JobSizes, _ Config) (online.Policy, error) {
			return NewSchedAlloX(c, s), nil
		}), SessionOf(withoutParameters(func() list.Rule { return schedAlloX(nil) }))}},
	{"sched_homo", "the Hare paper's Sched_Homo: weighted completion time as if all GPUs were alike",
		Learned{FromFuture(func(ctx context.Context, i *hare.Instance, _ Config) (online.Policy, error) {
			return orNil(NewSchedHomo(ctx, i))
		}), SessionOf(withoutParameters(schedHomoInSessions))}},
	{"slurm", "multifactor priority with backfill, as in Slurm",
		Learned{FromSizes(func(c *hare.Cluster, s JobSizes, _ Config) (online.Policy, error) {
			return NewSlurm(c, s, SlurmConfig{}), nil
		}), SessionOf(parseSlurm)}},
	{"srtf", "shortest remaining time first, round by round",
		Learned{FromSizes(func(c *hare.Cluster, s JobSizes, _ Config) (online.Policy, error) { return NewSRTF(c, s), nil }),
			SessionOf(withoutParameters(func() list.Rule { return srtf(nil) }))}},
	{"themis", "leases to the worst off by finish-time fairness, by auction",
		Learned{FromSizes(func(c *hare.Cluster, s JobSizes, cfg Config) (online.Policy, error) {
			return orNil(NewThemis(c, s, ThemisConfig{LeaseUs: cfg.LeaseUs}))
		}), SessionOf(parseThemis)}},
	{"tiresias", "discretised least attained GPU-time, round by round", FromRule(
		func(cfg Config) (list.Rule, error) { return tiresiasConfig(cfg).rule() }, parseTiresias)},
	{"tiresias_gittins", "attained GPU-time, then the Gittins index, round by round",
		Learned{FromDistribution(func(c *hare.Cluster, d SizeDistribution, cfg Config) (online.Policy, error) {
			return orNil(NewTiresiasGittins(c, d, tiresiasConfig(cfg)))
		}), SessionOf(parseTiresiasGittins)}},
}

func tiresiasConfig(cfg Config) TiresiasConfig {
	if cfg.ThresholdUs > 0 {
		return TiresiasConfig{ThresholdsUs: []int64{cfg.ThresholdUs}}
	}
	return TiresiasConfig{}
}

// inService is the part of a cluster that is always in service.
func inService(c *hare.Cluster) *hare.Cluster { return sim.Cluster(&hare.Instance{Cluster: *c}) }

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

// ErrInfeasible is the error of policies with knowledge Future where a job can never run.
var ErrInfeasible = relax.ErrInfeasible

// Session makes a policy for sessions. Such a policy can be stored and restored.
type Session struct {
	// Open makes the policy for a session on a cluster, with parameters as JSON or
	// no bytes. Errors are *hare.InvalidError.
	Open func(cluster *hare.Cluster, parameters []byte) (online.Durable, error)
	// Restore makes the policy of which a snapshot was taken.
	Restore func(snapshot []byte) (online.Durable, error)
	// Check says what Open would refuse of parameters on every cluster. Errors are *hare.InvalidError.
	Check func(parameters []byte) error
}

// Learned makes a policy that is given in simulations how long jobs take, or which jobs
// come. In sessions the policy goes by estimates instead: those that come with jobs, and
// what jobs that ended took.
type Learned struct {
	Maker // for simulations
	Session
}

// Session is what makes the policy for sessions; false where it cannot run in one.
func (info Info) Session() (Session, bool) {
	switch m := info.Maker.(type) {
	case FromEvents:
		return m.Session, true
	case Learned:
		return m.Session, true
	}
	return Session{}, false
}

// KnowsInSession is what the policy goes by in a session beyond what has happened;
// meaningless where it cannot run in one. Rolling and hgittins, which learn sizes in
// simulations too, count as knowing nothing.
func (info Info) KnowsInSession() Knowledge {
	if _, ok := info.Maker.(Learned); ok {
		return Estimates
	}
	return Nothing
}
