package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain"
	explaintext "github.com/hare-sched/hare/explain/text"
	"github.com/hare-sched/hare/solver"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

type explainFlags struct {
	by, earlier, order string
	limit              time.Duration
	list               int
	json, draw         bool
}

func explainCommand() *cobra.Command {
	var ef explainFlags
	c := &cobra.Command{
		Use:   "explain INSTANCE RESULT [JOB]",
		Short: "Explain why a job of a result starts and ends when it does",
		Long: `Explain says when a job of a result starts and ends, what each of its waits was
for, what the job pays at the prices of the certificate, and what it would cost on
each GPU type alone. Without JOB it lists the jobs with their times.

With --by or --earlier it also searches for the smallest change with which the job
ends in time: one more GPU of a type, a greater weight, or fewer rounds. For each
change it names the jobs that end later. Changes are found by solving changed
instances with the options, seed and work limit of the result, so they say what
Hare would answer, not what the best possible plan would do. The unchanged instance
is solved first, to check that the result is reproduced. docs/use/explain.md defines
the terms.`,
		Example: `  hare explain instance.json result.json
  hare explain instance.json result.json bert --plot
  hare explain instance.json result.json bert --by 3600
  hare explain instance.json result.json bert --earlier 10m --time-limit 1m --json | jq .earlier.changes`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 && len(args) != 3 {
				return exactly(3, "an instance, a result and a job")(c, args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return ef.run(c, args) },
	}
	f := c.Flags()
	f.StringVar(&ef.by, "by", "", "search for changes with which the job ends by this time: seconds, or 1h30m")
	f.StringVar(&ef.earlier, "earlier", "", "search for changes with which the job ends earlier by this much: seconds, "+
		"or 10m")
	f.DurationVar(&ef.limit, "time-limit", 0, "time limit of the search for changes; 0 means until all are tried")
	f.BoolVar(&ef.json, "json", false, "print JSON, in the form of GET /v1/solves/{id}/jobs/{job}")
	f.BoolVar(&ef.draw, "plot", false, "draw the timeline of the job and of those that had the GPUs that it waited for")
	f.StringVar(&ef.order, "sort", "share", "order of the list: share, stretch, wait, jct, start, end")
	f.IntVar(&ef.list, "limit", 20, "greatest number of jobs in the list")
	choices(c, "sort", "share", "stretch", "wait", "jct", "start", "end")
	positive(c, "limit")
	return c
}

func (ef *explainFlags) run(c *cobra.Command, args []string) error {
	req := explain.Request{Recheck: true}
	var err error
	if req.ByUs, err = timeFlag("by", ef.by); err != nil {
		return err
	}
	if req.EarlierUs, err = timeFlag("earlier", ef.earlier); err != nil {
		return err
	}
	inst, res, err := readPair(args[:2])
	if err != nil {
		return err
	}
	if len(args) == 2 {
		return ef.jobs(c, inst, res)
	}
	req.Job = args[2]
	x, err := explainJob(c.Context(), inst, res, req, ef.limit)
	var none *explain.NoJobError
	switch {
	case errors.As(err, &none):
		return usageError{err}
	case err != nil:
		return ofRemainder(err)
	case ef.json:
		return printJSON(c.OutOrStdout(), x)
	}
	return explaintext.Explanation(c.OutOrStdout(), x, ef.draw)
}

// jobs lists the jobs.
func (ef *explainFlags) jobs(c *cobra.Command, inst *hare.Instance, res *hare.Result) error {
	if ef.by != "" || ef.earlier != "" || ef.draw {
		return usageError{errors.New("--by, --earlier and --plot are about one job: name it after the result")}
	}
	jobs, err := explain.ListJobs(inst, res, ef.order, ef.list)
	switch {
	case err != nil:
		return ofRemainder(err)
	case ef.json:
		return printJSON(c.OutOrStdout(), jobs)
	}
	return explaintext.Jobs(c.OutOrStdout(), len(inst.Jobs), jobs)
}

// ofRemainder says in the words of the command line that explain.ErrRemainder has come.
func ofRemainder(err error) error {
	if errors.Is(err, explain.ErrRemainder) {
		return usageError{errors.New("RESULT is a plan for the rest of an earlier one, and INSTANCE is not that rest: " +
			"give the instance that hare solve --rest FILE writes")}
	}
	return err
}

// timeFlag parses seconds or a duration such as 1h30m and returns microseconds.
func timeFlag(name, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	us, err := flagMicros(text)
	if err != nil || us <= 0 || us > hare.MaxExact {
		return 0, usageError{fmt.Errorf("--%s %s: give a positive time, in seconds as 3600 or with units as 1h", name,
			strconv.Quote(text))}
	}
	return us, nil
}

// explainJob explains a job; where changes are asked for, it starts an LP engine and
// solves.
func explainJob(ctx context.Context, inst *hare.Instance, res *hare.Result, req explain.Request,
	limit time.Duration) (*explaindoc.Answer, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	var engine solver.Config
	if req.ByUs > 0 || req.EarlierUs > 0 {
		var closeEngine func()
		engine, closeEngine = startEngine(true)
		defer closeEngine()
	}
	return explain.Explain(ctx, inst, res, req, func(ctx context.Context, inst *hare.Instance,
		opt hare.Options) (*hare.Result, error) {
		return solver.Solve(ctx, inst, opt, engine)
	})
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(exact(w))
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
