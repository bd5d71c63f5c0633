package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/sim/capacity"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

type capacityFlags struct {
	history        historyFlags
	req            capacitydoc.Request
	prices, begins string
	buy            []string
	seed           uint64
	out            string
	parallel       int
	json, quiet    bool

	given func() []string // the flags for texts of clusters that were given
}

func capacityCommand() *cobra.Command {
	var f capacityFlags
	c := &cobra.Command{
		Use:   "capacity INSTANCE|SOURCE [FILE...]",
		Short: "Decide what to buy: GPUs or another queue policy, in hours, money and risk",
		Long: `Capacity draws weeks from a history of jobs and plays each of them under every policy on
every cluster that you could have. It prints how long jobs would wait, what that costs, in what share
of the weeks a goal is reached, and what is proved of all schedulers.

The history is an instance whose jobs are released when they were submitted, such as
hare import writes, the folder of hare shadow --record, or a source of hare import with its
texts; for slurm, kube and ray without files the cluster's own commands are asked.

--option is a change of the cluster, and may be given several times:
  H100=8                        eight more, on nodes like those that the cluster has
  H100=8,T4=32                  both
  drop rack-2 from fri to sat   no node of this name or label from friday 0:00 on; times are days
                                (fri 18:00), hours from the beginning of the week (96h) or dates

--buy names the most GPUs of each type that may be bought; the cheapest mix that reaches --goal in
--share of the weeks is then searched for. --policy now is the policy that --now names.

The same command with the same -o goes on where a run was killed.`,
		Example: `  hare capacity week.json --option H100=8 --option T4=32 --price H100=2.9,T4=0.35 \
    --policy now,rolling --goal 'p95 wait <= 1h' -o plan/
  hare capacity week.json --buy H100=64,T4=128 --price H100=2.9,T4=0.35 --goal 'mean wait <= 30m'
  hare capacity slurm --since 28d --option 'drop rack-2 from fri to sat' --growth 1.3
  hare capacity slurm jobs.txt nodes.txt --policy now,rolling,hgittins`,
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c.Context(), args, c.OutOrStdout())
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.req.Options, "option", nil, "a change of the cluster: H100=8, or "+
		"'drop NODE from fri to sat'")
	flags.StringSliceVar(&f.req.Policies, "policy", []string{capacitydoc.Now}, "the policies to compare, and now for "+
		"that of --now")
	flags.StringVar(&f.req.Now, "now", "slurm", "the policy that is nearest to what the cluster does today")
	flags.StringVar(&f.prices, "price", "", "price of a GPU for an hour, by type, e.g. H100=2.9,T4=0.35")
	flags.StringVar(&f.req.Goal, "goal", "", "what a week must reach, e.g. 'p95 wait <= 1h', 'mean completion <= 6h' or "+
		"'deadlines >= 95%'; several are joined by and")
	flags.Float64Var(&f.req.Share, "share", 0.9, "the share of weeks that must reach the goal")
	flags.StringSliceVar(&f.buy, "buy", nil, "find the cheapest mix that reaches the goal, of at most so many "+
		"GPUs of each type, e.g. H100=64,T4=128")
	flags.Int64Var(&f.req.Weeks, "weeks", 20, "how many weeks are drawn")
	flags.Int64Var(&f.req.Days, "days", 7, "how many days a drawn week has")
	flags.Float64Var(&f.req.Growth, "growth", 1, "multiply the jobs of the history, e.g. 1.3")
	flags.StringVar(&f.begins, "begins", "", "when an instance begins, e.g. 2026-11-16, so that days of the week "+
		"are known")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the draws")
	flags.IntVar(&f.parallel, "parallel", runtime.GOMAXPROCS(0), "how many weeks are simulated at a time; the "+
		"figures do not depend on it")
	flags.StringVarP(&f.out, "output", "o", "", "write a page (HTML), tables (CSV, JSON) and every job of every week "+
		"(CSV, compressed) into this folder")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not show progress")
	own := map[string]bool{}
	flags.VisitAll(func(fl *pflag.Flag) { own[fl.Name] = true })
	f.history.add(c)
	f.history.addKube(c)
	f.history.addTables(c, "swf")
	f.given = func() (names []string) {
		flags.Visit(func(fl *pflag.Flag) {
			if !own[fl.Name] {
				names = append(names, fl.Name)
			}
		})
		return names
	}
	outputs(c, outputFolder, "output")
	positive(c, "weeks", "days", "growth", "share", "parallel")
	return c
}

