package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/bench/experiment"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/verify"
)

type experimentFlags struct {
	out                     string
	names, files            []string
	small, quiet            bool
	scale, repeat, parallel int
	firstSeed               uint64
	planLatency             time.Duration
	parameters              string
}

func experimentCommand() *cobra.Command {
	var g experimentFlags
	c := &cobra.Command{
		Use:   "experiment NAME",
		Short: "Repeat an experiment of the papers, with a certified bound",
		Long: `Experiment simulates fixed instances under the schedulers that a paper compares,
and prints tables of the weighted job completion time next to the certified lower
bound: how far is each scheduler from the best possible plan? Every run is verified
before its figures are printed. docs/lab/experiments.md says which published figures
were reproduced.

Experiments: ` + strings.Join(experiment.Names(), ", ") + `; all runs
every experiment of the papers with bounds (not ` + strings.Join(measurementNames(), ", ") + `), list describes them.`,
		Example: `  hare experiment list
  hare experiment weighted-jct -o out/
  hare experiment all --parallel 2 -o out/
  hare experiment weighted-jct --small --policy hlas,tiresias,slurm
  hare experiment weighted-jct --instance standard-200.json.gz -o out/`,
		Args: exactly(1, "the name of an experiment, all or list"),
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] == "list" {
				for _, x := range experiment.All() {
					if _, err := fmt.Fprintf(c.OutOrStdout(), "%s\n  %s. %s\n  %s\n", x.Name, x.Title, x.Text,
						x.Published); err != nil {
						return err
					}
				}
				for _, m := range experiment.Measurements() {
					if _, err := fmt.Fprintf(c.OutOrStdout(), "%s\n  %s. %s\n  %s\n", m.Name, m.Title, m.Text,
						m.Published); err != nil {
						return err
					}
				}
				return nil
			}
			if m, ok := experiment.FindMeasurement(args[0]); ok {
				return g.measure(c.Context(), c.OutOrStdout(), m)
			}
			infos := experiment.All()
			if args[0] == "all" && (g.names != nil || g.files != nil) {
				infos = slices.DeleteFunc(infos, experiment.Info.OfLeases)
			}
			if args[0] != "all" {
				x, err := experiment.Find(args[0])
				if err != nil {
					return usageError{err}
				}
				infos = []experiment.Info{x}
			}
			return g.run(c.Context(), c.OutOrStdout(), infos, args[0] == "all")
		},
	}
	f := c.Flags()
	f.StringVarP(&g.out, "output", "o", "", "write tables (CSV, Markdown), pictures (SVG, PNG) and a page (HTML) into "+
		"this folder")
	f.StringSliceVar(&g.names, "policy", nil, "compare these policies instead of the experiment's; the others are "+
		"compared with the first")
	f.StringSliceVar(&g.files, "instance", nil, "use these instances instead of the experiment's; each is a group of "+
		"its own")
	f.BoolVar(&g.small, "small", false, "use a fifth of the jobs and GPUs, as --scale 5 does")
	f.IntVar(&g.scale, "scale", 1, "divide the numbers of jobs and GPUs by this")
	f.IntVar(&g.repeat, "repeat", 5, "number of instances for each mean; their seeds follow each other")
	f.Uint64Var(&g.firstSeed, "first-seed", 1, "seed of the first of these instances")
	f.DurationVar(&g.planLatency, "plan-latency", 0, "how long a plan of rolling takes, while the one before is followed")
	f.StringVar(&g.parameters, "parameters", "", parametersUsage)
	f.IntVar(&g.parallel, "parallel", 1, "how many runs are simulated at the same time; the figures do not depend on it")
	f.BoolVarP(&g.quiet, "quiet", "q", false, "print no progress line")
	outputs(c, outputFolder, "output")
	positive(c, "scale", "repeat", "first-seed", "parallel")
	return c
}

// run runs the experiments and writes their reports.
func (ef *experimentFlags) run(ctx context.Context, w io.Writer, infos []experiment.Info, index bool) error {
	cfg, err := ef.config()
	if err != nil {
		return err
	}
	total := 0
	for _, x := range infos {
		n, err := x.Size(cfg)
		if err != nil {
			return usageError{err}
		}
		total += n
	}
	live := newProgressLine(os.Stderr, !ef.quiet && term.IsTerminal(int(os.Stderr.Fd())))
	defer live.end()
	var stop func()
	cfg.Solver, stop = startEngine(!ef.quiet)
	defer stop()
	before, began := 0, time.Now()
	for _, x := range infos {
		cfg.Progress = func(p experiment.Progress) {
			showRuns(live, x.Name, before+p.Done, before+p.Done, total, began, p.Text)
		}
		r, err := x.Run(ctx, cfg)
		if err != nil {
			return err
		}
		live.end()
		if ef.out != "" {
			if _, err := r.Write(ef.out); err != nil {
				return err
			}
		}
		if err := r.Markdown(w); err != nil {
			return err
		}
		n, err := x.Size(cfg)
		if err != nil {
			return err
		}
		before += n
	}
	if ef.out != "" && index {
		_, err = experiment.WriteIndex(ef.out, infos)
	}
	return err
}

