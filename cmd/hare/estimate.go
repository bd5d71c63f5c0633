package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/online/estimate"
)

type estimateFlags struct {
	cfg  estimate.ForestConfig
	fill fillFlags
}

func estimateCommand() *cobra.Command {
	var ef estimateFlags
	c := &cobra.Command{
		Use:   "estimate HISTORY | estimate --history HISTORY JOBS",
		Short: "Estimate how long jobs take from a history of past jobs, and say which rule predicts best",
		Long: `Estimate reads a history: a CSV of jobs that have ended, with the columns arrival_s
and duration_s and up to 8 more, such as user, name or num_gpus, which are taken for the
job's class.

Without --history, estimate predicts the later half of the jobs, each from the jobs that
had ended when the job arrived, and prints by how much each rule misses.

With --history, estimate writes estimate_s into JOBS, an instance or the events of a
session (NDJSON), for the jobs that have none. A job is predicted from the past jobs of
its class: of the labels that it carries under class, of those that --class-from-id finds
in its id, and, where the history has a column num_gpus or tasks, of its tasks. Labels
that were found are written too. Everything else in JOBS stays as it is.

Rules: ` + ruleTexts() + `; best is
the rule that misses least on the later half of the history.

Policies calibrate estimates against the jobs that end, so that a factor that is the
same for all jobs does no harm. docs/lab/estimates.md explains the rules, and what estimates
are worth.`,
		Example: `  hare estimate history.csv
  hare estimate --history history.csv jobs.json -o estimated.json
  hare estimate --history history.csv --class-from-id '^(?P<user>[^-]+)-(?P<name>.+)' jobs.json -o out.json
  hare estimate --history history.csv events.ndjson | hare online --cluster cluster.json
  hare simulate --policy rolling,srtf --instance estimated.json --sizes estimates`,
		Args: exactly(1, "a CSV file, or with --history an instance or events; - is standard input"),
		RunE: func(c *cobra.Command, args []string) error { return ef.run(c, args) },
	}
	f := c.Flags()
	f.StringVar(&ef.fill.history, "history", "", "a CSV of past jobs, from which the estimates of JOBS are made")
	f.StringVarP(&ef.fill.out, "output", "o", "-", "write the jobs with estimates here")
	f.StringVar(&ef.fill.rule, "rule", "classes", "how to predict: best, "+strings.Join(ruleNames(), ", "))
	f.StringVar(&ef.fill.fromID, "class-from-id", "", "a regular expression with named groups, which give labels of a "+
		"job's class from its id")
	f.BoolVar(&ef.fill.overwrite, "overwrite", false, "also replace the estimates that jobs carry")
	f.IntVar(&ef.cfg.Trees, "trees", 100, "trees of the random forest")
	f.Uint64Var(&ef.cfg.Seed, "seed", 0, "seed of the random forest")
	choices(c, "rule", append(ruleNames(), "best")...)
	outputs(c, outputFile, "output")
	positive(c, "trees")
	return c
}

func (ef *estimateFlags) run(c *cobra.Command, args []string) error {
	if ef.fill.history != "" {
		ef.fill.forest = ef.cfg
		return ef.fill.run(args[0], exact(c.OutOrStdout()), c.ErrOrStderr())
	}
	for _, name := range []string{"output", "rule", "class-from-id", "overwrite"} {
		if c.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s is for filling in estimates: give the past jobs by --history",
				name)}
		}
	}
	jobs, err := openHistory(args[0])
	if err != nil {
		return err
	}
	scores, n, err := estimate.Compare(jobs, ef.cfg)
	if err != nil {
		return usageError{fmt.Errorf("%s: no job ended before the last half of them arrived", args[0])}
	}
	return printScores(c.OutOrStdout(), scores, n)
}

// ruleNames are the names of the rules.
func ruleNames() []string {
	var names []string
	for _, r := range estimate.Rules() {
		names = append(names, r.Name)
	}
	return names
}

