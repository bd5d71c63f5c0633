package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/whatif"
	whatiftext "github.com/hare-sched/hare/whatif/text"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// whatIf is hare whatif: its flags, and what has been answered.
type whatIf struct {
	changes                     []change
	opt                         hare.Options // of each solve; TimeLimit is for all together
	below, result, out, picture string
	together, ordered, quiet    bool

	labels  []string // of the scenarios
	answer  *whatiftext.Answer
	failure error // of the first invalid scenario
}

func whatIfCommand() *cobra.Command {
	var w whatIf
	c := &cobra.Command{
		Use:   "whatif INSTANCE",
		Short: "Compare scenarios: how much could the objective change, at least and at most",
		Long: `Whatif solves a base instance and scenarios, each a change of the base, and prints
how the weighted job completion time changes. It prints an interval for each
scenario: the change of the best possible plan certainly lies in it, because both
ends follow from feasible plans and proved bounds. Each flag below is a scenario of
its own; --together joins them into one.

Every scenario first gets a bound from the prices of the base. With --prune-below X,
scenarios whose bound proves that the value cannot fall by more than X are not
solved. --time-limit covers all scenarios together; without it work limits end the
searches, and equal calls give equal answers.`,
		Example: `  hare whatif base.json --add V100=8 --drop-node n3@3600 --remove-gpus n1=2
  hare whatif base.json --add V100=8 --remove-job x --together
  hare whatif base.json --result base.result.json --scale-weight bert=2 --plot whatif.svg
  hare whatif base.json --scenario scenarios.json --time-limit 20s --prune-below 3000 -o lines.ndjson`,
		Args: exactly(1, "one instance file"),
		RunE: func(c *cobra.Command, args []string) error { return w.run(c.Context(), args[0]) },
	}
	f := c.Flags()
	f.SortFlags = false
	changeFlags(f, &w.changes)
	f.BoolVar(&w.together, "together", false, "combine all flags above, except --scenario, into one scenario")
	f.StringVar(&w.result, "result", "", "the result of the base, which is then not solved again")
	f.StringVar(&w.below, "prune-below", "", "do not search for a plan where the bound shows that the value cannot "+
		"fall by more than this many weight-seconds")
	f.DurationVar(&w.opt.TimeLimit, "time-limit", 0, "time limit for all scenarios together, e.g. 20s; 0 means that "+
		"only work limits apply")
	f.Int64Var(&w.opt.WorkLimit, "work-limit", 0,
		"work limit of each solve; 0 means a limit computed from the instance's size")
	f.Float64Var(&w.opt.Gap, "gap", solver.DefaultGap,
		"stop a solve when its plan is proved to be within this fraction of the best, e.g. 0.05 for 5 %")
	fraction(c, "gap")
	f.Int64Var(&w.opt.Seed, "seed", 1, "seed of the search")
	f.StringVarP(&w.out, "output", "o", "", "write one line of JSON for each scenario to this file, as soon as it "+
		"finishes (- is standard output)")
	f.BoolVar(&w.ordered, "ordered", false, "answer in the order of the scenarios, not as they finish")
	f.StringVar(&w.picture, "plot", "", "draw the intervals: .svg, .png or .html")
	f.BoolVarP(&w.quiet, "quiet", "q", false, "print no progress line and no table")
	outputs(c, outputData, "output")
	outputs(c, outputPicture, "plot")
	anyValue(c, "seed")
	return c
}

func (w *whatIf) run(ctx context.Context, name string) error {
	if len(w.changes) == 0 {
		return usageError{errors.New("there is no scenario: give at least one flag such as --add V100=8 (see hare " +
			"whatif --help)")}
	}
	draw, err := intervalDrawing(w.picture)
	if err != nil {
		return err
	}
	req, err := w.request(name)
	if err != nil {
		return err
	}
	if err := w.solve(ctx, req); err != nil {
		return err
	}
	if w.picture != "" {
		if err := writeOut(w.picture, func(to io.Writer) error {
			return draw(to, w.answer.Intervals(), plot.Options{Title: "What if: " + filepath.Base(name)})
		}); err != nil {
			return err
		}
	}
	if base := w.answer.Base; w.failure == nil && base != nil && base.Termination == hare.TerminationInfeasible {
		for _, r := range base.Reasons {
			printReasons("the base is "+hare.TerminationInfeasible, []hare.Reason{hare.Reason(r)})
		}
		return errNo
	}
	return w.failure
}

func intervalDrawing(name string) (func(io.Writer, []plot.Interval, plot.Options) error, error) {
	if name == "" {
		return nil, nil
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".svg":
		return plot.IntervalsSVG, nil
	case ".png":
		return plot.IntervalsPNG, nil
	case ".html", ".htm":
		return plot.IntervalsHTML, nil
	}
	return nil, usageError{fmt.Errorf("cannot draw %q: end the name in .svg, .png or .html", name)}
}

