package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/sim/method"
	"github.com/hare-sched/hare/solver"
	solvetext "github.com/hare-sched/hare/solver/text"
	"github.com/hare-sched/hare/wire"
)

type solveFlags struct {
	opt           hare.Options
	out, warm     string
	quiet, ndjson bool
	again         replanFlags
	far           remoteFlags
	tags          wire.Tags
	labels        []string
}

func solveCommand() *cobra.Command {
	var sf solveFlags
	c := &cobra.Command{
		Use:   "solve INSTANCE",
		Short: "Schedule an instance and prove how good the schedule is",
		Long: `Solve computes a lower bound on the objective, finds a schedule, improves it until a
limit or the gap is reached, verifies it, and prints the result as JSON. On a
terminal a line shows the best value, the bound and the gap while it works, and a
table follows at the end. Ctrl-C ends the search; the result is then the best
schedule and bound so far.

Without --time-limit, a work limit that depends only on the instance's size ends the
search, so that equal calls give equal bytes, except for "timing".

With --server, a server solves: the output is the same, and Ctrl-C cancels the solve
on the server.

--order chooses the order of the first schedule: price, queyranne, paper,
critical_path, machine, wspt or arrival. --assign chooses how tasks get GPUs:
insertion, from which the search starts, or one of the simple rules earliest_finish
and earliest_available, the rule of the paper.

--method lets a policy make the plan instead, as it would decide while the jobs come,
with the same bound: how far is what another scheduler does from the best?`,
		Example: `  hare solve instance.json -o result.json
  hare solve instance.json.gz --time-limit 2s --gap 0.05 | jq .gap
  hare solve tomorrow.json --warm today.result.json   # most jobs are the same
  hare solve instance.json --previous result.json --at 3600 --stability 0.1 -o new.json
  hare solve instance.json --order paper --assign earliest_available   # the paper's rule
  hare solve instance.json --server http://127.0.0.1:8080 -o result.json   # a server solves
  hare solve instance.json --method srtf                # what another scheduler would do
  zcat instance.json.gz | hare solve - -o result.json.zst`,
		Args: exactly(1, "one instance file"),
		RunE: func(c *cobra.Command, args []string) error { return sf.run(c.Context(), args[0]) },
	}
	f := c.Flags()
	f.StringVarP(&sf.out, "output", "o", "", "write the result to this file (.gz, .zst compress)")
	f.DurationVar(&sf.opt.TimeLimit, "time-limit", 0,
		"stop after this time, e.g. 2s; 0 means that only --work-limit applies")
	f.Int64Var(&sf.opt.WorkLimit, "work-limit", 0,
		"stop after this much work; 0 means a limit computed from the instance's size")
	f.Float64Var(&sf.opt.Gap, "gap", solver.DefaultGap,
		"stop when the plan is proved to be within this fraction of the best, e.g. 0.05 for 5 %")
	fraction(c, "gap")
	f.Int64Var(&sf.opt.Seed, "seed", 1, "seed of the search")
	f.StringVar(&sf.opt.Bound, "bound", hare.MethodPrice, "bound: price, critical_path, machine, queyranne, paper")
	f.StringVar(&sf.opt.Order, "order", "", "order of the first schedule (default: that of --bound)")
	f.StringVar(&sf.opt.Assign, "assign", "insertion", "assignment: insertion, earliest_finish, earliest_available")
	f.StringVar(&sf.opt.Objective, "objective", "",
		"in place of the instance's objective: weighted_jct, jct_and_tardiness, makespan")
	f.StringVar(&sf.opt.Method, "method", "",
		"what makes the plan in place of the search: a policy, such as srtf (default: the search)")
	f.StringVar(&sf.opt.Detail, "detail", "lanes", "how much to print: none, jobs, lanes, tasks")
	f.StringVar(&sf.warm, "warm", "", "start from the prices of this result, for the same or a similar instance")
	sf.again.add(c)
	f.BoolVarP(&sf.quiet, "quiet", "q", false, "print no progress line and no table")
	f.BoolVar(&sf.ndjson, "ndjson", false, "write the result with one lane a line")
	sf.far.add(c)
	f.StringVar(&sf.tags.Name, "name", "", "with --server: the name under which the server keeps the solve")
	f.StringArrayVar(&sf.labels, "label", nil, "with --server: a label of the solve, NAME=VALUE; may be given again")
	choices(c, "bound", relax.Methods()...)
	choices(c, "order", append(relax.Methods(), "wspt", "arrival")...)
	choices(c, "assign", "insertion", "earliest_finish", "earliest_available")
	choices(c, "detail", "none", "jobs", "lanes", "tasks")
	choices(c, "objective", hare.Objectives()...)
	choices(c, "method", wire.PlanMethods()...)
	outputs(c, outputData, "output", "rest")
	anyValue(c, "seed")
	return c
}

