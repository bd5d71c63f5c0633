package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/sessions"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

func planCommand() *cobra.Command {
	var far remoteFlags
	var session string
	var asJSON bool
	c := &cobra.Command{
		Use:   "plan [LOG]",
		Short: "Show the plan that a session follows: when jobs are expected to start and to end",
		Long: `Plan shows the plan that a session follows, as of its last event: of a session of a
server (--server and --session), or at the end of a log of hare online --log or of
GET /v1/sessions/{id}/log. Only sessions whose policy makes plans have one, such as
rolling.

The first line says when the plan was made and what it is worth: the weighted sum of
the completion times of its jobs, a lower bound for every plan, and the gap between
the two. A line for each job that has not ended follows:

  rounds left   how many rounds the job is believed to have left
  types         the GPU types on which the job runs, or is planned to run
  start, end    when the job is expected to start and to end; for a job that runs,
                start is when its round started
  not before    a time before which no plan can end the job, if it has that many
                rounds
  waits for     what a job that does not run waits for

Times are on the clock of the session; --json has them in seconds. All of them hold if
the jobs are as long as is believed and no job arrives.

Exit codes: 0 the plan is printed, 2 LOG is not a log or contains events that cannot
happen, or the policy makes no plans.`,
		Example: `  hare online plan run.ndjson
  hare online plan --server http://127.0.0.1:8080 --session $ID
  hare online plan --server http://127.0.0.1:8080 --session $ID --json | jq .gap`,
		Args: func(c *cobra.Command, args []string) error {
			switch remote := far.server != "" || c.Flags().Changed("session"); {
			case remote && len(args) > 0:
				return usageError{errors.New("give a log, or --server and --session, not both")}
			case remote && (far.server == "" || session == ""):
				return usageError{errors.New("--server and --session go together: --server http://127.0.0.1:8080 --session ID")}
			case remote:
				return nil
			}
			return exactly(1, "one log, or --server and --session")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			plan, err := planOf(c.Context(), &far, session, args)
			if err != nil {
				return err
			}
			if asJSON {
				_, err = exact(c.OutOrStdout()).Write(append(wire.AppendSessionPlan(nil, plan), '\n'))
				return err
			}
			return printPlan(c.OutOrStdout(), words.PlainNames(plan))
		},
	}
	far.add(c)
	c.Flags().StringVar(&session, "session", "", "the id of the session on the server")
	c.Flags().BoolVar(&asJSON, "json", false, "print the plan as GET /v1/sessions/{id}/plan answers it")
	return c
}

// planOf reads the plan of a session of a server, or makes it of a log.
func planOf(ctx context.Context, far *remoteFlags, session string, args []string) (*wire.SessionPlan, error) {
	if session != "" {
		rem, err := far.connect()
		if err != nil {
			return nil, err
		}
		var plan *wire.SessionPlan
		if err = rem.reach(ctx); err == nil {
			plan, err = rem.SessionPlan(ctx, session)
		}
		if err != nil {
			return nil, remoteError(rem, "", err)
		}
		return plan, nil
	}
	f, err := openIn(args[0])
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	plan, err := planAtEnd(ctx, f)
	if err != nil {
		return nil, inputError(args[0], err)
	}
	return plan, nil
}

// planAtEnd is the plan at the end of a log.
func planAtEnd(ctx context.Context, in io.Reader) (*wire.SessionPlan, error) {
	h, records, err := readLog(ctx, in)
	if err != nil {
		return nil, err
	}
	p, err := registry.OpenSession(h.Policy, &h.Cluster, h.Parameters)
	if err != nil {
		return nil, err
	}
	planned, ok := p.(online.Planned)
	if !ok {
		return nil, &sessions.NoPlansError{Policy: h.Policy}
	}
	var last hare.Event
	for rec, err := range records {
		if err == nil {
			err = takeRecorded(p, &rec)
		}
		if err == nil {
			err = p.Adopt(rec.Event.AtUs, rec.Event, rec.Decisions)
		}
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", last.Seq+1, err)
		}
		last = rec.Event
	}
	status := planned.Plan()
	return status.Document(h.Policy, last.Seq, last.AtUs), nil
}

// takeRecorded lets a policy take the plan that a log has before an event, if any.
func takeRecorded(p online.Policy, rec *wire.Record) error {
	if rec.Plan == nil {
		return nil
	}
	planned, ok := p.(online.Planned)
	if !ok {
		return errors.New("the log has a plan, and its policy makes no plans")
	}
	if err := planned.Take(rec.Plan); err != nil {
		return fmt.Errorf("the plan of the log is refused: %w", err)
	}
	return nil
}

// printPlan prints a plan for people.
func printPlan(w io.Writer, p *wire.SessionPlan) error {
	at := func(us int64) string {
		if us < 0 {
			return "-"
		}
		return words.Duration(us)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "event %d at %s: ", p.Seq, at(p.AtUs))
	if p.MadeUs < 0 {
		b.WriteString("no plan yet")
	} else {
		fmt.Fprintf(&b, "plan made at %s", at(p.MadeUs))
		if p.Value != nil {
			fmt.Fprintf(&b, ", value %s", p.Value)
		}
		if p.Value != nil && p.Bound != nil {
			fmt.Fprintf(&b, ", bound %s, gap %s", p.Bound, wire.GapJSON(&hare.Result{Value: p.Value, Bound: p.Bound}))
		}
		if p.Due {
			b.WriteString("; the next one is due")
		}
	}
	if p.Fallback != "" {
		b.WriteString("; " + p.Fallback + " decides")
	}
	b.WriteString("\n")
	if _, err := io.WriteString(w, b.String()); err != nil || len(p.Jobs) == 0 {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "job\trounds left\ttypes\tstart\tend\tnot before\twaits for")
	for i := range p.Jobs {
		j := &p.Jobs[i]
		waits := j.WaitsFor
		if j.Running {
			waits = "runs"
		}
		types := strings.Join(j.Types, ",")
		if types == "" {
			types = "-"
		}
		_, _ = fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", j.Job, j.Rounds, types, at(j.StartUs), at(j.EndUs),
			at(j.EarliestEndUs), waits)
	}
	return t.Flush()
}
