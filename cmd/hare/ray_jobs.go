package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/adapters/ray"
	"github.com/hare-sched/hare/internal/words"
)

// readRuntimeEnv reads a runtime environment and adds variables; nil where there is nothing.
func readRuntimeEnv(path string, vars []string) (map[string]any, error) {
	var out map[string]any
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, usageError{fmt.Errorf("--runtime-env: %w", err)}
		}
		if !utf8.Valid(text) {
			return nil, usageError{fmt.Errorf("--runtime-env: %s is not valid UTF-8", path)}
		}
		if err := json.Unmarshal(text, &out); err != nil {
			return nil, usageError{fmt.Errorf("--runtime-env: %s is not a JSON object: %w", path, err)}
		}
	}
	if len(vars) == 0 {
		return out, nil
	}
	if out == nil {
		out = map[string]any{}
	}
	set := map[string]any{}
	if given, ok := out["env_vars"]; ok {
		if set, ok = given.(map[string]any); !ok {
			return nil, usageError{fmt.Errorf("--runtime-env: /env_vars of %s must be an object of texts", path)}
		}
	}
	given, err := pairs("--env", vars, nil)
	if err != nil {
		return nil, usageError{err}
	}
	for name, value := range given {
		set[name] = value
	}
	out["env_vars"] = set
	return out, nil
}

type rayJobsFlags struct {
	rq          rayQueue
	all, asJSON bool
}

func rayJobsCommand() *cobra.Command {
	var rf rayJobsFlags
	c := &cobra.Command{
		Use:   "jobs --dir DIR [ID...]",
		Short: "List the jobs of the queue for a Ray cluster",
		Long: `Jobs lists the jobs that wait and run, as the queue on disk has them: of jobs in Ray, what hare ray
run has read last. With --all, those that have ended too, for a week (hare ray run --keep).`,
		Example: `  hare ray jobs --dir /shared/queue
  hare ray jobs --dir /shared/queue --all --json`,
		RunE: func(c *cobra.Command, ids []string) error { return rf.run(c, ids) },
	}
	rf.rq.add(c)
	c.Flags().BoolVar(&rf.all, "all", false, "also jobs that have ended")
	c.Flags().BoolVar(&rf.asJSON, "json", false, "print a JSON array")
	return c
}

func (rf *rayJobsFlags) run(c *cobra.Command, ids []string) error {
	j, err := rf.rq.open(false)
	if err != nil {
		return err
	}
	var entries []*ray.Entry
	for _, id := range ids {
		e := j.Queue.Get(id)
		if e == nil {
			return usageError{fmt.Errorf("no job %.100q is in the queue: hare ray jobs --all lists them", id)}
		}
		entries = append(entries, e)
	}
	for _, e := range j.Queue.Entries {
		if len(ids) == 0 && (rf.all || !e.State.Ended()) {
			entries = append(entries, e)
		}
	}
	if rf.asJSON {
		return printRayJSON(c.OutOrStdout(), entries)
	}
	return ray.PrintJobs(c.OutOrStdout(), entries, time.Now())
}

func printRayJSON(w io.Writer, entries []*ray.Entry) error {
	if entries == nil {
		entries = []*ray.Entry{}
	}
	e := json.NewEncoder(exact(w))
	e.SetIndent("", "  ")
	return e.Encode(entries)
}

type rayReleaseFlags struct {
	rq    rayQueue
	ra    rayAddress
	write bool
}

func rayReleaseCommand() *cobra.Command {
	var rf rayReleaseFlags
	c := &cobra.Command{
		Use:   "release --dir DIR",
		Short: "Give all jobs of the queue to Ray, for the day when Hare is taken away",
		Long: `Release prints, for each job that waits, the command of Ray that submits it, in order. With
--write it submits them itself and notes this in the queue, so that none is submitted twice;
hare ray run must have ended. Ray lets those fail that find no room for 15 minutes, unless its
head was started with a greater RAY_JOB_START_TIMEOUT_SECONDS.`,
		Example: `  hare ray release --dir /shared/queue > submit-all.sh
  hare ray release --dir /shared/queue --write`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error { return rf.run(c) },
	}
	rf.rq.add(c)
	rf.ra.add(c)
	c.Flags().BoolVar(&rf.write, "write", false, "submit the jobs (default: print the commands that would)")
	return c
}

func (rf *rayReleaseFlags) run(c *cobra.Command) error {
	d, err := rf.ra.connect()
	if err != nil {
		return err
	}
	j, err := rf.rq.open(false)
	if err != nil {
		return err
	}
	h, err := ray.New(ray.Config{Write: rf.write}, d, nil, j)
	if err != nil {
		return err
	}
	if !rf.write {
		for _, line := range h.Commands(c.Context(), rf.ra.address) {
			if _, err := fmt.Fprintln(c.OutOrStdout(), line); err != nil {
				return err
			}
		}
		return nil
	}
	if led, err := h.Lead(c.Context()); err != nil || !led {
		return errors.Join(err, errors.New("hare ray run uses this queue: end it first"))
	}
	defer h.Resign()
	r, err := h.Release(c.Context())
	if err != nil {
		return err
	}
	if err := ray.PrintStarts(c.OutOrStdout(), r.Starts, true); err != nil {
		return err
	}
	if r.NoRoom > 0 {
		fmt.Fprintf(c.OutOrStdout(), "no node of Ray could run %s, which the queue keeps\n", words.Count(r.NoRoom, "job"))
	}
	return errors.Join(r.SubmitErrors...)
}
