//go:build !linux

package lp

import (
	"io"
	"os"
	"os/exec"
)

func selfPath() (string, error) { return os.Executable() }

// bindToParent does nothing: without Linux a worker ends at the end of its input and has
// no memory limit.
func bindToParent(*exec.Cmd) {}

func limitSelf(int64) error { return nil }

func protectStdout(out io.Writer) (io.Writer, error) { return out, nil }
