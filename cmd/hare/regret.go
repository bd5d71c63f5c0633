package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/regret"
	"github.com/hare-sched/hare/serve/service"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

type regretFlags struct {
	every              time.Duration
	detail             string // summary or full
	against, objective string // a policy or "", and what to compare
}

func regretCommand() *cobra.Command {
	var rf regretFlags
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

With --against POLICY the line for the end also says what that policy would have done:
the log is replayed under it, with the arrivals, rounds, failures and GPUs of the log
and the times that tasks took. "against" has the weighted and the mean completion time,
the 99th percentile of the slowdown and the regret of the replay, and the same figures
of what happened under "session". Where it is the session's own policy it gets the
session's parameters, and default parameters otherwise.

With --objective makespan achieved and bound are the last end of a job on the session's
clock.

If regret rises from one line to the next, jobs that waited long have ended in
between. A bound is weak while few jobs have ended, and where the least times are far
below the usual ones. "holds" and "notes" state the other assumptions. Regret does
not check that the decisions follow from the events; hare online replay does.

Exit codes: 0 all lines were printed, 1 Ctrl-C came first, 2 LOG is not a log or
contains events that cannot happen; the lines before that are printed.`,
		Example: `  hare online regret run.ndjson
  hare online regret run.ndjson --against hlas | jq .against
  hare online regret run.ndjson --every 1h | jq -c '[.at_s, .jobs.counted, .regret]'
  curl -s http://127.0.0.1:8080/v1/sessions/$ID/log | hare online regret - --every 10m
  hare online regret run.ndjson --detail full | jq .instance > instance.json`,
		Args: exactly(1, "one log"),
		RunE: func(c *cobra.Command, args []string) error { return rf.run(c, args[0]) },
	}
	f := c.Flags()
	f.DurationVar(&rf.every, "every", 0, "print a line for each interval of this length on the session's clock, e.g. 1h "+
		"or 10m (default: only for the end)")
	f.StringVar(&rf.detail, "detail", "summary", "summary, or full: with the certificate and the instance that it is for")
	f.StringVar(&rf.against, "against", "", "replay the log under this policy, and say what it would have done: "+
		strings.Join(registry.SessionNames(), ", "))
	f.StringVar(&rf.objective, "objective", hare.ObjectiveWeightedJCT, "what to compare: "+
		strings.Join(hare.Objectives(), ", ")+" (sessions have no deadlines)")
	choices(c, "detail", "summary", "full")
	choices(c, "objective", hare.Objectives()...)
	choices(c, "against", registry.SessionNames()...)
	anyValue(c, "every") // the command refuses bad values with a better message
	return c
}

func (rf *regretFlags) run(c *cobra.Command, name string) error {
	given := c.Flags().Changed
	switch {
	case given("every") && rf.every < time.Microsecond:
		return usageError{errors.New("--every must be a microsecond or more, as in --every 1h; without it only the end " +
			"is printed")}
	case rf.detail != "summary" && rf.detail != "full":
		return usageError{errors.New("--detail must be summary or full")}
	case !slices.Contains(hare.Objectives(), rf.objective):
		return usageError{fmt.Errorf("--objective must be one of %s", strings.Join(hare.Objectives(), ", "))}
	case rf.against != "" && rf.objective != hare.ObjectiveWeightedJCT:
		return usageError{errors.New("--against compares by weighted_jct: leave --objective out")}
	case rf.against != "" && given("every"):
		return usageError{errors.New("--against compares the whole log: leave --every out")}
	}
	if given("against") {
		if _, err := registry.OpenSession(rf.against, &hare.Cluster{}, nil); err != nil {
			return policyError("--against: ", err)
		}
	}
	f, err := openIn(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return rf.print(c.Context(), exact(c.OutOrStdout()), f, name)
}

// print prints the lines of a log as they are computed.
func (rf *regretFlags) print(ctx context.Context, out io.Writer, in io.Reader, name string) error {
	h, records, err := readLog(ctx, in)
	if err != nil {
		return inputError(name, err)
	}
	engine, closeEngine := startEngine(true)
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
	reports := regret.Series(ctx, &h.Cluster, rf.objective, read, rf.every.Microseconds(), svc.Bound)
	if rf.against != "" {
		reports = against(ctx, h, read, rf.against, svc.Bound)
	}
	for r, err := range reports {
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
		if err := errors.Join(r.EncodeJSON(b, rf.detail == "full"), b.Flush()); err != nil {
			return err
		}
	}
	return nil
}

// against yields the report of a log with its replay under a policy, or an error.
func against(ctx context.Context, header *wire.LogHeader, log iter.Seq2[wire.Record, error], name string,
	bound regret.BoundFunc) iter.Seq2[*regret.Report, error] {
	return func(yield func(*regret.Report, error) bool) {
		h := regret.NewHindsight(&header.Cluster)
		for rec, err := range log {
			if err == nil {
				err = h.Add(rec)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
		r, err := regret.Of(ctx, h, bound)
		if err == nil {
			var parameters []byte
			if name == header.Policy {
				parameters = header.Parameters
			}
			err = r.Against(ctx, h, name, parameters, registry.OpenSession)
		}
		yield(r, err)
	}
}
