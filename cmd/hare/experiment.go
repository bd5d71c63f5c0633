package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/experiment"
	"github.com/hare-sched/hare/policy"
	"github.com/hare-sched/hare/verify"
)

func experimentCommand() *cobra.Command {
	var out string
	var names, files []string
	var small, quiet bool
	c := &cobra.Command{
		Use:   "experiment NAME",
		Short: "Re-run an experiment of the papers, each run beside a certified bound",
		Long: `Experiment plays fixed instances to the schedulers that a paper compares, and
prints a table of weighted job completion time beside the certified lower bound:
how far is each from the best possible? Every run is verified before a figure of
it is printed. docs/experiments.md says which published figures were reproduced.

Experiments: ` + strings.Join(experiment.Names(), ", ") + `, or all; list describes them.`,
		Example: `  hare experiment list
  hare experiment weighted-jct -o out/
  hare experiment weighted-jct --small --policy hlas,tiresias,slurm
  hare experiment weighted-jct --instance standard-200.json.gz -o out/`,
		Args: exactly(1, "the name of an experiment, all or list"),
		RunE: func(c *cobra.Command, args []string) error {
			w := c.OutOrStdout()
			if args[0] == "list" {
				for _, x := range experiment.All() {
					if _, err := fmt.Fprintf(w, "%s\n  %s. %s\n  %s\n", x.Name, x.Title, x.Text, x.Published); err != nil {
						return err
					}
				}
				return nil
			}
			infos := experiment.All()
			if args[0] != "all" {
				x, err := experiment.Find(args[0])
				if err != nil {
					return usageError{err}
				}
				infos = []experiment.Info{x}
			}
			cfg := experiment.Config{Policies: names, Small: small, Check: checkRun}
			for _, n := range names {
				if _, err := policy.FindTask(n); err != nil {
					return usageError{err}
				}
			}
			for _, name := range files {
				inst, err := readInstance(name)
				if err != nil {
					return err
				}
				cfg.Instances = append(cfg.Instances, experiment.Case{Group: filepath.Base(name), Inst: inst})
			}
			if !quiet {
				cfg.Progress = func(text string) { fmt.Fprintln(os.Stderr, text) }
			}
			var stop func()
			cfg.Solver, stop = startEngine()
			defer stop()
			for _, x := range infos {
				r, err := x.Run(c.Context(), cfg)
				if err != nil {
					return err
				}
				if out != "" {
					if _, err := r.Write(out); err != nil {
						return err
					}
				}
				if err := r.Markdown(w); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&out, "output", "o", "", "write tables (CSV, Markdown), pictures (SVG, PNG) and a page (HTML) into this folder")
	f.StringSliceVar(&names, "policy", nil, "these policies instead of the experiment's; the first is what the others are compared with")
	f.StringSliceVar(&files, "instance", nil, "these instances instead of the experiment's, each a group of its own")
	f.BoolVar(&small, "small", false, "a fifth of the jobs and GPUs")
	f.BoolVarP(&quiet, "quiet", "q", false, "do not say what is being run")
	return c
}

// checkRun is the verifier, as an error.
func checkRun(inst *hare.Instance, res *hare.Result) error {
	if rep := verify.Check(inst, res); !rep.OK {
		return errors.New(rep.String())
	}
	return nil
}