func (f *capacityFlags) run(ctx context.Context, args []string, w io.Writer) error {
	if len(args) == 0 {
		return usageError{errors.New("capacity takes an instance, the folder of hare shadow --record, or a source " +
			"(" + strings.Join(slices.Concat(history.Sources, history.PublicSources), ", ") + ") and the files to read")}
	}
	if err := f.readHistory(ctx, args); err != nil {
		return err
	}
	if err := f.readValues(); err != nil {
		return err
	}
	cfg := capacity.Config{Parallel: f.parallel, Version: version}
	var first func(capacitydoc.Certain)
	if !f.quiet {
		lines := &partLines{w: stderr, command: "capacity", parts: capacity.Parts(&f.req), now: time.Now}
		defer lines.watch()()
		cfg.Progress = lines.update
		first = func(c capacitydoc.Certain) {
			if c.MostS != nil {
				fmt.Fprintf(stderr, "capacity: proved: %s shortens the mean completion of the best plan by at most %s\n",
					c.Option, words.Seconds(*c.MostS))
			}
		}
	}
	var rep *capacity.Report
	plan := func() (err error) {
		rep, err = capacity.Plan(ctx, &f.req, cfg, first)
		return err
	}
	var err error
	if f.out == "" {
		err = plan()
	} else {
		err = f.write(&cfg, plan, func() *capacity.Report { return rep })
	}
	if err != nil {
		return capacityFault(err)
	}
	if f.json {
		return rep.JSON(w)
	}
	return rep.Text(w)
}

// write makes a plan and writes its files. The jobs are written while the weeks are played, and the weeks are kept
// until all is written.
func (f *capacityFlags) write(cfg *capacity.Config, plan func() error, rep func() *capacity.Report) error {
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	journal, err := openCapacityJournal(f.out, &f.req)
	if err != nil {
		return err
	}
	if n := len(journal.at); n > 0 && !f.quiet {
		fmt.Fprintf(stderr, "capacity: going on from what %s has kept\n", filepath.Join(f.out, journalName))
	}
	cfg.Journal = journal
	err = writeAll(f.out, []outFile{{"jobs.csv.gz", func(w io.Writer) error { return f.jobs(w, cfg, plan) }},
		{"index.html", func(w io.Writer) error { return rep().Page(w) }},
		{"report.json", func(w io.Writer) error { return rep().JSON(w) }},
		{"rows.csv", func(w io.Writer) error { return rep().CSV(w) }}})
	return errors.Join(err, journal.end(err == nil))
}

// flagOfMember has the flags of the members of a request.
var flagOfMember = map[string]string{"options": "option", "policies": "policy", "prices": "price", "goal": "goal",
	"share": "share", "buy": "buy", "weeks": "weeks", "days": "days", "growth": "growth", "now": "now"}

// capacityFault turns faults of the request into usage errors with the names of the flags.
func capacityFault(err error) error {
	var all hare.InvalidErrors
	var one *hare.InvalidError
	if !errors.As(err, &all) {
		if !errors.As(err, &one) {
			return err
		}
		all = append(all, one)
	}
	var said []string
	for _, e := range all {
		member, _, _ := strings.Cut(strings.TrimPrefix(e.Pointer, "/"), "/")
		detail := e.Detail
		if flag := flagOfMember[member]; flag != "" {
			detail = "--" + flag + ": " + detail
		}
		said = append(said, detail)
	}
	return usageError{errors.New(strings.Join(said, "; "))}
}

