package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// A reader holds the lock for some microseconds in inUse, after which a server that starts
// gets it.
const (
	lockTries = 20
	lockPause = 5 * time.Millisecond
)

// lockDir takes the directory for this process. The lock ends with the process, however
// the process ends.
func lockDir(dir string) (*flock.Flock, error) {
	lock := flock.New(filepath.Join(dir, lockFile), flock.SetFlag(os.O_RDWR|os.O_CREATE))
	for range lockTries {
		if ok, err := lock.TryLock(); ok || err != nil {
			return lock, err
		}
		time.Sleep(lockPause)
	}
	return nil, fmt.Errorf("sqlite: %s is in use by another server", dir)
}

// inUse reports whether a server uses the directory.
func inUse(dir string) bool {
	lock := flock.New(filepath.Join(dir, lockFile), flock.SetFlag(os.O_RDONLY))
	ok, err := lock.TryRLock()
	_ = lock.Close()
	return !ok && err == nil
}
