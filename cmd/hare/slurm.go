package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/adapters/slurm"
	"github.com/hare-sched/hare/api"
)

type slurmFlags struct {
	besideFlags
	cfg                 slurm.Config
	order, gpuType, dir string
	write, reset        bool
}

func slurmCommand() *cobra.Command {
	var sf slurmFlags
	c := &cobra.Command{
		Use:   "slurm",
		Short: "Order the queue of a running Slurm, and choose GPU types, by Hare's plan",
		Long: `Slurm reads the queue and the nodes of a Slurm cluster, lets a session plan with the policy
rolling, and says which job should start next on which GPU type. Without --write it
only says so: this is the way to begin, and it needs no privileges.

With --write it sets, for jobs that take part, what makes Slurm follow the plan:

  --order site       SiteFactor, which adds to age, fair share and all other factors
                     (needs an operator; the default)
  --order nice       nice values, for operators; negative ones move jobs up
  --order nice-user  positive nice values, which users may set on their own jobs
  --gpu-type constraints
                     the job's constraint on features of nodes, narrowed to the type
                     of the plan; prefer makes this a wish (default: none).
                     Types that users name stay; a constraint is written only
                     where nodes satisfy it with the whole request, and taken
                     back where it keeps a job from starting

A job takes part where its comment begins with hare, as in

  sbatch --comment='hare={"v100":3600,"t4":9000}' --gres=gpu:1 …

where the numbers are how many seconds the job takes on each type, or where
its partition or QOS is named by --partition or --qos. Without numbers, a job counts as taking a
quarter of its time limit until jobs that end say more.

Hare never holds back, cancels or starts a job. Where the service or the planner is down,
slow (--plan-time) or fails, nothing is written and Slurm goes on by itself. Every
write is in the journal before it is made, with its reason and the old value;
--reset undoes what the journal says, where it is still set. Somebody else's value is left
alone.

Exit codes: 0 done, 3 a loop failed (with --once), 2 wrong use, or Slurm would
ignore what is written.`,
		Example: `  hare slurm --once                                  # what would be written now
  hare slurm --dir /var/lib/hare/slurm               # the same every 30 s, with logs
  hare slurm --dir /var/lib/hare/slurm --write --gpu-type constraints
  hare slurm --dir /var/lib/hare/slurm --write --reset`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error { return sf.run(c) },
	}
	sf.add(c, "only say what would be written", "v100=1,t4=0.4")
	f := c.Flags()
	f.StringVar(&sf.dir, "dir", "", "directory of journal.ndjson, state.json and the logs of sessions; --write needs it")
	f.BoolVar(&sf.write, "write", false, "write to Slurm (default: only say what would be written)")
	f.BoolVar(&sf.reset, "reset", false, "undo what was written (without --write: say what would be undone), and end")
	f.StringVar(&sf.order, "order", "site", "by what to order: site, nice, nice-user or none")
	f.StringVar(&sf.gpuType, "gpu-type", "none", "how to ask for the GPU type of the plan: none, prefer or constraints")
	f.StringVar(&sf.cfg.OptIn, "comment", "hare", "jobs whose comment begins with this take part")
	f.StringSliceVar(&sf.cfg.Partitions, "partition", nil, "all jobs of these partitions take part")
	f.StringSliceVar(&sf.cfg.QOS, "qos", nil, "all jobs of these QOS take part")
	f.BoolVar(&sf.cfg.Predict, "predict", false, "add to the comments of jobs that take part when the plan starts them "+
		"and before when they cannot end; comments of others stay")
	f.DurationVar(&sf.interval, "interval", 30*time.Second,
		"time between loops; after failures up to ten times as long")
	f.DurationVar(&sf.cfg.PlanTime, "plan-time", 5*time.Second, "how long a plan may take; a later one is not written")
	f.IntVar(&sf.cfg.MaxUpdates, "max-updates", 1000,
		"most values that one loop writes; the others follow in later loops")
	f.Int64Var(&sf.cfg.Range, "range", 1_000_000, "most that is added to a priority")
	f.StringVar(&sf.metrics, "metrics", "", "serve Prometheus metrics on this loopback address, e.g. 127.0.0.1:9105")
	positive(c, "plan-time", "max-updates", "range")
	choices(c, "order", "site", "nice", "nice-user", "none")
	choices(c, "gpu-type", "none", "prefer", "constraints")
	return c
}

