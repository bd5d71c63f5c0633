package sqlite

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hare-sched/hare/serve/store"
)

// Backup writes what the data directory holds at this moment to the new file dst, whether
// or not a server uses the directory, and checks every row of the copy. The error is
// fs.ErrExist where dst exists, and *store.CorruptError for each damaged session: dst is
// written in that case, and has the other sessions too.
func Backup(ctx context.Context, dir, dst string) error {
	if _, err := os.Lstat(dst); err == nil {
		return &fs.PathError{Op: "backup", Path: dst, Err: fs.ErrExist}
	}
	db, _, err := openRead(ctx, dir)
	if err != nil {
		return err
	}
	defer db.Close()
	part := dst + ".partial"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer os.Remove(part)
	// SQLite takes an empty file, and keeps its mode.
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", part); err != nil {
		return fault(err)
	}
	v, err := OpenView(ctx, part)
	if err != nil {
		return err
	}
	damage, err := v.Check(ctx)
	if err = errors.Join(err, v.Close()); err != nil {
		return err
	}
	return errors.Join(publish(part, dst), damage)
}

// Restore makes the data directory dir from a file that Backup wrote. It checks every row
// first, and refuses a directory that has a database with fs.ErrExist. Where it fails, a directory that it
// made is gone.
func Restore(ctx context.Context, src, dir string) (err error) {
	_, noDir := os.Lstat(dir)
	if err := makeDir(dir); err != nil {
		return err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	defer func() {
		if err != nil && noDir != nil {
			_ = errors.Join(os.Remove(lock.Path()), os.Remove(dir))
		}
	}()
	dst := filepath.Join(dir, databaseFile)
	if _, err := os.Lstat(dst); err == nil {
		return &fs.PathError{Op: "restore", Path: dst, Err: fs.ErrExist}
	}
	// SQLite would apply the leftover log of an older database to this one.
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if _, err := os.Lstat(dst + suffix); err == nil {
			return &fs.PathError{Op: "restore", Path: dst + suffix, Err: fs.ErrExist}
		}
	}
	trial, err := os.MkdirTemp(dir, "restore")
	if err != nil {
		return err
	}
	defer os.RemoveAll(trial)
	part := filepath.Join(trial, databaseFile)
	if err := copyFile(src, part); err != nil {
		return err
	}
	defer func() { // whoever called has the source, and never sees the part
		var corrupt *store.CorruptError
		if errors.As(err, &corrupt) {
			corrupt.What = strings.ReplaceAll(corrupt.What, part, src)
		}
	}()
	v, err := OpenView(ctx, part)
	if err != nil {
		return err
	}
	damage := v.Structure(ctx)
	if damage == nil {
		damage, err = v.Check(ctx)
	}
	if err := errors.Join(damage, err, v.Close()); err != nil {
		return err
	}
	// The head of a database that was lost says nothing about this one.
	if err := os.Remove(filepath.Join(dir, headFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return publish(part, dst)
}

func copyFile(src, dst string) (err error) {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
	}()
	_, err = io.Copy(out, in)
	return err
}
