//go:build !unix

package sqlite

import (
	"os"
	"path/filepath"
)

// lockDir cannot lock here: two servers on one directory are the operator's to avoid.
func lockDir(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
}

func syncDir(string) error { return nil }
