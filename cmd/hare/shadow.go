package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/history/shadow"
	"github.com/hare-sched/hare/wire"
)

type shadowFlags struct {
	history        historyFlags
	live           liveFlags
	out, record    string
	json, quiet    bool
	anyType, split bool
	backfill       time.Duration
	depth          int
	latency        time.Duration
	work           int64
	seed           uint64
}

func shadowCommand() *cobra.Command {
	var f shadowFlags
	c := &cobra.Command{
		Use:   "shadow SOURCE [FILE...]",
		Short: "Show from a cluster's history what Hare would have made of it, on one page",
		Long: `Shadow reads what happened on a cluster, as hare import SOURCE does, and compares it with
what could have been: with what no scheduler can go below (certified), with Slurm's rule
simulated on the same jobs, which shows whether the simulation is fair, with Hare's policy
rolling, which knows only what was known at each time, and with a plan in hindsight. It
only reads: the files, or without files what the cluster's own commands report, from --since on
(7d by default).

--live looks at the cluster every --interval and writes nothing but a log of what changes,
for clusters that keep no history. It may be killed and started again at any time. After
hours or days, hare shadow report LOG compares as above.

-o writes one HTML page that loads nothing from elsewhere. --record writes the instance
and the schedules, so that hare verify checks each of them.

hare shadow slurm --help, and so on for kube, ray and history, says which texts to save and
how; hare import SOURCE --help says the same.`,
		Example: `  hare shadow slurm --since 7d -o report.html
  hare shadow slurm jobs.txt nodes.txt --since 7d -o report.html
  hare shadow slurm jobs.txt nodes.txt --json > report.json
  hare shadow --live kube --log shadow.ndjson
  hare shadow report shadow.ndjson -o report.html
  hare shadow history jobs.csv -o report.html --record proof/
  hare verify proof/instance.json proof/hindsight.result.json`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.live.check(c, args); err != nil {
				return err
			}
			if f.live.live {
				return f.watch(c.Context(), args[0])
			}
			return f.run(c.Context(), args, c.OutOrStdout())
		},
	}
	help := c.HelpFunc()
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		for _, s := range historySources {
			if slices.Contains(args, s.name) {
				c.Long += "\n\n" + s.long
			}
		}
		help(c, args)
	})
	f.history.add(c)
	f.history.addKube(c)
	f.history.addTables(c, "swf")
	f.live.add(c)
	flags := c.Flags()
	flags.StringVar(&f.history.address, "address", "http://127.0.0.1:8265", "with --live ray: where Ray's dashboard is")
	flags.StringVarP(&f.out, "output", "o", "", "write the page (HTML) to this file")
	flags.StringVar(&f.record, "record", "", "write the instance and the schedules into this folder, for hare verify")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not show progress, nor what was assumed")
	flags.BoolVar(&f.anyType, "any-type", false, "let the simulated Slurm start jobs that named no GPU type on any "+
		"type (default: each job keeps to the types on which it ran, so that no speed is assumed)")
	flags.DurationVar(&f.backfill, "backfill", 30*time.Second, "how often the simulated Slurm runs backfill "+
		"(bf_interval)")
	flags.IntVar(&f.depth, "backfill-depth", 500, "how many waiting jobs backfill tests (bf_max_job_test)")
	flags.DurationVar(&f.latency, "plan-latency", 30*time.Second, "how late Hare's plans are, as those of a helper "+
		"that decides at this interval; 0 makes a plan at each event, which takes long for many jobs")
	flags.BoolVar(&f.split, "splits", true, "also make the plans that separate the gains of order, types and nodes")
	flags.Int64Var(&f.work, "work-limit", 0, "work of each plan in hindsight, as of hare solve (default: 4000000)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the intervals")
	positive(c, "backfill", "backfill-depth")
	outputs(c, outputLog, "log")
	outputs(c, outputPage, "output")
	outputs(c, outputFolder, "record")
	return c
}

func (f *shadowFlags) run(ctx context.Context, args []string, w io.Writer) error {
	if len(args) == 0 || len(args) == 1 && args[0] != "slurm" && args[0] != "kube" &&
		args[0] != "report" {
		return usageError{fmt.Errorf("shadow takes a source (%s, report) and the files to read, of which slurm and kube "+
			"can do without: see hare shadow --help", strings.Join(slices.Concat(history.Sources, history.PublicSources),
			", "))}
	}
	if f.backfill < time.Second {
		return usageError{errors.New("--backfill must be at least 1s")}
	}
	var log *history.Log
	var err error
	switch {
	case args[0] != "report":
		log, err = f.history.fetch(ctx, args[0], args[1:])
	case len(args) == 2:
		log, err = f.history.readRecorded(args[1])
	default:
		err = usageError{errors.New("shadow report takes one log of hare shadow --live")}
	}
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
	cfg := shadow.Config{
		Slurm:     shadow.SlurmConfig{BackfillUs: f.backfill.Microseconds(), Depth: f.depth, AnyType: f.anyType},
		Online:    shadow.OnlineConfig{LatencyUs: f.latency.Microseconds()},
		WorkLimit: f.work, Splits: f.split, Seed: f.seed, Version: version,
	}
	if f.latency == 0 {
		cfg.Online.LatencyUs = -1
	}
	if !f.quiet {
		lines := &partLines{w: stderr, command: "shadow", parts: cfg.Parts(), now: time.Now}
		defer lines.watch()()
		cfg.Progress = lines.update
	}
	rep, schedules, err := shadow.Compare(ctx, built, cfg)
	if errors.Is(err, shadow.ErrNoJob) {
		return usageError{fmt.Errorf("%w: choose an earlier --since", err)}
	}
	if err != nil {
		return err
	}
	if f.record != "" {
		files := []outFile{{"instance.json", func(w io.Writer) error {
			return wire.EncodeInstance(w, schedules.Instance)
		}}, {"report.json", rep.JSON}}
		for _, x := range []struct {
			name string
			res  *hare.Result
		}{{"happened", schedules.Happened}, {"slurm", schedules.Slurm}, {"hare", schedules.Hare},
			{"hindsight", schedules.Hindsight}} {
			files = append(files, outFile{x.name + ".result.json", func(w io.Writer) error {
				return wire.EncodeResult(w, x.res)
			}})
		}
		if err := writeAll(f.record, files); err != nil {
			return err
		}
	}
	if f.out != "" {
		if err := writeOut(f.out, rep.Page); err != nil {
			return err
		}
	}
	if f.json {
		return rep.JSON(w)
	}
	return rep.Text(w)
}
