// Command hare schedules training jobs on clusters whose GPUs differ and
// proves how far each schedule is from the best one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/internal/words"
)

// The exit codes are documented in docs/reference/cli.md.
const (
	exitDone     = 0
	exitNo       = 1 // a negative answer: refused or infeasible
	exitUsage    = 2 // invalid usage or input
	exitInternal = 3 // a fault of Hare or of the machine, such as a full disk
)

// errNo ends a command that has printed a negative answer.
var errNo = errors.New("no")

// usageError marks errors that another command line or another input avoids.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	lp.ServeIfWorker()
	runTaskIfAsked()
	runRoundsIfAsked()
	runPoolIfAsked()
	watchGPUsIfAsked()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(stderr, "hare: internal error: %v\n%s", p, debug.Stack())
			code = exitInternal
		}
	}()
	root := newRoot()
	root.SetOut(stdout)
	root.SetErr(stderr)
	args, err := withFormat(root, args)
	if err == nil {
		root.SetArgs(args)
		if err = root.ExecuteContext(ctx); err != nil {
			err = unknownCommand(root, err)
		}
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errNo):
		return exitNo
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		fmt.Fprintln(stderr, "hare: interrupted before there was an answer")
		return exitNo
	}
	// The message is joined to one line.
	fmt.Fprintln(stderr, "hare:", strings.Join(strings.Fields(err.Error()), " "))
	return exitCode(err)
}

// exitCode returns exitUsage for errors that another command line or another input
// avoids, and exitInternal for others.
func exitCode(err error) int {
	var usage usageError
	var invalid *hare.InvalidError
	var path *os.PathError
	switch {
	case isMachineFault(err):
		return exitInternal
	case errors.As(err, &usage), errors.As(err, &invalid), errors.As(err, &path):
		return exitUsage
	}
	return exitInternal
}

// isMachineFault reports whether the machine failed: a disk that is full or broken,
// exhausted memory or file descriptors, or a closed output. No other command line
// avoids these.
func isMachineFault(err error) bool {
	for _, errno := range []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE,
		syscall.EPIPE,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	var sql interface{ Code() int } // an SQLite error; the low byte is SQLITE_FULL, SQLITE_IOERR or SQLITE_NOMEM
	return errors.As(err, &sql) && slices.Contains([]int{13, 10, 7}, sql.Code()&0xff)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "hare",
		Short: "Schedule training jobs on clusters whose GPUs differ, with a proof of quality",
		Long: `Hare schedules training jobs on clusters whose GPUs differ. It searches for the
schedule with the least weighted job completion time, and proves how far the
schedule that it found can be from the best possible one.

Files: "-" is standard input or output; names ending in .gz or .zst are
(de)compressed. Exit codes: 0 done, 1 the answer is no (verify refuses, the
instance is infeasible) or Ctrl-C came first, 2 bad usage or input, 3 internal error
or a fault of the machine, such as a full disk.`,
		Example: `  hare generate --jobs 20 --gpus V100=4,T4=8 -o small.json
  hare solve small.json -o result.json
  hare verify small.json result.json
  hare plot small.json result.json -o gantt.html
  hare import slurm --since 7d -o week.json         # or kube, ray, history: a table of jobs
  hare shadow slurm --since 7d -o report.html       # would Hare have helped last week?`,
		Version: longVersion(),
		PersistentPreRunE: func(c *cobra.Command, args []string) error {
			if err := checkTexts(c, args); err != nil {
				return err
			}
			if err := checkFlags(c); err != nil {
				return err
			}
			return checkOutputs(c, args)
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("hare {{.Version}}\n")
	root.SetFlagErrorFunc(explainFlagError)
	root.DisableSuggestions = true     // unknownCommand makes them
	cobra.EnableCommandSorting = false // within a group, what one needs first stands first
	for _, group := range commandGroups() {
		root.AddGroup(&cobra.Group{ID: group.name, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.name
			root.AddCommand(c)
		}
	}
	for _, c := range root.Commands() {
		if !c.Runnable() && c.HasSubCommands() { // else a mistyped subcommand prints the help and ends well
			c.Args = unknownSubcommand
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	root.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version, as --version does", Hidden: true, Args: exactly(0, "no arguments"),
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), "hare", longVersion()) },
	})
	root.SetHelpCommandGroupID("operate")
	root.SetCompletionCommandGroupID("operate")
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" { // cobra's own prints the help and ends well where the command is not known
			c.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := root.Find(args)
				return err
			}
		}
	}
	return root
}

type commandGroup struct {
	name, title string
	commands    []*cobra.Command
}

// commandGroups are all commands in the order of the help, by what one wants to do.
func commandGroups() []commandGroup {
	return []commandGroup{
		{"plan", "Plan jobs, and prove how good the plan is:", []*cobra.Command{solveCommand(), verifyCommand(),
			boundCommand(), whatIfCommand(), explainCommand(), plotCommand(), exportCommand(), replayResultCommand(),
			hashCommand()}},
		{"compare", "Compare schedulers on your jobs, or on invented ones:", []*cobra.Command{importCommand(),
			shadowCommand(), capacityCommand(), simulateCommand(), onlineCommand(), profileCommand(), estimateCommand(),
			generateCommand(), anonymiseCommand(), benchCommand(), experimentCommand()}},
		{"beside", "Run beside another scheduler:", []*cobra.Command{slurmCommand(), kubeCommand(), rayCommand()}},
		{"cluster", "Run jobs on a cluster of Hare:", []*cobra.Command{submitCommand(), jobsCommand(), logsCommand(),
			setCommand(), holdCommand(), releaseCommand(), cancelCommand(), agentCommand(), agentsCommand(), drainCommand(),
			undrainCommand(), clusterCommand(), workerCommand()}},
		{"operate", "Operate a server:", []*cobra.Command{serveCommand(), solvesCommand(), sessionsCommand(),
			keyCommand(), doctorCommand(),
			healthCommand(), backupCommand(), restoreCommand(), repairCommand()}},
	}
}

// exactly is cobra.ExactArgs, except that its error is a usageError.
func exactly(n int, names string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if n == 0 && len(args) > 0 && hare.Guess(args[0], subcommands(c)) != "" {
			return unknownSubcommand(c, args)
		}
		if n == 0 && len(args) == 1 && c.Flags().Lookup("instance") != nil {
			if _, err := os.Stat(args[0]); err == nil {
				return usageError{fmt.Errorf("%s takes files by flags: write --instance %s, or --trace %s (see %s --help)",
					c.CommandPath(), args[0], args[0], c.CommandPath())}
			}
		}
		if len(args) != n {
			return usageError{fmt.Errorf("%s takes %s, got %s (see %s --help)", c.CommandPath(), names,
				words.Count(len(args), "argument"), c.CommandPath())}
		}
		return nil
	}
}
