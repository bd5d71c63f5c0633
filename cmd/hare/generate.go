package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

// generateFlags are the flags of hare generate. Those that several generators share are in cfg and philly.
type generateFlags struct {
	cfg               trace.GenerateConfig
	philly            trace.PhillyConfig
	nodes             trace.PhillyNodesConfig
	openb             trace.OpenbLikeConfig
	gpus, like, out   string
	deadlines         string
	lateWeight        float64
	bandwidth, memory string
	widths, shapes    []int
	change, setup     time.Duration
}

func generateCommand() *cobra.Command {
	var gf generateFlags
	c := &cobra.Command{
		Use:   "generate",
		Short: "Generate an instance from a seed, as in the Hare papers or like the Philly trace",
		Long: `Generate draws jobs at random and writes an instance. Without --like the jobs are
drawn from the models of the Hare papers' simulations, with task times that are
relative to a V100 and follow the papers; they are not measurements. With --like
philly, arrivals, widths and durations are drawn from Microsoft's trace, and a
file name that ends in .csv gets a trace instead of an instance. With --like
philly-nodes the cluster has nodes of --per-node GPUs, a job is tasks of several
GPUs on a node, widths are drawn from the trace or from --widths, and all jobs
arrive at 0 unless --arrivals or --load is given. With --like openb, --nodes nodes
and the jobs' GPUs, CPUs, memory, types and run times are drawn from Alibaba's
openb trace; pods that ask for a part of a GPU are left out, or count as one GPU
with --shared whole. With --deadlines, some of the jobs get deadlines and the
objective is jct_and_tardiness. With --shapes, jobs may run on several numbers of
GPUs, and with --switch a GPU is set up before another job. Equal seeds and options give equal files.`,
		Example: `  hare generate --jobs 200 --gpus V100=64,T4=48,K80=24,M60=24 --arrivals poisson:0.1 --sync relaxed \
    --seed 1 -o instance.json
  hare generate --jobs 20000 --gpus V100=6400,T4=4800,K80=2400,M60=2400 -o large.json.zst
  # for hare simulate --trace philly.csv --sync rigid
  hare generate --like philly --jobs 1000000 --gpus GPU=2490 --load 1 -o philly.csv
  hare generate --like philly --jobs 5000 --gpus V100=64,P100=64 --sync gang --quantum 10m -o gangs.json
  hare generate --like philly-nodes --jobs 300 --gpus V100=128,T4=128 --widths 3,6,8 -o fragments.json
  hare generate --like openb --jobs 500 --nodes 64 --seed 1 -o openb.json
  hare generate --like philly-nodes --shapes 1,2,4,8 --switch 10s -o shapes.json
  # half of the jobs are due two least times after they arrive
  hare generate --like philly-nodes --load 1 --deadlines 0.5:2 -o deadlines.json`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error { return gf.run(c.Flags().Changed) },
	}
	f := c.Flags()
	f.IntVar(&gf.cfg.Jobs, "jobs", 200, "number of jobs (with --like philly: 10000, philly-nodes and openb: 300)")
	f.StringVar(&gf.gpus, "gpus", "V100=64,T4=48,K80=24,M60=24",
		"the cluster (with --like philly: GPU=2490, philly-nodes: V100=128,T4=128)")
	f.StringVar(&gf.like, "like", "",
		"philly: draw arrivals, widths and durations from Microsoft's trace; philly-nodes: on nodes; "+
			"openb: nodes and jobs of Alibaba's trace, with CPUs and memory")
	f.IntVar(&gf.openb.Nodes, "nodes", 64, "with --like openb: the nodes that are drawn, at most 1213")
	f.StringVar(&gf.openb.Shared, "shared", "skip",
		"with --like openb: skip leaves pods with a part of a GPU out, whole gives them one GPU")
	f.IntVar(&gf.nodes.PerNode, "per-node", 8, "with --like philly-nodes: the GPUs of a node")
	f.IntSliceVar(&gf.widths, "widths", nil,
		"with --like philly-nodes: GPUs per job, each as often as the others, e.g. 3,6,8 (default: as in the trace)")
	f.IntVar(&gf.nodes.PerRack, "per-rack", 0,
		"with --like philly-nodes: the nodes of a rack, in one of which each job must be that fits (default: no racks)")
	f.Float64Var(&gf.nodes.Running, "running", 0,
		"with --like philly-nodes: the share of the GPUs on which work runs at time 0, from 0 to 1")
	f.Float64Var(&gf.philly.Load, "load", 0.8, "with --like: arriving work divided by the capacity of the cluster")
	f.DurationVar(&gf.philly.Quantum, "quantum", time.Minute,
		"with --like and --sync gang: how long a round takes on the fastest type")
	f.StringVar(&gf.cfg.Arrivals, "arrivals", "none", "arrivals of jobs: none, poisson:RATE (jobs a second) or "+
		"uniform:SPAN (seconds)")
	f.StringVar(&gf.cfg.Sync, "sync", "relaxed", "relaxed, gang or rigid (with --like: gang or rigid, default rigid)")
	f.StringVar(&gf.deadlines, "deadlines", "",
		"SHARE:FACTOR gives this share of the jobs a deadline, FACTOR least times after the release, e.g. 0.5:2")
	f.Float64Var(&gf.lateWeight, "late-weight", 3, "with --deadlines: the cost of a second after the deadline, times "+
		"the weight of the job")
	f.IntSliceVar(&gf.shapes, "shapes", nil,
		"let each gang or rigid job run on these numbers of GPUs, e.g. 1,2,4,8: w times as many make it w^0.8 times as fast")
	f.DurationVar(&gf.change, "reshape", 0,
		"with --shapes and --sync gang: shapes may change between rounds, with this time between them (0s: at once)")
	f.DurationVar(&gf.setup, "switch", 0, "the time that a GPU takes to be set up for another job")
	f.StringVar(&gf.bandwidth, "bandwidth", "",
		"gigabits per second by level: node (inside one), rack (with --per-rack) and any, e.g. node=300,any=25")
	f.StringVar(&gf.memory, "gpu-memory", "", "GiB of a GPU by type, e.g. V100=16,T4=16")
	f.Uint64Var(&gf.cfg.Seed, "seed", 1, "seed: equal seeds give equal instances")
	f.StringVar(&gf.cfg.Name, "name", "", "name of the instance (default: from jobs and seed)")
	f.StringVarP(&gf.out, "output", "o", "", "write to this file (.gz, .zst compress; with --like, .csv writes a trace)")
	choices(c, "sync", "relaxed", "gang", "rigid")
	choices(c, "like", "philly", "philly-nodes", "openb")
	choices(c, "shared", "skip", "whole")
	outputs(c, outputFile, "output")
	positive(c, "jobs", "load", "quantum", "per-node", "nodes")
	return c
}

