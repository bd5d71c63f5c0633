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
	"github.com/hare-sched/hare/estimate"
)

func estimateCommand() *cobra.Command {
	var cfg estimate.ForestConfig
	c := &cobra.Command{
		Use:   "estimate HISTORY",
		Short: "Say which rule would have predicted the durations of past jobs best",
		Long: `Estimate reads a CSV of jobs that have ended, with the columns arrival_s and
duration_s and up to 8 more, such as user, name or num_gpus, which are taken for the
job's class. It predicts the later half of the jobs, each from the jobs that had ended
when the job arrived, and prints by how much each rule misses. docs/estimates.md
explains the rules.`,
		Example: `  hare estimate history.csv
  zcat history.csv.gz | hare estimate -`,
		Args: exactly(1, "a CSV file, or -"),
		RunE: func(c *cobra.Command, args []string) error {
			in, err := openIn(args[0])
			if err != nil {
				return err
			}
			jobs, err := readHistory(args[0], in)
			if err := errors.Join(err, in.Close()); err != nil {
				return err
			}
			scores, n, err := estimate.Compare(jobs, cfg)
			if err != nil {
				return usageError{fmt.Errorf("%s: no job ended before the last half of them arrived", args[0])}
			}
			return printScores(c.OutOrStdout(), scores, n)
		},
	}
	c.Flags().IntVar(&cfg.Trees, "trees", 100, "trees of the random forest")
	c.Flags().Uint64Var(&cfg.Seed, "seed", 0, "seed of the random forest")
	positive(c, "trees")
	return c
}

// readHistory reads a CSV of jobs that have ended. Errors name the line.
func readHistory(name string, in io.Reader) ([]estimate.PastJob, error) {
	r := csv.NewReader(in)
	heads, err := r.Read()
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", name, err)}
	}
	heads = slices.Clone(heads)
	arrival, duration := slices.Index(heads, "arrival_s"), slices.Index(heads, "duration_s")
	switch {
	case arrival < 0 || duration < 0:
		return nil, usageError{fmt.Errorf("%s:1: the columns arrival_s and duration_s are needed, "+
			"beside columns such as user", name)}
	case len(heads)-2 > hare.MaxClassLabels:
		return nil, usageError{fmt.Errorf("%s:1: there are %d columns beside arrival_s and duration_s: "+
			"at most %d are allowed", name,
			len(heads)-2, hare.MaxClassLabels)}
	}
	var jobs []estimate.PastJob
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", name, err)}
		}
		line, _ := r.FieldPos(0)
		j := estimate.PastJob{}
		for i, text := range row {
			switch i {
			case arrival, duration:
				v, err := strconv.ParseFloat(text, 64)
				if err != nil || !(v >= 0) || v > hare.MaxExact/1e6 || i == duration && v == 0 {
					return nil, usageError{fmt.Errorf("%s:%d: %s is %.40q: it must be a number of seconds, and a duration above 0",
						name, line,
						heads[i], text)}
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
		return nil, usageError{fmt.Errorf("%s: there are %d jobs: give the history of at least two", name, len(jobs))}
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
	if _, err := fmt.Fprintf(w, "%d jobs predicted, each from the jobs that had ended when it arrived\n\n"+
		"%-26s %16s %14s %12s\n", n, "rule", "rms of log error", "median factor", "within ×2"); err != nil {
		return err
	}
	for _, s := range scores {
		if _, err := fmt.Fprintf(w, "%-26s %16.3f %14.2f %10.1f %%\n", s.Rule, s.RMS, math.Exp(s.Median),
			100*s.Within2); err != nil {
			return err
		}
	}
	return nil
}