func (sf *solveFlags) run(ctx context.Context, name string) error {
	sf.opt = solver.Defaults(sf.opt)
	if err := solver.CheckOptions(sf.opt); err != nil {
		return flagError(err)
	}
	if err := noTwice(name, sf.again.previous, sf.again.before, sf.warm); err != nil {
		return err
	}
	var err error
	if sf.tags.Labels, err = pairs("--label", sf.labels, nil); err != nil {
		return usageError{err}
	}
	if sf.far.server == "" && (sf.tags.Name != "" || sf.tags.Labels != nil) {
		return usageError{errors.New("--name and --label are for solves that a server keeps: give --server too")}
	}
	var there *remote
	if sf.far.server != "" {
		if sf.warm != "" || sf.again.previous != "" {
			return usageError{errors.New("--warm and --previous do not work with --server: leave them or --server out")}
		}
		if there, err = sf.far.connect(); err != nil {
			return err
		}
	}
	inst, err := readInstance(name)
	if err != nil {
		return err
	}
	if there != nil {
		return solveRemotely(ctx, there, inst, sf.opt, sf.tags, sf.out, sf.quiet, sf.ndjson)
	}
	req, err := sf.again.request()
	if err != nil {
		return err
	}
	var prices *hare.Certificate
	if sf.warm != "" {
		before, err := readResult(sf.warm)
		if err != nil {
			return err
		}
		if prices = before.Certificate; prices == nil {
			return usageError{fmt.Errorf("--warm %s: there is no certificate in it: keep one with --detail jobs or lanes",
				sf.warm)}
		}
	}
	return sf.solve(ctx, inst, req, prices)
}

// solve solves or replans here, and prints the result.
func (sf *solveFlags) solve(ctx context.Context, inst *hare.Instance, req *hare.ReplanRequest,
	warm *hare.Certificate) error {
	cfg, closeEngine := startEngine(!sf.quiet && (relax.UsesEngine(sf.opt.Bound) || relax.UsesEngine(sf.opt.Order)))
	defer closeEngine()
	live := newProgressLine(os.Stderr, !sf.quiet && term.IsTerminal(int(os.Stderr.Fd())))
	cfg.Progress, cfg.WarmPrices = live.event, warm
	res, err := solveOrReplan(ctx, inst, req, sf.opt, cfg)
	live.end()
	if bad := (*hare.InvalidError)(nil); errors.As(err, &bad) && strings.HasPrefix(bad.Pointer, "/options/") {
		return flagError(err)
	}
	if err != nil {
		return err
	}
	if res.Replan != nil {
		inst = res.Replan.Rest
		if sf.again.rest != "" {
			if err := writeOut(sf.again.rest, func(w io.Writer) error { return wire.EncodeInstance(w, inst) }); err != nil {
				return err
			}
		}
	}
	return deliver(inst, res, sf.out, sf.quiet, func(w io.Writer) error {
		if sf.ndjson {
			return wire.EncodeResultLines(w, res)
		}
		return wire.EncodeResult(w, res)
	})
}

