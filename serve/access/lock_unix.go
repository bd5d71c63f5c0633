//go:build unix

package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long lock waits for another process that changes the keys.
const lockWait = 5 * time.Second

// lock keeps other processes and other calls of this process from changing the keys,
// until unlock is called or this process ends. Each call opens a lock file of its own,
// which is why the lock also holds within the process.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := giveToOwner(f, dir); err != nil {
		_ = f.Close()
		return nil, err
	}
	for end := time.Now().Add(lockWait); ; {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || ctx.Err() != nil || time.Now().After(end) {
			_ = f.Close()
			return nil, fmt.Errorf("keys: %s is in use by another process: %w", dir, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// giveToOwner makes the owner of the directory the owner of a file that root made, since
// the directory's owner has to read the file.
func giveToOwner(f *os.File, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}

// inode returns a number that differs between a file and its replacement.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
