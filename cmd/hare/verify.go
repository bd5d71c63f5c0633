package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// previousFlags name the earlier result of a replan and its instance.
type previousFlags struct{ result, instance string }

func (pf *previousFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&pf.result, "previous", "",
		"for a replan: the earlier result, which shows what had started")
	c.Flags().StringVar(&pf.instance, "previous-instance", "", "the instance of --previous, where INSTANCE differs")
}

// check reads an instance, a result and the files of the flags, and verifies the
// result.
func (pf *previousFlags) check(args []string) (*hare.Instance, *hare.Result, *verify.Report, error) {
	if pf.instance != "" && pf.result == "" {
		return nil, nil, nil, usageError{errors.New("--previous-instance belongs to --previous RESULT")}
	}
	if err := noTwice(append(slices.Clone(args), pf.result, pf.instance)...); err != nil {
		return nil, nil, nil, err
	}
	inst, res, err := readPair(args)
	if err != nil {
		return nil, nil, nil, err
	}
	prev := &verify.Previous{}
	if pf.result != "" {
		if prev.Result, err = readResult(pf.result); err != nil {
			return nil, nil, nil, err
		}
	}
	if pf.instance != "" {
		if prev.Instance, err = readInstance(pf.instance); err != nil {
			return nil, nil, nil, err
		}
	}
	return inst, res, verify.CheckReplan(inst, res, prev), nil
}

