package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/sim/study"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/trace"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

type simulateFlags struct {
	remote                              remoteFlags
	limit                               time.Duration
	policies, labels                    []string
	trace, format, table, instance      string
	generate                            int
	arrivals, sync                      string
	quantum                             time.Duration
	gpus, cluster, jobs, prices         string
	lease, reset, restart, interval     time.Duration
	seed                                uint64
	repeat, parallel                    int
	out, record, bound, name            string
	faults, sizes, parameters           string
	mtbf, mttr, switches, planLatency   time.Duration
	failures                            float64
	stragglers, quantumSet              bool
	json, cdf, quiet, traceSet, syncSet bool
	drawn                               bool // --generate is given
}

func simulateCommand() *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:   "simulate --policy NAME[,NAME…]",
		Short: "Simulate jobs under schedulers and compare the completion times",
		Long: `Simulate runs the same jobs under each policy on a virtual clock, and prints the
mean and the weighted job completion time, the total duration, the utilization of
the GPUs and fairness. The same input and seed give the same figures.

Policies: ` + strings.Join(registry.Names(), ", ") + `.

Policies of leases (gavel:…) lend GPUs to gangs for a fixed time. Elastic policies
(pollux:…) change the number of GPUs of a running job. Under antman jobs share GPUs.
All other policies place single tasks; each of their runs is verified before its figures are printed.
hare simulate policies lists them with their parameters (--parameters).
docs/use/simulate.md is a guide; docs/use/policies.md says what each policy does and assumes.

The jobs come from a trace in one of the formats ` + strings.Join(trace.Formats(), ", ") + `,
which its columns identify; from a trace that Hare includes: ` + strings.Join(trace.ShippedTraces(), ", ") + `;
from an instance (--instance); or from a generator (--generate).

Jobs of an instance may carry what their users expect, estimate_s and class, which
hare estimate fills in. Policies that learn sizes use them, and with --sizes estimates
so do the policies of tasks that otherwise know how long every job takes.`,
		Example: `  hare simulate --policy hlas,tiresias,gavel:max_min_fairness_perf --trace trace.csv \
    --gpus v100=36,p100=36,k80=36 -o runs/
  hare simulate --policy gavel:allox --trace gavel_trace_continuous5600_single.csv \
    --gpus v100=36,p100=36,k80=36 --jobs 4000-4999
  hare simulate --policy pollux:tiresias,pollux:optimus --trace pollux_workload_6.csv
  hare simulate --policy hlas,kueue --instance instance.json --record runs/
  hare verify instance.json runs/hlas.result.json
  hare simulate --policy hlas,srtf --generate 200 --arrivals uniform:1200 --repeat 10
  hare simulate --policy rolling,srtf,easy_backfill --instance estimated.json --sizes estimates`,
		Args: exactly(0, "no arguments: see its flags"),
		RunE: func(c *cobra.Command, _ []string) error {
			f.traceSet, f.syncSet, f.quantumSet = c.Flags().Changed("trace"), c.Flags().Changed("sync"),
				c.Flags().Changed("quantum")
			f.drawn = c.Flags().Changed("generate")
			if err := f.idle(c.Flags().Changed); err != nil {
				return usageError{err}
			}
			return f.run(c.Context(), c.OutOrStdout())
		},
	}
	c.AddCommand(simulatePoliciesCommand())
	flags := c.Flags()
	flags.StringSliceVar(&f.policies, "policy", nil, "the policies to compare, separated by commas")
	flags.StringVar(&f.trace, "trace", "gavel_trace_max_min_fairness.csv", "the jobs: a file, or a shipped trace")
	flags.StringVar(&f.format, "format", "", "format of the trace, where its columns do not identify it: "+
		strings.Join(trace.Formats(), ", "))
	flags.StringVar(&f.table, "table", "", "the second file of the format, such as steps per second by job_type, "+
		"scale_factor and gpu_type: a file, or a shipped table")
	flags.StringVar(&f.instance, "instance", "", "take the jobs, and the cluster, from an instance instead of a trace")
	flags.IntVar(&f.generate, "generate", 0,
		"generate this many jobs instead, as hare generate does, with another seed for each repeat")
	flags.StringVar(&f.arrivals, "arrivals", "none", "with --generate: none, poisson:RATE (jobs a second) or "+
		"uniform:SPAN (seconds)")
	flags.StringVar(&f.sync, "sync", "gang", "how the tasks of a trace's jobs are placed by policies of tasks: gang or "+
		"rigid; with --generate also relaxed, which is then the default")
	flags.DurationVar(&f.quantum, "quantum", time.Minute, "for policies of tasks: how long a round takes into which "+
		"steps of a trace are merged; longer where the trace would have over 10 million tasks. If given, rounds of an "+
		"instance's gangs are merged as well")
	flags.StringVar(&f.gpus, "gpus", "", "the cluster, e.g. v100=36,p100=36,k80=36")
	flags.StringVar(&f.cluster, "cluster", "", "the cluster from a file, instead of --gpus")
	flags.StringVar(&f.jobs, "jobs", "", "count only these jobs, numbered from 0 by arrival, e.g. 4000-4999")
	flags.StringVar(&f.prices, "prices", "", "for policies of cost: price of an hour of a GPU of each type (default: "+
		"v100=0.74,p100=0.43,k80=0.135)")
	flags.DurationVar(&f.lease, "lease", 6*time.Minute, "for policies of leases: how long a gang holds its GPUs")
	flags.DurationVar(&f.reset, "reset", 32*time.Minute, "for policies of leases: the least time between two "+
		"reassignments of all GPUs")
	flags.DurationVar(&f.restart, "restart", 0, "time that a job loses when its lease begins on other GPUs than before; "+
		"0 means 30s for elastic policies")
	flags.StringVar(&f.faults, "faults", "", "GPUs that fail: a CSV file with the columns gpu (node/index, or a node), "+
		"from_s and until_s (empty: for ever)")
	flags.DurationVar(&f.mtbf, "mtbf", 0, "mean time between the failures of a GPU")
	flags.DurationVar(&f.mttr, "mttr", time.Hour, "mean time until a failed GPU returns")
	flags.Float64Var(&f.failures, "failures", 0, "for policies of tasks: number of tasks that fail and start again for "+
		"each hour that a GPU computes")
	flags.BoolVar(&f.stragglers, "stragglers", false,
		"for policies of tasks: lengthen tasks at random, as Alibaba measured for training steps")
	flags.DurationVar(&f.switches, "switch", 0,
		"for policies of tasks: time that a GPU loses when it begins a task of another job")
	flags.DurationVar(&f.planLatency, "plan-latency", 0,
		"for rolling: how long a plan takes, while the one before is followed")
	flags.StringVar(&f.sizes, "sizes", simulatedoc.SizesExact, "exact: policies that need sizes know them; estimates: "+
		"they use estimate_s and class of the jobs, and the jobs that ended, as in sessions")
	flags.StringVar(&f.parameters, "parameters", "", parametersUsage)
	flags.DurationVar(&f.interval, "interval", time.Minute, "for elastic policies: time between changes of the jobs' "+
		"widths")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of all random draws; each repeat adds one")
	flags.IntVar(&f.repeat, "repeat", 1, "number of runs of each policy; above 1, print means with 95 % confidence "+
		"intervals")
	flags.IntVar(&f.parallel, "parallel", runtime.GOMAXPROCS(0),
		"how many runs are simulated at the same time; the figures do not depend on it")
	flags.StringVarP(&f.out, "output", "o", "", "write tables (CSV, JSON, Parquet), a picture (SVG) and a page (HTML) "+
		"into this folder")
	flags.StringVar(&f.record, "record", "", "write each run of a policy of tasks into this folder, as a result that "+
		"hare verify accepts")
	flags.StringVar(&f.bound, "bound", simulatedoc.BoundAuto, "compute a certified bound for the jobs of policies of "+
		"tasks: auto (only if it takes a few seconds), always or never")
	flags.BoolVar(&f.cdf, "cdf", false, "add the distribution of completion times to the JSON")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print no progress line")
	flags.StringArrayVar(&f.labels, "label", nil, "KEY=VALUE: a text that the report in JSON repeats; may be given "+
		"several times")
	f.remote.add(c)
	flags.StringVar(&f.name, "name", "", "with --server: the name under which the server keeps the simulation")
	flags.DurationVar(&f.limit, "time-limit", 0,
		"with --server: time limit on the server, including the time in its queue "+
			"(default: the server's --max-time)")
	choices(c, "policy", registry.Names()...)
	choices(c, "format", trace.Formats()...)
	choices(c, "sizes", simulatedoc.SizesExact, simulatedoc.SizesEstimates)
	choices(c, "bound", simulatedoc.BoundAuto, simulatedoc.BoundAlways, simulatedoc.BoundNever)
	outputs(c, outputFolder, "output", "record")
	positive(c, "quantum", "lease", "mttr", "repeat", "parallel", "time-limit")
	anyValue(c, "generate", "interval", "failures") // request refuses bad values with a better message
	return c
}

