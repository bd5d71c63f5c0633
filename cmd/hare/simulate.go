package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/policy"
	"github.com/hare-sched/hare/trace"
)

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	policies                    []string
	trace, table, gpus, cluster string
	jobs, out                   string
	lease, reset, restart       time.Duration
	seed                        uint64
	json, quiet                 bool
	gpuCounts                   []hare.TypeCount
	first, last                 int // of --jobs; last 0: all
}

// simulated is one run as it is printed and written.
type simulated struct {
	Policy            string             `json:"policy"`
	Engine            policy.Engine      `json:"engine"`
	Jobs              int                `json:"jobs"`
	Dropped           int                `json:"dropped"`
	MeanJCTS          float64            `json:"mean_jct_s"`
	WeightedJCTS      float64            `json:"weighted_mean_jct_s"`
	P50JCTS           float64            `json:"p50_jct_s"`
	P90JCTS           float64            `json:"p90_jct_s"`
	P99JCTS           float64            `json:"p99_jct_s"`
	MeanWaitS         float64            `json:"mean_wait_s"`
	TotalS            float64            `json:"total_duration_s"`
	Utilization       float64            `json:"utilization"`
	UtilizationByType map[string]float64 `json:"utilization_by_type"`
	Rounds            int64              `json:"rounds"`
	Leases            int64              `json:"leases"`
	Preemptions       int64              `json:"preemptions"`
	Seed              uint64             `json:"seed"`
	LP                string             `json:"lp,omitempty"` // engine of linear programs
	WallS             float64            `json:"wall_s"`
	JobsPerS          float64            `json:"simulated_jobs_per_s"`

	records []jobRecord
}

// jobRecord is one job of a run.
type jobRecord struct {
	id                     string
	arrivalS, startS, endS float64 // below 0: not yet
	steps, preemptions     int64
	state                  string
}

func simulateCommand() *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:   "simulate --policy NAME[,NAME…]",
		Short: "Play a trace to schedulers, and compare what comes of it",
		Long: `Simulate plays the jobs of a trace to each policy, on a virtual clock, and prints
mean and weighted job completion time, total duration and utilisation. The same
input and seed give the same figures.

Policies: ` + strings.Join(policy.Names(), ", ") + `.
docs/policies.md says what each does, what it assumes, and how far it agrees
with its own simulator. The trace has the columns job_id, arrival_s, job_type,
total_steps, scale_factor and priority_weight; it is a file, or one that comes
with the program: ` + strings.Join(gavelTraces(), ", ") + `.`,
		Example: `  hare simulate --policy gavel:fifo,gavel:max_min_fairness_perf --trace trace.csv --gpus v100=36,p100=36,k80=36
  hare simulate --policy gavel:allox --trace gavel_trace_continuous5600_single.csv --gpus v100=36,p100=36,k80=36 --jobs 4000-4999 -o runs/
  hare simulate --policy gavel:isolated --trace max_min_fairness --cluster cluster.json --json`,
		Args: exactly(0, "no arguments: see its flags"),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.Context(), c.OutOrStdout()) },
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.policies, "policy", nil, "policies, separated by commas")
	flags.StringVar(&f.trace, "trace", "gavel_trace_max_min_fairness.csv", "the jobs: a file, or a shipped trace")
	flags.StringVar(&f.table, "table", "gavel_throughputs_colocated.csv", "steps a second by job_type, scale_factor and gpu_type: a file, or a shipped table")
	flags.StringVar(&f.gpus, "gpus", "", "the cluster, e.g. v100=36,p100=36,k80=36")
	flags.StringVar(&f.cluster, "cluster", "", "the cluster from a file, instead of --gpus")
	flags.StringVar(&f.jobs, "jobs", "", "count only these jobs, numbered from 0 by arrival, e.g. 4000-4999; the run ends when they have")
	flags.DurationVar(&f.lease, "lease", 6*time.Minute, "how long a gang holds its GPUs")
	flags.DurationVar(&f.reset, "reset", 32*time.Minute, "the least time between two divisions of the GPUs")
	flags.DurationVar(&f.restart, "restart", 0, "lost at the start of a lease on other GPUs than before")
	flags.Uint64Var(&f.seed, "seed", 0, "of all draws")
	flags.StringVarP(&f.out, "output", "o", "", "write summary.json, and a CSV of its jobs for each policy, into this folder")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress line")
	choices(c, "policy", policy.Names()...)
	return c
}

