package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/history"
)

// liveFlags are the flags of hare shadow --live.
type liveFlags struct {
	live, once     bool
	log            string
	interval, keep time.Duration
}

func (lf *liveFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&lf.live, "live", false, "look at the cluster again and again and note what changes in --log, until it is "+
		"interrupted; hare shadow report LOG compares")
	f.StringVar(&lf.log, "log", "", "with --live: the log; one that is there goes on")
	f.DurationVar(&lf.interval, "interval", 30*time.Second, "with --live: time between looks; after failures up to ten "+
		"times as long")
	f.DurationVar(&lf.keep, "keep", 30*24*time.Hour, "with --live: how long jobs that have ended stay in the log")
	f.BoolVar(&lf.once, "once", false, "with --live: look once")
	_ = c.MarkFlagFilename("log") // cannot fail: the flag exists
	positive(c, "keep")
}

// check refuses flags that do not belong together.
func (lf *liveFlags) check(c *cobra.Command, args []string) error {
	switch {
	case !lf.live:
		for _, name := range []string{"log", "interval", "keep", "once"} {
			if c.Flags().Changed(name) {
				return usageError{fmt.Errorf("--%s needs --live", name)}
			}
		}
	case len(args) != 1 || args[0] != "slurm" && args[0] != "kube" && args[0] != "ray":
		return usageError{errors.New("shadow --live takes one of slurm, kube and ray, and no files")}
	case lf.log == "":
		return usageError{errors.New("shadow --live needs --log, the file that it writes")}
	case lf.interval < time.Second:
		return usageError{errors.New("--interval must be at least 1s")}
	case lf.keep < time.Hour:
		return usageError{errors.New("--keep must be at least 1h")}
	}
	return nil
}

// watch looks at a cluster until ctx ends, and notes what changes.
func (f *shadowFlags) watch(ctx context.Context, source string) error {
	r, err := history.OpenRecorder(f.live.log, history.RecorderConfig{Source: source,
		IntervalUs: f.live.interval.Microseconds(), KeepUs: f.live.keep.Microseconds()}, time.Now().UnixMicro())
	if err != nil {
		return usageError{err}
	}
	defer func() { _ = r.Close() }()
	since := time.UnixMicro(r.SinceUs)
	for wait := f.live.interval; ; {
		log, err := history.ReadLive(ctx, source, history.LiveConfig{Since: since, Now: true,
			Arguments: f.history.kubectlArguments(), Address: f.history.address,
			Read: history.ReadConfig{TypeLabel: f.history.typeLabel}})
		now := time.Now()
		if err == nil {
			if err = r.Record(log, now.UnixMicro()); err == nil {
				// The next look asks for what ended since this one, also after failures.
				since = now.Add(-10 * time.Minute)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && f.live.once:
			return err
		case err != nil:
			fmt.Fprintf(stderr, "hare: %v\n", err)
			wait = min(2*wait, 10*f.live.interval)
		case f.live.once:
			return nil
		default:
			wait = f.live.interval
		}
		if !sleepFor(ctx, wait) {
			return nil
		}
	}
}

// readRecorded reads a log of hare shadow --live. Without --since, what happened while it was written
// counts.
func (hf *historyFlags) readRecorded(name string) (*history.Log, error) {
	in, err := openIn(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	log, err := history.ReadRecorded(name, in)
	if err != nil {
		return nil, usageError{err}
	}
	if err := hf.configure(log, time.UTC); err != nil {
		return nil, err
	}
	if hf.since == "" {
		hf.cfg.FromUs = log.BeganUs
	}
	return log, nil
}
