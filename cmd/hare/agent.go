package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/executor"
	"github.com/hare-sched/hare/executor/device"
	"github.com/hare-sched/hare/executor/nvml"
	"github.com/hare-sched/hare/executor/pool"
	"github.com/hare-sched/hare/executor/rounds"
	"github.com/hare-sched/hare/executor/runner"
)

type agentFlags struct {
	far                     remoteFlags
	cfg                     executor.Config
	devices, library, runAs string
	modelGiB                float64
	labels                  []string
}

func agentCommand() *cobra.Command {
	var af agentFlags
	c := &cobra.Command{
		Use:   "agent",
		Short: "Run jobs of a managed cluster on this machine",
		Long: `Agent takes part in a cluster of a server: it registers the GPUs of this machine, starts
the jobs that the server gives it, keeps their outputs, and reports how they end. One
agent runs on each machine. It finds NVIDIA's GPUs by NVML, and keeps jobs from those
that have a fault.

--devices V100=2,T4=2 pretends GPUs: jobs that say how long they take (hare submit
--seconds V100=30) are played, --speed times faster, and others are run. --devices cpu=2
does real work on cores.

Each job has a process of its own, apart from the agent, so that the agent can be killed
and started again while jobs go on. When the agent has not reached the server for the
time of the server's --agent-lease, its jobs end, because the server gives them to
other machines then. SIGTERM ends the agent and not its jobs.

Jobs can do what their user may. An agent that runs as root with --run-as USER gives them a user
of their own: they can then neither read the agent's key nor stop what ends them. Without it
they may do all that the agent may, and only jobs of one owner belong on such a node. A key in
HARE_API_KEY is gone from the environment once the agent has read it, and no job gets it.

The agent never changes a setting of a GPU.`,
		Example: `  hare agent --server http://127.0.0.1:8080 --cluster lab --devices V100=2,T4=2
  hare agent --cluster lab --name gpu-17 --devices cpu=2 --directory /var/lib/hare-agent
  hare agent --server https://hare.example --api-key-file agent.key --cluster lab
  hare agent --cluster lab --directory /var/lib/hare-agent --run-as hare-jobs`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error { return af.run(c) },
	}
	af.far.add(c)
	af.far.setDefault(c)
	f := c.Flags()
	f.StringVar(&af.cfg.Cluster, "cluster", os.Getenv("HARE_CLUSTER"), "the cluster to take part in (default: the "+
		"environment variable HARE_CLUSTER)")
	f.Lookup("cluster").DefValue = ""
	f.StringVar(&af.cfg.Name, "name", "", "name of this node (default: the name of the machine)")
	f.StringVar(&af.cfg.Address, "address", "", "address by which other nodes reach this one, for MASTER_ADDR "+
		"(default: the one that the server sees)")
	f.StringVar(&af.devices, "devices", "", "TYPE=NUMBER,… pretends GPUs, cpu=NUMBER works on cores (default: the GPUs "+
		"that the driver lists)")
	f.StringVar(&af.library, "nvml", "", "path of NVIDIA's library NVML (default: the one of the system)")
	f.StringVar(&af.cfg.Directory, "directory", "", "where the agent keeps state, jobs and checkpoints (default: "+
		"hare-agent/CLUSTER/NAME in the user's state directory)")
	f.Float64Var(&af.cfg.Speed, "speed", 1, "how many times faster than they say jobs are played on pretended GPUs")
	f.StringSliceVar(&af.labels, "label", nil, "label of the node, NAME=VALUE; may be given again")
	f.StringSliceVar(&af.cfg.PassEnv, "pass-env", nil, "variables of the agent's environment that jobs get, too")
	f.StringSliceVar(&af.cfg.Python, "python", []string{"python3"}, "interpreter of round jobs, which finds the "+
		"package hare-worker")
	f.Float64Var(&af.modelGiB, "model-memory", 0, "GiB of each GPU for the parameters of relaxed round jobs and what "+
		"their optimisers remember, without what tasks need while they compute (default: no limit)")
	f.DurationVar(&af.cfg.CopyEvery, "copy-every", 5*time.Second, "how often at most the checkpoint of a round job "+
		"that nodes do not share goes to the server; 0 means never")
	f.StringVar(&af.runAs, "run-as", "", "user of the jobs, USER or USER:GROUP; the agent is root then (default: the "+
		"user of the agent)")
	f.DurationVar(&af.cfg.KeepCheckpoints, "keep-checkpoints", 24*time.Hour, "how long the checkpoints of a job that "+
		"has ended stay on the node, but for those in a --checkpoint-dir; 0 removes them at once")
	f.DurationVar(&af.cfg.NodePatience, "node-patience", 2*time.Minute, "how long a node of a rigid or gang "+
		"round job may be out of reach of the one that holds the parameters before the attempt ends (relaxed jobs: always "+
		"two minutes)")
	_ = c.MarkFlagDirname("directory") // cannot fail: the flag exists
	positive(c, "node-patience", "speed", "model-memory")
	return c
}