// run generates and writes an instance; given reports whether a flag was given.
func (gf *generateFlags) run(given func(flag string) bool) error {
	if err := gf.check(given); err != nil {
		return usageError{err}
	}
	inst, err := gf.generate(given)
	if err == nil {
		err = gf.refine(inst, given)
	}
	if err != nil {
		return usageError{err}
	}
	if gf.like == "philly" && strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(gf.out, ".gz"), ".zst"), ".csv") {
		if gf.deadlines != "" || gf.shapes != nil || gf.setup > 0 || gf.bandwidth != "" || gf.memory != "" {
			return usageError{errors.New("a Philly trace has no deadlines, shapes, setups, bandwidths or memory: " +
				"write an instance (.json)")}
		}
		if len(inst.Cluster.Nodes) > 1 {
			return usageError{errors.New("a Philly trace knows one GPU type: give one, or write an instance (.json)")}
		}
		return writeOut(gf.out, func(w io.Writer) error { return trace.WritePhilly(w, inst) })
	}
	if err := inst.Validate(); err != nil {
		return usageError{fmt.Errorf("this can be simulated, but is too long to be an instance; write it as a trace (-o "+
			"F.csv), for hare simulate --trace F.csv: %w", err)}
	}
	return writeOut(gf.out, func(w io.Writer) error { return wire.EncodeInstance(w, inst) })
}

