package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/adapters/ray"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/words"
)

// rayRun are the flags of hare ray run.
type rayRun struct {
	besideFlags
	queue rayQueue
	ray   rayAddress
	cfg   ray.Config
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
	rr.add(c, "only say what would be submitted", "V100=1,T4=0.4")
	f := c.Flags()
	f.BoolVar(&rr.cfg.Write, "write", false, "submit jobs to Ray (default: only say what would be submitted)")
	f.DurationVar(&rr.interval, "interval", 5*time.Second, "time between loops; after failures up to ten times as long")
	f.DurationVar(&rr.cfg.PlanTime, "plan-time", 5*time.Second, "how long a plan may take; a later one does not count")
	f.DurationVar(&rr.cfg.FallbackAfter, "fallback-after", time.Minute,
		"how long to go without a plan before jobs start first come, first served")
	f.DurationVar(&rr.cfg.Keep, "keep", 7*24*time.Hour, "how long jobs that have ended stay in a long queue")
	f.StringVar(&rr.metrics, "metrics", "", "serve Prometheus metrics on this loopback address, e.g. 127.0.0.1:9107")
	positive(c, "plan-time", "fallback-after", "keep")
	return c
}

func (rr *rayRun) run(c *cobra.Command) error {
	err := rr.check(rr.cfg.Write, 100*time.Millisecond)
	if err != nil {
		return err
	}
	rr.cfg.Logger = warnings(c)
	if rr.cfg.Speeds, err = rr.speedTable(); err != nil {
		return err
	}
	d, err := rr.ray.connect()
	if err != nil {
		return err
	}
	j, err := rr.queue.open(true)
	if err != nil {
		return err
	}
	log := "" // nothing is logged of a dry run
	if rr.cfg.Write {
		log = rr.queue.dir
	}
	advisor, err := rr.advisor("ray", log)
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