func (f *simulateFlags) run(ctx context.Context, w io.Writer) error {
	req, err := f.request()
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			return err
		}
		return usageError{err}
	}
	live := newProgressLine(os.Stderr, !f.quiet && term.IsTerminal(int(os.Stderr.Fd())))
	defer live.end()
	simulate := f.here
	if f.remote.server != "" {
		simulate = f.remotely
	}
	rep, err := simulate(ctx, req, live)
	live.end()
	if err != nil {
		return simulationFault(err)
	}
	if rep.Played != nil && req.Trace != nil && req.Trace.Text != nil {
		rep.Played.Jobs = "trace " + filepath.Base(f.trace) // a server knows only the text, not the name
	}
	if err := f.write(rep); err != nil {
		return err
	}
	if f.json {
		return rep.JSON(w)
	}
	return rep.Table(w, widthOf(w))
}

// here simulates in this process.
func (f *simulateFlags) here(ctx context.Context, req *simulatedoc.Request, live *progressLine) (*study.Report,
	error) {
	cfg := study.Config{Parallel: f.parallel, Timed: true, Record: f.record != ""}
	if live.on {
		cfg.Progress = simulationProgress(live, time.Now)
	}
	engine, stop := startPrograms(ctx, req.Policies)
	defer stop()
	cfg.Solver = engine
	if os.Getenv("GOGC") == "" {
		// A million jobs fit into 2 GiB this way: a quarter less memory for about 15 %
		// more time.
		defer debug.SetGCPercent(debug.SetGCPercent(50))
	}
	return study.Simulate(ctx, req, cfg)
}