func verifyCommand() *cobra.Command {
	var asJSON bool
	var previous previousFlags
	c := &cobra.Command{
		Use:   "verify INSTANCE RESULT",
		Short: "Verify a result: every constraint, its value, and the bound of its certificate",
		Long: `Verify checks the schedule of RESULT round by round in integers, recomputes its
value, and recomputes the bound from the certificate in exact arithmetic. It shares
no code with the solver. It exits with 1 when it refuses the result.
verify/hare_verify.py is a second verifier, written separately in Python.

For a replan (hare solve --previous), verify derives the remaining work itself: from
the schedule of the whole instance that RESULT carries or, with --previous, from the
earlier result.`,
		Example: `  hare verify instance.json result.json
  hare solve instance.json | hare verify instance.json -
  hare verify now.json new.json --previous result.json --previous-instance plan.json`,
		Args: exactly(2, "an instance and a result"),
		RunE: func(c *cobra.Command, args []string) error {
			_, _, rep, err := previous.check(args)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(os.Stdout)
				e.SetIndent("", " ")
				err = e.Encode(rep)
			} else {
				_, err = fmt.Fprintln(stdout, words.PlainNames(rep))
			}
			if err == nil && !rep.OK {
				err = errNo
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	previous.add(c)
	return c
}

func readPair(args []string) (*hare.Instance, *hare.Result, error) {
	if err := noTwice(args...); err != nil {
		return nil, nil, err
	}
	inst, err := readInstance(args[0])
	if err != nil {
		return nil, nil, otherWayRound(args, err)
	}
	res, err := readResult(args[1])
	return inst, res, err
}

func hashCommand() *cobra.Command {
	var canonical bool
	c := &cobra.Command{
		Use:   "hash INSTANCE",
		Short: "Print the SHA-256 of an instance's canonical form",
		Long: `Hash prints the hash by which results and certificates name their instance. It is
the SHA-256 of the canonical form (RFC 8785), so two files that describe the same
instance, with other spaces or another order of fields, have the same hash.`,
		Example: "  hare hash instance.json\n  hare hash instance.json --canonical | sha256sum",
		Args:    exactly(1, "one instance file"),
		RunE: func(c *cobra.Command, args []string) error {
			inst, err := readInstance(args[0])
			if err != nil {
				return err
			}
			if canonical {
				_, err = os.Stdout.Write(wire.Canonical(inst))
				return err
			}
			_, err = fmt.Fprintln(stdout, wire.SHA256(inst))
			return err
		},
	}
	c.Flags().BoolVar(&canonical, "canonical", false, "print the canonical form itself (RFC 8785)")
	return c
}

type plotFlags struct {
	out      string
	opt      plot.Options
	previous previousFlags
}

func plotCommand() *cobra.Command {
	var pf plotFlags
	c := &cobra.Command{
		Use:   "plot INSTANCE RESULT",
		Short: "Draw a schedule as a Gantt chart: SVG, PNG or an interactive HTML page",
		Long: `Plot verifies the result and draws its schedule, with one row for each GPU and one
colour for each job. The ending of the file name selects the format: .svg and .png
are pictures; .html is a page without other files on which one can zoom, search for
jobs and read the times of each job.`,
		Example: `  hare plot instance.json result.json -o gantt.svg
  hare plot instance.json result.json -o gantt.html   # zoom, pan, look at each job`,
		Args: exactly(2, "an instance and a result"),
		RunE: func(_ *cobra.Command, args []string) error { return pf.run(args) },
	}
	pf.previous.add(c)
	c.Flags().StringVarP(&pf.out, "output", "o", "gantt.svg", "the file to write; its ending selects the format")
	c.Flags().StringVar(&pf.opt.Title, "title", "", "headline (default: the instance's name)")
	c.Flags().IntVar(&pf.opt.Width, "width", 0, "width in pixels, 400 to 8000 (default 1200)")
	positive(c, "width")
	outputs(c, outputPicture, "output")
	return c
}

func (pf *plotFlags) run(args []string) error {
	draw, err := drawing(pf.out)
	if err != nil {
		return err
	}
	if pf.opt.Width != 0 && (pf.opt.Width < 400 || pf.opt.Width > 8000) {
		return usageError{fmt.Errorf("--width %d: it must be 400 to 8000", pf.opt.Width)}
	}
	inst, res, rep, err := pf.previous.check(args)
	if err != nil {
		return err
	}
	if rep.OK {
		inst, res = wholePlan(inst, res)
	} else {
		return usageError{fmt.Errorf("the result does not pass verification, so there is nothing true to draw: %s", rep)}
	}
	return writeOut(pf.out, func(w io.Writer) error { return draw(w, inst, res, pf.opt) })
}

func drawing(out string) (func(io.Writer, *hare.Instance, *hare.Result, plot.Options) error, error) {
	switch ext := strings.ToLower(filepath.Ext(strings.TrimSuffix(strings.TrimSuffix(out, ".gz"), ".zst"))); ext {
	case ".svg":
		return plot.SVG, nil
	case ".png":
		return plot.PNG, nil
	case ".html", ".htm":
		return plot.HTML, nil
	default:
		return nil, usageError{fmt.Errorf("cannot draw %q: end the name in .svg, .png or .html", out)}
	}
}

type importFlags struct {
	cfg              trace.ImportConfig
	gpus, table, out string
	list             bool
}

func importCommand() *cobra.Command {
	var mf importFlags
	c := &cobra.Command{
		Use:   "import [FORMAT] [FILE...]",
		Short: "Convert a log of Slurm, Kubernetes or Ray, a table of jobs, or a public trace to an instance",
		Long: "What your cluster reports is converted by the commands below: slurm, kube and ray read its\n" +
			"own logs, and history a table of jobs, as a spreadsheet writes it. A format that a\n" +
			"file shows by its content need not be named; --list-formats names all.\n\n" +
			"With a FORMAT of public traces (" + strings.Join(trace.Formats(), ", ") + "), import converts\n" +
			"a trace and its table of speeds to an instance. Without file names it converts the ones that\n" +
			"Hare includes:\n\n  " + strings.Join(trace.ShippedTraces(), "\n  ") + "\n\n" +
			"Standard error says what was rounded, skipped or assumed.",
		Example: `  hare import slurm jobs.txt nodes.txt -o week.json
  hare import jobs.csv nodes.csv -o week.json
  hare import --list-formats
  hare import gavel -o instance.json
  hare import gavel mytrace.csv --table throughputs.csv --gpus V100=36,P100=36,K80=36 \
    --sync gang --quantum 60s -o instance.json
  hare import philly --jobs 500 --gpus GPU=256 -o philly.json.gz`,
		Args: func(c *cobra.Command, args []string) error {
			if mf.list {
				return nil
			}
			if len(args) < 1 || len(args) > 3 || len(args) == 3 && args[0] != "armada" {
				return usageError{errors.New("import takes a format (see hare import --list-formats) and perhaps a trace file")}
			}
			if slices.Contains(trace.ImportFormats(), args[0]) {
				return nil
			}
			return usageError{fmt.Errorf("import: unknown format %.60q%s hare import --list-formats names all formats", args[0],
				cmp.Or(hare.Guess(args[0], importNames()), "."))}
		},
		ValidArgs: trace.ImportFormats(),
		RunE:      func(c *cobra.Command, args []string) error { return mf.run(c, args) },
	}
	mf.cfg.SetAside = true
	f := c.Flags()
	f.BoolVar(&mf.list, "list-formats", false, "print the name of each format and what it is")
	f.StringVar(&mf.gpus, "gpus", "", "the cluster, e.g. V100=36,P100=36,K80=36 (default: the format's)")
	f.StringVar(&mf.table, "table", "", "table of speeds (gavel, shockwave), step times (pollux), nodes (openb) or "+
		"clusters (armada)")
	f.StringVar(&mf.cfg.Sync, "sync", "", "gang or rigid (default: gang where steps are known, rigid where only a "+
		"duration is)")
	f.DurationVar(&mf.cfg.Quantum, "quantum", 60*time.Second,
		"how long a round of merged steps takes on the fastest type")
	f.IntVar(&mf.cfg.Jobs, "jobs", 0, "import only the first jobs of the trace, at most this many; 0 means all")
	f.StringVar(&mf.cfg.Releases, "releases", "trace", "releases of jobs: trace (jobs arrive as recorded) or zero")
	f.StringVar(&mf.cfg.Weights, "weights", "trace", "weights of jobs: trace (as recorded) or one")
	f.StringVar(&mf.cfg.Placement, "placement", "consolidated",
		"gavel: speeds of GPUs in one server (consolidated) or in several (unconsolidated)")
	f.StringVar(&mf.cfg.Shared, "shared", "skip", "openb: skip pods that request a part of a GPU, or give them a whole "+
		"one: skip, whole")
	f.StringVar(&mf.cfg.Name, "name", "", "name of the instance (default: format and trace)")
	f.StringVarP(&mf.out, "output", "o", "", "write to this file (.gz, .zst compress)")
	choices(c, "sync", "gang", "rigid")
	choices(c, "releases", "trace", "zero")
	choices(c, "weights", "trace", "one")
	choices(c, "placement", "consolidated", "unconsolidated")
	choices(c, "shared", "skip", "whole")
	positive(c, "quantum")
	outputs(c, outputData, "output")
	c.AddCommand(importHistoryCommands()...)
	return c
}

func (mf *importFlags) run(c *cobra.Command, args []string) error {
	if mf.list {
		return printFormats(c.OutOrStdout())
	}
	var err error
	if len(args) == 3 {
		if mf.table != "" {
			return usageError{errors.New("import armada takes two files: leave --table out")}
		}
		args, mf.table = args[:2], args[2]
	}
	if mf.gpus != "" {
		if mf.cfg.GPUs, err = trace.ParseGPUs(mf.gpus); err != nil {
			return usageError{err}
		}
	}
	for _, s := range []struct {
		name string
		to   *trace.Source
	}{{strings.Join(args[1:], ""), &mf.cfg.Trace}, {mf.table, &mf.cfg.Table}} {
		if s.name == "" {
			continue
		}
		if s.to.Name = s.name; s.name != "-" {
			if _, err := os.Stat(s.name); err != nil {
				if _, shippedErr := trace.Shipped(s.name); shippedErr == nil {
					continue // the name is that of a trace that Hare includes
				}
				return err
			}
		}
		f, err := openIn(s.name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		s.to.R = f
	}
	inst, report, err := trace.Import(args[0], mf.cfg)
	if err != nil {
		return usageError{err}
	}
	fmt.Fprintln(stderr, report)
	return writeOut(mf.out, func(w io.Writer) error { return wire.EncodeInstance(w, inst) })
}
