// Package python carries the files of the Python package hare_worker, so that the binary can
// bring it to machines that have Python alone.
package python

import (
	"embed"
	"os"
	"path/filepath"
)

//go:embed src/hare_worker/*.py
var files embed.FS

// Extract writes the package hare_worker into a folder that exists; Python finds it there by
// PYTHONPATH.
func Extract(dir string) error {
	const source = "src/hare_worker"
	entries, err := files.ReadDir(source)
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, "hare_worker")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, entry := range entries {
		text, err := files.ReadFile(source + "/" + entry.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, entry.Name()), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
