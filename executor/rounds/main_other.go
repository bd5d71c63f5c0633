//go:build !linux

package rounds

import "errors"

// Main trains a round job, on Linux alone.
func Main(string) error { return errors.New("agents run on Linux alone") }
