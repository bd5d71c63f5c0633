package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/regret"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/wire"
)

func regretCommand() *cobra.Command {
	var every time.Duration
	var detail string
	c := &cobra.Command{
		Use:   "regret LOG",
		Short: "Compare a recorded session with the best in hindsight, now and then or at its end",
		Long: `Regret reads the log of hare online --log or of GET /v1/sessions/{id}/log and
prints a line for each interval of the session's time, and one for the end of
the log, which says "last": true. A line is the comparison as the log stood then:

  achieved   weighted completion time of the jobs that had ended, from arrival
             to the end of their last whole round
  bound      what no plan for these jobs can beat that knew everything: their
             arrivals, their rounds, the least times that were measured
  regret     achieved / bound, rounded up; 1 is perfect, null says nothing
  jobs       how many are counted; those that run are not yet

Where regret rises from one line to the next, jobs that waited too long have
ended in between: look at the log there. A bound says little while few jobs have
ended, and where the least times lie far below the usual ones. What else was
assumed stands in "holds" and "notes". The log is believed: whether its
decisions follow from its events is what hare online replay says.

Exit codes: 0 when all lines are printed, 1 when Ctrl-C ended it, 2 when LOG is
not a log or cannot have happened; the lines before that are printed.`,
		Example: `  hare online regret run.ndjson
  hare online regret run.ndjson --every 1h | jq -c '[.at_s, .jobs.counted, .regret]'
  curl -s http://127.0.0.1:8080/v1/sessions/$ID/log | hare online regret - --every 10m
  hare online regret run.ndjson --detail full | jq .instance > instance.json`,
		Args: exactly(1, "one log"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case c.Flags().Changed("every") && every < time.Microsecond:
				return usageError{errors.New("--every must be a microsecond or more, as in --every 1h; without it only the end " +
					"is printed")}
			case detail != "summary" && detail != "full":
				return usageError{errors.New("--detail must be summary or full")}
			}
			f, err := openIn(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			return printRegret(c.Context(), c.OutOrStdout(), f, args[0], every, detail == "full")
		},
	}
	f := c.Flags()
	f.DurationVar(&every, "every", 0, "time between lines, e.g. 1h or 10m, of the session's clock (default: only the "+
		"end)")
	f.StringVar(&detail, "detail", "summary", "summary, or full: with the certificate and the instance that it is for")
	choices(c, "detail", "summary", "full")
	anyValue(c, "every") // refused with what the flag is for
	return c
}

// printRegret prints the lines of a log as they are computed.
func printRegret(ctx context.Context, out io.Writer, in io.Reader, name string, every time.Duration, full bool) error {
	h, records, err := readLog(ctx, in)
	if err != nil {
		return inputError(name, err)
	}
	engine, closeEngine := startEngine()
	defer closeEngine()
	svc := service.New(service.Config{Solver: engine})
	b := bufio.NewWriterSize(out, 1<<16)
	var unread error
	read := func(yield func(wire.Record, error) bool) {
		for rec, err := range records {
			unread = err
			if !yield(rec, err) {
				return
			}
		}
	}
	for r, err := range regret.Series(ctx, &h.Cluster, read, every.Microseconds(), svc.Bound) {
		var impossible *regret.LogError
		var invalid hare.InvalidErrors
		switch {
		case ctx.Err() != nil:
			return errNo
		case err != nil && (err == unread || errors.As(err, &impossible)):
			return inputError(name, err)
		case errors.As(err, &invalid):
			return inputError(name, fmt.Errorf("too large for a bound: %w", err))
		case err != nil:
			return err
		}
		if err := errors.Join(r.EncodeJSON(b, full), b.Flush()); err != nil {
			return err
		}
	}
	return nil
}