// ruleTexts lists the rules for people.
func ruleTexts() string {
	var b strings.Builder
	for i, r := range estimate.Rules() {
		switch {
		case i == 0:
		case i%3 == 0:
			b.WriteString(",\n")
		default:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%s)", r.Name, r.Text)
	}
	return b.String()
}

// openHistory reads a file of past jobs.
func openHistory(name string) ([]estimate.PastJob, error) {
	return readDocument(name, aTable, func(in io.Reader) ([]estimate.PastJob, error) { return readHistory(name, in) })
}

// readHistory reads a CSV of jobs that have ended. Errors name the line.
func readHistory(file string, in io.Reader) ([]estimate.PastJob, error) {
	r := csv.NewReader(in)
	heads, err := r.Read()
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", file, err)}
	}
	heads = slices.Clone(heads)
	arrival, duration := slices.Index(heads, "arrival_s"), slices.Index(heads, "duration_s")
	switch {
	case arrival < 0 || duration < 0:
		return nil, usageError{fmt.Errorf("%s:1: the columns arrival_s and duration_s are needed, and perhaps columns such "+
			"as user", file)}
	case len(heads)-2 > hare.MaxClassLabels:
		return nil, usageError{fmt.Errorf("%s:1: there are %d columns besides arrival_s and duration_s: at most %d are "+
			"allowed", file, len(heads)-2, hare.MaxClassLabels)}
	}
	for i, name := range heads {
		label := hare.ClassLabel{Name: name}
		switch {
		case slices.Contains(heads[:i], name):
			return nil, usageError{fmt.Errorf("%s:1: the column %.40q is there twice", file, name)}
		case name == "estimate_s":
			return nil, usageError{fmt.Errorf("%s:1: leave out the column estimate_s: no rule predicts from what users "+
				"expected in the past, and policies calibrate what they expect of new jobs as jobs end", file)}
		case i != arrival && i != duration && label.Fault() != "":
			return nil, usageError{fmt.Errorf("%s:1: column %d, %.40q: %s", file, i+1, name, label.Fault())}
		}
	}
	var jobs []estimate.PastJob
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", file, err)}
		}
		line, _ := r.FieldPos(0)
		j := estimate.PastJob{}
		for i, text := range row {
			switch i {
			case arrival, duration:
				v, err := strconv.ParseFloat(text, 64)
				if err != nil || !(v >= 0) || v > hare.MaxExact/1e6 || i == duration && v == 0 {
					return nil, usageError{fmt.Errorf("%s:%d: %s is %.40q: it must be a number of seconds, and a "+
						"duration above 0", file, line, heads[i], text)}
				}
				if i == arrival {
					j.ArrivalS = v
				} else {
					j.DurationS = v
				}
			default:
				j.Labels = append(j.Labels, estimate.Label{Name: heads[i], Value: text})
			}
		}
		slices.SortFunc(j.Labels, func(a, b estimate.Label) int { return strings.Compare(a.Name, b.Name) })
		jobs = append(jobs, j)
	}
	if len(jobs) < 2 {
		return nil, usageError{fmt.Errorf("%s: %s: give the history of at least two", file,
			words.Count(len(jobs), "job"))}
	}
	return jobs, nil
}

// printScores prints a table of rules, the best first.
func printScores(w io.Writer, scores []estimate.Score, n int) error {
	slices.SortStableFunc(scores, func(a, b estimate.Score) int {
		switch {
		case a.RMS < b.RMS:
			return -1
		case a.RMS > b.RMS:
			return 1
		}
		return 0
	})
	if _, err := fmt.Fprintf(w, "%s predicted, each from the jobs that had ended when it arrived\n\n"+
		"%-26s %16s %14s %12s\n", words.Count(n, "job"), "rule", "rms of log error", "median factor",
		"within ×2"); err != nil {
		return err
	}
	for _, s := range scores {
		_, err := fmt.Fprintf(w, "%-26s %16.3f %14.2f %10.1f %%\n", s.Rule.Text, s.RMS, math.Exp(s.Median), 100*s.Within2)
		if err != nil {
			return err
		}
	}
	return nil
}
