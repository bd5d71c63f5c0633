package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/service/sqlite"
)

func backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR FILE",
		Short: "Copy the sessions of a data directory into one file, also while a server uses it",
		Long: `Backup copies everything that is durable at one moment, and gives the copy its
name only when it is complete; what is there by that name is not overwritten.`,
		Example: "  hare backup /var/lib/hare sessions.backup",
		Args:    exactly(2, "a data directory and a file"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := sqlite.Backup(c.Context(), args[0], args[1]); err != nil {
				return usageError{fmt.Errorf("backup of %s: %w", args[0], err)}
			}
			return nil
		},
	}
}

func restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "restore FILE DIR",
		Short:   "Make a data directory of a backup",
		Long:    "Restore checks every row of the backup and makes a data directory of it, which must\nnot hold sessions yet.",
		Example: "  hare restore sessions.backup /var/lib/hare\n  hare serve --data-dir /var/lib/hare",
		Args:    exactly(2, "a backup and a data directory"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := sqlite.Restore(c.Context(), args[0], args[1]); err != nil {
				return usageError{fmt.Errorf("restore of %s: %w", args[0], err)}
			}
			return nil
		},
	}
}
