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

// lockWait is how long another process may take to change the keys.
const lockWait = 5 * time.Second

// lock keeps other processes from changing the keys until unlock is called or
// this process ends. Each call locks a file of its own, so that it also keeps
// out other calls of this process.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := own(f, dir); err != nil {
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

// own gives a file that root made to the owner of the directory, who has to
// read it.
func own(f *os.File, dir string) error {
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

// number tells files apart that have had the same name.
func number(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
