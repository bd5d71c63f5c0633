package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hare-sched/hare/bench"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/wire"
)

func benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure Hare and compare it with other methods",
		Long: `Bench measures Hare on fixed or generated instances: how close plans come to the
proved bound (gap), how fast the simulator is (simulate), what a switch between
models on a GPU costs (switch), and how close sampled placements come to the best
(placement).`,
		Example: `  hare bench gap --times 0.1,1 --only 'zero-20'
  hare bench simulate --jobs 10000`,
		Args: unknownSubcommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(gapCommand(), benchSimulateCommand(), benchSwitchCommand(), benchPlacementCommand())
	return c
}

type gapFlags struct {
	set, times, only, seeds, dir, out, python string
	record                                    string
	files                                     []string
	against, without                          []string
	seed, work                                int64
	workers                                   int
	lpLimit                                   time.Duration
	list, json, quiet                         bool
}

func gapCommand() *cobra.Command {
	var g gapFlags
	c := &cobra.Command{
		Use:   "gap [INSTANCE...]",
		Short: "Measure how close plans come to the proved bound, also for CP-SAT and an interval LP",
		Long: `Gap solves each instance of a set, or each of the files, with each time limit, and prints one line for
each run and a table of the median and the greatest gap. A limit covers the whole
call: linear programs, search, and the verification of the plan.

The set sixty is frozen: 60 instances with rules, arrivals, sizes, traces and nodes
that pause. The set figures has the files of testdata/instances and their variants,
each with limits of its own; --seeds adds instances of the same generators.

Where bench/best.csv has the best known value and bound of an instance, lines and
tables say how far each run is from them: where the remaining gap is. --record FILE
writes such a table with what was found better, and by which command.

--against cpsat also runs the models of bench/cpsat.py with the same limits and
workers; it needs OR-Tools (make cpsat). --against interval-lp solves the linear
program of Hall, Schulz, Shmoys and Wein once for each instance. After Ctrl-C the
finished runs are printed and written.`,
		Example: `  hare bench gap --times 0.1,1,2 -o gap
  hare bench gap --set figures --seeds 1-10 --json > figures.json
  hare bench gap --only 'zero-20' --times 2,30 --against cpsat,interval-lp
  hare bench gap --set figures --times 2 --without prices   # what a part is worth
  hare bench gap --work 30000 --without keys                # the same on every machine
  hare bench gap jitter-1.json jitter-2.json --times 60 --record bench/best.csv
  hare bench gap --list`,
		RunE: func(c *cobra.Command, args []string) error {
			g.files = args
			cfg, err := g.config(c)
			if err != nil {
				return err
			}
			if g.list {
				return listGapSet(c.OutOrStdout(), cfg.Cases)
			}
			return g.run(c.Context(), c.OutOrStdout(), cfg)
		},
	}
	f := c.Flags()
	f.StringVar(&g.set, "set", bench.GapSixty, "set of instances: sixty or figures")
	f.StringVar(&g.times, "times", "", "time limits in seconds, e.g. 0.1,1,2,30 (default: 0.1,1,2, or those of --set "+
		"figures)")
	f.Int64Var(&g.work, "work", 0, "limit the work of each run in place of the time, so that each machine finds the same")
	f.StringVar(&g.only, "only", "", "run only the instances whose names match this regular expression")
	f.StringVar(&g.seeds, "seeds", "", "with --set figures: also these seeds of the same generators, e.g. 1-10")
	f.Int64Var(&g.seed, "seed", 1, "seed of the search")
	f.IntVar(&g.workers, "workers", min(2, runtime.NumCPU()), "threads of Hare and of CP-SAT")
	f.StringSliceVar(&g.against, "against", nil, "also run these methods: cpsat, interval-lp")
	f.StringSliceVar(&g.without, "without", nil, "switch these parts of Hare off: "+strings.Join(bench.Parts(), ", "))
	f.DurationVar(&g.lpLimit, "lp-limit", time.Minute, "limit of one interval LP")
	f.StringVar(&g.python, "python", filepath.Join(".venv", "bin", "python"), "interpreter that has OR-Tools")
	f.StringVar(&g.dir, "instances", filepath.Join("testdata", "instances"),
		"folder of the frozen files, for --set figures")
	f.StringVar(&g.record, "record", "",
		"write the best known values and bounds, with what was found better, into this file")
	f.StringVarP(&g.out, "output", "o", "", "write results.json, results.csv, results.md and pictures into this folder")
	f.BoolVar(&g.json, "json", false, "print the results as JSON instead of lines and tables")
	f.BoolVar(&g.list, "list", false, "list the instances with their hashes and run nothing")
	f.BoolVarP(&g.quiet, "quiet", "q", false, "print no progress line")
	outputs(c, outputFile, "record")
	outputs(c, outputFolder, "output")
	choices(c, "set", bench.GapSixty, bench.GapFigures)
	choices(c, "without", bench.Parts()...)
	choices(c, "against", bench.GapCPSAT, bench.GapIntervalLP)
	positive(c, "work")
	anyValue(c, "seed", "workers", "lp-limit") // config refuses the latter two with a better message
	return c
}

