package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/store"
	"github.com/hare-sched/hare/store/sqlite"
)

func backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR FILE",
		Short: "Copy the solves and sessions of a data directory into one file, also while a server uses it",
		Long: `Backup copies everything that is durable at one moment, checks every row of the
copy, and gives it its name only when it is complete; what is there by that name
is not overwritten. With damaged sessions it says so and exits with 1: the file
has what the directory has, and hare repair takes the good of it.`,
		Example:           "  hare backup /var/lib/hare sessions.backup\n  hare restore sessions.backup /var/lib/hare-new",
		Args:              exactly(2, "a data directory and a file"),
		ValidArgsFunction: directories(0),
		RunE: func(c *cobra.Command, args []string) error {
			err := sqlite.Backup(c.Context(), args[0], args[1])
			var bad *store.CorruptError
			if errors.As(err, &bad) && (bad.Session != "" || bad.Solve != "") {
				sayDamage(c.OutOrStdout(), err)
				_, _ = fmt.Fprintf(c.OutOrStdout(), "%s is written, with the damage in it: see hare repair --help\n", args[1])
				return errNo
			}
			if err != nil {
				return usageError{fmt.Errorf("backup of %s: %w", args[0], err)}
			}
			return sayHolds(c, args[1])
		},
	}
}

func restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE DIR",
		Short: "Make a data directory of a backup",
		Long: "Restore checks every row of the backup and makes a data directory of it, which must\nnot hold " +
			"sessions yet. A damaged backup is refused: hare repair takes the good of it.",
		Example:           "  hare restore sessions.backup /var/lib/hare\n  hare serve --data-dir /var/lib/hare",
		Args:              exactly(2, "a backup and a data directory"),
		ValidArgsFunction: directories(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := sqlite.Restore(c.Context(), args[0], args[1]); err != nil {
				return usageError{fmt.Errorf("restore of %s: %w", args[0], err)}
			}
			return sayHolds(c, args[1])
		},
	}
}

func repairCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "repair DIR NEWDIR",
		Short: "Copy what can be trusted of a damaged data directory or backup",
		Long: `Repair makes a new data directory with every solve that is whole, and with every
session up to the last event that
is as it was written and follows from the ones before it, and says for each what
was lost. DIR stays as it is. A client goes on behind the last event that was
kept, by sending the lost ones again: tell it, because they had been answered.
Exit codes: 0 nothing was lost, 1 something was.`,
		Example: "  hare doctor --data-dir /var/lib/hare\n  hare repair /var/lib/hare /var/lib/hare-new\n  hare " +
			"serve --data-dir /var/lib/hare-new",
		Args:              exactly(2, "a data directory or backup and a new data directory"),
		ValidArgsFunction: directories(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			all, solves, err := sqlite.Salvage(c.Context(), args[0], args[1])
			if err != nil {
				return usageError{fmt.Errorf("repair of %s: %w", args[0], err)}
			}
			lost := 0
			for _, s := range all {
				if s.Damage == nil {
					continue
				}
				lost++
				was := "an unknown number"
				if s.Was > 0 {
					was = fmt.Sprint(s.Was)
				}
				_, _ = fmt.Fprintf(c.OutOrStdout(), "%s: kept %d events of %s: %v\n", s.ID, s.Last, was, s.Damage)
			}
			for _, s := range solves {
				if s.Damage != nil {
					lost++
					_, _ = fmt.Fprintf(c.OutOrStdout(), "%s: left out: %v\n", s.ID, s.Damage)
				}
			}
			_, _ = fmt.Fprintf(c.OutOrStdout(), "%s: %d sessions, %d solves, %d of them with losses\n", args[1], len(all),
				len(solves), lost)
			if lost > 0 {
				return errNo
			}
			return nil
		},
	}
}

// directories completes some arguments of two with directories, the others
// with files.
func directories(at ...int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(args) > 1:
			return nil, cobra.ShellCompDirectiveNoFileComp
		case slices.Contains(at, len(args)):
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// sayDamage writes joined errors, one a line.
func sayDamage(w io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintln(w, strings.TrimSuffix(line, "\n"))
	}
}

// sayHolds says what a data directory or a backup holds.
func sayHolds(c *cobra.Command, path string) error {
	v, err := sqlite.OpenView(c.Context(), path)
	if err != nil {
		return err
	}
	metas, err := v.Sessions(c.Context())
	solves, bad := v.Solves(c.Context())
	if err = errors.Join(err, bad, v.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", path, holds(metas, len(solves)))
	return err
}

func holds(metas []store.Meta, solves int) string {
	events := int64(0)
	for _, m := range metas {
		events += m.Last
	}
	return fmt.Sprintf("%d sessions, %d events, %d solves, every checksum fits", len(metas), events, solves)
}