func (af *agentFlags) run(c *cobra.Command) error {
	r, err := af.far.connect()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := hideKey(); err != nil {
		return err
	}
	if af.cfg.RunAs, err = taskUser(af.runAs); err != nil {
		return err
	}
	// A server that is down is waited for, and one whose certificate is not trusted will not mend by itself.
	if _, err := r.once.Version(c.Context()); err != nil && tlsAdvice(err) != "" {
		return remoteError(r, "", err)
	}
	if af.cfg.Cluster == "" {
		return usageError{errors.New("--cluster is missing: the cluster to take part in, such as lab; it is made " +
			"where there is none")}
	}
	af.cfg.Logger = slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
	if af.cfg.RunAs == nil && os.Geteuid() == 0 {
		af.cfg.Logger.Warn("jobs run as root, and can do to this machine and its agent what they like: give --run-as")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if af.devices != "" {
		af.cfg.Devices, err = device.Parse(af.devices)
	} else {
		af.cfg.Devices, err = nvml.Open(c.Context(), []string{self, watchGPUs, af.library},
			runner.Environment(), af.cfg.Logger)
	}
	if err != nil {
		return usageError{fmt.Errorf("--devices: %w", err)}
	}
	if af.cfg.Labels, err = pairs("--label", af.labels, nil); err != nil {
		return usageError{err}
	}
	if err := nameAgent(&af.cfg); err != nil {
		return err
	}
	// The agent tries again by itself, because its lease counts from when it asked.
	af.cfg.Server, af.cfg.Version, af.cfg.Runner = r.once, version, []string{self, runTask}
	af.cfg.RoundRunner, af.cfg.PoolRunner = []string{self, runRounds}, []string{self, runPool}
	af.cfg.ModelBytes = int64(af.modelGiB * (1 << 30))
	if af.cfg.CopyEvery == 0 {
		af.cfg.CopyEvery = -1
	}
	err = executor.Run(c.Context(), af.cfg)
	if errors.As(err, new(*client.Problem)) {
		return remoteError(r, "", err)
	}
	return err
}

// hideKey takes the key of the agent out of reach of the jobs: no process inherits it, and none but root's can read it
// in the memory of this one.
func hideKey() error {
	if err := os.Unsetenv("HARE_API_KEY"); err != nil {
		return err
	}
	if runtime.GOOS != "linux" {
		return nil // agents run on Linux alone
	}
	return runner.Conceal()
}

// nameAgent fills in what follows from the machine.
func nameAgent(cfg *executor.Config) error {
	if cfg.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return usageError{fmt.Errorf("--name: the machine has no name: %w", err)}
		}
		cfg.Name, _, _ = strings.Cut(host, ".")
	}
	if cfg.Directory == "" {
		state := os.Getenv("XDG_STATE_HOME")
		if state == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return usageError{fmt.Errorf("--directory: %w", err)}
			}
			state = filepath.Join(home, ".local", "state")
		}
		cfg.Directory = filepath.Join(state, "hare-agent", filepath.Base(cfg.Cluster), filepath.Base(cfg.Name))
	}
	var err error
	if cfg.Directory, err = filepath.Abs(cfg.Directory); err != nil {
		return err
	}
	if info, err := os.Stat(cfg.Directory); err == nil && !info.IsDir() {
		return usageError{fmt.Errorf("--directory %s: it is a file: name a folder", cfg.Directory)}
	}
	return nil
}

// runTask is the argument with which an agent starts this program as the runner of a task.
const runTask = "run-task"

// runRounds is the argument with which the runner of a task starts this program as the program of a round job.
const runRounds = "run-rounds"

// runPool is the argument with which a runner starts this program as the process that computes for relaxed round jobs.
const runPool = "run-pool"

// watchGPUs is the argument with which an agent starts this program as the process that calls NVML.
const watchGPUs = "watch-gpus"

// watchGPUsIfAsked is the whole program where an agent has started it to watch over the GPUs.
func watchGPUsIfAsked() {
	if len(os.Args) != 3 || os.Args[1] != watchGPUs {
		return
	}
	if err := nvml.Serve(os.Stdout, os.Args[2]); err != nil { // the agent has ended
		os.Exit(exitInternal)
	}
	os.Exit(exitDone)
}

// runTaskIfAsked is the whole program where an agent has started it as the runner of a task. It comes before all
// else, because the task waits for it.
func runTaskIfAsked() {
	if len(os.Args) != 3 || os.Args[1] != runTask {
		return
	}
	if err := runner.Main(os.Args[2]); err != nil {
		fmt.Fprintln(stderr, "hare:", err)
		os.Exit(exitInternal)
	}
	os.Exit(exitDone)
}

// runRoundsIfAsked is the whole program where it trains a round job.
func runRoundsIfAsked() {
	if len(os.Args) != 3 || os.Args[1] != runRounds {
		return
	}
	if err := rounds.Main(os.Args[2]); err != nil {
		fmt.Fprintln(stderr, "hare:", err)
		os.Exit(exitNo)
	}
	os.Exit(exitDone)
}

// runPoolIfAsked is the whole program where it computes for relaxed round jobs.
func runPoolIfAsked() {
	if len(os.Args) != 3 || os.Args[1] != runPool {
		return
	}
	if err := pool.Main(os.Args[2]); err != nil {
		fmt.Fprintln(stderr, "hare:", err)
		os.Exit(exitNo)
	}
	os.Exit(exitDone)
}
