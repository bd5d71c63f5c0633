// Package atomicfile replaces files as a whole, with one durability for all callers. Who opens the file finds its old
// content or its new one, also after a crash. When Write or Commit has returned nil, a loss of power does not bring
// the old content back either: the file was synced, then renamed, then its directory was synced. An error before the
// rename leaves the old file as it is and removes the new one; a process that is killed may leave the new one behind,
// as .NAME.XXXXXXXX. A symbolic link is replaced itself, not the file to which it leads.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write replaces a file by one with the given mode, less the umask, and the parts as its content.
func Write(path string, mode fs.FileMode, parts ...[]byte) error {
	f, err := Create(path, mode)
	if err != nil {
		return err
	}
	defer f.Discard()
	for _, part := range parts {
		if _, err := f.Write(part); err != nil {
			return err
		}
	}
	return f.Commit()
}

// File is the new content of a file. Either Commit or Discard ends it; Discard does nothing after Commit.
type File struct {
	*os.File

	path  string
	ended bool
}

// Create opens a new file beside the one that it is going to replace. Its mode is the given one, less the umask.
func Create(path string, mode fs.FileMode) (*File, error) {
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:8])
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	return &File{File: f, path: path}, nil
}

// Commit closes the file and lets it replace the one at the path, durably.
func (f *File) Commit() error {
	err := errors.Join(f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		f.Discard()
		return err
	}
	f.ended = true
	return SyncDir(filepath.Dir(f.path))
}

// Discard closes and removes the file.
func (f *File) Discard() {
	if !f.ended {
		f.ended = true
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
}

// SyncDir makes the names in a directory durable. It returns nil where the system cannot: for a directory that this
// process may write but not read, and on Windows and file systems that do not sync directories.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EBADF) {
		return nil
	}
	return err
}
