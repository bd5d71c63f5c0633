package rounds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/hare-sched/hare/executor/worker"
)

// AwaitCopy waits until the agent has got the copy of the checkpoint that the server has, and says so where that took
// long.
func AwaitCopy(ctx context.Context, dir string, out io.Writer) error {
	for begun := time.Now(); ; {
		f, err := ReadFetched(dir)
		switch {
		case err == nil && f.Error != "":
			return errors.New(f.Error)
		case err == nil:
			if s := time.Since(begun).Seconds(); s > 1 {
				_, err = fmt.Fprintf(out, "the server's copy of the checkpoint was here after %.0f s\n", s)
			}
			return err
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// NewCheckpointCheck reads the header of a checkpoint that is open, with its rounds as Version, and checks
// what is written to it afterwards. It does not read the state. Damaged says so of the error where the file is not
// a checkpoint.
func NewCheckpointCheck(f *os.File) (*worker.CheckpointCheck, error) {
	return worker.NewCheckpointCheck(f)
}

// Damaged reports whether an error means that a file is not a checkpoint, or a damaged one.
func Damaged(err error) bool { return errors.As(err, new(*worker.CheckpointError)) }

// HasRound reports whether a file is a checkpoint that is not damaged, with so many rounds or more.
func HasRound(path string, round int64) (bool, error) {
	own, err := worker.VerifyCheckpoint(path)
	if errors.Is(err, fs.ErrNotExist) || Damaged(err) {
		return false, nil
	}
	return err == nil && own >= round, err
}

// TakeCheckpoint makes a file the checkpoint of a path, durably and as a whole, where it is one with so many rounds
// and is not damaged.
func TakeCheckpoint(part, path string, round int64) error {
	own, err := worker.VerifyCheckpoint(part)
	if err == nil && own != round {
		err = &worker.CheckpointError{Path: part, Reason: "has another round than the server said"}
	}
	if err != nil {
		return err
	}
	return worker.MoveCheckpoint(part, path)
}