// widthOf returns the width of a terminal in columns; 0 for other writers.
func widthOf(w io.Writer) int {
	if file, ok := exact(w).(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// startPrograms starts HiGHS if a policy may need it. Without HiGHS, linear programs
// are solved in the process by the Go engine.
func startPrograms(ctx context.Context, names []string) (solver.Config, func()) {
	for _, name := range names {
		if info, err := registry.Find(name); err == nil && (info.Needs.LP || info.Knows == policies.Future) {
			pool, err := newPool()
			if err != nil {
				break
			}
			v, err := pool.Ready(ctx)
			if err != nil {
				_ = pool.Close()
				break
			}
			return solver.Config{Version: version, LP: pool, EngineVersion: v}, func() { _ = pool.Close() }
		}
	}
	return solver.Config{Version: version}, func() {}
}

// simulationFault turns an error of a simulation into a usage error where the input is
// at fault.
func simulationFault(err error) error {
	var all hare.InvalidErrors
	var one *hare.InvalidError
	var run *study.RunError
	switch {
	case errors.As(err, new(usageError)): // already a usage error
		return err
	case errors.As(err, &all):
		var said []string
		for _, e := range all {
			said = append(said, flagged(e))
		}
		return usageError{errors.New(strings.Join(said, "; "))}
	case errors.As(err, &one):
		return usageError{errors.New(flagged(one))}
	case errors.As(err, &run) && (run.Code == "stalled" || run.Code == "infeasible" || run.Code == "too_large" ||
		run.Code == "not_in_model"):
		return usageError{err} // the jobs do not fit the cluster
	}
	return err
}

// flagged returns the name of the flag for a fault whose text does not name it.
func flagged(e *hare.InvalidError) string {
	at := map[string]string{
		"/jobs": "--jobs", "/repeat": "--repeat", "/lease_s": "--lease", "/reset_s": "--reset", "/restart_s": "--restart",
		"/interval_s": "--interval", "/prices": "--prices", "/trace/quantum_s": "--quantum", "/generate": "--generate",
		"/switch_s": "--switch", "/sizes": "--sizes", "/plan_latency_s": "--plan-latency", "/merge_s": "--quantum",
		"/failures/per_gpu_hour": "--failures",
	}[e.Pointer]
	switch {
	case at != "":
		return at + ": " + e.Detail
	case strings.HasPrefix(e.Pointer, "/parameters"):
		return "--parameters" + strings.TrimSuffix(": "+strings.TrimPrefix(e.Pointer, "/parameters"), ": ") + ": " + e.Detail
	case strings.HasPrefix(e.Pointer, "/instance/"):
		return e.Pointer + ": " + e.Detail
	}
	return e.Detail
}

// request builds the request from the flags and files.
func (f *simulateFlags) request() (*simulatedoc.Request, error) {
	lease, reset, restart := f.lease.Microseconds(), f.reset.Microseconds(), f.restart.Microseconds()
	req := &simulatedoc.Request{
		Seed: int64(f.seed), Repeat: int64(f.repeat), LeaseUs: &lease, ResetUs: &reset, RestartUs: &restart,
		IntervalS: int64(f.interval.Seconds()), CDF: f.cdf, Bound: f.bound,
	}
	if f.sizes != simulatedoc.SizesExact { // the default, which servers of earlier versions have alone
		req.Sizes = f.sizes
	}
	if len(f.policies) == 0 {
		return nil, fmt.Errorf("give policies: --policy NAME[,NAME…]; there are %s", strings.Join(registry.Names(), ", "))
	}
	tasks, elastic := false, true
	for _, name := range f.policies {
		info, err := registry.Find(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		tasks = tasks || info.Engine == registry.Task
		elastic = elastic && info.Engine == registry.Elastic
		req.Policies = append(req.Policies, info.Name)
	}
	if f.record != "" && !tasks {
		return nil, errors.New("--record keeps runs of policies of tasks, and none of these is one")
	}
	if f.record != "" && f.stragglers {
		return nil, errors.New("--record keeps runs as results, and those with --stragglers are not schedules of the " +
			"instance")
	}
	if f.interval <= 0 || f.interval%time.Second != 0 {
		return nil, errors.New("--interval must be whole seconds, at least 1s")
	}
	if f.lease <= 0 || f.reset < 0 || f.restart < 0 || f.restart >= f.lease {
		return nil, errors.New("--lease must be positive, --reset and --restart not negative, and --restart less than " +
			"--lease")
	}
	bounds := []string{simulatedoc.BoundAuto, simulatedoc.BoundAlways, simulatedoc.BoundNever}
	if !slices.Contains(bounds, f.bound) {
		return nil, fmt.Errorf("--bound %q: it must be one of %s", f.bound, strings.Join(bounds, ", "))
	}
	if f.format != "" {
		if err := trace.CheckFormat(f.format); err != nil {
			return nil, fmt.Errorf("--format: %w", err)
		}
	}
	if f.limit != 0 && f.remote.server == "" {
		return nil, errors.New("--time-limit is for --server: leave it out, and end a run here by Ctrl-C")
	}
	if f.quantum < time.Microsecond {
		return nil, errors.New("--quantum must be positive, and at least 1µs")
	}
	if f.repeat < 1 || f.parallel < 1 {
		return nil, errors.New("--repeat and --parallel must be at least 1")
	}
	if f.jobs != "" {
		from, to, ok := strings.Cut(f.jobs, "-")
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if !ok || err1 != nil || err2 != nil || first < 0 || last < first || last == 0 {
			return nil, fmt.Errorf("--jobs %.60q: write FIRST-LAST, such as 4000-4999; jobs are numbered from 0, and the "+
				"last is at least 1", f.jobs)
		}
		req.First, req.Last = int64(first), int64(last)
	}
	var err error
	if req.Prices, err = parsePrices(f.prices); err != nil {
		return nil, err
	}
	if f.name != "" && f.remote.server == "" {
		return nil, errors.New("--name is for simulations that a server keeps: give --server too")
	}
	req.Name = f.name
	if req.Labels, err = parseLabels(f.labels); err != nil {
		return nil, err
	}
	if err := noTwice(f.trace, f.table, f.cluster, f.instance, f.faults, f.parameters); err != nil {
		return nil, err
	}
	if req.Parameters, err = readParameters(f.parameters); err != nil {
		return nil, err
	}
	if err := f.where(req, elastic); err != nil {
		return nil, err
	}
	if err := f.world(req); err != nil {
		return nil, err
	}
	return req, f.what(req)
}

// idle refuses flags of jobs from elsewhere, which would change nothing.
func (f *simulateFlags) idle(given func(string) bool) error {
	traced := f.instance == "" && !f.drawn
	for _, x := range []struct {
		flag, of string
		ok       bool
	}{{"sync", "--trace and --generate", f.instance == ""}, {"table", "--trace", traced},
		{"arrivals", "--generate", f.drawn}} {
		if given(x.flag) && !x.ok {
			return fmt.Errorf("--%s changes nothing here: it belongs to %s", x.flag, x.of)
		}
	}
	return nil
}

// where reads the cluster.
func (f *simulateFlags) where(req *simulatedoc.Request, elastic bool) error {
	// The source of the jobs has a cluster of its own: a trace that of its format.
	own := f.instance != "" || f.traceSet || f.drawn || elastic
	switch {
	case f.gpus != "" && f.cluster != "" || f.gpus == "" && f.cluster == "" && !own:
		return errors.New("give the cluster: --gpus v100=36,p100=36,k80=36, or --cluster cluster.json")
	case f.gpus != "":
		var err error
		req.GPUs, err = trace.ParseGPUs(f.gpus)
		return err
	case f.cluster != "":
		var err error
		req.Cluster, err = readCluster(f.cluster)
		return err
	}
	return nil
}

// what reads the jobs.
func (f *simulateFlags) what(req *simulatedoc.Request) error {
	n := 0
	for _, given := range []bool{f.traceSet, f.instance != "", f.drawn} {
		if given {
			n++
		}
	}
	if n > 1 {
		return errors.New("give one of --trace, --instance and --generate")
	}
	if f.quantumSet && !f.traceSet {
		req.MergeUs = f.quantum.Microseconds()
	}
	var err error
	switch {
	case f.instance != "":
		req.Instance, err = readInstance(f.instance)
		return err
	case f.drawn && f.generate == 0: // zero would mean the default number
		return errors.New("--generate 0: draw at least one job")
	case f.drawn:
		req.Generate = &simulatedoc.Generate{Jobs: int64(f.generate), Arrivals: f.arrivals}
		if f.syncSet {
			req.Generate.Sync = f.sync
		}
		return nil
	}
	req.MergeUs = 0
	t := &simulatedoc.Trace{Name: f.trace, Format: f.format, Sync: f.sync, TableName: f.table}
	if f.quantumSet {
		t.QuantumUs = f.quantum.Microseconds()
	}
	req.Trace = t
	if t.Text, err = readText(f.trace); err != nil {
		return err
	}
	switch is := recognise(t.Text[:min(len(t.Text), headBytes)]); {
	case t.Text == nil || is.what == "" || is.what == aTable:
	case is.what == anInstance:
		return fmt.Errorf("%s is an instance: give it by --instance %s", f.trace, f.trace)
	case is.what != "empty" && !strings.HasPrefix(is.what, "not JSON"):
		return fmt.Errorf("--trace: %w", &wrongDocument{f.trace, "a trace, whose first line names its columns", is})
	}
	if f.table == "" {
		return nil
	}
	t.Table, err = readText(f.table)
	return err
}

// maxTextBytes limits a trace or a table, after decompression.
const maxTextBytes = 256 << 20

// readText reads a file; it returns nil where the name is that of a trace or table that
// Hare includes.
func readText(name string) ([]byte, error) {
	if name != "-" {
		if _, err := os.Stat(name); err != nil {
			_, shippedErr := trace.Shipped(name)
			if shippedErr == nil {
				return nil, nil
			}
			return nil, fmt.Errorf("there is no file %s; %w", name, shippedErr)
		}
	}
	file, err := openIn(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxTextBytes+1))
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", name, err)
	case len(text) > maxTextBytes:
		err = fmt.Errorf("%s: more than %d bytes", name, maxTextBytes)
	}
	if text == nil {
		text = []byte{}
	}
	return text, err
}
