package access

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockWait is how long lock waits for another process that changes the keys.
const lockWait = 5 * time.Second

// lock keeps other processes and other calls of this process from changing the keys,
// until unlock is called or this process ends. Each call opens a lock file of its own,
// which is why the lock also holds within the process.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	l := flock.New(filepath.Join(dir, lockName), flock.SetFlag(os.O_RDWR|os.O_CREATE))
	for end := time.Now().Add(lockWait); ; time.Sleep(5 * time.Millisecond) {
		ok, err := l.TryLock()
		if err != nil {
			return nil, err
		}
		if ok {
			break
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return nil, fmt.Errorf("keys: %s is in use by another process", dir)
		}
	}
	unlock = func() { _ = l.Close() }
	if err := giveToOwner(dir, func(uid, gid int) error { return os.Lchown(l.Path(), uid, gid) }); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}
