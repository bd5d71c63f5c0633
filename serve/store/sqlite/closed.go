package sqlite

import (
	"io/fs"
	"os"
	"path/filepath"
)

// secretFiles are the files of a data directory that contain what clients sent.
var secretFiles = []string{databaseFile, databaseFile + "-wal", databaseFile + "-shm", "logs", "checkpoints"}

// OpenToOthers returns the files and directories of a data directory that other users of
// the machine can read or write.
func OpenToOthers(dir string) (paths []string) {
	for _, name := range secretFiles {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			paths = append(paths, path)
		}
	}
	// Whoever may write to the directory can put another file in the place of any of these. Its
	// group is often one of this user alone.
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		paths = append(paths, dir)
	}
	return paths
}

// closeToOthers closes these files and the keys to other users, where this user may do so. SQLite gives
// the files that it makes the mode of the database.
func closeToOthers(dir string) {
	for _, name := range append([]string{"keys.json"}, secretFiles...) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			_ = os.Chmod(path, info.Mode().Perm()&^0o077) // OpenToOthers tells where that failed
		}
	}
}
