package ray

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// lockWait is how long another process may append to the journal.
const lockWait = 10 * time.Second

// lockFile waits for a lock, which ends with unlock or with the process. A lock that is free is taken also where ctx
// has ended.
func lockFile(ctx context.Context, path string, mode os.FileMode) (unlock func(), err error) {
	for end := time.Now().Add(lockWait); ; time.Sleep(2 * time.Millisecond) {
		unlock, ok, err := tryLock(path, mode)
		if ok || err != nil {
			return unlock, err
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("%s is locked by another process", path), ctx.Err())
		}
	}
}

// tryLock takes a lock, or returns false where another process has it.
func tryLock(path string, mode os.FileMode) (unlock func(), ok bool, err error) {
	lock := flock.New(path, flock.SetFlag(os.O_RDWR|os.O_CREATE), flock.SetPermissions(mode))
	ok, err = lock.TryLock()
	return func() { _ = lock.Close() }, ok, err
}

// fileMode lets those use the files who may use the directory.
func fileMode(dir string) os.FileMode {
	info, err := os.Stat(dir)
	if err != nil {
		return 0o600
	}
	return info.Mode().Perm() & 0o666
}
