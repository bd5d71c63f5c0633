package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/adapters/ray"
)

func rayCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "ray",
		Short: "Queue jobs for a Ray cluster and start them by Hare's plan",
		Long: `Ray has no order of jobs, and lets a job that finds no room fail after 15 minutes. So Hare
keeps the queue, in a directory: hare ray submit adds a job, and hare ray run reads what
Ray does, plans with the policy rolling, and gives Ray a job when the plan starts it and its
GPUs are free. Jobs that others submit to Ray count as work that runs.`,
		Example: `  hare ray submit --dir /shared/queue --gpus 2 --on V100=3600s,T4=9000s -- python train.py
  hare ray run --dir /shared/queue            # says what would be submitted
  hare ray run --dir /shared/queue --write
  hare ray jobs --dir /shared/queue`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{errors.New("ray takes one of submit, jobs, cancel, run and release: see hare ray --help")}
		},
	}
	c.AddCommand(raySubmitCommand(), rayJobsCommand(), rayCancelCommand(), rayRunCommand(), rayReleaseCommand())
	return c
}

// rayQueue are the flags that say where the queue is.
type rayQueue struct{ dir string }

func (rq *rayQueue) add(c *cobra.Command) {
	c.Flags().StringVar(&rq.dir, "dir", os.Getenv("HARE_RAY_DIR"),
		"directory of the queue (default: the environment variable HARE_RAY_DIR)")
	_ = c.MarkFlagDirname("dir") // cannot fail: the flag exists
}

// open reads the queue. Commands that do not begin one refuse a directory without one.
func (rq *rayQueue) open(begin bool) (*ray.Journal, error) {
	if rq.dir == "" {
		return nil, usageError{errors.New("give the directory of the queue by --dir, or by HARE_RAY_DIR")}
	}
	if !begin {
		if _, err := os.Stat(rq.dir); err != nil {
			return nil, err
		}
	}
	return ray.OpenJournal(rq.dir)
}

// rayAddress are the flags that say where Ray is.
type rayAddress struct{ address, tokenFile string }

func (ra *rayAddress) add(c *cobra.Command) {
	c.Flags().StringVar(&ra.address, "address", cmp.Or(os.Getenv("RAY_API_SERVER_ADDRESS"), "http://127.0.0.1:8265"),
		"where Ray's dashboard is (default: the environment variable RAY_API_SERVER_ADDRESS)")
	c.Flags().StringVar(&ra.tokenFile, "token-file", "",
		"file with the token that this Ray asks for (default: the environment variable RAY_AUTH_TOKEN)")
	_ = c.MarkFlagFilename("token-file")
}

func (ra *rayAddress) connect() (*ray.Dashboard, error) {
	u, err := url.Parse(ra.address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usageError{fmt.Errorf("--address %.100q: must be the URL of Ray's dashboard, as in "+
			"http://127.0.0.1:8265", ra.address)}
	}
	d := &ray.Dashboard{URL: strings.TrimRight(u.String(), "/"), Token: os.Getenv("RAY_AUTH_TOKEN")}
	if ra.tokenFile != "" {
		text, err := os.ReadFile(ra.tokenFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("--token-file: %w", err)}
		}
		warnOfOpen(stderr, "--token-file", ra.tokenFile)
		d.Token = strings.TrimSpace(string(text))
	}
	return d, nil
}

// rayUsage makes wrong input an error of use.
func rayUsage(err error) error {
	var invalid *ray.InvalidError
	if errors.As(err, &invalid) {
		return usageError{err}
	}
	return err
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}

type raySubmitFlags struct {
	rq              rayQueue
	spec            ray.Spec
	on, id, envFile string
	env             []string
	limit           time.Duration
}