// showRuns shows how many runs are done, of which some were done since a time, and how long the others take.
func showRuns(live *progressLine, name string, done, since, total int, began time.Time, text string) {
	left := "?"
	if since > 0 {
		left = (time.Since(began) / time.Duration(since) * time.Duration(total-done)).Round(time.Second).String()
	}
	live.text("%s  %d of %d runs  about %s left  %s", name, done, total, left, text)
}

func measurementNames() []string {
	var names []string
	for _, m := range experiment.Measurements() {
		names = append(names, m.Name)
	}
	return names
}

// measure runs a measurement and writes its tables.
func (ef *experimentFlags) measure(ctx context.Context, w io.Writer, m experiment.Measurement) error {
	cfg, err := ef.config()
	if err != nil {
		return err
	}
	if _, err := m.Size(cfg); err != nil {
		return usageError{err}
	}
	if ef.out != "" {
		if err := os.MkdirAll(ef.out, 0o777); err != nil {
			return err
		}
		cfg.Unfinished = filepath.Join(ef.out, m.Name+".unfinished")
	}
	live := newProgressLine(os.Stderr, !ef.quiet && term.IsTerminal(int(os.Stderr.Fd())))
	defer live.end()
	var stop func()
	cfg.Solver, stop = startEngine(!ef.quiet)
	defer stop()
	cfg.Solver.Version = longVersion()
	began, before := time.Now(), -1
	cfg.Progress = func(p experiment.Progress) {
		if before < 0 {
			before = p.Done // runs that the file of an unfinished measurement has
		}
		showRuns(live, m.Name, p.Done, p.Done-before, p.Total, began, p.Text)
	}
	r, err := m.Run(ctx, cfg)
	if err != nil {
		return err
	}
	live.end()
	if ef.out != "" {
		if _, err := r.Write(ef.out); err != nil {
			return err
		}
		if err := experiment.RemoveUnfinished(cfg.Unfinished); err != nil {
			return err
		}
	}
	return r.Markdown(w)
}

// config builds the configuration from the flags.
func (ef *experimentFlags) config() (experiment.Config, error) {
	cfg := experiment.Config{Policies: ef.names, Scale: ef.scale, Repeat: ef.repeat, FirstSeed: ef.firstSeed,
		Parallel: ef.parallel, Check: checkRun, PlanLatencyUs: ef.planLatency.Microseconds()}
	if ef.scale < 1 || ef.repeat < 1 || ef.parallel < 1 {
		return cfg, usageError{errors.New("--scale, --repeat and --parallel must be at least 1")}
	}
	if ef.planLatency < 0 {
		return cfg, usageError{errors.New("--plan-latency must not be negative")}
	}
	if ef.small && ef.scale != 1 {
		return cfg, usageError{errors.New("give --small, which is --scale 5, or --scale")}
	}
	if ef.small {
		cfg.Scale = 5
	}
	for i, n := range ef.names {
		if slices.Contains(ef.names[:i], n) {
			return cfg, usageError{fmt.Errorf("policy %s is named twice", n)}
		}
		if _, err := registry.FindTask(n); err != nil {
			return cfg, usageError{err}
		}
	}
	if err := noTwice(append(ef.files, ef.parameters)...); err != nil {
		return cfg, err
	}
	var err error
	if cfg.Parameters, err = readParameters(ef.parameters); err != nil {
		return cfg, err
	}
	for _, name := range ef.files {
		inst, err := readInstance(name)
		if err != nil {
			return cfg, err
		}
		cfg.Instances = append(cfg.Instances, experiment.Case{Group: filepath.Base(name), Inst: inst})
	}
	return cfg, nil
}

// checkRun returns an error if the verifier refuses a result.
func checkRun(inst *hare.Instance, res *hare.Result) error {
	if rep := verify.Check(inst, res); !rep.OK {
		return errors.New(rep.String())
	}
	return nil
}