// readHistory reads the jobs and the cluster.
func (f *capacityFlags) readHistory(ctx context.Context, args []string) (err error) {
	if slices.Contains(slices.Concat(history.Sources, history.PublicSources), args[0]) {
		if f.begins != "" {
			return usageError{errors.New("--begins is for an instance: texts of clusters have dates")}
		}
		log, err := f.history.fetch(ctx, args[0], args[1:])
		if err != nil {
			return err
		}
		built, err := log.Build(f.history.cfg)
		if err != nil {
			return usageError{err}
		}
		if !f.quiet {
			fmt.Fprint(stderr, built.Report)
		}
		zone, err := time.LoadLocation(f.history.zone)
		if err != nil {
			return usageError{err}
		}
		f.req.Instance, f.req.Begins, f.req.Source = built.Instance, time.UnixMicro(built.OriginUs).In(zone), args[0]
		for i := range f.req.Instance.Jobs {
			f.req.Instance.Jobs[i].Hints = built.Jobs[i].Hints()
		}
		return nil
	}
	if len(args) > 1 {
		return usageError{fmt.Errorf("capacity takes one instance, or a source first: %.60q is none", args[0])}
	}
	if given := f.given(); len(given) > 0 {
		return usageError{fmt.Errorf("--%s changes nothing for an instance: it is for the texts of a cluster", given[0])}
	}
	name := args[0]
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, "instance.json")
	}
	if f.req.Instance, err = readInstance(name); err != nil {
		return err
	}
	f.req.Source = filepath.Base(args[0])
	if f.begins != "" {
		if f.req.Begins, err = time.Parse(time.DateOnly, f.begins); err != nil {
			return usageError{fmt.Errorf("--begins: %q is not a date such as 2026-11-16", f.begins)}
		}
	}
	return nil
}

// readValues reads --price and --buy.
func (f *capacityFlags) readValues() error {
	seed := int64(f.seed)
	f.req.Seed, f.req.Prices = &seed, map[string]float64{}
	if f.prices != "" {
		for part := range strings.SplitSeq(f.prices, ",") {
			name, text, ok := strings.Cut(strings.TrimSpace(part), "=")
			x, err := strconv.ParseFloat(text, 64)
			if _, twice := f.req.Prices[name]; !ok || err != nil || name == "" || twice {
				return usageError{fmt.Errorf("--price: %q: give TYPE=PRICE of a GPU for an hour, each type once, such as "+
					"H100=2.9", part)}
			}
			f.req.Prices[name] = x
		}
	}
	for _, part := range f.buy {
		name, text, ok := strings.Cut(strings.ReplaceAll(part, " ", ""), "=")
		n, err := strconv.Atoi(strings.TrimPrefix(text, "+"))
		if !ok || err != nil || name == "" {
			return usageError{fmt.Errorf("--buy: %q: give the most GPUs of a type, such as H100=64", part)}
		}
		if slices.ContainsFunc(f.req.Buy, func(c hare.TypeCount) bool { return c.Type == name }) {
			return usageError{fmt.Errorf("--buy: %s is given twice", name)}
		}
		f.req.Buy = append(f.req.Buy, hare.TypeCount{Type: name, Count: n})
	}
	slices.SortFunc(f.req.Buy, func(a, b hare.TypeCount) int { return strings.Compare(a.Type, b.Type) })
	return nil
}

// jobs writes the table of all jobs of all weeks, from which hours and money can be computed again, while a plan is
// made.
func (f *capacityFlags) jobs(w io.Writer, cfg *capacity.Config, plan func() error) error {
	table := csv.NewWriter(w)
	types := capacity.Types(&f.req)
	head := []string{"option", "policy", "week", "job", "user", "submit_s", "start_s", "end_s", "deadline_s"}
	for _, t := range types {
		head = append(head, "gpu_s_"+t)
	}
	if err := table.Write(head); err != nil {
		return err
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	cfg.Week = func(option, policy string, week int, w *capacity.Week) error {
		for i := range w.Jobs {
			j := &w.Jobs[i]
			row := []string{option, policy, strconv.Itoa(week), j.ID, j.User, number(j.SubmitS), number(j.StartS),
				number(j.EndS), ""}
			if j.DeadlineS != 0 {
				row[8] = number(j.DeadlineS)
			}
			for _, t := range types {
				row = append(row, number(float64(j.HeldUs[t])/1e6))
			}
			if err := table.Write(row); err != nil {
				return err
			}
		}
		return nil
	}
	err := plan()
	table.Flush()
	return errors.Join(err, table.Error())
}
