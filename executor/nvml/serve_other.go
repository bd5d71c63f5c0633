//go:build !linux

package nvml

import (
	"errors"
	"io"
)

// Serve is the process of the library, on Linux alone.
func Serve(io.Writer, string) error { return errors.New("agents run on Linux alone") }
