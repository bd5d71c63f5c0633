//go:build unix

package ray

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long another process may append to the journal.
const lockWait = 10 * time.Second

// lockFile waits for a lock, which ends with unlock or with the process.
func lockFile(ctx context.Context, path string, mode os.FileMode) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(lockWait); ; {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(end) || ctx.Err() != nil {
			_ = f.Close()
			return nil, fmt.Errorf("%s is locked by another process: %w", path, errors.Join(err, ctx.Err()))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// tryLead takes the lock of the process that leads; false where another has it.
func tryLead(dir string) (release func(), led bool, err error) {
	f, err := os.OpenFile(filepath.Join(dir, leaderLock), os.O_RDWR|os.O_CREATE, fileMode(dir))
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = nil
		}
		return nil, false, err
	}
	return func() { _ = f.Close() }, true, nil
}
