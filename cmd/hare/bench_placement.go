package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hare-sched/hare/bench"
)

type placementFlags struct {
	cfg   bench.PlacementConfig
	quiet bool
}

func benchPlacementCommand() *cobra.Command {
	var pf placementFlags
	c := &cobra.Command{
		Use:   "placement",
		Short: "Compare sampled placements of jobs with the best ones",
		Long: `Placement divides the workers of small random problems among their jobs by
sampled categories and a matching market, with several settings and numbers of
draws, and prints how far the results are from the optimum, how fair they are and
what they take. It then places 200 jobs on 2,000 workers. docs/use/policies.md#sampling says
how the placement works.`,
		Example: `  hare bench placement
  hare bench placement --problems 5 --draws 64`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error { return pf.run(c) },
	}
	f := c.Flags()
	f.IntVar(&pf.cfg.Problems, "problems", 30, "number of small problems")
	f.IntSliceVar(&pf.cfg.Draws, "draws", []int{1, 4, 16, 64, 256}, "numbers of categories that are drawn")
	f.BoolVarP(&pf.quiet, "quiet", "q", false, "print no progress line")
	positive(c, "problems")
	return c
}

func (pf *placementFlags) run(c *cobra.Command) error {
	if pf.cfg.Problems < 2 || pf.cfg.Problems > 10_000 {
		return usageError{errors.New("--problems must be from 2 to 10000")}
	}
	for _, n := range pf.cfg.Draws {
		if n < 1 || n > 1<<20 {
			return usageError{errors.New("--draws must be from 1 to 1048576")}
		}
	}
	live := newProgressLine(os.Stderr, !pf.quiet && term.IsTerminal(int(os.Stderr.Fd())))
	defer live.end()
	pf.cfg.Progress = func(done, total int) { live.text("%d of %d problems", done, total) }
	r, err := bench.Placement(c.Context(), pf.cfg)
	if err != nil {
		return err
	}
	live.end()
	return r.Markdown(c.OutOrStdout())
}
