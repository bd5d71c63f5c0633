package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hare-sched/hare/bench"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/trace"
)

type scaleFlags struct {
	policies             []string
	jobs                 []int
	gpus                 string
	cfg                  trace.PhillyConfig
	json, quiet, measure bool
}

func benchSimulateCommand() *cobra.Command {
	var s scaleFlags
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Measure the simulator: jobs and events per second, and memory",
		Long: `Simulate generates traces with the arrivals, widths and durations of Philly (see
hare generate --like) and simulates each under each policy, one run after another.
Every run has a process of its own. The result is a table in Markdown: the seconds
do not include the generation of the trace, and the peak of memory is that of the
whole process.`,
		Example: `  hare bench simulate                                  # hlas, fifo, tiresias at 10^4, 10^5, 10^6 jobs
  hare bench simulate --policies hlas --jobs 1000000 --sync gang --quantum 1h
  hare bench simulate --gpus V100=1245,P100=1245 --load 1.1 --json`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context(), c.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringSliceVar(&s.policies, "policies", []string{"hlas", "fifo", "tiresias"},
		"policies of tasks, see docs/use/policies.md#policies-that-place-tasks")
	f.IntSliceVar(&s.jobs, "jobs", []int{10_000, 100_000, 1_000_000}, "numbers of jobs")
	f.StringVar(&s.gpus, "gpus", "GPU=2490", "the cluster")
	f.Float64Var(&s.cfg.Load, "load", 1, "arriving work divided by the capacity of the cluster")
	f.StringVar(&s.cfg.Sync, "sync", "rigid", "rigid (a job is a round) or gang (rounds of --quantum, between which "+
		"jobs are preempted)")
	f.DurationVar(&s.cfg.Quantum, "quantum", time.Hour, "how long a round of a gang takes on the fastest type")
	f.Uint64Var(&s.cfg.Seed, "seed", 1, "seed of the trace")
	f.BoolVar(&s.json, "json", false, "print JSON")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "print no progress line")
	f.BoolVar(&s.measure, "in-this-process", false, "run in this process, where the peak of memory grows from run to run")
	choices(c, "sync", "rigid", "gang")
	positive(c, "load", "quantum")
	return c
}

func (sf *scaleFlags) run(ctx context.Context, w io.Writer) error {
	for _, n := range sf.jobs {
		if n < 1 {
			return usageError{fmt.Errorf("--jobs %d: it must be at least 1", n)}
		}
	}
	if !(sf.cfg.Load > 0) || math.IsInf(sf.cfg.Load, 0) { // true for NaN too
		return usageError{fmt.Errorf("--load %v: it must be positive", sf.cfg.Load)}
	}
	var err error
	if sf.cfg.GPUs, err = trace.ParseGPUs(sf.gpus); err != nil {
		return usageError{err}
	}
	for _, name := range sf.policies {
		if _, err := registry.FindTask(name); err != nil {
			return usageError{err}
		}
	}
	live := newProgressLine(os.Stderr, !sf.quiet && term.IsTerminal(int(os.Stderr.Fd())))
	defer live.end()
	rows := []bench.ScaleRow{}
	for _, n := range sf.jobs {
		for _, name := range sf.policies {
			live.text("%s, %d jobs", name, n)
			row, err := sf.row(ctx, name, n)
			if err != nil {
				return fmt.Errorf("%s, %d jobs: %w", name, n, err)
			}
			rows = append(rows, *row)
		}
	}
	live.end()
	if !sf.json {
		return bench.WriteScale(w, rows)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"runs": rows})
}

// row simulates one case, in a child process unless --in-this-process is set.
func (sf *scaleFlags) row(ctx context.Context, name string, jobs int) (*bench.ScaleRow, error) {
	if sf.measure {
		cfg := sf.cfg
		cfg.Jobs = jobs
		return bench.RunScale(ctx, name, cfg)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, self, "bench", "simulate", "--in-this-process", "--json", "--quiet", "--policies",
		name,
		"--jobs", strconv.Itoa(jobs), "--gpus", sf.gpus, "--load", strconv.FormatFloat(sf.cfg.Load, 'g', -1, 64), "--sync",
		sf.cfg.Sync,
		"--quantum", sf.cfg.Quantum.String(), "--seed", strconv.FormatUint(sf.cfg.Seed, 10))
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	var got struct{ Runs []bench.ScaleRow }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Runs) != 1 {
		return nil, fmt.Errorf("the run printed no row: %w", err)
	}
	return &got.Runs[0], nil
}
