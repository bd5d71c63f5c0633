//go:build !linux

package pool

import "errors"

// Main is the process of a directory, on Linux alone.
func Main(string) error { return errors.New("agents run on Linux alone") }
