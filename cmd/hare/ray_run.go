package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/adapters/ray"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/internal/words"
)

// rayRun are the flags of hare ray run.
type rayRun struct {
	queue                    rayQueue
	ray                      rayAddress
	far                      remoteFlags
	cfg                      ray.Config
	session, metrics, speeds string
	dryRun, once             bool
	interval                 time.Duration
}

func rayRunCommand() *cobra.Command {
	var rr rayRun
	c := &cobra.Command{
		Use:   "run --dir DIR",
		Short: "Start the jobs of the queue on a Ray cluster by Hare's plan",
		Long: `Run reads the queue and what Ray does, plans with the policy rolling, and says which jobs would
be submitted now. With --write it submits them: each is in the journal before Ray is
asked, under a name that Ray takes once, so that the process may be killed at any time. Of
several processes with --write and the same directory, one submits, and the others take over
when it ends.

Where Ray does not answer, nothing is submitted. Where no plan comes for --fallback-after, jobs
start first come, first served, since nobody else would start them.

Exit codes: 0 done, 2 wrong use, 3 a loop failed (with --once).`,
		Example: `  hare ray run --dir /shared/queue --once      # what would be submitted now
  hare ray run --dir /shared/queue --write
  hare ray run --dir /shared/queue --write --address http://head:8265 --metrics 127.0.0.1:9107`,
		Args: exactly(0, "no arguments: see hare ray run --help"),
		RunE: func(c *cobra.Command, _ []string) error { return rr.run(c) },
	}
	rr.queue.add(c)
	rr.ray.add(c)
	rr.far.add(c)
	f := c.Flags()
	f.StringVar(&rr.session, "session", "", "with --server: continue the session with this id (default: the one in "+
		"--dir, or a new one)")
	f.BoolVar(&rr.cfg.Write, "write", false, "submit jobs to Ray (default: only say what would be submitted)")
	f.BoolVar(&rr.dryRun, "dry-run", false, "only say what would be submitted: the default")
	f.BoolVar(&rr.once, "once", false, "end after one loop")
	f.DurationVar(&rr.interval, "interval", 5*time.Second, "time between loops; after failures up to ten times as long")
	f.DurationVar(&rr.cfg.PlanTime, "plan-time", 5*time.Second, "how long a plan may take; a later one does not count")
	f.DurationVar(&rr.cfg.FallbackAfter, "fallback-after", time.Minute,
		"how long to go without a plan before jobs start first come, first served")
	f.DurationVar(&rr.cfg.Keep, "keep", 7*24*time.Hour, "how long jobs that have ended stay in a long queue")
	f.StringVar(&rr.speeds, "speeds", "",
		"relative speeds of GPU types, e.g. V100=1,T4=0.4 (default: those of hare import)")
	f.StringVar(&rr.metrics, "metrics", "", "serve Prometheus metrics on this loopback address, e.g. 127.0.0.1:9107")
	positive(c, "plan-time", "fallback-after", "keep")
	return c
}

func (rr *rayRun) run(c *cobra.Command) error {
	switch {
	case rr.cfg.Write && rr.dryRun:
		return usageError{errors.New("give --write or --dry-run, not both")}
	case rr.session != "" && rr.far.server == "":
		return usageError{errors.New("--session needs --server")}
	case rr.interval < 100*time.Millisecond:
		return usageError{errors.New("--interval must be at least 100ms")}
	}
	rr.cfg.Logger = slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	if rr.speeds != "" {
		table, err := history.ParseSpeeds(rr.speeds)
		if err != nil {
			return usageError{fmt.Errorf("--speeds: %w", err)}
		}
		rr.cfg.Speeds = history.ShippedSpeeds()
		rr.cfg.Speeds.Table = table
	}
	d, err := rr.ray.connect()
	if err != nil {
		return err
	}
	j, err := rr.queue.open(true)
	if err != nil {
		return err
	}
	advisor, err := rr.advisor()
	if err != nil {
		return err
	}
	if rr.far.server != "" && rr.cfg.Write {
		rr.cfg.StateFile = filepath.Join(rr.queue.dir, "state.json")
	}
	h, err := ray.New(rr.cfg, d, advisor, j)
	if err != nil {
		return usageError{err}
	}
	defer h.Resign()
	if rr.metrics != "" {
		stop, err := serveMetrics(rr.metrics, &api.Hosts{}, h.Metrics())
		if err != nil {
			return err
		}
		defer stop()
	}
	return rr.loop(c, h)
}

// advisor makes the session: on a server, or in this process, with a log where jobs are submitted.
func (rr *rayRun) advisor() (advice.Advisor, error) {
	if rr.far.server != "" {
		connected, err := rr.far.connect()
		if err != nil {
			return nil, err
		}
		return &advice.Remote{Client: connected.Client, Session: rr.session}, nil
	}
	if !rr.cfg.Write {
		return &advice.InProcess{}, nil
	}
	return &advice.InProcess{Log: func() (io.WriteCloser, error) {
		name := fmt.Sprintf("session-%s-%d.ndjson", time.Now().UTC().Format("20060102T150405.000"), os.Getpid())
		return os.OpenFile(filepath.Join(rr.queue.dir, name), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	}}, nil
}

// loop steps until the context ends.
func (rr *rayRun) loop(c *cobra.Command, h *ray.Helper) error {
	wait, said := rr.interval, false
	for {
		led, err := true, error(nil)
		if rr.cfg.Write {
			led, err = h.Lead(c.Context())
		}
		var result *ray.Result
		switch {
		case err == nil && led:
			said = false
			result, err = h.Step(c.Context())
		case err == nil && rr.once:
			err = errors.New("another process uses this queue")
		case err == nil && !said:
			fmt.Fprintln(c.ErrOrStderr(), "hare: another process submits the jobs of this queue: waiting for its end")
			said = true
		}
		switch {
		case c.Context().Err() != nil:
			return nil
		case err != nil && rr.once:
			return err
		case err != nil:
			fmt.Fprintf(c.ErrOrStderr(), "hare: %v\n", err)
			wait = min(2*wait, 10*rr.interval)
		default:
			wait = rr.interval
			if result != nil {
				if err := rr.print(c, result); err != nil {
					return err
				}
			}
			if rr.once {
				return nil
			}
		}
		if !sleepFor(c.Context(), wait) {
			return nil
		}
	}
}

// print says what a loop did. A loop that runs on says only what changed.
func (rr *rayRun) print(c *cobra.Command, r *ray.Result) error {
	for _, err := range append(r.SubmitErrors, r.StopErrors...) {
		fmt.Fprintf(c.ErrOrStderr(), "hare: %v\n", err)
	}
	if r.PlanError != nil && (r.Waiting > 0 || rr.once) {
		fmt.Fprintf(c.ErrOrStderr(), "hare: no plan: %v\n", r.PlanError)
	}
	if !rr.once && len(r.Starts)+len(r.Ended) == 0 {
		return nil
	}
	w := c.OutOrStdout()
	if _, err := fmt.Fprintf(w, "%s waiting, %d in Ray, %d ended since the last reading\n",
		words.Count(r.Waiting, "job"), r.Active, len(r.Ended)); err != nil {
		return err
	}
	if r.NoRoom > 0 {
		fmt.Fprintf(w, "%d of those that wait fit no node that is alive\n", r.NoRoom)
	}
	return ray.PrintStarts(w, r.Starts, rr.cfg.Write)
}