// config builds the configuration from the flags.
func (gf *gapFlags) config(c *cobra.Command) (cfg bench.GapConfig, err error) {
	bad := func(format string, a ...any) (bench.GapConfig, error) {
		return cfg, usageError{fmt.Errorf(format, a...)}
	}
	if gf.set != bench.GapFigures && gf.seeds != "" {
		return bad("--seeds goes with --set figures")
	}
	if len(gf.files) > 0 && c.Flags().Changed("set") {
		return bad("give instances or --set, not both")
	}
	if cfg.Known, err = bench.Known(); err != nil {
		return cfg, err
	}
	seeds, err := parseSeeds(gf.seeds)
	if err != nil {
		return bad("--seeds %w", err)
	}
	only, err := regexp.Compile(gf.only)
	if err != nil {
		return bad("--only: %w", err)
	}
	cases, err := bench.GapSet(gf.set, gf.dir, seeds)
	if err != nil {
		return bad("--set: %w", err)
	}
	if len(gf.files) > 0 {
		cases = nil
	}
	for _, path := range gf.files {
		inst, err := readInstance(path)
		if err != nil {
			return cfg, err
		}
		cases = append(cases, bench.FileCase(path, inst))
	}
	limits, err := bench.ParseLimits("0.1,1,2")
	if c.Flags().Changed("times") {
		limits, err = bench.ParseLimits(gf.times)
	}
	if err != nil {
		return bad("--%w", err)
	}
	for _, one := range cases {
		if !only.MatchString(one.Name) {
			continue
		}
		if c.Flags().Changed("times") {
			one.Limits = nil
		}
		cfg.Cases = append(cfg.Cases, one)
	}
	switch {
	case len(cfg.Cases) == 0:
		return bad("--only %s matches no instance of %s: see hare bench gap --set %s --list", gf.only, gf.set, gf.set)
	case gf.workers < 1 || gf.workers > 1024:
		return bad("--workers must be 1 to 1024")
	case gf.work > 0 && (c.Flags().Changed("times") || len(gf.against) > 0):
		return bad("--work goes without --times and --against")
	case gf.lpLimit <= 0:
		return bad("--lp-limit must be above 0, such as 1m")
	}
	if gf.set == bench.GapFigures {
		if info, err := os.Stat(gf.dir); err != nil || !info.IsDir() {
			return bad("%s is not there: run in the repository's folder, or name it with --instances", gf.dir)
		}
	}
	cfg.Limits, cfg.WorkLimit, cfg.Seed = limits, gf.work, gf.seed
	if cfg.Solver.Ablation, err = bench.ParseAblation(gf.without); err != nil {
		return bad("--without %w", err)
	}
	for _, name := range gf.against {
		switch name {
		case bench.GapCPSAT:
			cfg.CPSAT = &bench.CPSAT{Python: gf.python}
		case bench.GapIntervalLP:
			cfg.LPLimit = gf.lpLimit
		default:
			return bad("--against %s: it must be cpsat or interval-lp", name)
		}
	}
	if cfg.CPSAT != nil && !gf.list {
		if _, err := cfg.CPSAT.Check(c.Context()); err != nil {
			return bad("--against cpsat: %w", err)
		}
	}
	return cfg, nil
}