// request builds the request from flags and files.
func (w *whatIf) request(name string) (*whatifdoc.Request, error) {
	if err := noTwice(name, w.result); err != nil {
		return nil, err
	}
	text, err := readWhole(name)
	if err != nil {
		return nil, err
	}
	inst, err := wire.DecodeInstance(bytes.NewReader(text), wire.Limits{MaxBytes: maxFileBytes})
	if err != nil {
		return nil, due(name, anInstance, text[:min(len(text), headBytes)], err)
	}
	var list []json.RawMessage
	list, w.labels, err = scenarios(w.changes, w.together, kindsOf(inst))
	if err != nil {
		return nil, err
	}
	doc := map[string]any{"base": map[string]string{"solve_id": name}, "scenarios": list}
	if w.below != "" {
		switch x, err := hare.ParseAmount(w.below); {
		case err != nil:
			return nil, usageError{fmt.Errorf("--prune-below %s: %w: give weight-seconds, such as 3000", w.below, err)}
		case x.Sign() < 0:
			return nil, usageError{fmt.Errorf("--prune-below %s: it must not be negative: it is how far the value may "+
				"fall, such as 3000", w.below)}
		}
		doc["prune"] = map[string]json.RawMessage{"below_s": json.RawMessage(w.below)}
	}
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, usageError{err}
	}
	req, err := whatifdoc.Decode(bytes.NewReader(body), wire.Limits{MaxBytes: maxFileBytes})
	if err != nil {
		return nil, labelled(w.labels, err)
	}
	req.Options = wire.Options{TimeLimit: w.opt.TimeLimit, WorkLimit: w.opt.WorkLimit, Gap: &w.opt.Gap, Seed: &w.opt.Seed}
	req.Ordered = w.ordered
	// The instance in the file replaces a stored solve.
	req.Base = whatifdoc.Base{Instance: inst}
	if json.Valid(text) { // an instance of several lines is patched in the form in which Hare writes it
		req.Base.Text = text
	}
	if w.result != "" {
		if req.Base.Result, err = readResult(w.result); err != nil {
			return nil, err
		}
	}
	return req, nil
}

func readWhole(name string) ([]byte, error) {
	f, err := openIn(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	if err != nil {
		return nil, inputError(name, err)
	}
	return text, nil
}

// labelled adds the flag of the scenario to a fault.
func labelled(labels []string, err error) error {
	var faults hare.InvalidErrors
	if !errors.As(err, &faults) {
		return usageError{err}
	}
	if rest, ok := strings.CutPrefix(faults[0].Pointer, "/scenarios/"); ok {
		digits, _, _ := strings.Cut(rest, "/")
		if i, err := strconv.Atoi(digits); err == nil && i < len(labels) {
			return usageError{fmt.Errorf("--%s: %w", labels[i], faults)}
		}
	}
	return usageError{faults}
}

// solve answers the request and prints the answer.
func (w *whatIf) solve(ctx context.Context, req *whatifdoc.Request) error {
	engine, closeEngine := startEngine(!w.quiet)
	defer closeEngine()
	svc := service.New(service.Config{Solver: engine, MaxTime: 24 * time.Hour})
	if err := svc.CheckWhatIf(ctx, req); err != nil {
		return labelled(w.labels, err)
	}
	// All scenarios are checked before the first is solved.
	w.answer = whatiftext.New(req.Base.Instance, w.labels)
	for i := range req.Scenarios {
		inst, err := whatif.ScenarioInstance(req, i)
		if err != nil {
			return labelled(w.labels, err)
		}
		w.answer.Scenario(req.Base.Instance, inst)
	}
	// An interrupt ends running solves with their best results; scenarios that have not
	// begun are answered from their bounds.
	off := context.AfterFunc(ctx, func() {
		now, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		svc.Drain(now)
	})
	defer off()
	live := newProgressLine(os.Stderr, !w.quiet && term.IsTerminal(int(os.Stderr.Fd())))
	live.text("solving the base")
	answer := func(to io.Writer) error { return w.lines(context.WithoutCancel(ctx), svc, req, live, to) }
	var err error
	switch w.out {
	case "":
		err = answer(io.Discard)
	case "-":
		err = answer(os.Stdout)
	default:
		err = writeOut(w.out, answer)
	}
	live.end()
	if err == nil && w.answer.Base != nil && !w.quiet && w.out != "-" {
		err = w.answer.Table(stdout)
	}
	return err
}

// lines solves the scenarios and writes each line of the answer as it comes.
func (w *whatIf) lines(ctx context.Context, svc *service.Service, req *whatifdoc.Request, live *progressLine,
	to io.Writer) error {
	done, pruned := 0, 0
	err := svc.WhatIf(ctx, req, func(l *whatif.Line) error {
		if errors.Is(l.Err, admission.ErrDraining) {
			return nil // the table shows the scenario as not answered
		}
		if w.answer.Take(l); l.Index != nil {
			if done++; l.Pruned != nil && *l.Pruned {
				pruned++
			}
			if l.Err != nil {
				l.Error = problemOf(l.Err)
				if w.failure == nil {
					w.failure = labelled(w.labels, l.Err)
				}
			}
		}
		live.text("%d of %d scenarios, %d pruned", done, len(w.labels), pruned)
		if w.out == "" {
			return nil
		}
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		_, err = to.Write(append(line, '\n'))
		return err
	})
	if errors.Is(err, admission.ErrDraining) {
		fmt.Fprintln(stderr, "hare: interrupted before the base was solved")
		return errNo
	}
	return err
}

// problemOf returns the problem document of an invalid scenario.
func problemOf(err error) any {
	p := map[string]any{"type": "about:blank", "title": http.StatusText(http.StatusUnprocessableEntity),
		"status": http.StatusUnprocessableEntity, "code": "failed", "detail": err.Error()}
	var faults hare.InvalidErrors
	var fault *hare.InvalidError
	if errors.As(err, &faults) {
		p["code"], p["errors"] = faults[0].Code, faults
	} else if errors.As(err, &fault) {
		p["code"], p["errors"] = fault.Code, hare.InvalidErrors{fault}
	}
	return p
}