func raySubmitCommand() *cobra.Command {
	var rf raySubmitFlags
	c := &cobra.Command{
		Use:   "submit --dir DIR [flags] -- COMMAND [ARGUMENT...]",
		Short: "Add a job to the queue for a Ray cluster",
		Long: `Submit adds a job to the queue and prints its ID. The job is on disk by then; hare ray
run need not be running, and Ray is not asked. The command runs as the entrypoint of a job of
Ray, on one node, with the GPUs reserved for it, so that it uses them by itself and not
through further Ray tasks. It finds HARE_JOB, HARE_ATTEMPT and HARE_GPU_TYPE in its
environment.

--on names the GPU types on which the job may run, and how long it takes on each, by which
the plan is made: a wrong time makes the plan worse and ends no job. Without times, a job
counts as taking a quarter of --limit (of a day without) until jobs of the same user and
name have ended.`,
		Example: `  hare ray submit --dir /shared/queue --gpus 2 --on V100=3600s,T4=9000s --name bert -- python train.py
  hare ray submit --dir /shared/queue --limit 4h --id nightly-2026-11-23 -- sh -c 'cd /shared/app && ./run'`,
		RunE: func(c *cobra.Command, args []string) error { return rf.run(c, args) },
	}
	rf.rq.add(c)
	f := c.Flags()
	f.Int64Var(&rf.spec.GPUs, "gpus", 1, "GPUs of the job, on one node")
	f.Float64Var(&rf.spec.CPUs, "cpus", 0, "CPUs that are reserved for the job on that node (default: none)")
	f.Int64Var(&rf.spec.MemoryMiB, "memory-mib", 0,
		"MiB of memory that are reserved for the job on that node (default: none)")
	f.StringVar(&rf.on, "on", "", "GPU types on which the job may run, with times, as in V100=3600s,T4=2h30m "+
		"(default: all)")
	f.StringVar(&rf.spec.Name, "name", "", "name; jobs of one user and name are expected to take as long as each other")
	f.StringVar(&rf.spec.User, "user", userName(), "user")
	f.DurationVar(&rf.limit, "limit", 0, "the longest that the job should take; nothing ends a job at its limit")
	f.IntVar(&rf.spec.Retries, "retries", 3, "how often the job runs again where its node was lost or Ray restarted; "+
		"0 for never")
	f.StringVar(&rf.envFile, "runtime-env", "", "file with Ray's runtime environment, as JSON")
	f.StringArrayVar(&rf.env, "env", nil, "environment variable NAME=VALUE of the job; may be repeated")
	f.StringVar(&rf.id, "id", "", "ID of the job, so that a submission may be repeated (default: a random one)")
	positive(c, "gpus", "limit", "cpus", "memory-mib")
	mebibytes(c, "memory-mib")
	return c
}

func (rf *raySubmitFlags) run(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{errors.New("give the command after --, as in hare ray submit --gpus 1 -- python train.py")}
	}
	rf.spec.Entrypoint, rf.spec.LimitS = ray.ShellLine(args), rf.limit.Seconds()
	var err error
	if rf.on != "" {
		if rf.spec.On, err = ray.ParseOn(rf.on); err != nil {
			return usageError{fmt.Errorf("--on: %w", err)}
		}
	}
	if rf.spec.RuntimeEnv, err = readRuntimeEnv(rf.envFile, rf.env); err != nil {
		return err
	}
	if err := rf.spec.Validate(); err != nil {
		return usageError{err}
	}
	j, err := rf.rq.open(true)
	if err != nil {
		return err
	}
	id, err := ray.Submit(c.Context(), j, rf.id, &rf.spec, time.Now())
	if err != nil {
		return rayUsage(err)
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), id)
	return err
}

func rayCancelCommand() *cobra.Command {
	var rq rayQueue
	c := &cobra.Command{
		Use:   "cancel --dir DIR ID...",
		Short: "Cancel jobs of the queue for a Ray cluster",
		Long: `Cancel ends jobs. One that waits ends at once. One that Ray has is stopped by hare ray
run; if Ray has not begun it, Ray keeps it as pending until its own timeout of 15 minutes.`,
		Example: "  hare ray cancel --dir /shared/queue hare-3fa9c2d01b",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("give IDs of jobs: hare ray jobs lists them")}
			}
			j, err := rq.open(false)
			if err != nil {
				return err
			}
			for _, id := range args {
				if err := ray.Cancel(c.Context(), j, id, userName(), time.Now()); err != nil {
					return rayUsage(err)
				}
			}
			return nil
		},
	}
	rq.add(c)
	return c
}
