package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
)

// reserveFile occupies room in a data directory that is given up on a full disk: a server
// needs a little room to start and to serve reads, and revoking a key must not fail.
const reserveFile = "reserve"

const (
	reserveBytes = 256 << 10
	reservePart  = 64 << 10 // given up at a time
)

// Reserve fills the reserve of a data directory.
func Reserve(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, reserveFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < reserveBytes {
		// Bytes that are not zero take room on every file system.
		_, err = f.WriteAt(bytes.Repeat([]byte("reserve\n"), int(reserveBytes-info.Size())/8), info.Size())
	}
	return errors.Join(err, f.Close())
}

// UseReserve gives up a part of the reserve of a data directory, so that a few small files
// can be written on a full disk. It reports whether there was any left.
func UseReserve(dir string) bool {
	path := filepath.Join(dir, reserveFile)
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0 && os.Truncate(path, max(0, info.Size()-reservePart)) == nil
}