func gavelTraces() []string {
	return slices.DeleteFunc(trace.ShippedTraces(), func(n string) bool {
		return !strings.HasPrefix(n, "gavel_trace_") && !strings.HasPrefix(n, "shockwave_trace_")
	})
}

func (f *simulateFlags) run(ctx context.Context, w io.Writer) error {
	infos, err := f.check()
	if err != nil {
		return usageError{err}
	}
	rated, err := f.read()
	if err != nil {
		return err
	}
	live := newLive(os.Stderr, !f.quiet && term.IsTerminal(int(os.Stderr.Fd())))
	defer live.end()
	var runs []simulated
	for _, info := range infos {
		run, err := simulateLeases(ctx, f, info, rated, live)
		if err != nil {
			return err
		}
		runs = append(runs, *run)
	}
	live.end()
	if f.out != "" {
		if err := writeRuns(f.out, runs); err != nil {
			return err
		}
	}
	if f.json {
		return encodeRuns(w, runs)
	}
	return printRuns(w, runs)
}

// check reads the flags.
func (f *simulateFlags) check() ([]policy.Info, error) {
	if len(f.policies) == 0 {
		return nil, fmt.Errorf("give policies: --policy NAME[,NAME…]; there are %s", strings.Join(policy.Names(), ", "))
	}
	var infos []policy.Info
	for _, name := range f.policies {
		info, err := policy.Find(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	if (f.gpus == "") == (f.cluster == "") {
		return nil, errors.New("give the cluster: --gpus v100=36,p100=36,k80=36, or --cluster cluster.json")
	}
	var err error
	if f.gpus != "" {
		if f.gpuCounts, err = trace.ParseGPUs(f.gpus); err != nil {
			return nil, err
		}
	}
	if f.jobs != "" {
		from, to, ok := strings.Cut(f.jobs, "-")
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if !ok || err1 != nil || err2 != nil || first < 0 || last < first || last == 0 {
			return nil, fmt.Errorf("--jobs %.60q: write FIRST-LAST, such as 4000-4999; jobs are numbered from 0", f.jobs)
		}
		f.first, f.last = first, last
	}
	if f.lease <= 0 || f.reset < 0 || f.restart < 0 || f.restart >= f.lease {
		return nil, errors.New("--lease must be positive, --reset and --restart not negative, and --restart less than --lease")
	}
	return infos, nil
}

// read reads cluster, trace and table.
func (f *simulateFlags) read() (*trace.Rated, error) {
	if err := noTwice(f.trace, f.table, f.cluster); err != nil {
		return nil, usageError{err}
	}
	if f.cluster != "" {
		counts, err := clusterCounts(f.cluster)
		if err != nil {
			return nil, err
		}
		f.gpuCounts = counts
	}
	jobs, err := openText(f.trace)
	if err != nil {
		return nil, err
	}
	defer func() { _ = jobs.close() }()
	table, err := openText(f.table)
	if err != nil {
		return nil, err
	}
	defer func() { _ = table.close() }()
	rated, err := trace.ReadRated(jobs.Source, table.Source, f.gpuCounts)
	if err != nil {
		return nil, usageError{err}
	}
	if f.last >= len(rated.Jobs) {
		return nil, usageError{fmt.Errorf("--jobs %s: the trace has %d jobs, numbered from 0", f.jobs, len(rated.Jobs))}
	}
	return rated, nil
}

// clusterCounts counts the GPUs of a cluster file by type.
func clusterCounts(name string) ([]hare.TypeCount, error) {
	file, err := openIn(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	cluster, err := hare.DecodeCluster(file, hare.Limits{MaxBytes: maxFileBytes})
	if err != nil {
		return nil, inputError(name, err)
	}
	var counts []hare.TypeCount
	for i := range cluster.Nodes {
		n := &cluster.Nodes[i]
		if n.Windows != nil || len(n.Busy) > 0 {
			return nil, inputError(name, fmt.Errorf("/nodes/%d: leases are of GPUs that are always in service", i))
		}
		for _, g := range n.GPUs {
			at := slices.IndexFunc(counts, func(c hare.TypeCount) bool { return c.Type == g.Type })
			if at < 0 {
				at = len(counts)
				counts = append(counts, hare.TypeCount{Type: g.Type})
			}
			counts[at].Count += g.Count
		}
	}
	return counts, nil
}

// text is an open trace or table.
type openedText struct {
	trace.Source
	close func() error
}

// openText opens a file, or what comes with the program under that name.
func openText(name string) (openedText, error) {
	if name != "-" {
		if _, err := os.Stat(name); err != nil {
			if shipped, shippedErr := trace.Shipped(name); shippedErr == nil {
				return openedText{shipped, func() error { return nil }}, nil
			}
			return openedText{}, err
		}
	}
	file, err := openIn(name)
	if err != nil {
		return openedText{}, err
	}
	return openedText{trace.Source{Name: name, R: file}, file.Close}, nil
}

func encodeRuns(w io.Writer, runs []simulated) error {
	text, err := json.MarshalIndent(map[string]any{"runs": runs}, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// printRuns is the table for people.
func printRuns(w io.Writer, runs []simulated) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tjobs\tmean JCT s\tweighted\tp50\tp90\tp99\ttotal s\tutilization\tpreemptions\tjobs/s\t")
	for i := range runs {
		r := &runs[i]
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\t%.0f\t%.0f\t%.0f\t%.3f\t%.3f\t%d\t%.0f\t\n", r.Policy, r.Jobs-r.Dropped,
			r.MeanJCTS, r.WeightedJCTS, r.P50JCTS, r.P90JCTS, r.P99JCTS, r.TotalS, r.Utilization, r.Preemptions, r.JobsPerS)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range runs {
		if runs[i].LP == builtIn {
			fmt.Fprintf(w, "%s: HiGHS does not run, the built-in simplex chose among equally good divisions; see docs/policies.md\n", runs[i].Policy)
		}
		if n := runs[i].Dropped; n > 0 {
			fmt.Fprintf(w, "%s: %d of %d jobs were dropped after five leases without a step for each GPU, as in Gavel; no mean counts them\n", runs[i].Policy, n, runs[i].Jobs)
		}
	}
	return nil
}

// writeRuns writes the folder of -o.
func writeRuns(dir string, runs []simulated) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range runs {
		name := strings.ReplaceAll(runs[i].Policy, ":", "_") + ".jobs.csv"
		if err := writeOut(filepath.Join(dir, name), func(w io.Writer) error { return writeJobs(w, runs[i].records) }); err != nil {
			return err
		}
	}
	return writeOut(filepath.Join(dir, "summary.json"), func(w io.Writer) error { return encodeRuns(w, runs) })
}

func writeJobs(w io.Writer, records []jobRecord) error {
	if _, err := fmt.Fprintln(w, "number,job_id,arrival_s,start_s,end_s,jct_s,steps_run,preemptions,state"); err != nil {
		return err
	}
	for i, r := range records {
		start, end, jct := "", "", ""
		if r.startS >= 0 {
			start = decimal(r.startS)
		}
		if r.endS >= 0 {
			end, jct = decimal(r.endS), decimal(r.endS-r.arrivalS)
		}
		id := r.id
		if strings.ContainsAny(id, "\",\r\n") {
			id = `"` + strings.ReplaceAll(id, `"`, `""`) + `"`
		}
		if _, err := fmt.Fprintf(w, "%d,%s,%s,%s,%s,%s,%d,%d,%s\n", i, id, decimal(r.arrivalS), start, end, jct, r.steps, r.preemptions, r.state); err != nil {
			return err
		}
	}
	return nil
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', 6, 64) }
