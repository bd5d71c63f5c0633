package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// jobChangeFlags are those of the commands that change jobs.
type jobChangeFlags struct {
	clusterFlags
	change clusterdoc.JobPatch
	dry    bool
	weight float64
	labels []string
	remove []string
}

// jobChangeCommand is a command that changes the jobs that are its arguments.
func jobChangeCommand(cf *jobChangeFlags, c *cobra.Command, fill func(c *cobra.Command) error) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError{fmt.Errorf("hare %s takes the IDs of jobs, which hare jobs prints (see %s --help)", c.Name(),
				c.CommandPath())}
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := fill(c); err != nil {
			return usageError{err}
		}
		return cf.run(c, args)
	}
	cf.addCluster(c)
	c.Flags().StringVar(&cf.change.Reason, "reason", "", "why, for those who look at the job")
	c.Flags().BoolVar(&cf.dry, "dry-run", false, "change nothing: say when the job would start, and who would pay")
	return c
}

func holdCommand() *cobra.Command {
	cf := &jobChangeFlags{}
	return jobChangeCommand(cf, &cobra.Command{
		Use:   "hold ID…",
		Short: "Keep jobs of a managed cluster that wait from starting",
		Long: `Hold keeps jobs that wait from starting until hare release, also when the server starts
again. A job that runs cannot be held: hare cancel ends it.`,
		Example: `  hare hold j7 --reason 'the data is not there yet'
  hare hold j7 --dry-run`,
	}, func(*cobra.Command) error {
		cf.change.Hold = new(true)
		return nil
	})
}

func releaseCommand() *cobra.Command {
	cf := &jobChangeFlags{}
	return jobChangeCommand(cf, &cobra.Command{
		Use:     "release ID…",
		Short:   "Let jobs of a managed cluster start that are held",
		Long:    `Release ends hare hold: the jobs arrive at the scheduler again.`,
		Example: `  hare release j7`,
	}, func(*cobra.Command) error {
		cf.change.Hold = new(false)
		return nil
	})
}

func setCommand() *cobra.Command {
	cf := &jobChangeFlags{}
	c := jobChangeCommand(cf, &cobra.Command{
		Use:   "set ID…",
		Short: "Change the weight or the labels of jobs of a managed cluster",
		Long: `Set changes jobs that have not ended. A new weight counts at once for a job that waits,
which the scheduler takes for one that has just arrived, and for one that runs when it
starts again. hare jobs ID shows who changed the job, and why.`,
		Example: `  hare set j7 --weight 3 --reason 'paper deadline' --dry-run
  hare set j7 --label team=vision --remove-label night`,
	}, func(c *cobra.Command) error { return cf.fill(c) })
	c.Flags().Float64Var(&cf.weight, "weight", 1, "weight of the job's completion time")
	c.Flags().StringArrayVar(&cf.labels, "label", nil, "a label to set, as in team=vision; may be repeated")
	c.Flags().StringArrayVar(&cf.remove, "remove-label", nil, "the name of a label to remove; may be repeated")
	positive(c, "weight")
	return c
}

// fill turns the flags of hare set into the change.
func (cf *jobChangeFlags) fill(c *cobra.Command) error {
	if c.Flags().Changed("weight") {
		cf.change.Weight = &cf.weight
	}
	labels, err := pairs("--label", cf.labels, nil)
	if err != nil {
		return err
	}
	cf.change.Labels = map[string]*string{}
	for name, value := range labels {
		cf.change.Labels[name] = &value
	}
	for _, name := range cf.remove {
		if _, both := labels[name]; both {
			return fmt.Errorf("--remove-label %s: --label sets it", name)
		}
		cf.change.Labels[name] = nil
	}
	if cf.change.Weight == nil && len(cf.change.Labels) == 0 {
		return errors.New("hare set takes what is to change: --weight, --label or --remove-label")
	}
	return nil
}

func (cf *jobChangeFlags) run(c *cobra.Command, args []string) error {
	ctx := c.Context()
	r, err := cf.open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, id := range args {
		if cf.dry {
			var p *clusterdoc.ChangePreview
			if p, err = r.PreviewChange(ctx, cf.cluster, id, &cf.change); err == nil {
				err = cf.printPreview(c.OutOrStdout(), id, p)
			}
		} else {
			var job *clusterdoc.Job
			if job, err = r.ChangeJob(ctx, cf.cluster, id, &cf.change); err == nil {
				err = cf.printJob(c, job)
			}
		}
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			return cf.jobError(r, id, err)
		}
	}
	return nil
}

func (cf *jobChangeFlags) printPreview(out io.Writer, id string, p *clusterdoc.ChangePreview) error {
	if cf.json {
		return printDocument(out, p)
	}
	_, err := io.WriteString(out, clustertext.ChangePreview(id, p, time.Now()))
	return err
}
