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
		Short: "Compare a recorded session with a lower bound in hindsight",
		Long: `Regret reads the log of hare online --log or of GET /v1/sessions/{id}/log, and prints
one line for each interval of the session's time and one for the end of the log,
which says "last": true. A line compares what had happened by then with the best
possible plan in hindsight:

  achieved   weighted completion time of the jobs that had ended, from arrival to
             the end of their last complete round
  bound      a lower bound for every plan for these jobs, also for plans that know
             all arrivals, all rounds and the least measured times in advance
  regret     achieved / bound, rounded up; 1 is perfect, null means no useful bound
  jobs       how many jobs are counted; running jobs are not counted yet

If regret rises from one line to the next, jobs that waited long have ended in
between. A bound is weak while few jobs have ended, and where the least times are far
below the usual ones. "holds" and "notes" state the other assumptions. Regret does
not check that the decisions follow from the events; hare online replay does.

Exit codes: 0 all lines were printed, 1 Ctrl-C came first, 2 LOG is not a log or
contains events that cannot happen; the lines before that are printed.`,
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
	f.DurationVar(&every, "every", 0, "print a line for each interval of this length on the session's clock, e.g. 1h or "+
		"10m (default: only for the end)")
	f.StringVar(&detail, "detail", "summary", "summary, or full: with the certificate and the instance that it is for")
	choices(c, "detail", "summary", "full")
	anyValue(c, "every") // the command refuses bad values with a better message
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