func choices(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// deliver writes a result to its file and prints its table.
func deliver(inst *hare.Instance, res *hare.Result, out string, quiet bool, write func(io.Writer) error) error {
	toTerminal := term.IsTerminal(int(os.Stdout.Fd()))
	if out != "" || !toTerminal {
		if err := writeOut(out, write); err != nil {
			return err
		}
	}
	if (toTerminal || out != "" && out != "-") && !quiet {
		solvetext.Result(stdout, inst, res)
		solvetext.Replan(stdout, res)
		if out == "" {
			fmt.Fprintln(stdout, "(the result itself: add -o result.json)")
		}
	}
	if res.Value == nil { // the schedule may have been left out
		printReasons(res.Termination, res.Reasons)
		return errNo
	}
	return nil
}

// printReasons prints why there is no schedule or no bound.
func printReasons(termination string, reasons []hare.Reason) {
	for _, r := range reasons {
		where := termination
		if r.Pointer != "" {
			where += ": " + words.Plain(r.Pointer)
		}
		fmt.Fprintf(stderr, "hare: %s: %s (%s)\n", where, words.Plain(r.Detail), r.Code)
	}
}

// startEngine starts the LP workers. Where there are none it says so on stderr, if warn is set: commands that print
// nothing else and methods without linear programs do without the warning.
func startEngine(warn bool) (solver.Config, func()) {
	cfg, why, stop := openEngine()
	if warn && why != "" {
		fmt.Fprintf(stderr, "hare: %s: %s\n", withoutEngine, words.Plain(why))
	}
	return cfg, stop
}

const withoutEngine = "going on without linear programs, so that gaps may be wider"

// openEngine starts the LP workers. Without them the Go engine does what it can, and why says what is missing.
func openEngine() (cfg solver.Config, why string, stop func()) {
	cfg = solver.Config{Version: version, Methods: method.All()}
	pool, err := newPool()
	if err != nil {
		return cfg, err.Error(), func() {}
	}
	cfg.LP = pool
	cfg.EngineVersion = pool.Version()
	cfg.Restarts = func() int64 { return int64(pool.Stats().Restarts) }
	if s := pool.Stats(); cfg.EngineVersion == "" && !s.Available {
		why = strings.TrimPrefix(s.LastError, lp.ErrUnavailable.Error()+": ")
	}
	return cfg, why, func() { _ = pool.Close() }
}

type boundFlags struct {
	method, out string
	expected    bool
	limit       time.Duration
}

func boundCommand() *cobra.Command {
	var bf boundFlags
	c := &cobra.Command{
		Use:   "bound INSTANCE",
		Short: "Compute a lower bound on the objective of an instance",
		Long: `Bound prints a lower bound on the weighted job completion time of every feasible
schedule, with the certificate that proves it. The methods price, critical_path and
machine have certificates. The figure of queyranne is printed but not certified; the
figure of paper, the relaxation as printed in the paper, proves nothing.

With --expected the bound is on the mean cost over what the durations of the jobs may
be, for every policy, even one that knows them in advance. It is not the bound of a plan, and
has no certificate.`,
		Example: `  hare bound instance.json --method price
  hare bound uncertain.json --expected
  hare bound instance.json --method machine -o certificate.json`,
		Args: exactly(1, "one instance file"),
		RunE: func(c *cobra.Command, args []string) error { return bf.run(c.Context(), args[0]) },
	}
	c.Flags().StringVar(&bf.method, "method", hare.MethodPrice, "price, critical_path, machine, queyranne, paper")
	c.Flags().StringVarP(&bf.out, "output", "o", "", "write to this file")
	c.Flags().BoolVar(&bf.expected, "expected", false, "bound the mean cost over the durations of jobs")
	c.Flags().DurationVar(&bf.limit, "time-limit", 0,
		"stop after this time with the best bound so far; 0 means when it is done")
	choices(c, "method", relax.Methods()...)
	outputs(c, outputData, "output")
	return c
}

func (bf *boundFlags) run(ctx context.Context, name string) error {
	inst, err := readInstance(name)
	if err != nil {
		return err
	}
	engine, closeEngine := startEngine(relax.UsesEngine(bf.method))
	defer closeEngine()
	if bf.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, bf.limit)
		defer cancel()
	}
	if bf.expected && bf.method != hare.MethodPrice {
		return usageError{fmt.Errorf("--expected goes with --method %s", hare.MethodPrice)}
	}
	var rel *hare.Relaxation
	if bf.expected {
		rel, err = solver.BoundExpected(ctx, inst, engine)
	} else {
		rel, err = solver.Bound(ctx, inst, bf.method, engine)
	}
	var never *solver.InfeasibleError
	var invalid *hare.InvalidError
	switch {
	case errors.As(err, &never):
		printReasons(hare.TerminationInfeasible, never.Reasons)
		return errNo
	case errors.As(err, &invalid) && invalid.Pointer == "/method":
		return usageError{fmt.Errorf("--method: %s", invalid.Detail)}
	case err != nil:
		return usageError{err}
	}
	return writeOut(bf.out, func(w io.Writer) error { return writeBound(w, rel, bf.expected, inst.Uncertain()) })
}

// writeBound prints {method, bound, certified, certificate}, and says whether the bound is for the
// mean over durations, or for the times as they are written where these are uncertain.
func writeBound(w io.Writer, rel *hare.Relaxation, expected, estimated bool) error {
	doc := struct {
		Method      string          `json:"method"`
		Bound       json.RawMessage `json:"bound"`
		Certified   bool            `json:"certified"`
		Expected    bool            `json:"expected,omitempty"`
		Estimated   bool            `json:"estimated,omitempty"`
		Certificate json.RawMessage `json:"certificate,omitempty"`
	}{Method: rel.Method, Expected: expected, Estimated: estimated && !expected,
		Bound: json.RawMessage(rel.Bound.RoundDown().String()), Certified: rel.Certified,
		Certificate: wire.CertificateJSON(rel.Certificate)}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(doc)
}

func newPool() (*lp.Pool, error) {
	return lp.NewPool(lp.PoolConfig{})
}

func workerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lp-worker", Hidden: true, Short: "Solve linear programs for a parent hare (internal)",
		RunE: func(*cobra.Command, []string) error {
			os.Exit(lp.WorkerMain(os.Stdin, os.Stdout))
			return nil
		},
	}
}
