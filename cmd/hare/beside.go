package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/history"
)

// besideFlags are the flags that the helpers beside Slurm, Kubernetes and Ray share.
type besideFlags struct {
	far                      remoteFlags
	session, metrics, speeds string
	dryRun, once             bool
	interval                 time.Duration
}

// add adds the flags; dryRun says what a dry run does, and types is an example of speeds.
func (bf *besideFlags) add(c *cobra.Command, dryRun, types string) {
	bf.far.add(c)
	f := c.Flags()
	f.StringVar(&bf.session, "session", "", "with --server: continue the session with this id (default: the one in "+
		"--dir, or a new one)")
	f.BoolVar(&bf.dryRun, "dry-run", false, dryRun+": the default")
	f.BoolVar(&bf.once, "once", false, "end after one loop")
	f.StringVar(&bf.speeds, "speeds", "", "relative speeds of GPU types, e.g. "+types+" (default: those of hare import)")
}

// check refuses flags that contradict each other, and an interval that is shorter than the least one.
func (bf *besideFlags) check(write bool, least time.Duration) error {
	switch {
	case write && bf.dryRun:
		return usageError{errors.New("give --write or --dry-run, not both")}
	case bf.session != "" && bf.far.server == "":
		return usageError{errors.New("--session needs --server")}
	case bf.interval < least:
		return usageError{fmt.Errorf("--interval must be at least %s", least)}
	}
	return nil
}

// speedTable reads --speeds; nil where it is not given.
func (bf *besideFlags) speedTable() (*history.Speeds, error) {
	if bf.speeds == "" {
		return nil, nil
	}
	table, err := history.ParseSpeeds(bf.speeds)
	if err != nil {
		return nil, usageError{fmt.Errorf("--speeds: %w", err)}
	}
	speeds := history.ShippedSpeeds()
	speeds.Table = table
	return speeds, nil
}

// advisor makes the session of a helper: on a server, or in this process, with a log where there is a directory.
func (bf *besideFlags) advisor(helper, dir string) (advice.Advisor, error) {
	if bf.far.server != "" {
		connected, err := bf.far.connect()
		if err != nil {
			return nil, err
		}
		return &advice.Remote{Client: connected.Client, Session: bf.session}, nil
	}
	return &advice.InProcess{Dir: dir, Helper: helper, Every: bf.interval}, nil
}

// journalIn makes a directory, and names the files of the journal and of the state in it; none where there is no
// directory.
func journalIn(dir string) (journal, state string, err error) {
	if dir == "" {
		return "", "", nil
	}
	return filepath.Join(dir, "journal.ndjson"), filepath.Join(dir, "state.json"), os.MkdirAll(dir, 0o700)
}

// warnings logs what a helper warns of.
func warnings(c *cobra.Command) *slog.Logger {
	return slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}
