package rounds

import (
	"errors"
	"io/fs"
	"os"

	"github.com/hare-sched/hare/executor/worker"
)

// CheckpointRound is the number of rounds that stand in a checkpoint that is open, as its header says. It does not
// read the state. The error is a *worker.CheckpointError where the file is no checkpoint.
func CheckpointRound(f *os.File) (int64, error) { return worker.CheckpointVersion(f) }

// HasRound says whether a file is a checkpoint that is not damaged, with so many rounds or more.
func HasRound(path string, round int64) (bool, error) {
	own, err := worker.VerifyCheckpoint(path)
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*worker.CheckpointError)) {
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
