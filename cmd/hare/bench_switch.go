package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/bench"
	"github.com/hare-sched/hare/executor/python"
	"github.com/hare-sched/hare/plot"
)

type switchFlags struct {
	set, device, python, out, svg string
	repetitions, batchFactor      int
	groupMiB                      float64
	limit                         time.Duration
	json, quiet                   bool
}

func benchSwitchCommand() *cobra.Command {
	var s switchFlags
	c := &cobra.Command{
		Use:   "switch",
		Short: "Measure what a switch between models costs on a device, by mechanism and against baselines",
		Long: `Switch runs a task of one model and then one of another, for all ordered pairs, and
prints what the switch costs beyond the two tasks: with early cleaning, grouping,
prefetch and residency, with each of these off, and by the baselines of a new
process, standby processes and PipeSwitch's scheme.

The set paper has eight models, among them VGG19 and BERT-base, with random weights;
its packages are torch, torchvision, timm, transformers, torchaudio and
torch_geometric. The set small needs torch alone, plain nothing but Python. The binary
brings its Python code along.`,
		Example: `  hare bench switch --device cuda --svg switch.svg -o switch.json
  hare bench switch --device cuda --batch-factor 8
  hare bench switch --set small --device cpu --repetitions 5
  hare bench switch --set plain --device cpu --json`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context(), c.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringVar(&s.set, "set", "paper", "the models: paper, small or plain")
	f.StringVar(&s.device, "device", "cuda", "the device of PyTorch: cpu, cuda or cuda:N")
	f.StringVar(&s.python, "python", "python3", "the Python that has the packages")
	f.IntVar(&s.repetitions, "repetitions", 30, "how often each pair is measured under each method")
	f.IntVar(&s.batchFactor, "batch-factor", 1, "multiply the examples of a task by this; small batches wait for Python")
	f.Float64Var(&s.groupMiB, "group-mib", 0, "parameters are copied in groups of this many MiB (paper 32, small 0.1)")
	f.DurationVar(&s.limit, "limit", 8*time.Minute, "the time of the whole run; repetitions that do not fit are left out")
	f.StringVarP(&s.out, "out", "o", "", "write JSON to this file too")
	f.StringVar(&s.svg, "svg", "", "draw the methods into this file")
	f.BoolVar(&s.json, "json", false, "print JSON instead of tables")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "print no progress")
	choices(c, "set", "paper", "small", "plain")
	positive(c, "repetitions", "batch-factor", "group-mib", "limit")
	mebibytes(c, "group-mib")
	outputs(c, outputData, "out")
	outputs(c, outputSVG, "svg")
	return c
}

func (s *switchFlags) run(ctx context.Context, w io.Writer) error {
	if !slices.Contains([]string{"paper", "small", "plain"}, s.set) {
		return usageError{fmt.Errorf("--set %q: it must be paper, small or plain", s.set)}
	}
	number, isCUDA := strings.CutPrefix(s.device, "cuda:")
	if _, err := strconv.ParseUint(number, 10, 8); s.device != "cpu" && s.device != "cuda" && (!isCUDA || err != nil) {
		return usageError{fmt.Errorf("--device %q: it must be cpu, cuda or cuda:N", s.device)}
	}
	if s.set == "plain" && s.device != "cpu" {
		return usageError{errors.New("--set plain needs --device cpu: its models run without PyTorch")}
	}
	if s.set == "plain" && (s.batchFactor > 1 || s.groupMiB > 0) {
		return usageError{errors.New("--set plain takes no --batch-factor or --group-mib: they are for models of PyTorch")}
	}
	result, err := s.measure(ctx)
	if err != nil {
		return err
	}
	encoded, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	encoded = append(encoded, '\n')
	if s.out != "" {
		if err := writeOut(s.out, func(w io.Writer) error { _, err := w.Write(encoded); return err }); err != nil {
			return err
		}
	}
	if s.svg != "" {
		if err := writeOut(s.svg, func(w io.Writer) error { return drawSwitches(w, result) }); err != nil {
			return err
		}
	}
	if s.json {
		_, err := w.Write(encoded)
		return err
	}
	return result.Write(w)
}

// measure runs the Python code that the binary brings along.
func (s *switchFlags) measure(ctx context.Context) (*bench.Switches, error) {
	dir, err := os.MkdirTemp("", "hare-switch-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := python.Extract(dir); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("the run did not end within --limit %v", s.limit))
	defer cancel()
	// A tenth of the time is for what is under way when no repetition fits any more.
	cmd := exec.CommandContext(ctx, s.python, "-m", "hare_worker.bench_switch", "--set", s.set, "--device", s.device,
		"--repetitions", strconv.Itoa(s.repetitions), "--batch-factor", strconv.Itoa(s.batchFactor),
		"--minutes", strconv.FormatFloat(0.9*s.limit.Minutes(), 'g', -1, 64))
	if s.groupMiB > 0 {
		cmd.Args = append(cmd.Args, "--group-mib", strconv.FormatFloat(s.groupMiB, 'g', -1, 64))
	}
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir+string(os.PathListSeparator)+os.Getenv("PYTHONPATH"))
	cmd.WaitDelay = 5 * time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, io.Writer(&said)
	if !s.quiet {
		cmd.Stderr = io.MultiWriter(&said, &progressLines{w: stderr})
	} else {
		cmd.Args = append(cmd.Args, "--quiet")
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			return nil, fmt.Errorf("--python %s: install Python 3.11 or name another: %w", s.python, err)
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return nil, fmt.Errorf("bench switch: %s", lines[len(lines)-1])
	}
	return bench.ReadSwitches(&out)
}

// switchProgress begins the lines of Python that say how far it is. Its other lines are errors, the
// last of which becomes the error of the command, and warnings of libraries.
const switchProgress = "bench switch: "

// progressLines passes on whole lines about progress.
type progressLines struct {
	w    io.Writer
	part []byte
}

func (pl *progressLines) Write(p []byte) (int, error) {
	pl.part = append(pl.part, p...)
	for {
		line, rest, whole := bytes.Cut(pl.part, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		if bytes.HasPrefix(line, []byte(switchProgress)) {
			if _, err := fmt.Fprintf(pl.w, "%s\n", line); err != nil {
				return 0, err
			}
		}
		pl.part = append([]byte(nil), rest...)
	}
}

// drawSwitches draws the median of each method. Costs below zero, which noise makes, are drawn as
// zero and printed as they are.
func drawSwitches(w io.Writer, s *bench.Switches) error {
	bars := &plot.Bars{Mark: math.NaN(), Legend: "median cost of a switch in ms"}
	for _, m := range s.Methods {
		bars.Bars = append(bars.Bars, plot.Bar{Name: m.Method, Value: max(m.P50Ms, 0),
			Note: strconv.FormatFloat(m.P50Ms, 'f', 2, 64)})
	}
	title := "Switches between " + strconv.Itoa(len(s.Models)) + " models on " + s.Device.Name
	return bars.SVG(w, plot.Options{Title: title})
}
