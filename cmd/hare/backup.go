package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
)

func backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR FILE",
		Short: "Copy a data directory into one file, also while a server uses it",
		Long: `Backup copies all solves, sessions and managed clusters of the data directory DIR
into FILE, as they are at one moment, and checks every row of the copy. The outputs
of clusters' jobs, in DIR/logs, and the copies of their checkpoints, in
DIR/checkpoints, are not copied: agents bring new ones. Nor are API keys and quotas:
copy DIR/keys.json too, with cp -p. FILE appears only when the copy is complete, and an
existing FILE is not overwritten. DIR is not changed, and may be on a disk that is full
or mounted read-only.

If sessions or solves are damaged, backup copies them as they are, names them and
exits with 1; hare repair then copies what is intact.`,
		Example:           "  hare backup /var/lib/hare sessions.backup\n  hare restore sessions.backup /var/lib/hare-new",
		Args:              exactly(2, "a data directory and a file"),
		ValidArgsFunction: directories(0),
		RunE: func(c *cobra.Command, args []string) error {
			if err := canBeOutput(args[1]); err != nil {
				return usageError{fmt.Errorf("%s: %w", args[1], err)}
			}
			err := sqlite.Backup(c.Context(), args[0], args[1])
			var bad *store.CorruptError
			if errors.As(err, &bad) && (bad.Session != "" || bad.Solve != "") {
				printDamage(c.OutOrStdout(), err)
				_, _ = fmt.Fprintf(c.OutOrStdout(), "%s is written, with the damage in it: see hare repair --help\n", args[1])
				return errNo
			}
			if err != nil {
				return usageError{fmt.Errorf("backup of %s: %w%s", args[0], err, storeRemedy(args[0], err))}
			}
			return printContents(c, args[1])
		},
	}
}

func restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE DIR",
		Short: "Create a data directory from a backup",
		Long: `Restore checks every row of the backup FILE and creates the data directory DIR
from it. DIR must not contain sessions or solves yet. A damaged backup is refused;
hare repair copies what is intact in it.`,
		Example:           "  hare restore sessions.backup /var/lib/hare\n  hare serve --data-dir /var/lib/hare",
		Args:              exactly(2, "a backup and a data directory"),
		ValidArgsFunction: directories(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := sqlite.Restore(c.Context(), args[0], args[1]); err != nil {
				return usageError{fmt.Errorf("restore of %s: %w", args[0], err)}
			}
			return printContents(c, args[1])
		},
	}
}

func repairCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "repair DIR NEWDIR",
		Short: "Copy what is intact in a damaged data directory or backup",
		Long: `Repair creates the data directory NEWDIR with every solve of DIR that is intact,
and with every session up to its last event that is unchanged and follows from the
events before it. It reports what each session lost. DIR is not changed. Files that were
cut, or whose first page or write-ahead log is damaged, are read as far as they are
whole; repair then says which file it is, and how much was saved.

Clients had received answers to the events that are lost. A client continues by
sending again the events after the last one that was kept.

Exit codes: 0 nothing was lost, 1 something was lost, 2 nothing could be saved.`,
		Example: "  hare doctor --data-dir /var/lib/hare\n  hare repair /var/lib/hare /var/lib/hare-new\n  hare " +
			"serve --data-dir /var/lib/hare-new",
		Args:              exactly(2, "a data directory or backup and a new data directory"),
		ValidArgsFunction: directories(0, 1),
		RunE:              func(c *cobra.Command, args []string) error { return repair(c, args[0], args[1]) },
	}
}

// repair copies what is intact from a data directory or backup into a new directory.
func repair(c *cobra.Command, from, to string) error {
	rep, err := sqlite.Salvage(c.Context(), from, to)
	if err != nil {
		return usageError{fmt.Errorf("repair of %s: %w", from, err)}
	}
	out := c.OutOrStdout()
	for _, what := range rep.Files {
		_, _ = fmt.Fprintln(out, what)
	}
	sessions, solves, events, kept := 0, 0, int64(0), len(rep.Solves) // sessions and solves count those with losses
	for _, s := range rep.Sessions {
		if !store.IsJournal(s.ID) {
			events += s.Last
		}
		if s.Damage == nil {
			continue
		}
		sessions++
		was := "an unknown number"
		if s.Was > 0 {
			was = fmt.Sprint(s.Was)
		}
		_, _ = fmt.Fprintf(out, "%s: kept %s of %s: %v\n", s.ID, words.Count(s.Last, "event"), was, s.Damage)
	}
	for _, s := range rep.Solves {
		if s.Damage != nil {
			solves, kept = solves+1, kept-1
			_, _ = fmt.Fprintf(out, "%s: left out: %v\n", s.ID, s.Damage)
		}
	}
	_, _ = fmt.Fprintf(out, "%s: %s, %s; %s", to, words.Count(len(rep.Sessions), "session"),
		words.Count(len(rep.Solves), "solve"), losses(sessions, solves))
	if len(rep.Files) > 0 {
		_, _ = fmt.Fprintf(out, "; saved %s and %s of what could be read, and the newest changes may be missing",
			words.Count(events, "event"), words.Count(kept, "solve"))
	}
	_, _ = fmt.Fprintln(out)
	if sessions+solves > 0 || len(rep.Files) > 0 {
		return errNo
	}
	return nil
}

// losses says how many sessions and solves lost something.
func losses(sessions, solves int) string {
	var parts []string
	if sessions > 0 {
		parts = append(parts, words.Count(sessions, "session"))
	}
	if solves > 0 {
		parts = append(parts, words.Count(solves, "solve"))
	}
	if len(parts) == 0 {
		return "no losses"
	}
	return "losses in " + strings.Join(parts, " and ")
}

// directories completes the named ones of two arguments with directories, the other
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

// printDamage prints joined errors, one on each line.
func printDamage(w io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintln(w, strings.TrimSuffix(line, "\n"))
	}
}

// printContents prints how many sessions and solves a data directory or a backup
// contains.
func printContents(c *cobra.Command, path string) error {
	v, err := sqlite.OpenView(c.Context(), path)
	if err != nil {
		return err
	}
	metas, err := v.Sessions(c.Context())
	solves, bad := v.Solves(c.Context())
	if err = errors.Join(err, bad, v.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", path, contents(metas, len(solves)))
	return err
}

func contents(metas []store.Meta, solves int) string {
	events, journals := int64(0), 0
	for _, m := range metas {
		if store.IsJournal(m.ID) {
			journals++
		} else {
			events += m.Last
		}
	}
	clusters := ""
	if journals > 0 {
		clusters = fmt.Sprintf(", %s", words.Count(journals, "managed cluster"))
	}
	return fmt.Sprintf("%s, %s, %s%s, every checksum fits", words.Count(len(metas)-journals, "session"),
		words.Count(events, "event"), words.Count(solves, "solve"), clusters)
}