// generate draws jobs. What a flag says that was not given is left to the generator's default.
func (gf *generateFlags) generate(given func(flag string) bool) (*hare.Instance, error) {
	cfg, philly, nodes, openb := &gf.cfg, &gf.philly, &gf.nodes, &gf.openb
	if gf.gpus != "" && (gf.like == "" || given("gpus")) {
		var err error
		if cfg.GPUs, err = trace.ParseGPUs(gf.gpus); err != nil {
			return nil, err
		}
	}
	shared := func(jobs *int, sync, arrivals *string, load *float64) {
		if given("jobs") {
			*jobs = cfg.Jobs
		}
		if given("sync") {
			*sync = cfg.Sync
		}
		if given("arrivals") {
			*arrivals = cfg.Arrivals
		}
		if given("load") {
			*load = philly.Load
		}
	}
	switch gf.like {
	case "":
		return trace.Generate(*cfg)
	case "philly-nodes":
		for _, w := range gf.widths {
			nodes.Widths = append(nodes.Widths, int64(w))
		}
		nodes.GPUs, nodes.Seed, nodes.Name, nodes.Quantum = cfg.GPUs, cfg.Seed, cfg.Name, philly.Quantum
		shared(&nodes.Jobs, &nodes.Sync, &nodes.Arrivals, &nodes.Load)
		return trace.PhillyNodes(*nodes)
	case "openb":
		openb.Seed, openb.Name, openb.Quantum = cfg.Seed, cfg.Name, philly.Quantum
		shared(&openb.Jobs, &openb.Sync, &openb.Arrivals, &openb.Load)
		return trace.OpenbLike(*openb)
	}
	philly.GPUs, philly.Seed, philly.Name = cfg.GPUs, cfg.Seed, cfg.Name
	if given("jobs") {
		philly.Jobs = cfg.Jobs
	}
	if given("sync") {
		philly.Sync = cfg.Sync
	}
	return trace.PhillyLike(*philly)
}

// refine adds hardware, deadlines and shapes to an instance.
func (gf *generateFlags) refine(inst *hare.Instance, given func(flag string) bool) error {
	if err := addHardware(&inst.Cluster, gf.bandwidth, gf.memory); err != nil {
		return err
	}
	if gf.deadlines != "" {
		cfg, err := trace.ParseDeadlines(gf.deadlines)
		if err != nil {
			return err
		}
		cfg.LateWeight, cfg.Seed = gf.lateWeight, gf.cfg.Seed
		if err := trace.AddDeadlines(inst, cfg); err != nil {
			return err
		}
	}
	mold := trace.MoldConfig{Reshape: given("reshape"), ReshapeUs: gf.change.Microseconds(),
		SwitchUs: gf.setup.Microseconds()}
	if gf.like == "philly-nodes" {
		mold.PerNode = gf.nodes.PerNode
	}
	for _, w := range gf.shapes {
		mold.Widths = append(mold.Widths, int64(w))
	}
	return trace.Mold(inst, mold)
}

// check refuses flags that have no meaning without --like, or with --like.
func (gf *generateFlags) check(given func(flag string) bool) error {
	like := gf.like
	switch {
	case like != "" && like != "philly" && like != "philly-nodes" && like != "openb":
		return fmt.Errorf("--like %.60q: only philly, philly-nodes and openb are known", like)
	case like == "openb" && given("gpus"):
		return errors.New("--gpus does not go with --like openb: its nodes are drawn from the trace; --nodes says how many")
	case like != "openb" && (given("nodes") || given("shared")):
		return errors.New("--nodes and --shared go with --like openb")
	case like == "philly" && given("arrivals"):
		return errors.New("--arrivals does not go with --like philly: arrivals are drawn from the trace and scaled " +
			"to --load")
	case like == "" && (given("load") || given("quantum")):
		return errors.New("--load and --quantum go with --like philly, philly-nodes or openb")
	case like != "philly-nodes" && (given("per-node") || given("per-rack") ||
		given("widths") || given("running")):
		return errors.New("--per-node, --per-rack, --widths and --running go with --like philly-nodes")
	case given("shapes") && given("per-rack"):
		return errors.New("--shapes does not go with --per-rack: not every shape would fit into a rack")
	case given("reshape") && !given("shapes"):
		return errors.New("--reshape goes with --shapes")
	case given("late-weight") && !given("deadlines"):
		return errors.New("--late-weight goes with --deadlines")
	}
	return nil
}