// parseSeeds reads "1-10" or "1,4,7".
func parseSeeds(text string) (seeds []uint64, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		from, err := strconv.ParseUint(low, 10, 32)
		to := from
		if err == nil && isRange {
			to, err = strconv.ParseUint(high, 10, 32)
		}
		if err != nil || to < from || to-from >= 1000 {
			return nil, fmt.Errorf("%q: write seeds such as 1-10 or 1,4,7", text)
		}
		for s := from; s <= to; s++ {
			seeds = append(seeds, s)
		}
	}
	return seeds, nil
}

func listGapSet(w io.Writer, cases []bench.GapCase) error {
	for _, one := range cases {
		inst, err := one.Make()
		if err != nil {
			return inputError(one.Name, err)
		}
		gpus := len(model.New(inst).GPUs)
		fmt.Fprintf(w, "%-36s %6d jobs %6d GPUs  %s\n", one.Name, len(inst.Jobs), gpus, wire.SHA256(inst))
	}
	return nil
}

func (gf *gapFlags) run(ctx context.Context, w io.Writer, cfg bench.GapConfig) error {
	engine, closeEngine := startEngine(!gf.quiet)
	defer closeEngine()
	engine.Ablation = cfg.Solver.Ablation
	cfg.Solver, cfg.LP = engine, engine.LP
	cfg.Solver.Workers = gf.workers
	live := newProgressLine(os.Stderr, !gf.quiet && term.IsTerminal(int(os.Stderr.Fd())))
	cfg.Progress = func(p bench.GapProgress) {
		live.text("run %d of %d  %s  %s  %s s  about %s left", p.Done+1, p.Total, p.Name,
			strings.TrimSpace(p.Method+" "+p.Model), strconv.FormatFloat(p.Limit.Seconds(), 'f', -1, 64),
			p.Left.Round(time.Second))
	}
	cfg.Row = func(row *bench.GapRow) {
		live.end()
		if !gf.json {
			fmt.Fprintln(w, row.Line())
		}
	}
	rep, failed := bench.RunGap(ctx, cfg)
	live.end()
	if failed != nil && len(rep.Rows) == 0 {
		return failed
	}
	if gf.record != "" {
		if err := gf.recordBest(rep, cfg.Known); err != nil {
			return errors.Join(failed, err)
		}
	}
	// Finished runs are written even if an error or Ctrl-C ended the others.
	if gf.out != "" {
		if err := rep.WriteDir(gf.out); err != nil {
			return errors.Join(failed, err)
		}
	}
	var err error
	if gf.json {
		err = rep.WriteJSON(w)
	} else {
		fmt.Fprintln(w)
		err = rep.WriteMarkdown(w)
	}
	if failed != nil {
		return failed
	}
	if rep.Interrupted {
		fmt.Fprintln(stderr, "hare: interrupted: what was done is kept")
		return errors.Join(err, errNo)
	}
	return err
}

// recordBest writes what is known now. The file's own table counts as well as that of this program.
func (gf *gapFlags) recordBest(rep *bench.GapReport, known map[string]*bench.Best) error {
	text, err := os.ReadFile(gf.record)
	switch {
	case err == nil:
		if known, err = bench.ReadBest(bytes.NewReader(text)); err != nil {
			return fmt.Errorf("%s: %w", gf.record, err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	changed := rep.Improve(known, func(row *bench.GapRow) string {
		command := "hare bench gap"
		switch {
		case len(gf.files) > 0:
			command += " " + row.Instance + ".json"
		case gf.set == bench.GapFigures:
			command += " --set figures --only '^" + row.Instance + "$'"
		default:
			command += " --only '^" + row.Instance + "$'"
		}
		limit := fmt.Sprintf("--times %g", row.LimitS)
		if rep.WorkLimit > 0 {
			limit = fmt.Sprintf("--work %d", rep.WorkLimit)
		}
		command += fmt.Sprintf(" %s --seed %d --workers %d", limit, rep.Seed, rep.Workers)
		if row.Method == bench.GapCPSAT {
			command += " --against cpsat"
		}
		return command
	})
	fmt.Fprintf(stderr, "hare: %d best values and bounds are new in %s\n", changed, gf.record)
	return writeOut(gf.record, func(w io.Writer) error { return bench.WriteBest(w, known) })
}
