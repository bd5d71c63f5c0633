//go:build !unix

package sqlite

import (
	"os"
	"path/filepath"
)

// lockDir cannot lock on this system: the operator must not start two servers on one
// directory.
func lockDir(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
}

// inUse cannot tell, and says what keeps a reader from calling a log damaged that a server
// is writing.
func inUse(string) bool { return true }