func (sf *slurmFlags) run(c *cobra.Command) error {
	err := sf.check(sf.write, time.Second)
	if err != nil {
		return err
	}
	if sf.write && sf.dir == "" {
		return usageError{errors.New("--write needs --dir, where the journal of all writes is kept, for --reset")}
	}
	sf.cfg.Logger = warnings(c)
	sf.cfg.Order, sf.cfg.GPUType, sf.cfg.Write = slurm.Order(sf.order), slurm.GPUType(sf.gpuType), sf.write
	if sf.cfg.Speeds, err = sf.speedTable(); err != nil {
		return err
	}
	var journalPath string
	if journalPath, sf.cfg.StateFile, err = journalIn(sf.dir); err != nil {
		return err
	}
	advisor, err := sf.advisor("slurm", sf.dir)
	if err != nil {
		return err
	}
	journal, err := slurm.OpenJournal(journalPath)
	if err != nil {
		return err
	}
	defer func() { _ = journal.Close() }()
	h, err := slurm.New(sf.cfg, slurm.Exec{}, advisor, journal)
	if err != nil {
		return usageError{err}
	}
	if sf.reset {
		updates, err := h.Reset(c.Context())
		if err != nil {
			return err
		}
		return slurm.PrintUpdates(c.OutOrStdout(), updates, sf.write)
	}
	if err := h.Check(c.Context()); err != nil {
		var refused *slurm.RefusedError
		if errors.As(err, &refused) {
			return usageError{err}
		}
		return err
	}
	if sf.metrics != "" {
		stop, err := serveMetrics(sf.metrics, &api.Hosts{}, h.Metrics())
		if err != nil {
			return err
		}
		defer stop()
	}
	return sf.loop(c, h)
}

// loop steps until the context ends.
func (sf *slurmFlags) loop(c *cobra.Command, h *slurm.Helper) error {
	return stepping(c, sf.interval, sf.once, sleepFor, func(ctx context.Context) error {
		result, err := h.Step(ctx)
		if err != nil {
			return err
		}
		return result.Print(c.OutOrStdout(), sf.write)
	})
}

// stepping steps once, or until the context ends, and waits between steps by pause, which returns false where
// the context has ended. After failures it waits longer, up to ten intervals.
func stepping(c *cobra.Command, interval time.Duration, once bool, pause func(context.Context, time.Duration) bool,
	step func(context.Context) error) error {
	wait := interval
	for {
		err := step(c.Context())
		switch {
		case c.Context().Err() != nil:
			return nil
		case once:
			return err
		case err != nil:
			fmt.Fprintf(c.ErrOrStderr(), "hare: %v\n", err)
			wait = min(2*wait, 10*interval)
			if !sleepFor(c.Context(), wait) {
				return nil
			}
			continue
		}
		wait = interval
		if !pause(c.Context(), interval) {
			return nil
		}
	}
}

// sleepFor waits; false where the context ends first.
func sleepFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// serveMetrics serves metrics on an address until stop is called; on a loopback address, unless hosts has a flag by
// which other names are allowed.
func serveMetrics(address string, hosts *api.Hosts, metrics http.Handler) (stop func(), err error) {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || hosts.Flag == "" && (ip == nil || !ip.IsLoopback()) {
		return nil, usageError{fmt.Errorf("--metrics %.60q: must be a loopback address and a port, as in 127.0.0.1:9105",
			address)}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: metricsHandler(metrics, hosts), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }()
	return func() { _ = server.Close() }, nil
}

// metricsHandler serves metrics, and refuses pages of other origins.
func metricsHandler(metrics http.Handler, hosts *api.Hosts) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	return api.Guard(mux, hosts)
}
