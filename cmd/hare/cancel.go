package main

import (
	"fmt"

	"github.com/spf13/cobra"

	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

type cancelFlags struct {
	clusterFlags
	wait bool
}

func cancelCommand() *cobra.Command {
	var cf cancelFlags
	c := &cobra.Command{
		Use:   "cancel ID…",
		Short: "End jobs of a managed cluster",
		Long: `Cancel ends jobs. A job that waits is cancelled at once. The processes of a job that runs
get SIGTERM and, when the job's grace has passed, SIGKILL; the job is cancelled when they
are gone. A job that has ended stays as it is.`,
		Example: `  hare cancel j7
  hare cancel j7 j8 --wait`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("hare cancel takes the IDs of jobs, which hare jobs prints (see %s --help)",
					c.CommandPath())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return cf.run(c, args) },
	}
	cf.addCluster(c)
	c.Flags().BoolVar(&cf.wait, "wait", false, "wait until the processes of the jobs are gone")
	return c
}

func (cf *cancelFlags) run(c *cobra.Command, args []string) error {
	ctx := c.Context()
	r, err := cf.open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, id := range args {
		job, err := r.CancelJob(ctx, cf.cluster, id)
		if err == nil && cf.wait {
			job, err = cf.waitFor(ctx, r, id)
		}
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			return cf.jobError(r, id, err)
		}
		if err := cf.printJob(c, job); err != nil {
			return err
		}
	}
	return nil
}

// printJob prints in a line how a job stands.
func (cf *clusterFlags) printJob(c *cobra.Command, job *clusterdoc.Job) error {
	if cf.json {
		return printDocument(c.OutOrStdout(), job)
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s %s\n", job.ID, clustertext.Outcome(job))
	return err
}
